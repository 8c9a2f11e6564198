"""Unpacking of bundle images to directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.bundle import BundleError, InvalidBundle
from opmkit.bundle.unpack import unpack_bundle
from opmkit.imagetools.errors import NotFound
from opmkit.imagetools.image import Image
from opmkit.imagetools.layer import LayerFile, write_layer
from tests.bundle.images import build_image, files, push
from tests.bundle.samples import CSV, annotations_file, csv

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.bundle.generate import GeneratedMetadata
    from opmkit.imagetools.tools.registry import RegistryTool


@pytest.fixture
def reference(tool: RegistryTool, bundle: GeneratedMetadata, tmp_path: Path) -> str:
    return push(tool, build_image(bundle, tmp_path), tmp_path)


def test_unpack(tool: RegistryTool, reference: str, tmp_path: Path) -> None:
    destination = tmp_path / "new" / "place"

    assert unpack_bundle(tool, reference, destination) == ()

    assert files(destination) == files(tmp_path / "bundle")
    assert destination.stat().st_mode == (tmp_path / "bundle").stat().st_mode
    assert list((tmp_path / "new").iterdir()) == [destination]


def test_unpack_replaces_existing_files_of_the_bundle_only(tool: RegistryTool, reference: str, tmp_path: Path) -> None:
    destination = tmp_path / "out"
    (destination / "manifests").mkdir(parents=True)
    (destination / "manifests" / "mine.yaml").write_text("mine")
    (destination / "manifests" / "lagoon-operator.clusterserviceversion.yaml").write_text("old")

    unpack_bundle(tool, reference, destination)

    assert files(destination) == {**files(tmp_path / "bundle"), "manifests/mine.yaml": b"mine"}


@pytest.mark.parametrize("existing", ["manifests", "metadata/annotations.yaml/x"])
def test_conflicting_files_are_detected_before_the_first_move(
    tool: RegistryTool, reference: str, tmp_path: Path, existing: str
) -> None:
    destination = tmp_path / "out"
    (destination / existing).parent.mkdir(parents=True)
    (destination / existing).write_text("mine")
    with pytest.raises(BundleError, match="conflicts with"):
        unpack_bundle(tool, reference, destination)
    assert files(destination) == {existing: b"mine"}


def test_destination_must_be_a_directory(tool: RegistryTool, reference: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(BundleError, match="is not a directory"):
        unpack_bundle(tool, reference, tmp_path / "file")


def test_invalid_bundle_is_not_unpacked(tool: RegistryTool, tmp_path: Path) -> None:
    layer = write_layer([LayerFile(CSV, csv({"replaces": 1})), LayerFile("metadata/a", annotations_file())], tmp_path)
    reference = push(tool, Image.scratch().append([layer]), tmp_path)
    destination = tmp_path / "new" / "place"

    with pytest.raises(InvalidBundle, match=r"spec\.replaces") as raised:
        unpack_bundle(tool, reference, destination)
    assert raised.value.message.startswith(f"{reference}: {CSV}: ")
    assert not (tmp_path / "new").exists()

    unpack_bundle(tool, reference, destination, validate=False)
    assert sorted(files(destination)) == [CSV, "metadata/a"]


def test_missing_image_leaves_no_files(tool: RegistryTool, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(NotFound):
        unpack_bundle(tool, f"oci:{tmp_path / 'layout'}:9", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
