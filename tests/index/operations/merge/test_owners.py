"""Sources of a merge may only change packages that they own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.core.errors import OpmkitError
from opmkit.index.errors import CatalogError
from opmkit.index.operations.merge.merge import merge_catalogs
from opmkit.index.operations.merge.owners import Owners, OwnershipViolation, Violation, read_owners
from opmkit.index.operations.merge.result import MergeConflict, MergeResult, NamedCatalog
from tests.index.operations.merge.test_merge import package, read

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.index.fbc.blobs import Blobs

OWNERS = Owners({"a": ("lagoon",), "b": ("reef", "wave-*")})
BASE = read(package("lagoon"), package("reef"), package("atoll"))


def merge(a: Blobs, b: Blobs, base: Blobs = BASE, owners: Owners = OWNERS) -> MergeResult:
    named = [("base", base), ("teams/a/", a), ("./b", b)]
    return merge_catalogs([NamedCatalog(name, blobs) for name, blobs in named], owners=owners)


def test_versions_of_owners_are_used() -> None:
    found = merge(read(package("lagoon", "1.0.0 1.1.0")), read(package("wave-x")))
    assert [(origin.package, origin.source, origin.overruled) for origin in found.origins] == [
        ("atoll", "base", ()),
        ("lagoon", "teams/a/", ("base",)),
        ("reef", "base", ()),
        ("wave-x", "./b", ()),
    ]


def test_other_packages_are_violations_unless_they_are_unchanged() -> None:
    mine = read(package("lagoon"))
    found = merge(mine, read(package("lagoon"), package("reef"), package("atoll")))
    assert [(origin.package, origin.source) for origin in found.origins] == [
        ("atoll", "base"), ("lagoon", "base"), ("reef", "base")
    ]  # fmt: skip
    with pytest.raises(OwnershipViolation) as caught:
        merge(mine, read(package("lagoon", "1.0.0 1.1.0"), package("storm")))
    assert caught.value.violations == (Violation("lagoon", "./b", ("a",)), Violation("storm", "./b", ()))
    assert caught.value.lines == (
        'package "lagoon": ./b does not own it: it belongs to a',
        'package "storm": ./b does not own it: the owners file gives it to nobody',
    )
    assert caught.value.as_dict()["violations"][0] == {"package": "lagoon", "source": "./b", "owners": ["a"]}


def test_package_that_the_owner_changes_may_not_be_kept_by_others() -> None:
    """A copy of the published package is unchanged, even while its owner changes it."""
    found = merge(read(package("lagoon", "1.0.0 1.1.0")), read(package("lagoon")))
    assert found.origins[1].source == "teams/a/"


def test_several_owners_conflict() -> None:
    shared = Owners({"a": ("lagoon",), "b": ("lag*",)})
    with pytest.raises(MergeConflict):
        merge(read(package("lagoon", "1.0.0 1.1.0")), read(package("lagoon", "1.0.0 1.2.0")), owners=shared)


def test_unused_entries_are_warnings() -> None:
    assert OWNERS.warnings(["base", "teams/b"]) == ("owners file: a: not among the indexes to merge",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "1:1: the file is not a mapping"),
        ("", "the file is not a mapping"),
        ("a: [lagoon]\nb: reef\n", "2:1: b: not a list of package names"),
        ("a:\n  - 1\n", "1:1: a: not a list of package names"),
        ("a: [x]\na: [y]\n", "2:1: duplicate key 'a'"),
        ("a: [", "owners.yaml"),
        ("[" * 2000, "owners.yaml"),
        ("a: ['\x1b']", "owners.yaml"),
    ],
)
def test_invalid_files_are_reported_with_their_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "owners.yaml"
    path.write_text(text)
    with pytest.raises(CatalogError) as caught:
        read_owners(path)
    assert message in caught.value.message
    with pytest.raises(OpmkitError):
        read_owners(tmp_path / "none.yaml")


def test_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "owners.yaml"
    path.write_text('./a/: [lagoon]\n"quay.io/b:1": ["*"]\n')
    owners = read_owners(path)
    assert owners.owns("a", "lagoon")
    assert owners.owns("quay.io/b:1", "any")
    assert not owners.is_listed("c")
