"""Comparison of catalogs with published ones."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from opmkit.bundle.permissions.kinds import DangerKind
from opmkit.index.fbc.blobs import (
    BlobProperty,
    Blobs,
    BundleBlob,
    ChannelBlob,
    EntryBlob,
    PackageBlob,
    RelatedImage,
    SourceLocation,
)
from opmkit.index.fbc.check.published import check_published, summarize_published
from tests.kit.permissions import PODS, SECRETS, csv, read
from tests.kit.plans import definition, embeds

V1, V2, V3, V4 = (f"demo.v{number}" for number in range(1, 5))
DIGEST = f"@sha256:{'0' * 64}"
OBJECT, METADATA = BlobProperty("olm.bundle.object", {"data": "e30="}), BlobProperty("olm.csv.metadata", {})
UNDECODABLE = BlobProperty("olm.bundle.object", {"data": "?"})
ENTRIES = (EntryBlob(V1), EntryBlob(V2, V1), EntryBlob(V3, V2))


def version(number: str) -> BlobProperty:
    return BlobProperty("olm.package", {"packageName": "demo", "version": f"{number}.0.0"})


def bundle(name: str, image: str = "", *properties: BlobProperty) -> BundleBlob:
    location = SourceLocation("demo.yaml", 20)
    return BundleBlob(name, "demo", image or f"quay.io/{name}", (version(name[-1]), *properties), location=location)


def catalog(*entries: EntryBlob, channel: str = "stable", default: str = "stable") -> Blobs:
    return Blobs(
        (PackageBlob("demo", default, location=SourceLocation("demo.yaml", 1)),),
        (ChannelBlob(channel, "demo", entries, location=SourceLocation("demo.yaml", 9)),),
        tuple(bundle(name) for name in dict.fromkeys(entry.name for entry in entries)),
    )


PUBLISHED = catalog(*ENTRIES)


def findings(new: Blobs, published: Blobs = PUBLISHED, *, fragment: bool = False) -> list[str]:
    found = list(check_published(new, summarize_published(published), fragment=fragment))
    assert all(finding.hint for finding in found)
    return [str(finding) for finding in found]


def test_additions_are_allowed() -> None:
    assert findings(PUBLISHED) == []
    assert findings(catalog(*ENTRIES, EntryBlob(V4, V3))) == []
    assert findings(PUBLISHED, Blobs()) == []


def test_removed_package() -> None:
    assert findings(Blobs()) == ['package "demo": the published package was removed']
    assert findings(Blobs(), fragment=True) == []


def test_removed_channel_and_changed_default_channel() -> None:
    assert findings(catalog(*ENTRIES, channel="beta", default="beta")) == [
        'demo.yaml:1: package "demo": the published default channel stable became beta',
        'demo.yaml:1: package "demo", channel "stable": the published channel was removed',
    ]


def test_removed_bundle_without_an_upgrade() -> None:
    subject = f'demo.yaml:9: package "demo", channel "stable", bundle "{V1}"'
    assert findings(catalog(EntryBlob(V2), EntryBlob(V3, V2))) == [
        f"{subject}: the published bundle was removed from the channel",
        f"{subject}: the published upgrade path ends: {V3} cannot be reached from this bundle",
    ]


@pytest.mark.parametrize(
    "edge", [EntryBlob(V2, V1), EntryBlob(V2, skips=(V1,)), EntryBlob(V2, skip_range=">=1.0.0 <2.0.0")]
)
def test_removed_bundle_with_an_upgrade(edge: EntryBlob) -> None:
    (finding,) = findings(catalog(edge, EntryBlob(V3, V2)))
    assert finding.endswith(f'bundle "{V1}": the published bundle was removed from the channel')


@pytest.mark.parametrize("text", ["", "x", ">=9.0.0", "|| ||"])
def test_ranges_without_the_bundle_are_no_upgrade(text: str) -> None:
    assert len(findings(catalog(EntryBlob(V2, skip_range=text), EntryBlob(V3, V2)))) == 2


def test_upgrade_path_that_ends_in_the_channel() -> None:
    found = findings(catalog(EntryBlob(V1, V2), EntryBlob(V2, V1), EntryBlob(V3), EntryBlob(V4, V3)))
    assert [text.rpartition("the published ")[2] for text in found] == [
        f"upgrade path ends: {V4} cannot be reached from this bundle"
    ] * 2


def test_head_that_moves_back() -> None:
    back = "the head moved back from the published head"
    assert findings(catalog(*ENTRIES[:2]))[1].endswith(f'bundle "{V2}": {back} {V3}')
    reordered = catalog(EntryBlob(V1), EntryBlob(V3, V1), EntryBlob(V2, V3))
    assert findings(reordered) == [f'demo.yaml:9: package "demo", channel "stable", bundle "{V2}": {back} {V3}']
    older = catalog(EntryBlob(V3), EntryBlob(V2, V3))
    assert findings(older, catalog(EntryBlob(V3)))[0].endswith(f"{back} {V3}")


def with_definitions(*versions: str) -> Blobs:
    """Return a catalog whose bundles have a CustomResourceDefinition with one version each."""
    properties = [BlobProperty(**embeds(definition(name))) for name in versions]
    blobs = catalog(*ENTRIES[: len(versions)])
    return replace(blobs, bundles=tuple(bundle(f"demo.v{n}", "", item) for n, item in enumerate(properties, 1)))


def test_new_bundles_that_olm_refuses_because_of_a_crd() -> None:
    published = with_definitions("v1alpha1")
    assert findings(with_definitions("v1alpha1", "v1alpha1"), published) == []
    message = "OLM refuses the upgrade from demo.v1: reefs.demo.com: version v1alpha1 is removed"
    (found,) = findings(with_definitions("v1alpha1", "v1", "v1"), published)
    assert message in found
    assert findings(with_definitions("v1alpha1", "v1"), with_definitions("v1alpha1", "v1")) == []  # it is published


def test_undecodable_definitions_are_not_compared() -> None:
    broken = replace(with_definitions("v1", "v2"), bundles=(bundle(V1, "", OBJECT), bundle(V2, "", UNDECODABLE)))
    assert findings(broken, catalog()) == []


def test_changed_bundles() -> None:
    def changed(before: BundleBlob, after: BundleBlob) -> list[str]:
        old, new = (replace(catalog(EntryBlob(V1)), bundles=(blob,)) for blob in (before, after))
        return [finding.partition("the published bundle changed: ")[2] for finding in findings(new, old)]

    assert changed(bundle(V1, "a/b:1"), bundle(V1, "a/b:2")) == ["image a/b:1 -> a/b:2"]
    assert changed(bundle(V1, f"a/b{DIGEST}"), bundle(V1, f"mirror/a/b:1{DIGEST}")) == []
    assert changed(bundle(V1, "", OBJECT), bundle(V1, "", METADATA)) == []
    assert changed(bundle(V1), bundle(V1, "", BlobProperty("olm.deprecated", {}))) == []
    assert changed(bundle(V1, "", METADATA), bundle(V1, "", BlobProperty("olm.csv.metadata", {"a": [1]}))) == [
        "properties olm.csv.metadata"
    ]
    related = replace(bundle(V1), related_images=(RelatedImage("operator", "a/operator:1"),))
    assert changed(bundle(V1), related) == ["related images operator"]


@pytest.mark.parametrize("name", ["candidate-4.17", "dev-preview", "pre-ga"])
def test_channels_of_previews_may_change(name: str) -> None:
    published = catalog(*ENTRIES, channel=name)
    assert findings(PUBLISHED, published) == []
    assert findings(catalog(EntryBlob(V2), channel=name), published) == []
    assert findings(replace(PUBLISHED, bundles=(bundle(V1, "other"),)), published) == []


def test_invalid_graphs_are_accepted() -> None:
    cycle = catalog(EntryBlob(V1, V2), EntryBlob(V2, V1), EntryBlob(V3, V3), EntryBlob(V3, V3))
    assert findings(cycle) == []
    assert findings(PUBLISHED, cycle) == []


def with_permissions(*rules: dict[str, Any]) -> Blobs:
    """Return the published catalog with another bundle, all without images; the other one has cluster permissions."""
    added = catalog(*ENTRIES, EntryBlob(V4, V3))
    objects = {V4: csv(cluster=rules)}
    bundles = (bundle(each.name, "", BlobProperty(**embeds(objects.get(each.name, csv())))) for each in added.bundles)
    return replace(added, bundles=tuple(replace(each, image="") for each in bundles))


def gained(new: Blobs, *allowed: str, published: Blobs, images: Any = None) -> list[str]:
    """Return the findings about permissions."""
    read = None if images is None else lambda names: {name: images[name] for name in names}
    found = check_published(
        new, summarize_published(published), allowed_permissions=allowed, read_permissions=read, fragment=True
    )
    return [each.message for each in found if each.rule == "GATE-PERMISSIONS"]


def test_permissions_of_new_bundles() -> None:
    published = with_permissions()
    published = replace(published, bundles=published.bundles[:3])
    new = with_permissions(SECRETS, PODS)
    secrets = f"{V3} to {V4}: demo may now read all secrets in every namespace (secrets)"
    pods = f"{V3} to {V4}: demo may now run pods in every namespace (workloads)"
    assert gained(new, published=published) == [secrets, pods]
    assert gained(new, "secrets", published=published) == [pods]
    assert gained(new, "demo/secrets", "workloads", published=published) == []
    assert gained(new, "other/secrets", "demo/roles", published=published) == [secrets, pods]
    assert gained(new, published=new) == []
    summary = summarize_published(published)
    assert not [each for each in check_published(new, summary) if each.rule == "GATE-PERMISSIONS"]


def test_permissions_of_new_packages() -> None:
    new = with_permissions(SECRETS)
    new = replace(new, bundles=new.bundles[3:], channels=())
    assert gained(new, published=Blobs()) == [f"{V4}: demo may read all secrets in every namespace (secrets)"]


def test_the_image_counts_and_not_the_objects_in_the_catalog() -> None:
    new = with_permissions()
    new = replace(new, bundles=(*new.bundles[:3], replace(new.bundles[3], image="quay.io/me/new")))
    published = replace(new, bundles=new.bundles[:3])
    lying = {"quay.io/me/new": read(csv(cluster=[SECRETS]))}
    assert gained(new, published=published, images=lying) == [
        f"{V3} to {V4}: demo may now read all secrets in every namespace (secrets)"
    ]
    unread = f"{V3} to {V4}: the permissions of {V4} are unknown: quay.io/me/new was not read"
    assert gained(new, *DangerKind, published=published) == [unread]
    broken = {"quay.io/me/new": "manifests/a.yaml:1: broken"}
    assert gained(new, *DangerKind, published=published, images=broken) == [
        f"{V3} to {V4}: the permissions of {V4} cannot be read: manifests/a.yaml:1: broken"
    ]


def test_changed_bundles_are_new_ones() -> None:
    published = with_permissions(PODS)
    candidate = replace(published.channels[0], name="candidate")
    published = replace(published, channels=(candidate,))
    new = with_permissions(SECRETS)
    new = replace(new, channels=(candidate,))
    assert gained(new, published=published) == [
        f"{V3} to {V4}: demo may now read all secrets in every namespace (secrets)"
    ]
