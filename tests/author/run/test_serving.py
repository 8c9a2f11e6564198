"""Catalogs to try operators, and package manifests."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from msgspec import structs
from tests.kit.opm import LAGOON

from opmkit.author.run.package_manifests import (
    OperatorVersion,
    check_bundle,
    deployment_names,
    owned_crds,
    select_version,
)
from opmkit.author.run.serving import CHANNEL, add_sequence, append_to_channel
from opmkit.bundle.directory import read_files
from opmkit.bundle.load import load_bundle_directory
from opmkit.bundle.parse import parse_bundle
from opmkit.index.errors import BundleExists, CatalogError, InvalidCatalog
from opmkit.index.fbc.blobs import Blobs, BundleBlob, ChannelBlob, EntryBlob, PackageBlob
from opmkit.index.fbc.from_bundle import bundle_to_blob
from opmkit.index.fbc.model import Catalog

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = "lagoon-operator"


def bundle(version: str) -> BundleBlob:
    """Return a version of the sample operator."""
    manifests = read_files(LAGOON / version / "manifests")
    metadata = read_files(LAGOON / "0.1.0" / "metadata")
    files = {f"manifests/{name}": content for name, content in manifests.items()}
    files |= {f"metadata/{name}": content for name, content in metadata.items()}
    return bundle_to_blob(parse_bundle(files, image=f"registry.example.com/lagoon:{version}"))


def entries(blobs: Blobs, channel: str) -> dict[str, str]:
    """Return what the entries of a channel replace."""
    return {entry.name: entry.replaces for blob in blobs.channels if blob.name == channel for entry in blob.entries}


def test_bundle_is_added_in_a_channel_without_its_declared_edges() -> None:
    blobs = add_sequence(Blobs(), [bundle("0.2.0")])
    package = Catalog.from_blobs(blobs).packages[PACKAGE]
    assert package.default_channel == CHANNEL
    assert entries(blobs, CHANNEL) == {"lagoon-operator.v0.2.0": ""}


def test_bundles_of_a_sequence_replace_each_other() -> None:
    blobs = add_sequence(Blobs(), [bundle("0.1.0"), bundle("0.2.0"), bundle("0.3.0")])
    assert entries(blobs, CHANNEL) == {
        "lagoon-operator.v0.1.0": "",
        "lagoon-operator.v0.2.0": "lagoon-operator.v0.1.0",
        "lagoon-operator.v0.3.0": "lagoon-operator.v0.2.0",
    }


def index() -> Blobs:
    """Return an index with the first version of the sample operator in the channel stable."""
    first = bundle("0.1.0")
    return Blobs(
        (PackageBlob(PACKAGE, "stable"), PackageBlob("other", "a")),
        (ChannelBlob("stable", PACKAGE, (EntryBlob(first.name),)),),
        (first,),
    )


def test_package_of_an_index_retains_its_default_channel() -> None:
    blobs = add_sequence(index(), [bundle("0.1.0"), bundle("0.2.0")])
    assert [package.default_channel for package in blobs.packages] == ["stable", "a"]
    assert entries(blobs, "stable") == {"lagoon-operator.v0.1.0": ""}
    assert [blob.name for blob in blobs.bundles] == ["lagoon-operator.v0.1.0", "lagoon-operator.v0.2.0"]


def test_bundle_becomes_the_head_of_a_channel() -> None:
    blobs = append_to_channel(index(), bundle("0.2.0"), "stable")
    assert entries(blobs, "stable") == {
        "lagoon-operator.v0.1.0": "",
        "lagoon-operator.v0.2.0": "lagoon-operator.v0.1.0",
    }


def test_bundles_and_channels_that_exist_are_errors() -> None:
    with pytest.raises(BundleExists, match=r"lagoon-operator\.v0\.1\.0 of package lagoon-operator: already exists"):
        add_sequence(index(), [bundle("0.1.0")])
    with pytest.raises(BundleExists):
        append_to_channel(index(), bundle("0.1.0"), "stable")
    tried = replace(index(), channels=(*index().channels, ChannelBlob(CHANNEL, PACKAGE, (EntryBlob("x"),))))
    with pytest.raises(CatalogError, match="channel operator-sdk-run-bundle already exists in the index"):
        add_sequence(tried, [bundle("0.2.0")])


def test_unsuitable_channels_are_errors() -> None:
    with pytest.raises(CatalogError, match="channel missing: not found in the index"):
        append_to_channel(index(), bundle("0.2.0"), "missing")
    forked = replace(index(), channels=(ChannelBlob("stable", PACKAGE, (EntryBlob("a"), EntryBlob("b"))),))
    with pytest.raises(CatalogError, match="several heads: a, b"):
        append_to_channel(forked, bundle("0.2.0"), "stable")
    with pytest.raises(InvalidCatalog):
        add_sequence(replace(index(), channels=()), [bundle("0.2.0")])


def test_operator_version_is_read_from_the_csv() -> None:
    loaded = structs.replace(load_bundle_directory(LAGOON / "0.1.0"), image="quay.io/a/b:1")
    operator = OperatorVersion.from_bundle(loaded)
    assert (operator.package, operator.name, operator.version) == (PACKAGE, "lagoon-operator.v0.1.0", "0.1.0")
    assert operator.install_modes == {"OwnNamespace", "SingleNamespace", "AllNamespaces"}
    check_bundle(loaded)
    for hostile in ({}, {"spec": {"installModes": 1, "customresourcedefinitions": [], "install": {"spec": ""}}}):
        assert OperatorVersion.from_csv("p", hostile).install_modes == frozenset()
        assert owned_crds(hostile) == deployment_names(hostile) == []


def test_bundle_that_clusters_cannot_pull_is_an_error() -> None:
    loaded = load_bundle_directory(LAGOON / "0.1.0")
    check_bundle(loaded)
    with pytest.raises(Exception, match="oci:bundle: clusters cannot pull it"):
        check_bundle(structs.replace(loaded, image="oci:bundle"))
    with pytest.raises(Exception, match="no package in its annotations"):
        check_bundle(structs.replace(loaded, annotations=structs.replace(loaded.annotations, package="")))


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """Return a directory of package manifests with two versions."""
    for version in ("0.1.0", "0.2.0"):
        shutil.copytree(LAGOON / version / "manifests", tmp_path / version)
    (tmp_path / "lagoon.package.yaml").write_text(
        "packageName: lagoon-operator\ndefaultChannel: stable\nchannels:\n"
        "- {name: alpha, currentCSV: lagoon-operator.v0.1.0}\n- {name: stable, currentCSV: lagoon-operator.v0.2.0}\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    ("version", "name", "channel"),
    [
        ("", "lagoon-operator.v0.2.0", "stable"),
        ("0.2.0", "lagoon-operator.v0.2.0", "stable"),
        ("0.1.0", "lagoon-operator.v0.1.0", "alpha"),
    ],
)
def test_version_of_package_manifests_is_selected(manifests: Path, version: str, name: str, channel: str) -> None:
    selected = select_version(manifests, version)
    assert (selected.operator.name, selected.channel) == (name, channel)
    assert selected.operator.image == ""
    assert "AllNamespaces" in selected.operator.install_modes
    assert all(blob.image == "" for blob in selected.blobs.bundles)


def test_unknown_version_of_package_manifests_is_an_error(manifests: Path, tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match=r"version 9 not found: the versions are 0.1.0, 0.2.0"):
        select_version(manifests, "9")
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(CatalogError, match="no package"):
        select_version(empty)
    with pytest.raises(CatalogError, match="not a directory"):
        select_version(tmp_path / "missing")
