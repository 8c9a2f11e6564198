"""The server of an index image: the program that it runs, or OLM's own."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.bundle.labels import INDEX_DATABASE
from opmkit.imagetools.image import Image
from opmkit.imagetools.layer import Limits
from opmkit.index.image.content import catalog_path

if TYPE_CHECKING:
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.operations.manifests.catalog_source import CatalogSource

_LIMITS = Limits(total_bytes=1 << 30)
"""Limits for searching the program: beyond them, an image is assumed to contain it."""
_log = logging.getLogger(__name__)


def with_server(source: CatalogSource, tool: RegistryTool) -> CatalogSource:
    """Return a catalog source whose catalog can be served.

    If the image does not contain the program that it runs, as one without a base image, OLM extracts the file-based
    catalog and serves it with its own opm. For a database, which only the image itself could serve, a warning is
    logged.

    Raises:
        CatalogError: The image is not an index image.
        ImageToolsError: The image cannot be read.
    """
    if source.image is None or "extractContent" in source.pod.manifest():
        return source
    loaded = tool.load(source.image)
    image = loaded if isinstance(loaded, Image) else loaded.select()
    if tool.has_program(image, _LIMITS) is not False:
        return source
    if INDEX_DATABASE in image.labels:
        for program in (*image.config.entrypoint, *image.config.cmd)[:1]:
            _log.warning("%s: cannot serve its database: the image does not contain %s", source.image, program)
        return source
    directory = f"/{catalog_path(image, source.image)}"
    return replace(source, pod=replace(source.pod, catalog_directory=directory))
