"""Bundle images of the recorded cases, written to a registry or OCI layouts on first use."""

from __future__ import annotations

import re
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.image import Image
from opmkit.imagetools.layer import LayerFile, write_layer
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.spec import ConfigChanges
from opmkit.imagetools.store import LayoutRepository
from tests.kit.shared import SHARED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.imagetools.repository import Repository

SHARED_BUNDLES = SHARED / "corpus" / "bundles"
_IMAGE = re.compile(r"\{registry\}/([\w.-]+):([\w.-]+)")


class Corpus(ABC):
    """Images of the bundles ``PACKAGE/VERSION`` in a directory, below ``prefix`` (``{registry}`` in the records)."""

    def __init__(self, prefix: str, bundles: Path = SHARED_BUNDLES) -> None:
        self.prefix = prefix
        self._bundles = bundles
        self._pushed: set[tuple[str, str]] = set()

    def fill(self, argv: list[str]) -> list[str]:
        """Replace ``{registry}`` in a recorded command line and push the images that it names."""
        for package, tag in _IMAGE.findall(" ".join(argv)):
            self.provide(package, tag)
        return [part.replace("{registry}", self.prefix) for part in argv]

    def provide(self, package: str, tag: str) -> None:
        """Push the image of a bundle, unless it was pushed before or the corpus does not contain it."""
        directory = self._bundles / package / tag.replace("_", "+")
        if (package, tag) in self._pushed or not directory.is_dir():
            return
        save_files(bundle_files(directory), bundle_labels(directory), self.repository(package), tag)
        self._pushed.add((package, tag))

    @abstractmethod
    def repository(self, package: str) -> Repository:
        """Return the repository of a package."""


class RegistryCorpus(Corpus):
    """Images in a plain HTTP registry."""

    def __init__(self, host: str, bundles: Path = SHARED_BUNDLES) -> None:
        super().__init__(f"{host}/corpus", bundles)
        self._client = RegistryClient(RegistryOptions(plain_http=True))

    def repository(self, package: str) -> Repository:
        return self._client.repository(Reference.parse(f"{self.prefix}/{package}"))


class LayoutCorpus(Corpus):
    """Images in OCI layouts, one layout per package."""

    def __init__(self, directory: Path, bundles: Path = SHARED_BUNDLES) -> None:
        super().__init__(f"oci:{directory}", bundles)
        self._directory = directory

    def repository(self, package: str) -> Repository:
        return LayoutRepository(self._directory / package)


def bundle_files(directory: Path) -> dict[str, Path]:
    """Return the files of a bundle directory by path in the image."""
    files = [path for part in ("manifests", "metadata") for path in (directory / part).rglob("*") if path.is_file()]
    return {path.relative_to(directory).as_posix(): path for path in files}


def bundle_labels(directory: Path) -> dict[str, str]:
    """Return the labels of a bundle image: the annotations of its metadata."""
    path = directory / "metadata" / "annotations.yaml"
    if not path.is_file():
        return {}
    loaded = yaml.safe_load(path.read_text())
    return {str(key): str(value) for key, value in ((loaded or {}).get("annotations") or {}).items()}


def save_files(files: Mapping[str, Path], labels: Mapping[str, str], repository: Repository, tag: str) -> None:
    """Write an image with one layer that contains the files, and tag it."""
    with tempfile.TemporaryDirectory() as directory:
        layer = write_layer([LayerFile(name, path) for name, path in files.items()], Path(directory))
        copy_image(Image.scratch().append([layer], ConfigChanges(labels=labels)), repository, tag)
