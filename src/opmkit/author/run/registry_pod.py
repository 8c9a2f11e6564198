"""The pod that serves a catalog in a cluster, and the ConfigMaps with the catalog."""

from __future__ import annotations

import base64
import gzip
import hashlib
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.author.run.objects import labels, name_of, namespace_of, owner_reference
from opmkit.core.errors import LimitExceeded
from opmkit.index.fbc.write import compact_json, sort_blobs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit.index.fbc.blobs import Blobs

    Object = dict[str, Any]


PORT = 50051
CONTAINER = "registry-grpc"
INIT_CONTAINER = "registry-grpc-init"
DEFAULT_IMAGE = "quay.io/operator-framework/opm:latest"
DEFAULT_DECOMPRESSION_IMAGE = "registry.access.redhat.com/ubi9/ubi:9.8"
CATALOG_DIRECTORY = "/configs"
_COMPRESSED_DIRECTORY = "/compressed"
_CONFIG_MAPS, _DECOMPRESSED = "catalog", "decompressed"
"""Names of the volumes, and of the directory in the first."""
_DECOMPRESS = (
    f'for file in {_COMPRESSED_DIRECTORY}/*.gz; do name="${{file##*/}}"; '
    f'gzip -d -c "$file" > "{CATALOG_DIRECTORY}/${{name%.gz}}" || exit 1; done'
)


class SecurityContext(StrEnum):
    """Security contexts of the pod: none, or that of the Pod Security Standard ``restricted``."""

    LEGACY = "legacy"
    RESTRICTED = "restricted"


@dataclass(frozen=True, slots=True)
class PodOptions:
    """Options of the pod.

    Attributes:
        image: image with ``opm``.
        decompression_image: image with ``sh`` and ``gzip``, for catalogs that do not fit into one ConfigMap.
        pull_policy: image pull policy.
        security_context: ``legacy`` for none, or ``restricted``, a `SecurityContext`.
        service_account: name of the service account, "" for the default one.
        pull_secret: name of an image pull secret, "" for those of the service account.
    """

    image: str = DEFAULT_IMAGE
    decompression_image: str = DEFAULT_DECOMPRESSION_IMAGE
    pull_policy: str = "Always"
    security_context: str = SecurityContext.LEGACY
    service_account: str = ""
    pull_secret: str = ""


def build_config_maps(catalog_source: Mapping[str, Any], partition: Partition) -> list[Object]:
    """Return the ConfigMaps with the parts of a catalog, which the CatalogSource owns."""
    return [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": _metadata(catalog_source, f"{name_of(catalog_source)}-{partition.digest}-{number}"),
            "binaryData": {part.name: base64.b64encode(part.content).decode()},
        }
        for number, part in enumerate(partition.parts, 1)
    ]


def build_pod(
    catalog_source: Mapping[str, Any],
    config_maps: Sequence[Mapping[str, Any]],
    partition: Partition,
    options: PodOptions,
) -> Object:
    """Return the pod that serves the catalog in ConfigMaps; the API server completes its name."""
    sources = [
        {
            "configMap": {
                "name": name_of(config_map),
                "items": [{"key": part.name, "path": f"{_CONFIG_MAPS}/{part.name}"}],
            }
        }
        for config_map, part in zip(config_maps, partition.parts, strict=True)
    ]
    # A directory of a volume contains links that opm would read as further documents; one mounted by subPath does not.
    stored = {"name": _CONFIG_MAPS, "subPath": _CONFIG_MAPS, "readOnly": True}
    written = {"name": _DECOMPRESSED, "mountPath": CATALOG_DIRECTORY}
    volumes: list[Object] = [{"name": _CONFIG_MAPS, "projected": {"sources": sources}}]
    container: Object = {
        "name": CONTAINER,
        "image": options.image,
        "imagePullPolicy": options.pull_policy,
        "command": ["opm", "serve", CATALOG_DIRECTORY, "--port", str(PORT)],
        "ports": [{"name": "grpc", "containerPort": PORT}],
        "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 2},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [written if partition.compressed else {**stored, "mountPath": CATALOG_DIRECTORY}],
    }
    spec: Object = {"volumes": volumes, "containers": [container]}
    if partition.compressed:
        volumes.append({"name": _DECOMPRESSED, "emptyDir": {}})
        init = {
            "name": INIT_CONTAINER,
            "image": options.decompression_image,
            "imagePullPolicy": options.pull_policy,
            "command": ["sh", "-c", _DECOMPRESS],
            "terminationMessagePolicy": "FallbackToLogsOnError",
            "volumeMounts": [{**stored, "mountPath": _COMPRESSED_DIRECTORY}, written],
        }
        spec["initContainers"] = [init]
    if options.service_account:
        spec["serviceAccountName"] = options.service_account
    if options.pull_secret:
        spec["imagePullSecrets"] = [{"name": options.pull_secret}]
    if options.security_context == SecurityContext.RESTRICTED:
        _restrict(spec)
    metadata = _metadata(catalog_source, "")
    metadata["generateName"] = f"{name_of(catalog_source)}-"
    del metadata["name"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def format_address(ip: str) -> str:
    """Return the address of the server in a pod, ``HOST:PORT``; IPv6 addresses are written in brackets."""
    try:
        is_ipv6 = isinstance(ip_address(ip), IPv6Address)
    except ValueError:
        is_ipv6 = False
    return f"[{ip}]:{PORT}" if is_ipv6 else f"{ip}:{PORT}"


def _metadata(catalog_source: Mapping[str, Any], name: str) -> Object:
    return {
        "name": name,
        "namespace": namespace_of(catalog_source),
        "labels": labels(name_of(catalog_source)),
        "ownerReferences": [owner_reference(catalog_source)],
    }


def _restrict(spec: Object) -> None:
    """Set the fields that the Pod Security Standard requires; the user is that of the image, or set by OpenShift."""
    spec["securityContext"] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    for container in (*spec["containers"], *spec.get("initContainers", ())):
        container["securityContext"] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


MAX_PART = 1000 << 10
"""Maximum size of a part in bytes: a ConfigMap holds 1 MiB, including its keys."""
_CHUNK = 6 << 20
"""Uncompressed size in bytes of a part to start with; catalogs are compressed to about an eighth."""


class Part(Struct, frozen=True):
    """A file with documents of a catalog, in JSON, perhaps compressed with gzip."""

    name: str
    content: bytes


class Partition(Struct, frozen=True):
    """The parts of a catalog.

    Attributes:
        parts: Files, each for one ConfigMap.
        compressed: Whether they are compressed.
        digest: First characters of the SHA-256 digest of the catalog, for names of objects.
    """

    parts: tuple[Part, ...]
    compressed: bool
    digest: str


def partition(blobs: Blobs, *, max_part: int = MAX_PART) -> Partition:
    """Split a catalog into parts; one that fits into a single part is not compressed.

    Raises:
        LimitExceeded: A single document does not fit.
    """
    documents = [compact_json(blob) for blob in sort_blobs(blobs)]
    digest = hashlib.sha256(b"".join(documents)).hexdigest()[:8]
    if sum(map(len, documents)) <= max_part:
        return Partition((Part("catalog.json", b"".join(documents)),), False, digest)
    contents = [part for chunk in _chunks(documents) for part in _compress(chunk, max_part)]
    parts = tuple(Part(f"catalog-{number}.json.gz", content) for number, content in enumerate(contents, 1))
    return Partition(parts, True, digest)


def _chunks(documents: Sequence[bytes]) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    size = 0
    for document in documents:
        if chunk and size + len(document) > _CHUNK:
            yield chunk
            chunk, size = [], 0
        chunk.append(document)
        size += len(document)
    if chunk:
        yield chunk


def _compress(documents: Sequence[bytes], max_part: int) -> list[bytes]:
    compressed = gzip.compress(b"".join(documents), compresslevel=9, mtime=0)
    if len(compressed) <= max_part:
        return [compressed]
    if len(documents) == 1:
        raise LimitExceeded(
            f"catalog: a document of {len(documents[0])} bytes does not fit into a ConfigMap: "
            f"{len(compressed)} bytes compressed, more than {max_part}",
            hint="reduce the manifests of the bundle, or remove the bundle from the index",
        )
    middle = len(documents) // 2
    return [*_compress(documents[:middle], max_part), *_compress(documents[middle:], max_part)]
