"""Taking packages and stranded bundles out of a catalog."""

from __future__ import annotations

import pytest

from opmkit.index.errors import UnknownPackage
from opmkit.index.operations.remove_fbc import with_only_packages, without_packages, without_stranded
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
    left = without_packages(TWO, ["", "ape"])
    assert {blob.package for blob in left.blobs} == {"bee", ""}
    assert all(any(blob is one for one in TWO) for blob in left.blobs)
    assert (left.warnings, left.failures) == ((), ())


def test_one_unknown_package_keeps_all() -> None:
    with pytest.raises(UnknownPackage) as failure:
        without_packages(TWO, ["ape", "x", "ape"])
    assert failure.value.message == 'package "x" not found'
    assert failure.value.advice == "The packages are: ape, bee."


def test_permissive_removes_what_is_there() -> None:
    left = without_packages(TWO, ["x", "ape"], permissive=True)
    assert left.blobs == without_packages(TWO, ["ape"]).blobs
    assert [type(failure) for failure in left.failures] == [UnknownPackage]


def test_a_package_of_which_nothing_but_a_note_is_there_can_go() -> None:
    notes = catalog({}, {"schema": "example.com.note", "package": "ape", "name": "note"})
    assert list(without_packages(notes, ["ape"]).blobs) == []


def test_only_some_packages_stay_and_what_belongs_to_none() -> None:
    assert with_only_packages(TWO, ["bee"]).blobs == without_packages(TWO, ["ape"]).blobs
    with pytest.raises(UnknownPackage, match='"x" not found'):
        with_only_packages(TWO, ["bee", "x"])
    edit = with_only_packages(TWO, ["bee", "x"], permissive=True)
    assert (edit.blobs, len(edit.failures)) == (without_packages(TWO, ["ape"]).blobs, 1)
    assert [blob.name for blob in with_only_packages(TWO, []).blobs] == ["of nobody"]
    assert with_only_packages(TWO, ["ape", "bee"]).blobs is TWO


def test_stranded_bundles_go_with_what_is_said_of_them() -> None:
    strays = catalog({"ape": {"": ["ape.v0.9.0", "bee.v1.0.0"]}})
    left = without_stranded(TWO + strays).blobs
    assert [one.name for one in left.bundles] == ["ape.v1.0.0", "ape.v1.1.0", "bee.v1.0.0"]
    assert left.channels == TWO.channels
    assert [[entry.name for entry in blob.entries] for blob in left.deprecations] == [["ape.v1.0.0"], [""]]
    assert left.deprecations[1] is TWO.deprecations[1]
    assert without_stranded(TWO).blobs is TWO


def test_a_bundle_that_is_skipped_or_replaced_but_has_no_entry_is_stranded() -> None:
    blobs = catalog({"ape": {"alpha": ["ape.v1.2.0 > ape.v1.0.0, ape.v1.1.0"], "": ["ape.v1.0.0", "ape.v1.1.0"]}})
    assert [one.name for one in without_stranded(blobs).blobs.bundles] == ["ape.v1.2.0"]
