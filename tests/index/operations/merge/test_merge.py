"""Tests of merging file-based catalogs: packages are copied whole or not at all, whatever the order of documents."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.load import parse_blobs
from opmkit.index.fbc.write import canonical_json, to_json
from opmkit.index.operations.merge.differences import MergeDifference, package_differences
from opmkit.index.operations.merge.merge import merge_catalogs
from opmkit.index.operations.merge.result import MergeConflict, MergeResult, NamedCatalog, PackageOrigin

if TYPE_CHECKING:
    from opmkit.index.fbc.blobs import Blobs

LOOSE = {"schema": "loose", "value": 1}


def package(name: str, versions: str = "1.0.0", *more: Any, channel: str = "stable", image: str = "i") -> list[Any]:
    """Return a package with one channel in which each version replaces the previous one."""
    listed = versions.split()
    entries = [
        {"name": f"{name}.v{version}", **({"replaces": f"{name}.v{below}"} if below else {})}
        for version, below in zip(listed, ["", *listed], strict=False)
    ]
    bundles = [
        {
            "schema": "olm.bundle",
            "package": name,
            "name": f"{name}.v{version}",
            "image": f"{image}:{version}",
            "properties": [
                {"type": "olm.package", "value": {"packageName": name, "version": version}},
                {"type": "olm.maxOpenShiftVersion", "value": "4.9"},
            ],
        }
        for version in listed
    ]
    return [
        {"schema": "olm.package", "name": name, "defaultChannel": channel},
        {"schema": "olm.channel", "package": name, "name": channel, "entries": entries},
        *bundles,
        *more,
    ]


def deprecated(name: str, message: str) -> dict[str, Any]:
    entry = {"reference": {"schema": "olm.channel", "name": "stable"}, "message": message}
    return {"schema": "olm.deprecations", "package": name, "entries": [entry]}


def read(*packages: list[Any]) -> Blobs:
    documents = [document for documents in packages for document in documents]
    return parse_blobs("".join(map(json.dumps, documents)).encode(), "catalog.json")


def merge(*catalogs: Blobs, prefer: tuple[str, ...] = ()) -> MergeResult:
    """Merge catalogs named ``A``, ``B`` and so on; check that the result is valid."""
    found = merge_catalogs([NamedCatalog(name, blobs) for name, blobs in zip("ABCD", catalogs, strict=False)], prefer)
    assert not check_blobs(found.blobs)
    return found


def contents(blobs: Blobs) -> set[bytes]:
    return set(map(canonical_json, blobs))


def test_copies_all_documents_of_each_package() -> None:
    note = {"schema": "acme.note", "package": "lagoon", "name": "n", "text": 1}
    first = read(package("lagoon", "1.0.0 1.1.0", deprecated("lagoon", "Old."), note), [LOOSE])
    second = read(package("reef"), [LOOSE, {"schema": "loose", "value": True}])
    found = merge(first, second)
    assert contents(found.blobs) == contents(first) | contents(second)
    assert len(list(found.blobs)) == len(contents(found.blobs))
    assert found.origins == (PackageOrigin("lagoon", "A"), PackageOrigin("reef", "B"))


@pytest.mark.parametrize("seed", range(5))
def test_order_of_documents_and_lists_is_no_difference(seed: int) -> None:
    rng = random.Random(seed)
    documents = package("lagoon", "1.0.0 1.1.0 1.2.0", deprecated("lagoon", "Old."))
    shuffled = json.loads(json.dumps(documents))
    rng.shuffle(shuffled)
    for document in shuffled:
        for name in ("entries", "properties"):
            rng.shuffle(document.get(name, []))
    found = merge(read(documents), read(shuffled), read(package("reef")))
    assert found.origins[0] == PackageOrigin("lagoon", "A", equal=("B",))
    assert to_json(found.blobs) == to_json(merge(read(documents), read(package("reef"))).blobs)


def test_result_is_ordered_whatever_the_order_of_the_sources() -> None:
    catalogs = [read(package(name)) for name in ("reef", "lagoon", "atoll")]
    assert to_json(merge(*catalogs).blobs) == to_json(merge(*reversed(catalogs)).blobs)


def test_conflicts_list_both_sides() -> None:
    left = read(package("lagoon", "1.0.0 1.1.0", deprecated("lagoon", "Old.")), package("reef"))
    right = read(package("lagoon", "1.0.0", deprecated("lagoon", "Older."), image="other"), package("reef"))
    with pytest.raises(MergeConflict) as caught:
        merge(left, right, left)
    assert caught.value.exit_code == 1
    assert list(caught.value.lines) == [
        'package "lagoon": different content in A, C and B',
        "  channel stable: head lagoon.v1.1.0; only here: lagoon.v1.1.0 in A, C; head lagoon.v1.0.0 in B",
        "  bundle lagoon.v1.0.0: image: i:1.0.0 in A, C; other:1.0.0 in B",
        "  bundle lagoon.v1.1.0: i:1.1.0 in A, C; absent in B",
        "  deprecation of olm.channel stable: Old. in A, C; Older. in B",
    ]


def test_each_different_version_of_a_package_is_a_conflict() -> None:
    catalogs = [read(package("lagoon", image=image)) for image in "abc"]
    with pytest.raises(MergeConflict) as caught:
        merge(*catalogs)
    assert [(conflict.left, conflict.right) for conflict in caught.value.conflicts] == [
        (("A",), ("B",)),
        (("A",), ("C",)),
    ]


def test_differences_of_every_kind() -> None:
    left, right = package("lagoon", "1.0.0 1.1.0"), package("lagoon", "1.0.0 1.1.0", channel="beta")
    assert package_differences(read(left), read(right)) == (
        MergeDifference("default channel", "stable", "beta"),
        MergeDifference("channel beta", "absent", "present"),
        MergeDifference("channel stable", "present", "absent"),
    )
    changed = json.loads(json.dumps(left))
    changed[0]["description"] = "D"
    changed[1]["entries"][1]["skipRange"] = "<1.1.0"
    changed[2]["properties"][1]["value"] = "4.10"
    changed += [{"schema": "acme", "package": "lagoon", "image": "x"}] * 2
    assert package_differences(read(left), read(changed)) == (
        MergeDifference("package lagoon: description"),
        MergeDifference(
            "channel stable",
            "head lagoon.v1.1.0; other edges of lagoon.v1.1.0",
            "head lagoon.v1.1.0; other edges of lagoon.v1.1.0",
        ),
        MergeDifference(
            "bundle lagoon.v1.0.0: properties", 'olm.maxOpenShiftVersion="4.9"', 'olm.maxOpenShiftVersion="4.10"'
        ),
        MergeDifference("acme", "absent", "2 documents"),
    )


def test_one_is_not_true_in_documents_of_other_schemas() -> None:
    left, right = (read(package("a", "1.0.0", {"schema": "n", "package": "a", "v": value})) for value in (1, True))
    assert package_differences(left, right) == (MergeDifference("n: v"),)


@pytest.mark.parametrize(
    ("prefer", "images"),
    [
        (("first",), ["a", "b"]),
        (("last",), ["c", "c"]),
        (("B", "last"), ["c", "b"]),
        (("B", "A"), ["a", "b"]),
        (("D", "C"), ["c", "c"]),
    ],
)
def test_preference_resolves_whole_packages(prefer: tuple[str, ...], images: list[str]) -> None:
    catalogs = [
        read(package("lagoon", image="a")),
        read(package("reef", image="b")),
        read(package("lagoon", image="c"), package("reef", image="c")),
        read(package("atoll")),
    ]
    found = merge(*catalogs, prefer=prefer)
    assert [bundle.image for bundle in found.blobs.bundles] == ["i:1.0.0", *(f"{image}:1.0.0" for image in images)]
    assert all(len(origin.overruled) == 1 for origin in found.origins[1:])


def test_preferred_source_without_the_package_resolves_nothing() -> None:
    catalogs = [read(package("lagoon", image="a")), read(package("lagoon", image="b")), read(package("reef"))]
    with pytest.raises(MergeConflict):
        merge(*catalogs, prefer=("C",))
    with pytest.raises(CatalogError, match=r"preferred source c: not among the indexes"):
        merge(*catalogs, prefer=("c",))


def test_only_copied_packages_must_be_valid() -> None:
    broken = read(package("lagoon")[:2])
    with pytest.raises(InvalidCatalog, match=r"^B: invalid catalog: catalog.json:1: "):
        merge(read(package("reef")), broken)
    assert merge(read(package("lagoon")), broken, prefer=("first",)).origins[0].overruled == ("B",)


def test_documents_of_known_schemas_require_a_package() -> None:
    channel = {"schema": "olm.channel", "name": "stable", "entries": [{"name": "a"}]}
    with pytest.raises(InvalidCatalog, match="package name must be set"):
        merge(read(package("reef")), read([channel]))
