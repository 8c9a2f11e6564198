"""Bundle images."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle import InvalidBundle
from opmkit.bundle.generate import GeneratedMetadata
from opmkit.bundle.load import load_bundle_directory, load_bundle_image
from opmkit.bundle.unpack import bundle_build_spec
from opmkit.imagetools.image import Image
from opmkit.imagetools.layer import LayerFile, write_layer
from opmkit.imagetools.reference import parse_image_reference
from opmkit.imagetools.spec import ConfigChanges
from tests.bundle.images import build_image, files, push
from tests.bundle.samples import LABEL

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.imagetools.tools.registry import RegistryTool


def test_image_contains_the_bundle(tool: RegistryTool, bundle: GeneratedMetadata, tmp_path: Path) -> None:
    (bundle.metadata / "dependencies.yaml").write_text("dependencies: [{type: olm.package, value: {packageName: p}}]\n")
    image = build_image(bundle, tmp_path)
    reference = push(tool, image, tmp_path)

    assert image.labels == bundle.annotations
    assert tool.read_tree(parse_image_reference(reference), ("",)) == files(tmp_path / "bundle")
    loaded = load_bundle_image(tool, reference)
    assert loaded.objects == load_bundle_directory(tmp_path / "bundle").objects
    assert [dependency.type for dependency in loaded.dependencies] == ["olm.package"]


@pytest.mark.parametrize("label", ["tests/scorecard/", "tests/absent", "../tests", "/tests", "manifests", "."])
def test_tests_of_the_labels_are_included(
    label: str, tool: RegistryTool, bundle: GeneratedMetadata, tmp_path: Path
) -> None:
    config = tmp_path / "bundle/tests/scorecard/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("stages: []\n")
    file = bundle.metadata / "annotations.yaml"
    file.write_text(f"{file.read_text()}  operators.operatorframework.io.test.config.v1: {label}\n")
    tree = tool.read_tree(parse_image_reference(push(tool, build_image(bundle, tmp_path), tmp_path)), ("",))
    assert ("tests/scorecard/config.yaml" in tree) is (label == "tests/scorecard/")


def test_images_are_reproducible(bundle: GeneratedMetadata, tmp_path: Path) -> None:
    first = build_image(bundle, tmp_path)
    other = tmp_path / "elsewhere"
    shutil.copytree(tmp_path / "bundle", other)
    for path in other.rglob("*"):
        os.utime(path, (1, 1))
        path.chmod(0o700)

    again = build_image(GeneratedMetadata(other / "manifests", other / "metadata", {}, ()), tmp_path)

    assert again.digest == first.digest
    assert first.config.created == "1970-01-01T00:00:00Z"


def test_created_time(bundle: GeneratedMetadata, tmp_path: Path) -> None:
    image = bundle_build_spec(bundle.manifests, bundle.metadata, created=86_400).build_on(Image.scratch(), tmp_path)
    assert image.config.created == "1970-01-02T00:00:00Z"
    assert image.digest != build_image(bundle, tmp_path).digest


def test_bundle_on_a_base_image(tool: RegistryTool, bundle: GeneratedMetadata, tmp_path: Path) -> None:
    layer = write_layer([LayerFile("etc/base", b"x")], tmp_path)
    base = Image.scratch().append([layer], ConfigChanges(labels={"base": "kept"}))
    image = bundle_build_spec(bundle.manifests, bundle.metadata).build_on(base, tmp_path)

    assert image.labels == {"base": "kept", **bundle.annotations}
    assert "etc/base" in tool.read_tree(parse_image_reference(push(tool, image, tmp_path)), ("",))


def test_hidden_nested_and_linked_files_are_included(
    tool: RegistryTool, bundle: GeneratedMetadata, tmp_path: Path
) -> None:
    (bundle.manifests / "sub").mkdir()
    (bundle.manifests / "sub" / "x.yaml").write_text("kind: X\n")
    (bundle.manifests / ".hidden").write_text("h")
    (bundle.manifests / "linked.yaml").symlink_to(bundle.manifests / "sub" / "x.yaml")
    image = build_image(bundle, tmp_path)

    tree = tool.read_tree(parse_image_reference(push(tool, image, tmp_path)), ("manifests",))
    assert tree["manifests/linked.yaml"] == tree["manifests/sub/x.yaml"] == b"kind: X\n"
    assert tree["manifests/.hidden"] == b"h"


@pytest.mark.parametrize("path", ["manifests/zz.yaml", "manifests/sub/zz.yaml", "metadata/zz.yaml", "tests"])
def test_links_out_of_the_bundle_are_refused(bundle: GeneratedMetadata, tmp_path: Path, path: str) -> None:
    with (bundle.metadata / "annotations.yaml").open("a") as file:
        file.write("  operators.operatorframework.io.test.config.v1: tests\n")
    (tmp_path / "outside").mkdir()
    link = bundle.manifests.parent / path
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(tmp_path / "outside")
    with pytest.raises(InvalidBundle, match=f"{path}: refusing to follow a symbolic link that leads out of"):
        bundle_build_spec(bundle.manifests, bundle.metadata)


def test_all_annotations_become_labels(bundle: GeneratedMetadata, tmp_path: Path) -> None:
    with (bundle.metadata / "annotations.yaml").open("a") as file:
        file.write("  com.example.metrics: builder-1.2\n")
    image = build_image(bundle, tmp_path)
    assert image.labels == {**bundle.annotations, "com.example.metrics": "builder-1.2"}


def test_manifests_and_annotations_are_required(bundle: GeneratedMetadata, tmp_path: Path) -> None:
    with pytest.raises(InvalidBundle, match="no files found"):
        bundle_build_spec(tmp_path / "nothing", bundle.metadata)
    with pytest.raises(InvalidBundle, match="no annotations"):
        bundle_build_spec(bundle.manifests, tmp_path / "nothing")


def test_labels_contain_the_paths_of_the_directories(bundle: GeneratedMetadata) -> None:
    assert bundle.annotations[LABEL + "manifests.v1"] == "manifests/"
    assert bundle.annotations[LABEL + "metadata.v1"] == "metadata/"
