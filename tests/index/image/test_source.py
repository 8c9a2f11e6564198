"""Indexes and bundles on disk and in images."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.labels import INDEX_CONFIGS, INDEX_DATABASE
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.store import ImageStore
from opmkit.imagetools.tools.registry import RegistryTool
from opmkit.index.errors import CatalogError
from opmkit.index.image.content import CatalogContent, DatabaseContent
from opmkit.index.image.source import CATALOGS, IndexSource, SourceKind
from tests.kit.bundles import bundle_image, push_image
from tests.kit.catalogs import write_library
from tests.kit.images import small_image

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.registry import Registry

PACKAGE = b'{"schema": "olm.package", "name": "lagoon", "defaultChannel": "stable"}'


@pytest.fixture
def tool(tmp_path: Path) -> Callable[[], RegistryTool]:
    store = ImageStore.open(tmp_path / "store")
    opened = RegistryTool(RegistryClient(RegistryOptions(plain_http=True)), store)
    return lambda: opened


def no_tool() -> RegistryTool:
    raise AssertionError("a tool is not needed")


def write_catalog(directory: Path) -> Path:
    directory.mkdir()
    (directory / "catalog.json").write_bytes(PACKAGE)
    return directory


def database_image(directory: Path) -> str:
    write_library(directory / "library.db")
    files = {"database/index.db": (directory / "library.db").read_bytes()}
    image = small_image(directory, files, labels={INDEX_DATABASE: "/database/index.db"})
    return push_image(f"oci:{directory}/index:database", image)


def catalog_image(directory: Path) -> str:
    image = small_image(directory, {"configs/catalog.json": PACKAGE}, labels={INDEX_CONFIGS: "/configs"})
    return push_image(f"oci:{directory}/index:catalog", image)


def test_kinds_on_disk(tmp_path: Path) -> None:
    catalog = write_catalog(tmp_path / "catalog")
    write_library(tmp_path / "index.db")
    for name in ("manifests", "metadata"):
        (tmp_path / "bundle" / name).mkdir(parents=True)
    kinds = [
        IndexSource.find(no_tool, str(path)).kind for path in (catalog, tmp_path / "index.db", tmp_path / "bundle")
    ]
    assert kinds == [SourceKind.CATALOG_DIRECTORY, SourceKind.DATABASE_FILE, SourceKind.BUNDLE_DIRECTORY]


def test_kinds_of_images(tool: Callable[[], RegistryTool], tmp_path: Path) -> None:
    bundle = push_image(f"oci:{tmp_path}/bundle:1", bundle_image("lagoon", "1.0.0", tmp_path))
    names = (catalog_image(tmp_path), database_image(tmp_path), bundle)
    assert [IndexSource.resolve(tool, name).kind for name in names] == [
        SourceKind.CATALOG_IMAGE,
        SourceKind.DATABASE_IMAGE,
        SourceKind.BUNDLE_IMAGE,
    ]


def test_open(tool: Callable[[], RegistryTool], tmp_path: Path) -> None:
    database, catalog = database_image(tmp_path), catalog_image(tmp_path)
    directory = write_catalog(tmp_path / "catalog")
    for name in (database, str(tmp_path / "library.db")):
        with IndexSource.resolve(tool, name).open() as content:
            assert isinstance(content, DatabaseContent)
            assert [package.name for package in content.blobs().packages] == ["book", "shelf"]
    for name in (catalog, str(directory)):
        with IndexSource.resolve(tool, name).open() as content:
            assert isinstance(content, CatalogContent)
            assert [package.name for package in content.blobs().packages] == ["lagoon"]
    with IndexSource.resolve(tool, catalog).open() as content:
        extracted = content.path
    assert not extracted.exists()
    with IndexSource.find(tool, str(directory)).open() as content:
        assert content.path == directory


def test_extract_copies_an_index_on_disk(tmp_path: Path) -> None:
    directory = write_catalog(tmp_path / "catalog")
    (tmp_path / "copy").mkdir()
    content, image = IndexSource.find(no_tool, str(directory)).extract(tmp_path / "copy")
    assert image is None
    assert content.path.is_relative_to(tmp_path / "copy")
    assert (content.path / "catalog.json").read_bytes() == PACKAGE


def test_build_context_is_its_database(tmp_path: Path) -> None:
    (tmp_path / "database").mkdir()
    write_library(tmp_path / "database" / "index.db")
    for directory in (tmp_path, tmp_path / "database"):
        found = IndexSource.find(no_tool, str(directory), build_context=True)
        assert found.location == tmp_path / "database" / "index.db"
        assert IndexSource.find(no_tool, str(directory)).location == directory


def test_resolve_pins_tags_of_registries(tool: Callable[[], RegistryTool], tmp_path: Path, registry: Registry) -> None:
    image = small_image(tmp_path, {"configs/catalog.json": PACKAGE}, labels={INDEX_CONFIGS: "/configs"})
    name = push_image(f"{registry.host}/source/index:1", image)
    location = IndexSource.resolve(tool, name).location
    assert isinstance(location, Reference)
    assert (location.tag, location.digest) == (None, image.digest)


def test_require_other_kinds(tmp_path: Path) -> None:
    write_library(tmp_path / "index.db")
    with pytest.raises(CatalogError, match=r"index\.db: unsupported: it is an index database") as caught:
        IndexSource.find(no_tool, str(tmp_path / "index.db")).require(CATALOGS)
    assert "a catalog directory or an index image with a file-based catalog" in str(caught.value.hint)


def test_missing_path() -> None:
    with pytest.raises(CatalogError, match=r"\./none: no such file or directory"):
        IndexSource.find(no_tool, "./none")
