"""Taking packages and stranded bundles out of a catalog."""

from __future__ import annotations

import pytest

from opmkit.index.errors import UnknownPackage
from opmkit.index.operations.prune import prune_catalog, prune_stranded_in_catalog
from opmkit.index.operations.remove import remove_from_catalog
from tests.kit.edits import catalog

TWO = catalog(
    {"ape": {"alpha": ["ape.v1.0.0", "ape.v1.1.0 > ape.v1.0.0"]}, "bee": {"beta": ["bee.v1.0.0"]}},
    {"schema": "olm.deprecations", "package": "ape", "entries": [
        {"reference": {"schema": "olm.bundle", "name": "ape.v1.0.0"}, "message": "old"},
        {"reference": {"schema": "olm.bundle", "name": "ape.v0.9.0"}, "message": "older"},
    ]},
    {"schema": "olm.deprecations", "package": "bee", "entries": [
        {"reference": {"schema": "olm.package"}, "message": "gone soon"},
    ]},
    {"schema": "example.com.note", "package": "ape", "name": "note"},
    {"schema": "example.com.note", "name": "of nobody"},
)  # fmt: skip


def test_a_package_goes_with_all_that_belongs_to_it() -> None:
    left = remove_from_catalog(TWO, ["", "ape"])
    assert {blob.package for blob in left.blobs} == {"bee", ""}
    assert all(any(blob is one for one in TWO) for blob in left.blobs)
    assert (left.warnings, left.failures) == ((), ())


def test_one_unknown_package_keeps_all() -> None:
    with pytest.raises(UnknownPackage) as failure:
        remove_from_catalog(TWO, ["ape", "x", "ape"])
    assert failure.value.message == 'package "x" not found'
    assert str(failure.value.hint) == "use one of the packages: ape, bee"


def test_permissive_removes_what_is_there() -> None:
    left = remove_from_catalog(TWO, ["x", "ape"], permissive=True)
    assert left.blobs == remove_from_catalog(TWO, ["ape"]).blobs
    assert [type(failure) for failure in left.failures] == [UnknownPackage]


def test_a_package_of_which_nothing_but_a_note_is_there_can_go() -> None:
    notes = catalog({}, {"schema": "example.com.note", "package": "ape", "name": "note"})
    assert list(remove_from_catalog(notes, ["ape"]).blobs) == []


def test_only_some_packages_stay_and_what_belongs_to_none() -> None:
    assert prune_catalog(TWO, ["bee"]).blobs == remove_from_catalog(TWO, ["ape"]).blobs
    with pytest.raises(UnknownPackage, match='"x" not found'):
        prune_catalog(TWO, ["bee", "x"])
    edit = prune_catalog(TWO, ["bee", "x"], permissive=True)
    assert (edit.blobs, len(edit.failures)) == (remove_from_catalog(TWO, ["ape"]).blobs, 1)
    assert [blob.name for blob in prune_catalog(TWO, []).blobs] == ["of nobody"]
    assert prune_catalog(TWO, ["ape", "bee"]).blobs is TWO


def test_stranded_bundles_go_with_what_is_said_of_them() -> None:
    strays = catalog({"ape": {"": ["ape.v0.9.0", "bee.v1.0.0"]}})
    left = prune_stranded_in_catalog(TWO + strays).blobs
    assert [one.name for one in left.bundles] == ["ape.v1.0.0", "ape.v1.1.0", "bee.v1.0.0"]
    assert left.channels == TWO.channels
    assert [[entry.name for entry in blob.entries] for blob in left.deprecations] == [["ape.v1.0.0"], [""]]
    assert left.deprecations[1] is TWO.deprecations[1]
    assert prune_stranded_in_catalog(TWO).blobs is TWO


def test_a_bundle_that_is_skipped_or_replaced_but_has_no_entry_is_stranded() -> None:
    blobs = catalog({"ape": {"alpha": ["ape.v1.2.0 > ape.v1.0.0, ape.v1.1.0"], "": ["ape.v1.0.0", "ape.v1.1.0"]}})
    assert [one.name for one in prune_stranded_in_catalog(blobs).blobs.bundles] == ["ape.v1.2.0"]
