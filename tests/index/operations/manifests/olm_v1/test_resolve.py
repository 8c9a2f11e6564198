"""The bundle that OLM v1 installs."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from opmkit.index.errors import CatalogError, UnknownPackage
from opmkit.index.fbc.blobs import (
    BlobProperty,
    Blobs,
    BundleBlob,
    ChannelBlob,
    Deprecation,
    DeprecationsBlob,
    EntryBlob,
    PackageBlob,
)
from opmkit.index.operations.manifests.olm_v1.cluster_extension import ClusterExtension
from opmkit.index.operations.manifests.olm_v1.resolve import resolve_extension

EXTENSION = ClusterExtension("shelf", "shelves", "catalog")


def bundle(version: str, *properties: BlobProperty) -> BundleBlob:
    package = BlobProperty("olm.package", {"packageName": "shelf", "version": version})
    return BundleBlob(f"shelf.v{version}", "shelf", f"quay.io/me/shelf:{version}", (package, *properties))


def modes(**supported: bool) -> BlobProperty:
    install_modes: Any = [{"type": mode, "supported": is_supported} for mode, is_supported in supported.items()]
    return BlobProperty("olm.csv.metadata", {"installModes": install_modes})


def catalog(*bundles: BundleBlob, deprecated: tuple[str, ...] = ()) -> Blobs:
    """Return a catalog with a channel for each bundle, with the minor version as its name."""
    channels = [ChannelBlob(one.name[len("shelf.v") :][:3], "shelf", (EntryBlob(one.name),)) for one in bundles]
    entries = tuple(Deprecation("olm.bundle", name, "old") for name in deprecated)
    return Blobs(
        (PackageBlob("shelf", channels[0].name),),
        tuple(channels),
        bundles,
        (DeprecationsBlob("shelf", entries),) if entries else (),
    )


THREE = (bundle("1.2.0"), bundle("1.10.0"), bundle("2.0.0-rc.1"))


@pytest.mark.parametrize(
    ("settings", "deprecated", "found"),
    [
        ({}, (), "shelf.v2.0.0-rc.1"),
        ({"version": "<2"}, (), "shelf.v1.10.0"),
        ({"version": "1.2.0"}, (), "shelf.v1.2.0"),
        ({"version": ">=1.2, <1.10 || >=2.0.0-rc.0"}, (), "shelf.v2.0.0-rc.1"),
        ({"channels": ("1.2", "1.1")}, (), "shelf.v1.10.0"),
        ({"channels": ("1.2",)}, ("shelf.v1.2.0",), "shelf.v1.2.0"),
        ({}, ("shelf.v2.0.0-rc.1", "shelf.v1.10.0"), "shelf.v1.2.0"),
    ],
)
def test_highest_version(settings: dict[str, Any], deprecated: tuple[str, ...], found: str) -> None:
    resolved = resolve_extension(replace(EXTENSION, **settings), catalog(*THREE, deprecated=deprecated))
    assert resolved.bundle == found
    assert resolved.image == f"quay.io/me/shelf:{found.removeprefix('shelf.v')}"
    assert resolved.warnings == ()


def test_operators_for_one_namespace() -> None:
    blobs = catalog(bundle("1.0.0", modes(AllNamespaces=False, OwnNamespace=True)))
    resolved = resolve_extension(EXTENSION, blobs)
    assert resolved.extension.watch_namespace == "shelves"
    assert "SingleOwnNamespaceInstallSupport" in resolved.warnings[0]
    with pytest.raises(CatalogError, match=r"shelf.v1.0.0: unsupported install mode SingleNamespace"):
        resolve_extension(replace(EXTENSION, watch_namespace="other"), blobs)


def test_dependencies() -> None:
    required = BlobProperty("olm.package.required", {"packageName": "book", "versionRange": ">0.1.0"})
    resolved = resolve_extension(EXTENSION, catalog(bundle("1.0.0", required)))
    assert resolved.warnings == (
        "shelf.v1.0.0: OLM v1 does not install bundles with dependencies (olm.package.required)",
    )


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"package": "nix"}, UnknownPackage, '"nix" not found'),
        ({"channels": ("1.2", "nix")}, CatalogError, 'channel "nix" not found'),
        ({"version": "3"}, CatalogError, 'no version matches "3"'),
        ({"version": "2"}, CatalogError, 'no version matches "2"'),
    ],
)
def test_unknown_names(settings: dict[str, Any], error: type[CatalogError], message: str) -> None:
    with pytest.raises(error, match=message) as failure:
        resolve_extension(replace(EXTENSION, **settings), catalog(*THREE))
    assert failure.value.hint
