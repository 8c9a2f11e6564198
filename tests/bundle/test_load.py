"""Loading of bundles from directories and images."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle import InvalidBundle, NotABundle
from opmkit.bundle.directory import read_files
from opmkit.bundle.load import load_bundle_directory, load_bundle_image
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


def test_links_to_files_of_the_bundle_are_read(tmp_path: Path) -> None:
    manifests = write(tmp_path / "manifests", {"a": b"1", "sub/b": b"2"})
    (tmp_path / "shared").write_bytes(b"3")
    (manifests / "link").symlink_to(manifests / "a")
    (manifests / "up").symlink_to("../shared")
    (manifests / "directory").symlink_to(".")
    assert read_files(manifests) == {"a": b"1", "link": b"1", "up": b"3"}


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("../../outside", "leads out of"),
        ("../..", "leads out of"),
        ("/etc/hostname", "leads out of"),
        ("../out", "leads out of"),
        ("nowhere", "broken"),
        ("zz.yaml", "broken"),
        ("pipe", "not a regular file"),
    ],
)
def test_other_links_are_refused(tmp_path: Path, target: str, message: str) -> None:
    manifests = write(tmp_path / "b" / "manifests", {"a": b"1"})
    (tmp_path / "outside").write_bytes(b"1")
    (tmp_path / "b" / "out").symlink_to("../outside")
    os.mkfifo(tmp_path / "b" / "pipe")
    (manifests / "zz.yaml").symlink_to("../pipe" if target == "pipe" else target)
    with pytest.raises(InvalidBundle, match=rf"manifests/zz\.yaml: .*{message}"):
        read_files(manifests)
    assert read_files(manifests, skip_others=True) == {"a": b"1"}


def test_a_linked_directory_is_refused_outside_of_the_bundle(tmp_path: Path) -> None:
    write(tmp_path, {"b/v1/a": b"1", "outside/a": b"1"})
    (tmp_path / "b" / "manifests").symlink_to("v1")
    assert read_files(tmp_path / "b" / "manifests") == {"a": b"1"}
    (tmp_path / "b" / "metadata").symlink_to("../outside")
    with pytest.raises(InvalidBundle, match="metadata: refusing to follow"):
        read_files(tmp_path / "b" / "metadata")
