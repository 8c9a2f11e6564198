"""A metered registry that holds bundle images and a base image."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kit.corpus import bundle_files, bundle_labels, save_files
from tests.kit.registry import Registry

from opmkit.imagetools.image import load_image
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions

from .bundles import package_versions
from .measure import Workbench

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

BASE_IMAGE_SIZE = 100 << 20
"""Size of the base image in bytes."""


class BundleRegistry(Workbench):
    """A workbench whose registry holds bundles (``references``) and a base image (``base``)."""

    def __init__(self, registry: Registry, work: Path) -> None:
        super().__init__(registry, work)
        self._client = RegistryClient(RegistryOptions(plain_http=True))
        self._direct = registry.host
        self.base = f"{self.host}/base/opm:latest"
        self.references: list[str] = []
        self._push_base()

    def push(self, package: Path) -> list[str]:
        """Push the versions of a package and return their references, the lowest version first."""
        return [self._push(directory) for directory in package_versions(package)]

    def layer_size(self, reference: str) -> float:
        """Return the size of the top layer of an image in MB."""
        parsed = Reference.parse(reference.replace(self.host, self._direct))
        image = load_image(self._client.repository(parsed), parsed.identifier)
        return image.manifest.layers[-1].size / 1e6

    def _push(self, directory: Path) -> str:
        name = f"bundles/{directory.parent.name}"
        tag = directory.name.replace("+", "_")
        repository = self._client.repository(Reference.parse(f"{self._direct}/{name}"))
        save_files(bundle_files(directory), bundle_labels(directory), repository, tag)
        return f"{self.host}/{name}:{tag}"

    def _push_base(self) -> None:
        blob = self.work / "opm"
        blob.write_bytes(os.urandom(BASE_IMAGE_SIZE))
        repository = self._client.repository(Reference.parse(f"{self._direct}/base/opm"))
        save_files({"bin/opm": blob}, {}, repository, "latest")
        blob.unlink()


@contextmanager
def bundle_registry(packages: Iterable[Path] = ()) -> Iterator[BundleRegistry]:
    """Start a registry in a temporary directory and push the bundles of the packages."""
    with Registry() as registry, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        bench = BundleRegistry(registry, Path(directory))
        bench.references += [reference for package in packages for reference in bench.push(package)]
        yield bench
