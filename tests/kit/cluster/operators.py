"""Sample operators for tests with a cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml

from tests.kit.cluster.pods import FAULT
from tests.kit.opm import LAGOON, Opm

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.kit.cluster.client import Object


@dataclass(frozen=True)
class SampleOperator:
    """The sample operator with other names, so that tests can install operators in one cluster.

    Attributes:
        name: Word that replaces ``lagoon`` and ``water`` in all names.
        repository: Registry and repository of its bundle images.
        directory: Directory for its files.
        prefix: Prefix of the names of the package and its objects, but not of the API.
    """

    name: str
    repository: str
    directory: Path
    prefix: str = ""

    @property
    def package(self) -> str:
        return f"{self.prefix}{self.name}-operator"

    @property
    def group(self) -> str:
        return f"{self.name}.example.com"

    @property
    def kind(self) -> str:
        return "Lagoon"

    def csv(self, version: str) -> str:
        return f"{self.package}.v{version}"

    def image(self, version: str) -> str:
        return f"{self.repository}:{version}"

    def write_manifests(self, version: str, *changes: tuple[str, str], more: Mapping[str, str] | None = None) -> Path:
        """Write the manifests of a version and return their directory.

        Args:
            version: One of the versions of the sample operator.
            changes: Replacements, each of a text that is in at least one file.
            more: Additional files by their path in the bundle.
        """
        bundle = self.directory / version
        files = {f"manifests/{path.name}": path.read_text() for path in (LAGOON / version / "manifests").iterdir()}
        for old, new in changes:
            assert any(old in text for text in files.values()), old
            files = {name: text.replace(old, new) for name, text in files.items()}
        for name, text in {**files, **(more or {})}.items():
            target = bundle / self._rename(name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(self._rename(text))
        return bundle / "manifests"

    def build(self, opm: Opm, version: str, *changes: tuple[str, str], more: Mapping[str, str] | None = None) -> str:
        """Build and push the bundle of a version and return its image."""
        manifests = self.write_manifests(version, *changes, more=more)
        opm(
            *("bundle", "build", "--directory", str(manifests), "--package", self.package, "--channels", "alpha"),
            *("--tag", self.image(version), "--push", "--overwrite"),
        )
        return self.image(version)

    def read(self, version: str, name: str) -> Object:
        """Return an object in the manifests of a version, by the name of its file in the sample."""
        manifest: Object = yaml.safe_load(self._rename((LAGOON / version / "manifests" / name).read_text()))
        return manifest

    def _rename(self, text: str) -> str:
        renamed = text.replace("lagoon-operator", self.package).replace("lagoon", self.name)
        return renamed.replace("water.example.com", self.group)


def with_fault(reason: str) -> tuple[str, str]:
    """Return a change of the manifests after which the pod of the operator never becomes ready."""
    container = "                  - name: manager\n"
    return container, f"{container}                    env: [{{name: {FAULT}, value: {reason}}}]\n"
