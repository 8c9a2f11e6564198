"""Dockerfiles that build index images from a database or from a catalog directory."""

from __future__ import annotations

import json
import os
import re
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.labels import INDEX_CONFIGS, INDEX_DATABASE
from opmkit.core.files import check_output, disk_errors
from opmkit.imagetools.reference import SCRATCH
from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


DEFAULT_BINARY_IMAGE = "quay.io/operator-framework/opm:v1.73.0"
"""The release of operator-registry that opmkit is compatible with.

It serves sqlite indexes; releases after 1.74 do not, so images based on them would not start.
"""

ENTRYPOINT = ("/bin/opm",)
PORT = 50051
DATABASE_PATH = "/database/index.db"
"""Path of the database in new index images."""
DATABASE_COMMAND = ("registry", "serve", "--database", DATABASE_PATH)
CONFIGS = "configs"
"""Directory of the catalog in new index images, without the leading slash."""

DEFAULT_IMAGE = "quay.io/operator-framework/opm:latest"
"""The image that serves file-based catalogs, which all recent releases of operator-registry do."""

_CATALOG_PATH, _CACHE_PATH = f"/{CONFIGS}", "/tmp/cache"  # noqa: S108 (a path in the image)
_SERVE = ("serve", _CATALOG_PATH, f"--cache-dir={_CACHE_PATH}")
_IMAGE = re.compile(r"[^\s\0-\x1f\x7f]+")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./-]*")
_SPECIAL = re.compile(r'(["\\$])')


def database_dockerfile(binary_image: str, database: str) -> str:
    """Return a Dockerfile for an index image on ``binary_image`` with the file ``database`` of its build context."""
    lines = (
        f"FROM {binary_image}",
        "",
        "# Where OLM finds the database in this image.",
        f"LABEL {INDEX_DATABASE}={DATABASE_PATH}",
        f"ADD {database} {DATABASE_PATH}",
        f"EXPOSE {PORT}",
        f"ENTRYPOINT {json.dumps(ENTRYPOINT)}",
        f"CMD {json.dumps(DATABASE_COMMAND)}",
    )
    return "\n".join(lines) + "\n"


class CatalogDockerfile(Struct, frozen=True):
    """A Dockerfile for an index image with a catalog and the cache of its server.

    ``directory`` is the catalog in the build context, ``base`` the base of the image, and ``builder`` the image that
    builds the cache in a separate stage; with "" the base builds it. ``labels`` are added to the image.

    Raises:
        CatalogError: A value that is missing, or that a Dockerfile cannot contain.
    """

    directory: str
    base: str = DEFAULT_IMAGE
    builder: str = DEFAULT_IMAGE
    labels: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        """Check that no value continues on another line."""
        for image in filter(None, (self.base, self.builder)):
            if not _IMAGE.fullmatch(image):
                raise CatalogError(f"{image!r}: invalid image name", hint="name an image, such as quay.io/me/opm:1")
        if not self.base:
            raise CatalogError("no base image", hint="name an image, or scratch for an empty base")
        if SCRATCH in (self.builder, self.builder or self.base):
            raise CatalogError(
                "scratch: unsupported as the image that builds the cache", hint="name an image with /bin/opm"
            )
        for key, value in self.labels.items():
            if not key or not f"{key}{value}".isprintable():
                raise CatalogError(f"invalid label {key!r}={value!r}", hint="write KEY=VALUE, on one line")

    def text(self) -> str:
        """Return the text of the Dockerfile."""
        return "\n".join([*(self._two_stages() if self.builder else self._one_stage()), *self._labels()]) + "\n"

    def _one_stage(self) -> list[str]:
        return [f"FROM {self.base}", "", *_start_server(), "", *self._build_cache(), ""]

    def _two_stages(self) -> list[str]:
        return [
            "# The catalog and the cache of its server.",
            f"FROM {self.builder} as builder",
            "",
            *self._build_cache(),
            "",
            f"FROM {self.base}",
            "",
            *(_start_server() if self.base != SCRATCH else _without_server()),
            "",
            *(f"COPY --from=builder {path} {path}" for path in (_CATALOG_PATH, _CACHE_PATH)),
            "",
        ]

    def _build_cache(self) -> list[str]:
        plain = _PLAIN_PATH.fullmatch(self.directory)
        arguments = f"{self.directory} {_CATALOG_PATH}" if plain else json.dumps([self.directory, _CATALOG_PATH])
        return [f"ADD {arguments}", f"RUN {json.dumps([*ENTRYPOINT, *_SERVE, '--cache-only'])}"]

    def _labels(self) -> list[str]:
        lines = ["# Where OLM finds the catalog in this image.", f"LABEL {INDEX_CONFIGS}={_CATALOG_PATH}"]
        added = [f'LABEL "{_escape(key)}"="{_escape(value)}"' for key, value in sorted(self.labels.items())]
        return [*lines, *(["", *added] if added else [])]


def _start_server() -> list[str]:
    return [f"ENTRYPOINT {json.dumps(ENTRYPOINT)}", f"CMD {json.dumps(_SERVE)}"]


def _without_server() -> list[str]:
    return [
        "# There is no server in this image: a CatalogSource with it sets spec.grpcPodConfig.extractContent,",
        f"# with catalogDir: {_CATALOG_PATH} and cacheDir: {_CACHE_PATH}.",
    ]


def _escape(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def parse_labels(texts: Iterable[str]) -> dict[str, str]:
    """Parse labels ``KEY=VALUE``; the last of a key applies. Raises CatalogError for one without ``=``."""
    labels = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise CatalogError(f"{text!r}: invalid label", hint="write KEY=VALUE")
        labels[key] = value
    return labels


def dockerfile_path(directory: Path) -> Path:
    """Return the path of the Dockerfile for a catalog directory: ``DIRECTORY.Dockerfile``, next to it.

    Raises:
        CatalogError: The directory does not exist, or the file does.
    """
    absolute = Path(os.path.normpath(directory.absolute()))
    path = absolute.with_name(f"{absolute.name}.Dockerfile") if absolute.name else absolute
    if not absolute.name or not absolute.is_dir():
        raise CatalogError(f"{directory}: no such directory", hint="give the directory of a file-based catalog")
    if os.path.lexists(path):
        raise _already_exists(path)
    return path


def write_dockerfile(dockerfile: CatalogDockerfile, path: Path) -> None:
    """Write a Dockerfile to a new file.

    Raises:
        CatalogError: The file exists.
        DiskError: The file cannot be written.
    """
    with disk_errors(path):
        check_output(path.parent)
        try:
            with path.open("x", encoding="utf-8") as file, ExitStack() as undo:
                undo.callback(path.unlink)
                file.write(dockerfile.text())
                file.flush()
                undo.pop_all()
        except FileExistsError as error:
            raise _already_exists(path) from error


def _already_exists(path: Path) -> CatalogError:
    return CatalogError(f"{path}: already exists", hint="move the file away: it is never overwritten")
