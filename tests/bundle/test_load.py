"""Loading of bundles from directories and images."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle import InvalidBundle, NotABundle
from opmkit.bundle.directory import read_files
from opmkit.bundle.load import BundleFetcher, load_bundle_directory, load_bundle_image
from opmkit.bundle.source import BundleSource
from opmkit.imagetools.errors import InvalidReference, NotFound
from opmkit.imagetools.image import Image
from opmkit.imagetools.layer import LayerFile, write_layer
from opmkit.imagetools.reference import parse_image_reference
from opmkit.imagetools.spec import ConfigChanges
from tests.bundle.samples import CRD, crd, files

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from opmkit.imagetools.tools.registry import RegistryTool

INDEX = "operators.operatorframework.io.index."


def save(tool: RegistryTool, directory: Path, content: Mapping[str, bytes], changes: ConfigChanges) -> str:
    """Save an image with one layer in a layout below ``directory``, and return its reference."""
    layer = write_layer([LayerFile(path, data) for path, data in content.items()], directory)
    reference = f"oci:{directory / 'layout'}:1"
    tool.push(Image.scratch().append([layer], changes), parse_image_reference(reference))
    return reference


def write(directory: Path, content: Mapping[str, bytes]) -> Path:
    for path, data in content.items():
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_bytes(data)
    return directory


def test_directory_and_image_contain_the_same_bundle(tool: RegistryTool, tmp_path: Path) -> None:
    content = {**files(), CRD: crd("v1"), "manifests/sub/x.yaml": b"kind: X"}
    reference = save(tool, tmp_path, content, ConfigChanges())

    from_image = load_bundle_image(tool, reference)
    from_directory = load_bundle_directory(write(tmp_path / "bundle", content))

    assert from_image.image == reference
    assert from_image.objects == from_directory.objects
    assert from_image.provided_apis == from_directory.provided_apis


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        (ConfigChanges(labels={INDEX + "database.v1": "/database/index.db"}), "an index image with a database"),
        (ConfigChanges(labels={INDEX + "configs.v1": "/configs"}), "an index image with a file-based catalog"),
        (ConfigChanges(labels={"operators.operatorframework.io.bundle.package.v1": "p"}), "no manifests directory"),
        (ConfigChanges(entrypoint=["/manager"]), "perhaps of the operator (it runs '/manager')"),
        (ConfigChanges(labels={"a": "b"}), "an image of unknown kind"),
    ],
)
def test_error_names_the_kind_of_other_images(
    tool: RegistryTool, tmp_path: Path, changes: ConfigChanges, kind: str
) -> None:
    reference = save(tool, tmp_path, {"etc/file": b"x"}, changes)
    with pytest.raises(NotABundle) as raised:
        load_bundle_image(tool, reference)
    assert raised.value.message.startswith(f"{reference} is not a bundle: it ")
    assert kind in raised.value.message
    assert str(raised.value.hint)


def test_error_names_the_image(tool: RegistryTool, tmp_path: Path) -> None:
    reference = save(tool, tmp_path, {"manifests/a.yaml": b"a: b: c\n"}, ConfigChanges())
    with pytest.raises(InvalidBundle) as raised:
        load_bundle_image(tool, reference)
    assert raised.value.message.startswith(
        f"{reference}: no Kubernetes object found in manifests/; manifests/a.yaml:1:5: "
    )


def test_error_names_the_directory(tmp_path: Path) -> None:
    write(tmp_path, {"manifests/a.yaml": b"kind: A\n"})
    with pytest.raises(InvalidBundle) as raised:
        load_bundle_directory(tmp_path)
    assert raised.value.message == f"{tmp_path}: no ClusterServiceVersion found in manifests/"


def test_directory_without_manifests_is_not_a_bundle(tmp_path: Path) -> None:
    with pytest.raises(NotABundle, match="has no manifests directory"):
        load_bundle_directory(tmp_path)


def test_large_files_are_rejected(tmp_path: Path) -> None:
    with (tmp_path / "large.yaml").open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(InvalidBundle, match=r"large\.yaml is larger than"):
        read_files(tmp_path)


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    write(tmp_path, {"a": b"1", "sub/b": b"2"})
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert read_files(tmp_path) == {"a": b"1", "link": b"1"}


class SlowTool:
    """A tool that records the images that are read, and can make their readers wait."""

    def __init__(self) -> None:
        self.read: list[str] = []
        self.first = threading.Event()
        self.open = threading.Event()

    def read_tree(self, image: object, *_: object) -> dict[str, bytes]:
        self.read.append(str(image))
        self.first.set()
        self.open.wait(30)
        if "missing" in str(image):
            raise NotFound(f"{image}: not found")
        return {"manifests/a.yaml": str(image).encode()}


def test_first_bundles_are_fetched_before_they_are_asked_for() -> None:
    tool = SlowTool()
    references = ["quay.io/me/a:1", "quay.io/me/missing:1", "Invalid:", "quay.io/me/a:1"]
    with BundleFetcher(tool, references) as fetcher:  # type: ignore[arg-type]
        assert tool.first.wait(30)
        tool.open.set()
        for _ in range(2):
            assert fetcher.fetch(BundleSource.parse(references[0])) == {"manifests/a.yaml": b"quay.io/me/a:1"}
        with pytest.raises(NotFound, match="missing:1: not found"):
            fetcher.fetch(BundleSource.parse(references[1]))
        with pytest.raises(InvalidReference):
            fetcher.fetch(BundleSource(references[2], parse_image_reference("quay.io/me/a:1"), ""))
    assert sorted(tool.read) == ["quay.io/me/a:1", "quay.io/me/a:1", "quay.io/me/missing:1"]


def test_fetching_stops_with_the_caller() -> None:
    tool = SlowTool()
    with BundleFetcher(tool, [f"quay.io/me/a:{number}" for number in range(16)]):  # type: ignore[arg-type]
        assert tool.first.wait(30)
        threading.Timer(0.1, tool.open.set).start()
    assert len(tool.read) < 16
