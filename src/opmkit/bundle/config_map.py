"""Bundles as the ConfigMap from which OLM unpacks them: conversion, and access to it in a cluster.

OLM runs a pod with the bundle image and reads the result from a ConfigMap; keys, annotations and encoding are those
that its bundle unpacker expects.
"""

from __future__ import annotations

import base64
import gzip
import io
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opmkit.bundle import labels
from opmkit.bundle.directory import DIRECTORIES
from opmkit.bundle.errors import BundleError
from opmkit.bundle.hint_terms import BundleSetting
from opmkit.bundle.metadata import read_metadata
from opmkit.core.hints import Hint
from opmkit.kube.api import CONFIG_MAP
from opmkit.kube.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from opmkit.kube.api import Object
    from opmkit.kube.cluster import Cluster


MAX_BYTES = 1 << 20
"""Maximum size of the data of a ConfigMap, a limit of Kubernetes."""
SOURCE_IMAGE = "olm.sourceImage"
ENCODING = "olm.contentEncoding"
GZIP = "gzip+base64"
BUNDLE_LABELS = (
    *(labels.MANIFESTS, labels.MEDIA_TYPE, labels.METADATA),
    *(labels.PACKAGE, labels.CHANNELS, labels.DEFAULT_CHANNEL),
)
MANAGED_ANNOTATIONS = frozenset({*BUNDLE_LABELS, SOURCE_IMAGE, ENCODING})
"""Annotations that describe the bundle, and are replaced when another bundle is written to the ConfigMap."""

_ANNOTATIONS_FILE = "metadata/annotations.yaml"
_INVALID_IN_KEY = re.compile(r"[^-A-Za-z0-9_.]|^\.\.")
_MAX_KEY_LENGTH = 253


@dataclass(frozen=True, slots=True)
class ConfigMap:
    """A Kubernetes ConfigMap. Keys are unique across ``data`` and ``binary_data``."""

    namespace: str
    name: str
    data: Mapping[str, str] = field(default_factory=dict, hash=False)
    binary_data: Mapping[str, bytes] = field(default_factory=dict, hash=False)
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the manifest of the ConfigMap in JSON types."""
        binary = {key: base64.b64encode(value).decode() for key, value in self.binary_data.items()}
        metadata = {"name": self.name, "namespace": self.namespace, "annotations": dict(self.annotations)}
        content = {"data": dict(self.data), "binaryData": binary}
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": metadata,
            **{section: values for section, values in content.items() if values},
        }


@dataclass(frozen=True, slots=True)
class ExtractionOptions:
    """Options for converting a bundle to a ConfigMap.

    Attributes:
        namespace: Namespace of the ConfigMap.
        name: Name of the ConfigMap.
        limit: Maximum size of all values in bytes, after compression.
        compress: Whether to store each file as base64-encoded gzip.
        image: Reference of the bundle image, or "" for a directory.
    """

    namespace: str
    name: str
    limit: int = MAX_BYTES
    compress: bool = False
    image: str = ""


def bundle_config_map(files: Mapping[str, bytes], options: ExtractionOptions) -> ConfigMap:
    """Convert the files of a bundle, given by their paths, to a ConfigMap.

    The bundle's annotations become those of the ConfigMap, and ``annotations.yaml`` is omitted. The keys are the file
    names, with ``-`` for invalid characters and a number appended to duplicates. Without compression, files that are
    not UTF-8 are stored as binary data.

    Raises:
        InvalidBundle: The bundle has no annotations.
        BundleError: The files exceed the limit.
    """
    metadata = {path: content for path, content in files.items() if path.startswith("metadata/")}
    bundle_labels = read_metadata(metadata).labels
    annotations = {label: bundle_labels.get(label, "") for label in BUNDLE_LABELS}
    if options.image:
        annotations[SOURCE_IMAGE] = options.image
    if options.compress:
        annotations[ENCODING] = GZIP
    data: dict[str, str] = {}
    binary_data: dict[str, bytes] = {}
    remaining = options.limit
    for path, content in _select_files(files):
        key = _unique_key(path.rpartition("/")[2], data.keys() | binary_data.keys())
        stored = _compress(content) if options.compress else content
        remaining -= len(stored)
        if remaining < 0:
            raise _too_large(options, path)
        if options.compress or (text := _decode(stored)) is None:
            binary_data[key] = stored
        else:
            data[key] = text
    return ConfigMap(options.namespace, options.name, data, binary_data, annotations)


def _select_files(files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Yield the files that are directly in ``manifests/`` and ``metadata/``, sorted by path."""
    for path in sorted(files):
        directory, _, name = path.partition("/")
        if directory in DIRECTORIES and "/" not in name and path != _ANNOTATIONS_FILE:
            yield path, files[path]


def _unique_key(name: str, taken: set[str]) -> str:
    key = base = _INVALID_IN_KEY.sub("-", name)[:_MAX_KEY_LENGTH]
    number = 1
    while key in taken:
        number += 1
        key = f"{base[: _MAX_KEY_LENGTH - 4]}.{number}"
    return key


def _compress(content: bytes) -> bytes:
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as file:
        file.write(content)
    return base64.b64encode(packed.getvalue())


def _decode(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def _too_large(options: ExtractionOptions, path: str) -> BundleError:
    hint = Hint(f"reduce their size: a cluster accepts at most {MAX_BYTES} bytes")
    if options.limit < MAX_BYTES:
        hint = Hint("raise {}; a cluster accepts at most {} bytes", BundleSetting.DATA_LIMIT, str(MAX_BYTES))
    elif not options.compress:
        hint = Hint("compress them with {}; a cluster accepts at most {} bytes", BundleSetting.GZIP, str(MAX_BYTES))
    return BundleError(f"bundle files exceeded {options.limit} bytes limit, at {path}", hint=hint)


_MAX_ATTEMPTS = 5
_DATA = ("data", "binaryData")


def read_config_map(cluster: Cluster, namespace: str, name: str) -> ConfigMap:
    """Return a ConfigMap.

    Raises:
        ClusterError: The ConfigMap does not exist, or the cluster cannot be reached or rejects the request.
    """
    found = cluster.get(CONFIG_MAP, name, namespace)
    with _parsing(cluster):
        encoded = _texts(found.get("binaryData"))
        binary = {key: base64.b64decode(value, validate=True) for key, value in encoded.items()}
        return ConfigMap(namespace, name, _texts(found.get("data")), binary, _annotations(found))


def write_config_map(cluster: Cluster, config_map: ConfigMap, *, replacing: Collection[str] = ()) -> None:
    """Create a ConfigMap or replace its content. Conflicting changes by other clients are retried.

    Args:
        cluster: The cluster to write it to.
        config_map: Its annotations are merged into the existing ones.
        replacing: Existing annotations to remove.

    Raises:
        ClusterError: The cluster cannot be reached or rejects the request.
    """
    for attempt in range(_MAX_ATTEMPTS):
        try:
            _put(cluster, config_map, replacing)
        except ClusterError as error:
            if error.status != 409 or attempt == _MAX_ATTEMPTS - 1:
                raise
        else:
            return


def _put(cluster: Cluster, config_map: ConfigMap, replacing: Collection[str]) -> None:
    existing = cluster.find(CONFIG_MAP, config_map.name, config_map.namespace)
    if existing is None:
        cluster.create(config_map.to_dict())
        return
    with _parsing(cluster):
        others = {key: text for key, text in _annotations(existing).items() if key not in replacing}
    manifest = config_map.to_dict()
    content = {key: value for key, value in existing.items() if key not in _DATA}
    content["metadata"] = {**existing["metadata"], "annotations": {**others, **config_map.annotations}}
    cluster.replace(content | {key: manifest[key] for key in _DATA if key in manifest})


@contextmanager
def _parsing(cluster: Cluster) -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise ClusterError(
            f"invalid response from the API server {cluster.host}: {error}", hint="check the address in the kubeconfig"
        ) from error


def _annotations(obj: Object) -> dict[str, str]:
    return _texts(obj["metadata"].get("annotations"))


def _texts(value: object) -> dict[str, str]:
    """Return a mapping of texts; raise ValueError if the value is something else."""
    texts = value or {}
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise ValueError("not a ConfigMap")
    return texts
