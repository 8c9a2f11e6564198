"""Media types of OCI image-spec 1.1 and of Docker image manifest v2, schema 1 and 2."""

from __future__ import annotations

OCI_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX = "application/vnd.oci.image.index.v1+json"
OCI_EMPTY = "application/vnd.oci.empty.v1+json"
OCI_CONFIG = "application/vnd.oci.image.config.v1+json"
OCI_LAYER = "application/vnd.oci.image.layer.v1.tar"
OCI_LAYER_GZIP = "application/vnd.oci.image.layer.v1.tar+gzip"
OCI_LAYER_ZSTD = "application/vnd.oci.image.layer.v1.tar+zstd"

DOCKER_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST = "application/vnd.docker.distribution.manifest.list.v2+json"
DOCKER_CONFIG = "application/vnd.docker.container.image.v1+json"
DOCKER_LAYER = "application/vnd.docker.image.rootfs.diff.tar"
DOCKER_LAYER_GZIP = "application/vnd.docker.image.rootfs.diff.tar.gzip"
DOCKER_LAYER_ZSTD = "application/vnd.docker.image.rootfs.diff.tar.zstd"

DOCKER_SCHEMA1 = frozenset(
    {
        "application/vnd.docker.distribution.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v1+prettyjws",
    }
)

MANIFESTS = frozenset({OCI_MANIFEST, DOCKER_MANIFEST})
INDEXES = frozenset({OCI_INDEX, DOCKER_LIST})
CONFIGS = frozenset({OCI_CONFIG, DOCKER_CONFIG})

ACCEPT = (OCI_INDEX, OCI_MANIFEST, DOCKER_LIST, DOCKER_MANIFEST)
"""Manifest types for the Accept header, in order of preference."""

_OCI_TO_DOCKER = {
    OCI_MANIFEST: DOCKER_MANIFEST,
    OCI_INDEX: DOCKER_LIST,
    OCI_CONFIG: DOCKER_CONFIG,
    OCI_LAYER: DOCKER_LAYER,
    OCI_LAYER_GZIP: DOCKER_LAYER_GZIP,
    OCI_LAYER_ZSTD: DOCKER_LAYER_ZSTD,
}
_DOCKER_TO_OCI = {docker: oci for oci, docker in _OCI_TO_DOCKER.items()}


def is_docker(media_type: str) -> bool:
    """Return whether this is a Docker media type."""
    return media_type.startswith("application/vnd.docker.")


def is_foreign(media_type: str) -> bool:
    """Return whether layers of this type are distributed outside registries, such as Windows base layers."""
    return ".foreign." in media_type or ".nondistributable." in media_type


def convert_for(manifest_type: str, media_type: str) -> str:
    """Return the equivalent of ``media_type``, OCI or Docker, for an image whose manifest is a ``manifest_type``."""
    equivalents = _OCI_TO_DOCKER if is_docker(manifest_type) else _DOCKER_TO_OCI
    return equivalents.get(media_type, media_type)
