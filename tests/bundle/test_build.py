"""Bundle images, and their files on disk again."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle import BundleError, InvalidBundle
from opmkit.bundle.build import bundle_build_spec
from opmkit.bundle.generate import AnnotationsInput, Generated, generate
from opmkit.bundle.load import load_bundle_directory, load_bundle_image
from opmkit.bundle.unpack import unpack_bundle
from opmkit.imagetools.errors import NotFound
from opmkit.imagetools.image import Image
from opmkit.imagetools.layer import LayerFile, write_layer
from opmkit.imagetools.reference import parse_image_reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.spec import ConfigChanges
from opmkit.imagetools.store import ImageStore
from opmkit.imagetools.tools.registry import RegistryTool
from tests.bundle.samples import CSV, FIXTURE, LABEL, annotations_file, csv

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tool(tmp_path: Path) -> RegistryTool:
    return RegistryTool(RegistryClient(RegistryOptions(plain_http=True)), ImageStore.open(tmp_path / "store"))


@pytest.fixture
def bundle(tmp_path: Path) -> Generated:
    """The sample operator with its annotations, in ``tmp_path/bundle``."""
    place = AnnotationsInput("lagoon-operator", "alpha,stable", "stable")
    source = FIXTURE / "0.2.0" / "manifests"
    return generate(source, place, output=tmp_path / "bundle", working_directory=tmp_path)


def built(bundle: Generated, directory: Path) -> Image:
    """The bundle's image."""
    return bundle_build_spec(bundle.manifests, bundle.metadata).build_on(Image.scratch(), directory)


def push(tool: RegistryTool, image: Image, directory: Path) -> str:
    reference = f"oci:{directory / 'layout'}:1"
    tool.push(image, parse_image_reference(reference))
    return reference


def files(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes() for path in directory.rglob("*") if path.is_file()
    }


def test_the_image_holds_the_bundle(tool: RegistryTool, bundle: Generated, tmp_path: Path) -> None:
    (bundle.metadata / "dependencies.yaml").write_text("dependencies: [{type: olm.package, value: {packageName: p}}]\n")
    image = built(bundle, tmp_path)
    reference = push(tool, image, tmp_path)

    assert image.labels == bundle.annotations
    assert tool.read_tree(parse_image_reference(reference), ("",)) == files(tmp_path / "bundle")
    loaded = load_bundle_image(tool, reference)
    assert loaded.objects == load_bundle_directory(tmp_path / "bundle").objects
    assert [dependency.type for dependency in loaded.dependencies] == ["olm.package"]


def test_the_same_files_give_the_same_image(bundle: Generated, tmp_path: Path) -> None:
    first = built(bundle, tmp_path)
    other = tmp_path / "elsewhere"
    shutil.copytree(tmp_path / "bundle", other)
    for path in other.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)

    again = built(Generated(other / "manifests", other / "metadata", {}, ()), tmp_path)

    assert again.digest == first.digest
    assert first.config.created == "1970-01-01T00:00:00Z"


def test_a_time_is_used_where_given(bundle: Generated, tmp_path: Path) -> None:
    image = bundle_build_spec(bundle.manifests, bundle.metadata, created=86_400).build_on(Image.scratch(), tmp_path)
    assert image.config.created == "1970-01-02T00:00:00Z"
    assert image.digest != built(bundle, tmp_path).digest


def test_a_bundle_can_stand_on_a_base(tool: RegistryTool, bundle: Generated, tmp_path: Path) -> None:
    layer = write_layer([LayerFile("etc/base", b"x")], tmp_path)
    base = Image.scratch().append([layer], ConfigChanges(labels={"base": "kept"}))
    image = bundle_build_spec(bundle.manifests, bundle.metadata).build_on(base, tmp_path)

    assert image.labels == {"base": "kept", **bundle.annotations}
    assert "etc/base" in tool.read_tree(parse_image_reference(push(tool, image, tmp_path)), ("",))


def test_hidden_nested_and_linked_files_are_in_the_image(tool: RegistryTool, bundle: Generated, tmp_path: Path) -> None:
    (bundle.manifests / "sub").mkdir()
    (bundle.manifests / "sub" / "x.yaml").write_text("kind: X\n")
    (bundle.manifests / ".hidden").write_text("h")
    (bundle.manifests / "linked.yaml").symlink_to(bundle.manifests / "sub" / "x.yaml")
    image = built(bundle, tmp_path)

    tree = tool.read_tree(parse_image_reference(push(tool, image, tmp_path)), ("manifests",))
    assert tree["manifests/linked.yaml"] == tree["manifests/sub/x.yaml"] == b"kind: X\n"
    assert tree["manifests/.hidden"] == b"h"


def test_the_labels_are_all_annotations(bundle: Generated, tmp_path: Path) -> None:
    with (bundle.metadata / "annotations.yaml").open("a") as file:
        file.write("  com.example.metrics: builder-1.2\n")
    image = built(bundle, tmp_path)
    assert image.labels == {**bundle.annotations, "com.example.metrics": "builder-1.2"}


def test_without_manifests_or_annotations_there_is_no_image(bundle: Generated, tmp_path: Path) -> None:
    with pytest.raises(InvalidBundle, match="no files found"):
        bundle_build_spec(tmp_path / "nothing", bundle.metadata)
    with pytest.raises(InvalidBundle, match="no annotations"):
        bundle_build_spec(bundle.manifests, tmp_path / "nothing")


@pytest.fixture
def reference(tool: RegistryTool, bundle: Generated, tmp_path: Path) -> str:
    return push(tool, built(bundle, tmp_path), tmp_path)


def test_unpacking_gives_the_files_back(tool: RegistryTool, reference: str, tmp_path: Path) -> None:
    destination = tmp_path / "new" / "place"

    assert unpack_bundle(tool, reference, destination) == ()

    assert files(destination) == files(tmp_path / "bundle")
    assert destination.stat().st_mode == (tmp_path / "bundle").stat().st_mode
    assert list((tmp_path / "new").iterdir()) == [destination]


def test_unpacking_leaves_other_files_alone_and_replaces_its_own(
    tool: RegistryTool, reference: str, tmp_path: Path
) -> None:
    destination = tmp_path / "out"
    (destination / "manifests").mkdir(parents=True)
    (destination / "manifests" / "mine.yaml").write_text("mine")
    (destination / "manifests" / "lagoon-operator.clusterserviceversion.yaml").write_text("old")

    unpack_bundle(tool, reference, destination)

    assert files(destination) == {**files(tmp_path / "bundle"), "manifests/mine.yaml": b"mine"}


@pytest.mark.parametrize("in_the_way", ["manifests", "metadata/annotations.yaml/x"])
def test_what_is_in_the_way_stops_it_before_anything_moves(
    tool: RegistryTool, reference: str, tmp_path: Path, in_the_way: str
) -> None:
    destination = tmp_path / "out"
    (destination / in_the_way).parent.mkdir(parents=True)
    (destination / in_the_way).write_text("mine")
    with pytest.raises(BundleError, match="conflicts with"):
        unpack_bundle(tool, reference, destination)
    assert files(destination) == {in_the_way: b"mine"}


def test_a_file_is_no_place_to_unpack_into(tool: RegistryTool, reference: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(BundleError, match="is not a directory"):
        unpack_bundle(tool, reference, tmp_path / "file")


def test_an_image_that_is_no_valid_bundle_is_not_unpacked(tool: RegistryTool, tmp_path: Path) -> None:
    layer = write_layer([LayerFile(CSV, csv({"replaces": 1})), LayerFile("metadata/a", annotations_file())], tmp_path)
    reference = push(tool, Image.scratch().append([layer]), tmp_path)
    destination = tmp_path / "new" / "place"

    with pytest.raises(InvalidBundle, match=r"spec\.replaces") as raised:
        unpack_bundle(tool, reference, destination)
    assert raised.value.message.startswith(f"{reference}: {CSV}: ")
    assert not (tmp_path / "new").exists()

    unpack_bundle(tool, reference, destination, validate=False)
    assert sorted(files(destination)) == [CSV, "metadata/a"]


def test_an_image_that_is_not_there_leaves_nothing(tool: RegistryTool, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    with pytest.raises(NotFound):
        unpack_bundle(tool, f"oci:{tmp_path / 'layout'}:9", tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


def test_the_labels_name_where_the_files_are(bundle: Generated) -> None:
    assert bundle.annotations[LABEL + "manifests.v1"] == "manifests/"
    assert bundle.annotations[LABEL + "metadata.v1"] == "metadata/"
