"""Generated bundles, published as images on first use."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from tests.kit.corpus import save_files

if TYPE_CHECKING:
    from collections.abc import Iterator

_KEY = "operators.operatorframework.io.bundle"


@dataclass(frozen=True)
class Api:
    """A CRD of the group ``PLURAL.example.com`` with its versions."""

    kind: str
    versions: tuple[str, ...]

    @property
    def plural(self) -> str:
        return f"{self.kind.lower()}s"

    @property
    def group(self) -> str:
        return f"{self.plural}.example.com"

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"

    def described(self) -> Iterator[dict[str, str]]:
        """Yield the entries of a ClusterServiceVersion, one per version."""
        for version in self.versions:
            yield {"name": self.name, "version": version, "kind": self.kind}

    def definition(self) -> dict[str, object]:
        versions = [{"name": version, "served": True, "storage": version == "v1"} for version in self.versions]
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {"group": self.group, "names": {"kind": self.kind, "plural": self.plural}, "versions": versions},
        }


@dataclass(frozen=True)
class Sample:
    """A bundle; ``revision`` distinguishes images of the same version."""

    package: str
    version: str
    channels: tuple[str, ...] = ("alpha",)
    default: str = ""
    replaces: str = ""
    skips: tuple[str, ...] = ()
    skip_range: str = ""
    substitutes_for: str = ""
    provided: tuple[Api, ...] = ()
    required: tuple[Api, ...] = ()
    dependencies: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    revision: int = 0

    @property
    def name(self) -> str:
        return f"{self.package}.v{self.version}"

    def files(self) -> dict[str, bytes]:
        """Return the files of the image, all of them JSON."""
        documents: dict[str, object] = {
            "manifests/csv.yaml": self._csv(),
            "metadata/annotations.yaml": {"annotations": self.labels()},
        }
        for api in self.provided:
            documents[f"manifests/{api.plural}.crd.yaml"] = api.definition()
        if self.dependencies:
            listed = [
                {"type": "olm.package", "value": {"packageName": name, "version": ">=0.1.0"}}
                for name in self.dependencies
            ]
            documents["metadata/dependencies.yaml"] = {"dependencies": listed}
        return {path: json.dumps(document).encode() for path, document in documents.items()}

    def labels(self) -> dict[str, str]:
        return {
            f"{_KEY}.mediatype.v1": "registry+v1",
            f"{_KEY}.manifests.v1": "manifests/",
            f"{_KEY}.metadata.v1": "metadata/",
            f"{_KEY}.package.v1": self.package,
            f"{_KEY}.channels.v1": ",".join(self.channels),
            f"{_KEY}.channel.default.v1": self.default,
        }

    def _csv(self) -> dict[str, object]:
        annotations = {"olm.skipRange": self.skip_range, "olm.substitutesFor": self.substitutes_for}
        spec: dict[str, object] = {
            "displayName": f"{self.name}, revision {self.revision}",
            "version": self.version,
            "replaces": self.replaces,
            "skips": self.skips,
            "customresourcedefinitions": {
                "owned": [entry for api in self.provided for entry in api.described()],
                "required": [entry for api in self.required for entry in api.described()],
            },
            "relatedImages": [{"name": image, "image": f"quay.io/example/{image}"} for image in self.images],
        }
        return {
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": {
                "name": self.name,
                "annotations": {key: value for key, value in annotations.items() if value},
            },
            "spec": {key: value for key, value in spec.items() if value},
        }


class Publisher:
    """Pushes samples to a plain HTTP registry, each once."""

    def __init__(self, host: str) -> None:
        self.prefix = f"{host}/histories"
        self._client = RegistryClient(RegistryOptions(plain_http=True))
        self._published: dict[Sample, str] = {}

    def publish(self, sample: Sample) -> str:
        """Push the image of a sample if necessary and return its reference; equal files share an image."""
        if sample not in self._published:
            files = sample.files()
            tag = sha256(b"\n".join(files.values())).hexdigest()[:12]
            repository = self._client.repository(Reference.parse(f"{self.prefix}/{sample.package}"))
            with tempfile.TemporaryDirectory() as directory:
                save_files(_write_files(files, Path(directory)), sample.labels(), repository, tag)
            self._published[sample] = f"{self.prefix}/{sample.package}:{tag}"
        return self._published[sample]


def _write_files(files: dict[str, bytes], directory: Path) -> dict[str, Path]:
    paths = {name: directory / name.replace("/", "-") for name in files}
    for name, path in paths.items():
        path.write_bytes(files[name])
    return paths
