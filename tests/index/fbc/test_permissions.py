"""Permissions that operators gain by updates between the bundles of a catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest

from opmkit.index.fbc.load import parse_blobs
from opmkit.index.fbc.permissions import PermissionChange, new_updates, permission_changes, read_images
from tests.kit.permissions import EVERYTHING, PODS, SECRETS, csv, read
from tests.kit.plans import catalog, chain, embeds, encode, package

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit.index.fbc.blobs import BundleBlob

    Entries = Sequence[dict[str, Any]]

V1, V2, V3 = (f"demo.v{number}.0.0" for number in range(1, 4))


def edges(
    entries: Entries | Mapping[str, Entries], *added: str, published: Mapping[str, Entries] | None = None
) -> list[tuple[str, str]]:
    """Return the names of the bundles before and after; by default, all updates were published."""
    channels = {"stable": entries} if isinstance(entries, list) else cast("Mapping[str, Entries]", entries)
    blobs, old = (
        parse_blobs(encode(package("demo", each)), "catalog.json")
        for each in (channels, channels if published is None else published)
    )
    found = new_updates(blobs.channels, {blob.name: blob for blob in blobs.bundles}, added, old.channels)
    return [(old.name if old else "", new.name) for old, new in found]


def bundles(**objects: Sequence[Mapping[str, Any]]) -> dict[str, BundleBlob]:
    """Return bundles v1, v2, ... that contain objects."""
    names = {f"demo.v{key[1:]}.0.0": value for key, value in objects.items()}
    properties = {name: list(map(embeds, value)) for name, value in names.items()}
    return dict(catalog(package("demo", {"stable": chain(*names)}, properties)).packages["demo"].bundles)


def test_updates_to_added_bundles() -> None:
    assert edges(chain(V1, V2, V3), V2, V3) == [(V1, V2), (V2, V3)]
    assert edges(chain(V1, V2, V3)) == []
    assert edges(chain(V1), V1) == [("", V1)]
    assert edges([{"name": V1}, {"name": V2}], V2) == [(V1, V2)]
    assert edges(chain(V1, V2), "demo.v9.0.0") == []


def test_the_highest_lower_version_counts_as_well() -> None:
    entries = {"stable": [{"name": V1}, {"name": V3, "replaces": V1}], "beta": [{"name": V2}]}
    assert edges(entries, V3) == [(V1, V3), (V2, V3)]
    assert edges([{"name": V1}, {"name": V2, "replaces": "demo.v0.0.1"}], V2) == [(V1, V2)]
    assert edges([{"name": V1}, {"name": V3}], V1) == [("", V1)]


@pytest.mark.parametrize(
    "update", [{"skips": [V1]}, {"skipRange": "<3.0.0"}, {"skipRange": "1.0.0"}, {"replaces": V2, "skips": [V1]}]
)
def test_updates_by_skips_and_skip_ranges(update: dict[str, Any]) -> None:
    assert (V1, V3) in edges([{"name": V1}, {"name": V2}, {"name": V3, **update}], V3)
    assert edges([{"name": V1}, {"name": V2}, {"name": V3, **update}]) == []
    assert (V1, V3) in edges([{"name": V1}, {"name": V2}, {"name": V3, **update}], published={"stable": [{"name": V1}]})


def test_updates_from_bundles_that_the_channel_updates_to_others_before() -> None:
    head = {"name": V3, "replaces": V2, "skipRange": "<3.0.0"}
    for published in (chain(V1, V2), [*chain(V1, V2), head], [{"name": V2, "skipRange": "<2.0.0"}]):
        assert edges([*chain(V1, V2), head], V3, published={"stable": published}) == [(V2, V3)]
    assert edges([*chain(V1, V2), head], V1, V2, V3, published={"none": []}) == [("", V1), (V1, V2), (V2, V3)]


def test_updates_from_bundles_that_another_channel_updates() -> None:
    head = {"name": V3, "replaces": V2, "skipRange": "<3.0.0"}
    both = [(V1, V3), (V2, V3)]
    assert edges({"stable": [{"name": V1}, head], "beta": chain(V1, V2)}, V3) == both
    assert edges({"stable": [head], "beta": chain(V1, V2), "old": [{"name": V1}]}, V3) == both
    assert edges({"stable": [head], "beta": chain(V1, V2)}, V3) == [(V2, V3)]
    # the lower version replaces the higher one
    assert edges([*chain(V2, V1), head], V3, published={"stable": chain(V2, V1)}) == both
    # the way leads through the update itself
    back: list[dict[str, Any]] = [
        {"name": V1},
        {"name": V3, "replaces": V1, "skips": [V2]},
        {"name": V2, "replaces": V3},
    ]
    assert (V1, V3) in edges(back, V3, published={"stable": [{"name": V1}, {"name": V2}]})


def test_new_updates_between_published_bundles() -> None:
    apart = {"stable": [{"name": V1}], "beta": [{"name": V2}]}
    assert edges(chain(V1, V2), published=apart) == [(V1, V2)]
    assert edges(chain(V1, V2), published={"beta": chain(V1, V2)}) == []
    # also to a lower version
    assert edges([{"name": V2}, {"name": V1, "replaces": V2}], published=apart) == [(V2, V1)]
    # the build metadata of a version does not make it higher
    again = "demo.v1.0.0+1"
    assert edges([{"name": V1}, {"name": again, "skips": [V1]}], again) == [(V1, again)]
    assert edges([{"name": V1}, {"name": V2, "skipRange": "invalid"}], published=apart) == []


@pytest.mark.parametrize("entries", [[(V1, V2), (V2, V1)], [(V1, V1), (V2, V2)]])
def test_cycles_hide_nothing(entries: list[tuple[str, str]]) -> None:
    found = [{"name": name, "replaces": old} for name, old in entries]
    assert ("", V1) in edges(found, V1, V2)


def test_versions_that_cannot_be_compared() -> None:
    entries = [{"name": "demo.vx"}, {"name": V1, "replaces": "demo.vx"}]
    assert edges(entries, V1) == [("demo.vx", V1)]
    assert edges(entries, V1, "demo.vx") == [("", V1), ("", "demo.vx")]


def test_changes_between_embedded_objects() -> None:
    found = bundles(v1=[csv(cluster=[PODS])], v2=[csv(cluster=[PODS, SECRETS])], v3=[csv()])
    changes = list(permission_changes([(found[V1], found[V2]), (found[V2], found[V3]), (None, found[V1])], {}))
    assert [list(change.lines()) for change in changes] == [
        [f"{V1} to {V2}: demo may now read all secrets in every namespace (secrets)"],
        [f"{V1}: demo may run pods in every namespace (workloads)"],
    ]
    assert changes[0].to_dict() == {
        "package": "demo",
        "installed": V1,
        "next": V2,
        "gained": [
            {"kind": "secrets", "may": "read all secrets", "scope": "cluster", "subject": "demo"},
        ],
        "problem": "",
    }


def test_images_take_precedence_over_objects_in_the_catalog() -> None:
    found = bundles(v1=[csv()], v2=[csv()])
    images = {found[V1].image: read(csv()), found[V2].image: read(csv(cluster=[EVERYTHING]))}
    (change,) = permission_changes([(found[V1], found[V2])], images)
    assert [each.kind.value for each in change.gained] == ["everything"]


def test_bundles_that_cannot_be_read() -> None:
    found = bundles(v1=[csv()], v2=[], v3=[csv()])
    (change,) = permission_changes([(found[V1], found[V2])], {})
    problem = f"the permissions of {V2} cannot be read: no ClusterServiceVersion found"
    assert list(change.lines()) == [f"{V1} to {V2}: {problem}"]
    (change,) = permission_changes([(found[V1], found[V2])], {found[V1].image: "no such file"})
    assert change.problem == f"the permissions of {V1} cannot be read: no such file"
    (change,) = permission_changes([(found[V1], found[V3])], {}, trust_catalog=False)
    assert change == PermissionChange(
        "demo", V1, V3, problem=f"the permissions of {V1} are unknown: {found[V1].image} was not read"
    )
    broken = bundles(v1=[csv()], v2=[csv(), {"metadata": {}}])
    (change,) = permission_changes([(broken[V1], broken[V2])], {})
    assert "not a Kubernetes object" in change.problem


def test_each_image_is_read_once() -> None:
    calls: list[Sequence[str]] = []

    def reader(images: Sequence[str]) -> dict[str, Any]:
        calls.append(images)
        return dict.fromkeys(images, "unreadable")

    blob = bundles(v1=[])[V1]
    assert read_images([blob, None, blob], reader) == {blob.image: "unreadable"}
    assert read_images([None], reader) == read_images([blob], None) == {}
    assert calls == [[blob.image]]
