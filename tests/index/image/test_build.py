"""New index images from old ones: what they are layered on, and what they say of where they come from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.image import Image, ImageIndex, load_image_or_index
from opmkit.imagetools.image_format import ImageFormat
from opmkit.imagetools.registry import RegistryClient
from opmkit.imagetools.store import ImageStore, LayoutRepository
from opmkit.imagetools.tools.registry import RegistryTool
from opmkit.index.image.base import MADE_FROM, parent_digest
from opmkit.index.image.build import BuiltIndex, IndexPlan, build_index
from opmkit.index.operations.prune import PruneStranded
from tests.index.changes import CustomChange
from tests.kit.bundles import put_under
from tests.kit.images import multi_image, small_image

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.index.operations.change import Change
    from opmkit.index.sqlite import IndexDatabase


def naming(package: str) -> Change:
    """A change that adds a package of that name."""

    def insert(database: IndexDatabase) -> None:
        database.connection.execute("INSERT INTO package (name) VALUES (?)", (package,))

    return CustomChange(insert)


class Builder:
    """Builds indexes ``oci:DIRECTORY/index:TAG``."""

    def __init__(self, directory: Path, image_format: ImageFormat) -> None:
        self.layout = directory / "index"
        self._tool = RegistryTool(RegistryClient(), ImageStore.open(directory / "store"), image_format=image_format)

    def build(self, tag: str, start: str | None, change: Change, base: str | None = None) -> BuiltIndex:
        """Make a change to the index of another tag."""
        origin = f"oci:{self.layout}:{start}" if start else None
        plan = IndexPlan(tags=(f"oci:{self.layout}:{tag}",), from_index=origin, binary_image=base)
        return build_index(self._tool, self._tool, plan, change)

    def image(self, tag: str) -> Image | ImageIndex:
        """What a tag names."""
        return load_image_or_index(LayoutRepository(self.layout), tag)


@pytest.fixture(params=list(ImageFormat))
def builder(request: pytest.FixtureRequest, tmp_path: Path) -> Builder:
    """Builds in one format or the other."""
    return Builder(tmp_path, request.param)


@pytest.fixture(params=["scratch", "two platforms"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """What indexes are layered on."""
    if request.param == "scratch":
        return "scratch"
    images = [small_image(tmp_path, {"x": b"1"}, platform=platform) for platform in ("linux/amd64", "linux/arm64")]
    return put_under(f"oci:{tmp_path}/base:1", multi_image(images))


def top(image: Image | ImageIndex) -> str:
    """The index that an image says it was made from."""
    return parent_digest(image.manifest if isinstance(image, Image) else image.index)


def test_an_index_names_the_one_that_it_was_made_from(builder: Builder, base: str) -> None:
    first = builder.build("1", None, naming("a"), base)
    second = builder.build("2", "1", naming("b"))
    third = builder.build("3", "2", naming("c"), base)
    assert [top(builder.image(tag)) for tag in "123"] == ["", first.digest, second.digest]
    image = builder.image("3")
    assert image.digest == third.digest
    if isinstance(image, ImageIndex):  # what differs by history alone is in one place
        assert not any(MADE_FROM in part.manifest.annotations for part in image.images)


def test_an_index_that_does_not_change_stays_the_same_image(builder: Builder, base: str) -> None:
    builder.build("1", None, naming("a"), base)
    before = builder.build("2", "1", naming("b"))
    for named in (None, base):
        assert builder.build("3", "2", PruneStranded(), named).digest == before.digest


def test_the_same_steps_give_the_same_digests(tmp_path: Path, base: str) -> None:
    digests = []
    for name in ("one", "other"):
        builder = Builder(tmp_path / name, ImageFormat.OCI)
        builder.build("1", None, naming("a"), base)
        digests.append(builder.build("2", "1", naming("b")).digest)
    assert digests[0] == digests[1]
