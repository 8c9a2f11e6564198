"""The objects of an OLM release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.author.run.errors import InvalidRelease
from opmkit.author.run.objects import field, items, name_of, namespace_of, subject, text
from opmkit.documents.document_stream import Document, read_documents
from opmkit.kube.errors import ClusterError
from opmkit.kube.resources import CRD, CSV, Resource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opmkit.kube import Cluster
    from opmkit.kube.resources import Object

PACKAGE_SERVER = "packageserver"
VERSION_LABEL = "olm.version"
_GROUP_SUFFIX = "operators.coreos.com"
_MAX_OBJECTS = 1000


@dataclass(frozen=True, slots=True)
class Release:
    """An OLM release.

    Attributes:
        source: where the manifests were read from.
        definitions: the CustomResourceDefinitions.
        others: all other objects, in the order of their creation.
    """

    source: str
    definitions: tuple[Object, ...]
    others: tuple[Object, ...]

    @property
    def objects(self) -> tuple[Object, ...]:
        """All objects, in the order of their creation."""
        return self.definitions + self.others

    @property
    def version(self) -> str:
        """The version that the package server is labeled with, "" if it has no label."""
        return next((version_of(each) for each in self.others if is_package_server(each)), "")

    @property
    def namespace(self) -> str:
        """The namespace of OLM: that of its package server, otherwise of the first Deployment."""
        servers = [each for each in self.others if is_package_server(each)]
        deployments = [each for each in self.others if each["kind"] == "Deployment"]
        return next((namespace_of(each) for each in (*servers, *deployments)), "olm")

    def resource_of(self, cluster: Cluster, obj: Object) -> Resource:
        """Return the resource of an object, which one of the definitions may add; raises ClusterError."""
        for definition in self.definitions:
            group, kind = text(definition, "spec", "group"), text(definition, "spec", "names", "kind")
            versions = [text(version, "name") for version in items(definition, "spec", "versions")]
            if obj["kind"] == kind and obj["apiVersion"] in [f"{group}/{version}" for version in versions]:
                plural = text(definition, "spec", "names", "plural")
                namespaced = text(definition, "spec", "scope") == "Namespaced"
                return Resource(group, obj["apiVersion"].partition("/")[2], kind, plural, namespaced)
        return cluster.resource_for(obj["apiVersion"], obj["kind"])

    def find(self, cluster: Cluster, obj: Object) -> Object | None:
        """Return an object as it is in the cluster, None if it or its kind does not exist; raises ClusterError."""
        try:
            resource = self.resource_of(cluster, obj)
        except ClusterError as error:
            if error.status != 404:
                raise
            return None
        return cluster.find(resource, name_of(obj), namespace_of(obj))


def parse_release(files: Mapping[str, bytes], source: str) -> Release:
    """Parse the manifests of a release.

    Raises:
        InvalidRelease: a file is invalid, or the files are not a release of OLM.
    """
    objects = [obj for name, content in files.items() for obj in _parse_file(name, content)]
    if len(objects) > _MAX_OBJECTS:
        raise InvalidRelease(f"{source}: more than {_MAX_OBJECTS} objects")
    definitions = tuple(each for each in objects if each["kind"] == CRD.kind)
    namespaces = [each for each in objects if each["kind"] == "Namespace"]
    others = [each for each in objects if each["kind"] not in (CRD.kind, "Namespace")]
    release = Release(source, definitions, tuple(namespaces + others))
    groups = {text(each, "spec", "group") for each in definitions}
    has_olm_crds = any(group.endswith(_GROUP_SUFFIX) for group in groups)
    if not has_olm_crds or not any(each["kind"] == "Deployment" for each in others):
        missing = "Deployments of OLM" if has_olm_crds else "CustomResourceDefinitions of OLM"
        raise InvalidRelease(f"{source}: not a release of OLM: no {missing}", hint="pass crds.yaml and olm.yaml")
    _check_unique(release)
    return release


def _parse_file(name: str, content: bytes) -> Iterable[Object]:
    for document in read_documents(content):
        if not isinstance(document, Document):
            raise InvalidRelease(document.located(name))
        value = document.value
        entries = items(value, "items") if text(value, "kind") == "List" else [value]
        for entry in entries:
            if entry is not None:
                yield _checked(entry, f"{name}:{document.line}")


def _checked(value: object, where: str) -> Object:
    """Return a manifest; raise InvalidRelease if it is not one."""
    for path in (("apiVersion",), ("kind",), ("metadata", "name")):
        if not text(value, *path):
            raise InvalidRelease(f"{where}: not a Kubernetes object: {'.'.join(path)}: missing or not a string")
    if not isinstance(value, dict) or not isinstance(field(value, "metadata", "namespace") or "", str):
        raise InvalidRelease(f"{where}: metadata.namespace: not a string")
    return {key: entry for key, entry in value.items() if key != "status"}


def _check_unique(release: Release) -> None:
    seen = set()
    for each in release.objects:
        key = (each["apiVersion"].partition("/")[0], subject(each))
        if key in seen:
            raise InvalidRelease(f"{release.source}: {subject(each)} is defined twice")
        seen.add(key)


def is_package_server(obj: Object) -> bool:
    """Return whether an object is the ClusterServiceVersion of OLM's package server; old ones include the version."""
    name = name_of(obj)
    return obj.get("kind") == CSV.kind and (name == PACKAGE_SERVER or name.startswith(f"{PACKAGE_SERVER}."))


def version_of(package_server: Object) -> str:
    """Return the version of OLM that a package server belongs to, "" if unknown."""
    labeled = text(package_server, "metadata", "labels", VERSION_LABEL)
    return (labeled or name_of(package_server).removeprefix(PACKAGE_SERVER).removeprefix(".")).removeprefix("v")
