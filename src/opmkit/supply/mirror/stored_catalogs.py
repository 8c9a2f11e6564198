"""The catalogs among the images of a registry, and the images that they need: by their labels, or by their content."""

from __future__ import annotations

import re
import threading
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle import labels
from opmkit.core.scratch import ScratchDirectory
from opmkit.imagetools.errors import ImageToolsError, InvalidImage
from opmkit.imagetools.layer import DISK_LIMITS, LimitTracker
from opmkit.imagetools.layer.reader import LayerReader
from opmkit.imagetools.spec import ImageConfig, media_types
from opmkit.index.errors import CatalogError
from opmkit.index.image.source import INDEXES, IndexSource
from opmkit.index.operations.related_images import images_in_catalog, images_in_database, index_images
from opmkit.supply.mirror.inventory import readable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.imagetools.layer.reader import LayerEntry
    from opmkit.imagetools.registry import RegistryRepository
    from opmkit.imagetools.spec import Descriptor
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.operations.related_images import ImageUse
    from opmkit.supply.mirror.inventory import InventoryImage, RepositoryInventory

_CATALOG_LABELS = frozenset({labels.INDEX_CONFIGS, labels.INDEX_DATABASE})
_BUNDLE_LABELS = frozenset({labels.PACKAGE, labels.MANIFESTS})
_MAX_DEPTH = 4
"""Levels of nested indexes."""
MAX_SEARCHED_LAYER = 64 << 20
"""Compressed bytes of a layer that is searched for a catalog. The catalogs of OperatorHub have a fifth of it."""
_MAX_FILE = 256 << 20
_SUFFIXES = frozenset({"", ".json", ".yaml", ".yml", ".jsonl"})
_SCHEMA = re.compile(rb'"schema"\s*:\s*"olm\.|^schema\s*:\s*["\']?olm\.', re.MULTILINE)
_SQLITE = b"SQLite format 3\0"
_INDEX_TABLE = b"operatorbundle"


class _Part(Struct, frozen=True):
    """A manifest of a catalog image, and the images that its content names; None if its labels say where that is."""

    digest: str
    uses: tuple[ImageUse, ...] | None = None


class StoredCatalogs:
    """Reads the catalogs of a registry. Each image and layer is read once. Thread-safe."""

    def __init__(self, tool: RegistryTool) -> None:
        """Use ``tool`` to read catalogs with labels."""
        self._tool = tool
        self._parts: dict[tuple[str, str], tuple[_Part, ...]] = {}
        self._uses: dict[str, tuple[ImageUse, ...]] = {}
        self._layers: dict[str, tuple[ImageUse, ...] | None] = {}
        self._lock = threading.Lock()

    def is_catalog(self, inventory: RepositoryInventory, image: InventoryImage, *, search: bool = True) -> bool:
        """Return whether any platform of an image is a catalog.

        Args:
            inventory: The repository.
            image: The image.
            search: Whether to look for a catalog in the layers of an image without its labels.

        Raises:
            InvalidImage, UnsupportedImage: The image cannot be read.
            ImageToolsError: The registry cannot be read.
        """
        key = inventory.name, image.digest
        if key not in self._parts:
            with readable(f"{inventory.name}@{image.digest}"):
                self._parts[key] = tuple(self._find_parts(inventory, image, search=search))
        return bool(self._parts[key])

    def images(self, inventory: RepositoryInventory, digest: str) -> tuple[ImageUse, ...]:
        """Return the images that all platforms of a catalog need; `is_catalog` must have been called.

        Raises:
            CatalogError: It cannot be read.
        """
        return tuple(
            use
            for part in self._parts[inventory.name, digest]
            for use in (part.uses if part.uses is not None else self.index_images(f"{inventory.name}@{part.digest}"))
        )

    def index_images(self, text: str) -> tuple[ImageUse, ...]:
        """Return the images that the bundles of an index use; raise CatalogError if it cannot be read."""
        if text not in self._uses:
            try:
                source = IndexSource.resolve(lambda: self._tool, text)
                source.require(INDEXES)
                self._uses[text] = tuple(index_images(source))
            except (CatalogError, ImageToolsError) as error:
                message = f"{text}: cannot tell which images the catalog needs: {error.lines[0]}"
                raise CatalogError(message, details=error.lines[1:], hint=error.hint) from error
        return self._uses[text]

    def _find_parts(self, inventory: RepositoryInventory, image: InventoryImage, *, search: bool) -> Iterator[_Part]:
        for manifest in _manifests(inventory, image):
            if manifest.config is None or not manifest.layers:  # no image, but an artifact such as a signature
                continue
            found: frozenset[str] = frozenset()
            if manifest.config.media_type in media_types.CONFIGS:
                config = ImageConfig.parse(inventory.repository.get_config(manifest.config))
                found = frozenset(config.labels)
            if found & _CATALOG_LABELS:
                yield _Part(manifest.digest)
            elif search and not found & _BUNDLE_LABELS:
                uses = [self._layer_images(inventory.repository, layer) for layer in manifest.layers]
                if any(each is not None for each in uses):
                    yield _Part(manifest.digest, tuple(use for each in uses for use in each or ()))

    def _layer_images(self, repository: RegistryRepository, layer: Descriptor) -> tuple[ImageUse, ...] | None:
        """Return the images that the catalogs in a layer need, None if there is none or the layer is large."""
        if layer.size > MAX_SEARCHED_LAYER or media_types.is_foreign(layer.media_type):
            return None
        if layer.digest not in self._layers:
            found = _search_layer(repository, layer)
            with self._lock:
                self._layers[layer.digest] = found
        return self._layers[layer.digest]


def _manifests(inventory: RepositoryInventory, image: InventoryImage) -> Iterator[InventoryImage]:
    """Yield the manifests in an image that the repository has: a mirror may have some platforms only."""
    level = [image]
    for _ in range(_MAX_DEPTH):
        yield from (each for each in level if not each.children)
        indexes = [each for each in level if each.images]
        level = [found for index in indexes for child in index.images if (found := inventory.find(child))]
        if indexes and not level:
            raise InvalidImage(f"{indexes[0].digest}: the registry has none of the images in the index")
        if not level:
            return
    raise InvalidImage(f"image index {image.digest}: exceeds the limit of {_MAX_DEPTH} levels")


def _search_layer(repository: RegistryRepository, layer: Descriptor) -> tuple[ImageUse, ...] | None:
    """Return the images that the catalogs in a layer need, None if there is no catalog.

    Files that a layer above replaces count as well: what they name is kept.
    """
    with ScratchDirectory("opm-layer-") as scratch:
        catalog = Path(scratch) / "catalog"
        catalog.mkdir()
        databases = []
        with LayerReader(layer, lambda: repository.open_blob(layer), LimitTracker(DISK_LIMITS)) as reader:
            for number, entry in enumerate(reader):
                content = _index_content(reader, entry)
                if content.startswith(_SQLITE):
                    databases.append(Path(scratch) / f"{number}.db")
                    databases[-1].write_bytes(content)
                elif content:
                    (catalog / f"{number}.yaml").write_bytes(content)
        if not databases and not any(catalog.iterdir()):
            return None
        return tuple(_read_files(catalog, databases))


def _index_content(reader: LayerReader, entry: LayerEntry) -> bytes:
    """Return the content of a file that is a part of a catalog or an index database, else nothing."""
    path = PurePosixPath(entry.path)
    if entry.kind != "file" or not entry.size:
        return b""
    content = bytearray()
    for chunk in reader.content(entry):
        content += chunk
        is_database = content.startswith(_SQLITE)
        if not is_database and (path.suffix not in _SUFFIXES or b"\0" in chunk):
            return b""
        if len(content) > _MAX_FILE:
            raise InvalidImage(f"{entry.path}: exceeds the limit of {_MAX_FILE} bytes")
    is_index = _INDEX_TABLE in content if content.startswith(_SQLITE) else _SCHEMA.search(content)
    return bytes(content) if is_index else b""


def _read_files(catalog: Path, databases: list[Path]) -> Iterator[ImageUse]:
    from opmkit.index.fbc.load import stream_blobs
    from opmkit.index.sqlite import open_database

    try:
        yield from images_in_catalog(stream_blobs(catalog))
        for path in databases:
            with open_database(path) as database:
                yield from images_in_database(database)
    except CatalogError as error:
        raise InvalidImage(f"its catalog is invalid: {error.message}") from error
