"""Image manifests and image indexes, OCI and Docker schema 2: lossless parsing, reproducible building."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.imagetools.errors import InvalidImage, NotFound, UnsupportedImage
from opmkit.imagetools.spec import media_types
from opmkit.imagetools.spec.descriptor import Descriptor, Platform, sha256_digest
from opmkit.imagetools.spec.fields import Fields, dump_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_MANIFEST_SIZE = 4 << 20
"""Bytes of a manifest; registries accept no longer ones (OCI distribution-spec)."""
MAX_INDEX_MANIFESTS = 1 << 14
MAX_LAYERS = 1 << 10
"""Layers of a manifest; container engines support some hundreds."""

_DEFAULT_PLATFORM = Platform("linux", "amd64")
_ATTESTATION = "vnd.docker.reference.type"


class Manifest(Struct, frozen=True):
    """The manifest of an image for one platform, layers bottom first, with the bytes it was parsed from.

    An artifact such as a signature has an ``artifact_type``, and the image that it belongs to as its ``subject``.
    """

    raw: bytes
    media_type: str
    config: Descriptor
    layers: tuple[Descriptor, ...]
    annotations: Mapping[str, str] = {}
    artifact_type: str = ""
    subject: Descriptor | None = None

    def __hash__(self) -> int:
        """Return the hash of the content."""
        return hash(self.raw)

    @classmethod
    def build(
        cls,
        config: Descriptor,
        layers: Sequence[Descriptor],
        annotations: Mapping[str, str] | None = None,
        media_type: str = media_types.OCI_MANIFEST,
        *,
        artifact_type: str = "",
        subject: Descriptor | None = None,
    ) -> Manifest:
        """Build a manifest; equal arguments give equal bytes."""
        annotations = dict(annotations or {})
        content: dict[str, object] = {"config": config.to_json(), "layers": [layer.to_json() for layer in layers]}
        optional = {"artifactType": artifact_type, "subject": subject and subject.to_json()}
        content |= {key: value for key, value in optional.items() if value}
        raw = _encode(media_type, content, annotations)
        return cls(raw, media_type, config, tuple(layers), annotations, artifact_type, subject)

    @property
    def digest(self) -> str:
        """The digest as ``sha256:<hex>``."""
        return sha256_digest(self.raw)

    @property
    def descriptor(self) -> Descriptor:
        """The descriptor of this manifest, without a platform."""
        return Descriptor(self.media_type, self.digest, len(self.raw))

    @property
    def children(self) -> tuple[Descriptor, ...]:
        """The descriptors of the configuration and the layers."""
        return (self.config, *self.layers)


class IndexManifest(Struct, frozen=True):
    """An OCI image index or Docker manifest list, with the bytes it was parsed from."""

    raw: bytes
    media_type: str
    manifests: tuple[Descriptor, ...]
    annotations: Mapping[str, str] = {}
    artifact_type: str = ""
    subject: Descriptor | None = None

    def __hash__(self) -> int:
        """Return the hash of the content."""
        return hash(self.raw)

    @classmethod
    def build(
        cls,
        manifests: Sequence[Descriptor],
        annotations: Mapping[str, str] | None = None,
        media_type: str = media_types.OCI_INDEX,
    ) -> IndexManifest:
        """Build an index; equal arguments give equal bytes."""
        annotations = dict(annotations or {})
        raw = _encode(media_type, {"manifests": [manifest.to_json() for manifest in manifests]}, annotations)
        return cls(raw, media_type, tuple(manifests), annotations)

    @property
    def digest(self) -> str:
        """The digest as ``sha256:<hex>``."""
        return sha256_digest(self.raw)

    @property
    def descriptor(self) -> Descriptor:
        """The descriptor of this index."""
        return Descriptor(self.media_type, self.digest, len(self.raw))

    @property
    def children(self) -> tuple[Descriptor, ...]:
        """The descriptors of all manifests, including attestations and other artifacts."""
        return self.manifests

    @property
    def images(self) -> tuple[Descriptor, ...]:
        """The descriptors of images, without artifacts and the attestations that build tools add."""
        return tuple(manifest for manifest in self.manifests if not _is_artifact(manifest))

    @property
    def artifacts(self) -> tuple[Descriptor, ...]:
        """The descriptors that are not of images."""
        return tuple(manifest for manifest in self.manifests if _is_artifact(manifest))

    def select(self, platform: Platform | None = None) -> Descriptor:
        """Return the first image for ``platform``.

        Without a platform, prefer linux/amd64, then other Linux images by architecture and variant, then the rest by
        platform. The choice does not depend on the machine, so that what is built from it is reproducible.

        Raises:
            NotFound: There is no image for the platform, or no image at all.
        """
        images = self.images
        if platform is None and images:
            return min(images, key=_preference)
        for image in images:
            if platform and image.platform and image.platform.satisfies(platform):
                return image
        available = ", ".join(sorted({str(image.platform) for image in images if image.platform})) or "none"
        raise NotFound(
            f"image index {self.digest} has no image" + (f" for {platform}" if platform else ""),
            hint=f"choose one of its platforms: {available}" if images else "name another image",
        )


def parse_manifest(
    raw: bytes,
    content_type: str | None = None,
    *,
    max_size: int = MAX_MANIFEST_SIZE,
    max_manifests: int = MAX_INDEX_MANIFESTS,
) -> Manifest | IndexManifest:
    """Parse a manifest or an index.

    Args:
        raw: The document.
        content_type: The Content-Type that the registry sent, if any.
        max_size: The limit on the size in bytes.
        max_manifests: The limit on the manifests of an index.

    Raises:
        InvalidImage: The document is malformed, or ambiguous (CVE-2021-41190).
        LimitExceeded: It exceeds ``max_size``, ``max_manifests`` or MAX_LAYERS.
        UnsupportedImage: It is in Docker schema 1, or of an unknown type.
    """
    fields = Fields.from_image_json(raw, "manifest", limit=max_size)
    content_type = (content_type or "").partition(";")[0].strip().lower()
    if fields.get("schemaVersion") == 1 or content_type in media_types.DOCKER_SCHEMA1:
        raise UnsupportedImage(
            "unsupported manifest format: Docker schema 1",
            hint="push it again with a current client, or convert it: "
            "skopeo copy --format v2s2 docker://OLD docker://NEW",
        )
    if fields.get("schemaVersion") != 2:
        raise InvalidImage("manifest.schemaVersion: expected 2", hint="check that the reference names an image")
    media_type = _media_type(fields, content_type)
    annotations, artifact_type = fields.string_map("annotations"), fields.string("artifactType", "")
    subject = None if fields.get("subject") is None else Descriptor.from_json(fields.get("subject"), "manifest.subject")
    if media_type in media_types.INDEXES:
        manifests = _descriptors(fields, "manifests", max_manifests)
        return IndexManifest(raw, media_type, manifests, annotations, artifact_type, subject)
    layers = _descriptors(fields, "layers", MAX_LAYERS)
    config = Descriptor.from_json(fields.get("config"), "manifest.config")
    return Manifest(raw, media_type, config, layers, annotations, artifact_type, subject)


def _descriptors(fields: Fields, key: str, limit: int) -> tuple[Descriptor, ...]:
    return tuple(Descriptor.from_json(item, path) for path, item in fields.items(key, limit=limit))


def _encode(media_type: str, content: Mapping[str, object], annotations: Mapping[str, str]) -> bytes:
    value = {"schemaVersion": 2, "mediaType": media_type, **content}
    return dump_json(value | ({"annotations": annotations} if annotations else {}))


def _media_type(fields: Fields, content_type: str) -> str:
    """Determine the type from ``mediaType``, the registry's Content-Type or the fields, all of which must agree."""
    hint = "push the image again"
    is_index = fields.get("manifests") is not None
    if is_index and any(fields.get(key) is not None for key in ("config", "layers")):
        raise InvalidImage("ambiguous manifest: it has the fields of an image and of an index", hint=hint)
    supported = media_types.MANIFESTS | media_types.INDEXES
    declared = fields.string("mediaType", "")
    types = {name for name in (declared, content_type) if name in supported}
    if len(types) > 1:
        raise InvalidImage(
            f"ambiguous manifest: mediaType is {declared}, but the registry sent Content-Type {content_type}",
            hint=hint,
        )
    if declared and declared not in supported:
        raise UnsupportedImage(
            f"unsupported manifest type {declared!r}",
            hint="give the reference of a container image in OCI or Docker schema 2 format",
        )
    media_type = types.pop() if types else _media_type_by_fields(fields, is_index=is_index)
    if is_index != (media_type in media_types.INDEXES):
        raise InvalidImage(f"invalid manifest: its fields do not match its type {media_type}", hint=hint)
    return media_type


def _media_type_by_fields(fields: Fields, *, is_index: bool) -> str:
    if is_index:
        return media_types.OCI_INDEX
    is_docker = fields.nested("config").get("mediaType") == media_types.DOCKER_CONFIG
    return media_types.DOCKER_MANIFEST if is_docker else media_types.OCI_MANIFEST


def _preference(image: Descriptor) -> tuple[bool, bool, str, str]:
    """Return the sort key for the choice without a platform; the smallest wins, the first of equals."""
    platform = image.platform or Platform("", "")
    return (
        not platform.satisfies(_DEFAULT_PLATFORM),
        platform.os != _DEFAULT_PLATFORM.os,
        str(platform),
        platform.os_version,
    )


def _is_artifact(manifest: Descriptor) -> bool:
    return manifest.is_for_unknown_platform or bool(manifest.artifact_type) or _ATTESTATION in manifest.annotations
