"""Dockerfiles that build an index image from a catalog directory, with the cache of its server made beforehand."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle.labels import INDEX_CONFIGS
from opmkit.imagetools.store.disk import disk_errors
from opmkit.index.errors import CatalogError
from opmkit.index.image.base import ENTRYPOINT, SCRATCH

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

DEFAULT_IMAGE = "quay.io/operator-framework/opm:latest"
"""What serves the catalog; the newest will do, since file-based catalogs are what it is made for."""

CONFIGS, CACHE = "/configs", "/tmp/cache"  # noqa: S108 (a path in the image)
_SERVE = ("serve", CONFIGS, f"--cache-dir={CACHE}")
_IMAGE = re.compile(r"[^\s\0-\x1f\x7f]+")
_PLAIN_PATH = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./-]*")
_SPECIAL = re.compile(r'(["\\$])')


@dataclass(frozen=True, slots=True)
class CatalogImage:
    """What an index image is built from: the directory, by its name in the build context, and images.

    ``base`` is what the image is layered on, ``builder`` what makes the cache in a stage of its own; "" is for no such
    stage, so that the base makes it. Building one checks every part and raises CatalogError.
    """

    directory: str
    base: str = DEFAULT_IMAGE
    builder: str = DEFAULT_IMAGE
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check that nothing breaks out of its line."""
        for image in filter(None, (self.base, self.builder)):
            if not _IMAGE.fullmatch(image):
                raise CatalogError(f"{image!r} is no image", advice="Name an image, such as quay.io/me/opm:latest.")
        if not self.base:
            raise CatalogError("no base image is named", advice="Name one, or scratch for none.")
        if SCRATCH in (self.builder, self.builder or self.base):
            raise CatalogError(
                "the image that makes the cache can't be scratch", advice="Name one that has /bin/opm in it."
            )
        for key, value in self.labels.items():
            if not key or not f"{key}{value}".isprintable():
                raise CatalogError(
                    f"the label {key!r}={value!r} can't be written", advice="Write KEY=VALUE, on one line."
                )

    def dockerfile(self) -> str:
        """The text of the Dockerfile."""
        return "\n".join([*(self._two_stages() if self.builder else self._one_stage()), *self._labels()]) + "\n"

    def _one_stage(self) -> list[str]:
        return [f"FROM {self.base}", "", *_start(), "", *self._with_cache(), ""]

    def _two_stages(self) -> list[str]:
        return [
            "# The catalog, and the cache for what serves it.",
            f"FROM {self.builder} as builder",
            "",
            *self._with_cache(),
            "",
            f"FROM {self.base}",
            "",
            *(_start() if self.base != SCRATCH else _without_server()),
            "",
            *(f"COPY --from=builder {path} {path}" for path in (CONFIGS, CACHE)),
            "",
        ]

    def _with_cache(self) -> list[str]:
        plain = _PLAIN_PATH.fullmatch(self.directory)
        added = f"{self.directory} {CONFIGS}" if plain else json.dumps([self.directory, CONFIGS])
        return [f"ADD {added}", f"RUN {json.dumps([*ENTRYPOINT, *_SERVE, '--cache-only'])}"]

    def _labels(self) -> list[str]:
        own = ["# Where OLM finds the catalog in this image.", f"LABEL {INDEX_CONFIGS}={CONFIGS}"]
        more = [f'LABEL "{_escaped(key)}"="{_escaped(value)}"' for key, value in sorted(self.labels.items())]
        return [*own, *(["", *more] if more else [])]


def _start() -> list[str]:
    return [f"ENTRYPOINT {json.dumps(ENTRYPOINT)}", f"CMD {json.dumps(_SERVE)}"]


def _without_server() -> list[str]:
    return [
        "# There is no server in this image: a CatalogSource with it sets spec.grpcPodConfig.extractContent,",
        f"# with catalogDir: {CONFIGS} and cacheDir: {CACHE}.",
    ]


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)


def read_labels(texts: Iterable[str]) -> dict[str, str]:
    """Labels written as ``KEY=VALUE``, of which the last of a key counts; raises CatalogError."""
    labels = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals:
            raise CatalogError(f"{text!r} is no label", advice="Write KEY=VALUE.")
        labels[key] = value
    return labels


def dockerfile_beside(directory: Path) -> Path:
    """Where the Dockerfile of a catalog directory goes: beside it, as ``DIRECTORY.Dockerfile``.

    Raises CatalogError where there is no such directory, or the file is there already.
    """
    absolute = Path(os.path.normpath(directory.absolute()))
    path = absolute.with_name(f"{absolute.name}.Dockerfile") if absolute.name else absolute
    if not absolute.name or not absolute.is_dir():
        raise CatalogError(f"{directory}: no such directory", advice="Give the directory of a file-based catalog.")
    if os.path.lexists(path):
        raise _is_there(path)
    return path


def write_dockerfile(image: CatalogImage, path: Path) -> None:
    """Write the Dockerfile; raises CatalogError where there is one, and StoreError if the disk says no."""
    with disk_errors(path):
        try:
            with path.open("x", encoding="utf-8") as file:
                file.write(image.dockerfile())
        except FileExistsError as error:
            raise _is_there(path) from error


def _is_there(path: Path) -> CatalogError:
    return CatalogError(f"{path} is there already", advice="Move it away, for it is never overwritten.")
