"""OLM releases: their sources and objects."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.author.run.errors import InvalidRelease, ReleaseUnavailable
from opmkit.author.run.hint_terms import OlmSetting
from opmkit.author.run.objects import field, items, name_of, namespace_of, subject, text
from opmkit.bundle.source import parse_location, path_or_image
from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.core.hints import Hint
from opmkit.documents.document_stream import Document, read_documents
from opmkit.imagetools.errors import ImageToolsError, NotFound
from opmkit.imagetools.layer.limits import MEMORY_LIMITS
from opmkit.kube.api import CRD, CSV, Resource
from opmkit.kube.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from opmkit.imagetools.registry import RegistryOptions
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.kube import Cluster
    from opmkit.kube.api import Object


PACKAGE_SERVER = "packageserver"
VERSION_LABEL = "olm.version"
_GROUP_SUFFIX = "operators.coreos.com"
_MAX_OBJECTS = 1000


class Release(Struct, frozen=True):
    """An OLM release.

    Attributes:
        source: Where the manifests were read from.
        definitions: The CustomResourceDefinitions.
        others: All other objects, in the order of their creation.
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
        """The version that the package server is labeled with, or "" if it has no label."""
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
        InvalidRelease: A file is invalid, or the files are not a release of OLM.
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
    """Return the version of OLM that a package server belongs to, or "" if unknown."""
    labeled = text(package_server, "metadata", "labels", VERSION_LABEL)
    return (labeled or name_of(package_server).removeprefix(PACKAGE_SERVER).removeprefix(".")).removeprefix("v")


LATEST = "latest"
RELEASES = "https://github.com/operator-framework/operator-lifecycle-manager/releases"
_ASSETS = ("crds.yaml", "olm.yaml")
"""Files of a release on the web."""
_DIRECTORY = "manifests"
_SUFFIXES = (".yaml", ".yml", ".json")
_MAX_FILE = 32 << 20
_FIRST_WITH_PREFIX = (0, 17)
"""The first minor version whose tag begins with ``v``."""


class ReleaseReader(Struct, frozen=True):
    """Reads releases.

    Attributes:
        options: TLS settings of downloads.
        tool: Opens the tool that reads images.
    """

    options: RegistryOptions
    tool: Callable[[], RegistryTool]

    def read(self, source: str) -> Release:
        """Return the release in a directory, file, image or URL, or for ``-`` on standard input.

        Raises:
            InvalidRelease: The source is not a release.
            ReleaseUnavailable: A file cannot be read or downloaded.
            ImageToolsError: The image cannot be read.
        """
        if source == "-":
            return parse_release({"standard input": sys.stdin.buffer.read(_MAX_FILE)}, "standard input")
        if source.startswith(("http://", "https://")):
            return self._download(source)
        if Path(source).exists():
            return parse_release(_read_path(Path(source)), source)
        location = parse_location(source)
        if isinstance(location, Path):
            raise ReleaseUnavailable(f"{source}: no such file or directory")
        with path_or_image(source):
            found = self.tool().read_tree(location, (_DIRECTORY, *_ASSETS), MEMORY_LIMITS)
        return parse_release(_select(found, source), source)

    def download(self, version: str) -> Release:
        """Download a published release.

        Raises:
            InvalidRelease: The files are not a release.
            ReleaseUnavailable: The release does not exist or cannot be downloaded.
        """
        path = f"{LATEST}/download" if version == LATEST else f"download/{tag_of(version)}"
        return self._download(f"{RELEASES}/{path}")

    def _download(self, url: str) -> Release:
        names = [""] if url.endswith(_SUFFIXES) else [f"/{name}" for name in _ASSETS]
        base = url.rstrip("/")
        return parse_release({f"{base}{name}": self._fetch(f"{base}{name}") for name in names}, url)

    def _fetch(self, url: str) -> bytes:
        from opmkit.imagetools.registry.transport import download  # slow to import

        hint = Hint("download crds.yaml and olm.yaml elsewhere, and pass their directory with {}", OlmSetting.FROM)
        try:
            return download(url, _MAX_FILE, self.options)
        except LimitExceeded as error:
            raise InvalidRelease(error.message) from error
        except NotFound as error:
            raise ReleaseUnavailable(error.message, hint=Hint.all_of("check the version", hint)) from error
        except (ImageToolsError, DiskError) as error:
            raise ReleaseUnavailable(error.message, hint=hint) from error


def tag_of(version: str) -> str:
    """Return the tag of a version; what is not a version is used as it is."""
    number = version.removeprefix("v")
    parts = number.partition("-")[0].partition("+")[0].split(".")
    if not all(part.isdecimal() for part in parts):
        return version
    is_old = tuple(map(int, (*parts, "0")))[:2] < _FIRST_WITH_PREFIX
    return number if is_old else f"v{number}"


def _read_path(path: Path) -> dict[str, bytes]:
    """Return the manifests in a file, or in a directory: the assets of a release, or all, there or in ``manifests``."""
    if not path.is_dir():
        return {str(path): _read_file(path)}
    assets = [path / name for name in _ASSETS]
    if not all(map(Path.is_file, assets)):
        assets = _manifests(path) or _manifests(path / _DIRECTORY)
    if not assets:
        raise InvalidRelease(f"{path}: no manifests found", hint="pass a directory with crds.yaml and olm.yaml")
    return {str(file): _read_file(file) for file in assets}


def _manifests(directory: Path) -> list[Path]:
    found = sorted(directory.iterdir()) if directory.is_dir() else []
    return [path for path in found if path.suffix in _SUFFIXES and path.is_file()]


def _read_file(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(_MAX_FILE + 1)
    except OSError as error:
        raise ReleaseUnavailable(f"{path}: {error.strerror}") from error
    if len(content) > _MAX_FILE:
        raise InvalidRelease(f"{path}: larger than {_MAX_FILE} bytes")
    return content


def _select(files: dict[str, bytes], source: str) -> dict[str, bytes]:
    """Return the manifests among the files of an image: the assets of a release, otherwise those in ``manifests``."""
    names: Iterable[str] = _ASSETS
    if not all(name in files for name in names):
        names = sorted(name for name in files if name.startswith(f"{_DIRECTORY}/") and name.endswith(_SUFFIXES))
    selected = {f"{source}: {name}": files[name] for name in names}
    if not selected:
        raise InvalidRelease(f"{source}: no manifests found in the image", hint="use an image with /manifests")
    return selected
