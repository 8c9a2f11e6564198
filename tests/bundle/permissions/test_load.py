"""Permissions of bundle directories and images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.permissions.load import load_image_permissions, load_permissions
from opmkit.bundle.source import BundleSource
from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path


class FakeTool:
    """A tool with images by reference, each of which contains one manifest."""

    def __init__(self, images: dict[str, bytes]) -> None:
        self.images = images

    def require_equal_platforms(self, image: object, _: object) -> object:
        return image

    def read_tree(self, image: object, *_: object) -> dict[str, bytes]:
        return {"manifests/csv.yaml": self.images[str(image)]}


def test_directories(tmp_path: Path) -> None:
    path = FIXTURES / "kelp-operator" / "0.2.0"
    assert load_permissions(FakeTool({}), BundleSource.parse(str(path))).bundle == "kelp-operator.v0.2.0"  # type: ignore[arg-type]
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "a.yaml").write_text("kind: Role\n")
    with pytest.raises(InvalidBundle, match=f"^{tmp_path}: no ClusterServiceVersion found"):
        load_permissions(FakeTool({}), BundleSource.parse(str(tmp_path)))  # type: ignore[arg-type]


def test_images_that_are_not_valid_bundles_have_a_problem() -> None:
    csv = b"kind: ClusterServiceVersion\nmetadata: {name: reef}\n"
    images = {"quay.io/me/a:1": csv, "quay.io/me/b:1": b"text"}
    found = load_image_permissions(FakeTool(images), list(images))  # type: ignore[arg-type]
    valid, invalid = found.values()
    assert not isinstance(valid, str)
    assert valid.bundle == "reef"
    assert invalid == "quay.io/me/b:1: manifests/csv.yaml:1: not a Kubernetes object: it has no kind"
