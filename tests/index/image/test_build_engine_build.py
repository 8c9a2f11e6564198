"""Index images built by an engine: their base, and tags that other writers move."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from opmkit.core.progress import NO_PROGRESS
from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.store import ImageStore
from opmkit.imagetools.tools.engine import open_engine
from opmkit.index.errors import IndexMoved
from opmkit.index.image.base import BASE_NAME
from opmkit.index.image.build import EngineBuild
from opmkit.index.image.content import DatabaseContent
from opmkit.index.image.dockerfile import DEFAULT_BINARY_IMAGE
from opmkit.index.operations.prune import PrunePackages
from tests.kit.images import small_image
from tests.kit.requirements import require

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.kit.engines import Engine
    from tests.kit.registry import Registry

HTTP = RegistryOptions(plain_http=True)


@pytest.fixture
def build(
    registry: Registry, container_storage: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> EngineBuild:
    require("buildah")
    for key, value in container_storage.settings.items():
        monkeypatch.setenv(key, value)
    engine = open_engine("buildah", HTTP, ImageStore.open())
    name = Reference(registry.host, f"engine-index/{tmp_path.name.replace('_', '-').lower()}", "1")
    return EngineBuild(engine, [name], "scratch")


def empty_index(directory: Path) -> DatabaseContent:
    content = DatabaseContent(directory / "index.db")
    content.change(PrunePackages([]))
    return content


def put(reference: object, directory: Path, content: bytes) -> str:
    assert isinstance(reference, Reference)
    image = small_image(directory, {"a": content})
    copy_image(image, RegistryClient(HTTP).target(reference), reference.tag)
    return image.digest


def test_unchanged_tag_is_moved(build: EngineBuild, tmp_path: Path) -> None:
    old = put(build.references[0], tmp_path, b"old")
    before = build.published()
    assert before == {build.references[0]: old}
    build.run(empty_index(tmp_path), None, NO_PROGRESS)
    digest = build.push(before, NO_PROGRESS)
    assert build.published() == {build.references[0]: digest}
    assert digest != old


def test_tag_moved_by_another_writer_is_kept(build: EngineBuild, tmp_path: Path) -> None:
    before = build.published()
    assert before == {build.references[0]: ""}
    build.run(empty_index(tmp_path), None, NO_PROGRESS)
    digest = put(build.references[0], tmp_path, b"from another")
    with pytest.raises(IndexMoved, match=f"moved the tag to {digest}"):
        build.push(before, NO_PROGRESS)
    assert build.published() == {build.references[0]: digest}


def test_tag_in_an_unreachable_registry_is_not_checked(build: EngineBuild, caplog: pytest.LogCaptureFixture) -> None:
    unreachable = EngineBuild(build.engine, [Reference("registry.invalid", "index", "1")])
    assert unreachable.published() == {}
    assert "moved without checking it" in caplog.text


@dataclass(frozen=True)
class OldIndex:
    """The old index image, as tools return it."""

    annotations: Mapping[str, str] = field(default_factory=dict)


@pytest.mark.parametrize(
    ("binary_image", "recorded", "base"),
    [
        (None, {}, DEFAULT_BINARY_IMAGE),
        (None, {BASE_NAME: ""}, DEFAULT_BINARY_IMAGE),
        (None, {BASE_NAME: "quay.io/me/opm:1"}, "quay.io/me/opm:1"),
        ("quay.io/me/other:2", {BASE_NAME: "quay.io/me/opm:1"}, "quay.io/me/other:2"),
        ("scratch", {BASE_NAME: "quay.io/me/opm:1"}, None),
    ],
)
def test_base(binary_image: str | None, recorded: dict[str, str], base: str | None) -> None:
    build = EngineBuild(None, [], binary_image)  # type: ignore[arg-type]
    chosen = build.base(OldIndex(recorded))  # type: ignore[arg-type]
    assert (str(chosen) if chosen else None) == base
