"""Bundles that no file holds: what a history adds, published as images when it is played."""

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
    """A kind of the group ``PLURAL.example.com`` with the versions that its definition has."""

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
        """As a ClusterServiceVersion lists it, each version apart."""
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
    """A bundle; ``revision`` tells apart images that say the same."""

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
        """The files of the image, JSON all of them."""
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
    """Pushes samples to a plain http registry, each once."""

    def __init__(self, host: str) -> None:
        self.prefix = f"{host}/histories"
        self._client = RegistryClient(RegistryOptions(plain_http=True))
        self._published: dict[Sample, str] = {}

    def publish(self, sample: Sample) -> str:
        """The image of a sample, which is there afterwards; samples of one content are one image."""
        if sample not in self._published:
            files = sample.files()
            tag = sha256(b"\n".join(files.values())).hexdigest()[:12]
            repository = self._client.repository(Reference.parse(f"{self.prefix}/{sample.package}"))
            with tempfile.TemporaryDirectory() as directory:
                save_files(_written(files, Path(directory)), sample.labels(), repository, tag)
            self._published[sample] = f"{self.prefix}/{sample.package}:{tag}"
        return self._published[sample]


def _written(files: dict[str, bytes], directory: Path) -> dict[str, Path]:
    paths = {name: directory / name.replace("/", "-") for name in files}
    for name, path in paths.items():
        path.write_bytes(files[name])
    return paths
