"""Index images built from others: digests, and the annotation with the parent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.image import Image, ImageIndex, load_image_or_index
from opmkit.imagetools.image_format import ImageFormat
from opmkit.imagetools.registry import RegistryClient
from opmkit.imagetools.store import ImageStore, LayoutRepository
from opmkit.imagetools.tools.registry import RegistryTool
from opmkit.index.image.base import MADE_FROM, parent_digest
from opmkit.index.image.build import build_index
from opmkit.index.image.plan import BuiltIndex, IndexPlan
from opmkit.index.operations.prune import PruneStranded
from tests.index.changes import CustomChange
from tests.kit.bundles import push_image
from tests.kit.images import multi_image, small_image

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.index.change import Change
    from opmkit.index.sqlite import IndexDatabase


def insert_package(package: str) -> Change:
    """Return a change that adds a package."""

    def insert(database: IndexDatabase) -> None:
        database.connection.execute("INSERT INTO package (name) VALUES (?)", (package,))

    return CustomChange(insert)


class Builder:
    """Builder of index images ``oci:DIRECTORY/index:TAG``."""

    def __init__(self, directory: Path, image_format: ImageFormat) -> None:
        self.layout = directory / "index"
        self._tool = RegistryTool(RegistryClient(), ImageStore.open(directory / "store"), image_format=image_format)

    def build(self, tag: str, start: str | None, change: Change, base: str | None = None) -> BuiltIndex:
        """Build the index of a tag by changing that of another one."""
        origin = f"oci:{self.layout}:{start}" if start else None
        plan = IndexPlan(tags=(f"oci:{self.layout}:{tag}",), from_index=origin, binary_image=base)
        return build_index(self._tool, self._tool, plan, change)

    def image(self, tag: str) -> Image | ImageIndex:
        """Load the image with a tag."""
        return load_image_or_index(LayoutRepository(self.layout), tag)


@pytest.fixture(params=list(ImageFormat))
def builder(request: pytest.FixtureRequest, tmp_path: Path) -> Builder:
    """A builder of images in each format."""
    return Builder(tmp_path, request.param)


@pytest.fixture(params=["scratch", "two platforms"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The name of a base image."""
    if request.param == "scratch":
        return "scratch"
    images = [small_image(tmp_path, {"x": b"1"}, platform=platform) for platform in ("linux/amd64", "linux/arm64")]
    return push_image(f"oci:{tmp_path}/base:1", multi_image(images))


def parent(image: Image | ImageIndex) -> str:
    """Return the parent of an index image."""
    return parent_digest(image.manifest if isinstance(image, Image) else image.index)


@pytest.mark.slow
def test_index_is_annotated_with_its_parent(builder: Builder, base: str) -> None:
    first = builder.build("1", None, insert_package("a"), base)
    second = builder.build("2", "1", insert_package("b"))
    third = builder.build("3", "2", insert_package("c"), base)
    assert [parent(builder.image(tag)) for tag in "123"] == ["", first.digest, second.digest]
    image = builder.image("3")
    assert image.digest == third.digest
    if isinstance(image, ImageIndex):  # only the image index is annotated, so that its images are shared
        assert not any(MADE_FROM in part.manifest.annotations for part in image.images)


@pytest.mark.slow
def test_index_without_changes_has_the_same_digest(builder: Builder, base: str) -> None:
    builder.build("1", None, insert_package("a"), base)
    before = builder.build("2", "1", insert_package("b"))
    for named in (None, base):
        assert builder.build("3", "2", PruneStranded(), named).digest == before.digest


@pytest.mark.slow
def test_builds_are_reproducible(tmp_path: Path, base: str) -> None:
    digests = []
    for name in ("one", "other"):
        builder = Builder(tmp_path / name, ImageFormat.OCI)
        builder.build("1", None, insert_package("a"), base)
        digests.append(builder.build("2", "1", insert_package("b")).digest)
    assert digests[0] == digests[1]
