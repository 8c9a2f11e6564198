"""Manifests and indexes, OCI and Docker schema 2: read without losing a byte, built the same way each time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.imagetools.errors import InvalidImage, NotFound, UnsupportedImage
from opmkit.imagetools.spec import mediatypes
from opmkit.imagetools.spec.descriptor import Descriptor, Platform
from opmkit.imagetools.spec.digests import sha256_digest
from opmkit.imagetools.spec.fields import Fields, dump_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_MANIFEST_SIZE = 4 << 20
"""The longest manifest read, in bytes; registries accept no longer ones (OCI distribution-spec)."""
PARTS = 1 << 14
"""The most manifests of an index."""
LAYERS = 1 << 10
"""The most layers of a manifest; container engines manage some hundreds at most."""

_PREFERRED = Platform("linux", "amd64")
_ATTESTATION = "vnd.docker.reference.type"


@dataclass(frozen=True, slots=True)
class Manifest:
    """The manifest of one image: its configuration and its layers, bottom first. ``raw`` is what was read."""

    raw: bytes = field(repr=False)
    media_type: str
    config: Descriptor
    layers: tuple[Descriptor, ...]
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def build(
        cls,
        config: Descriptor,
        layers: Sequence[Descriptor],
        annotations: Mapping[str, str] | None = None,
        media_type: str = mediatypes.OCI_MANIFEST,
    ) -> Manifest:
        """A new manifest; equal arguments give equal bytes."""
        annotations = dict(annotations or {})
        parts = {"config": config.to_json(), "layers": [layer.to_json() for layer in layers]}
        raw = _encode(media_type, parts, annotations)
        return cls(raw, media_type, config, tuple(layers), annotations)

    @property
    def digest(self) -> str:
        """The sha256 digest of the bytes."""
        return sha256_digest(self.raw)

    @property
    def descriptor(self) -> Descriptor:
        """What a tag or an index says of this manifest, without platform."""
        return Descriptor(self.media_type, self.digest, len(self.raw))

    @property
    def parts(self) -> tuple[Descriptor, ...]:
        """What has to be there for the image to be whole."""
        return (self.config, *self.layers)


@dataclass(frozen=True, slots=True)
class IndexManifest:
    """An image index or manifest list: an image for several platforms. ``raw`` is what was read."""

    raw: bytes = field(repr=False)
    media_type: str
    manifests: tuple[Descriptor, ...]
    annotations: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def build(
        cls,
        manifests: Sequence[Descriptor],
        annotations: Mapping[str, str] | None = None,
        media_type: str = mediatypes.OCI_INDEX,
    ) -> IndexManifest:
        """A new index; equal arguments give equal bytes."""
        annotations = dict(annotations or {})
        raw = _encode(media_type, {"manifests": [manifest.to_json() for manifest in manifests]}, annotations)
        return cls(raw, media_type, tuple(manifests), annotations)

    @property
    def digest(self) -> str:
        """The sha256 digest of the bytes."""
        return sha256_digest(self.raw)

    @property
    def descriptor(self) -> Descriptor:
        """What a tag says of this index."""
        return Descriptor(self.media_type, self.digest, len(self.raw))

    @property
    def parts(self) -> tuple[Descriptor, ...]:
        """What has to be there for the image to be whole."""
        return self.manifests

    @property
    def images(self) -> tuple[Descriptor, ...]:
        """The manifests of images, without artifacts and the attestations that build tools add for unknown/unknown."""
        return tuple(manifest for manifest in self.manifests if not _is_beside(manifest))

    def select(self, platform: Platform | None = None) -> Descriptor:
        """The image for the platform, the first of several.

        Without one, that for linux/amd64, else the first for Linux by architecture and variant, else the first by
        platform: the same one on every machine, so that what is made from it is the same, too. Raises NotFound, with
        the platforms there are in its advice.
        """
        images = self.images
        fitting = [image for image in images if image.platform and platform and image.platform.satisfies(platform)]
        if platform is None and images:
            return min(images, key=_preference)
        if fitting:
            return fitting[0]
        there = ", ".join(sorted({str(image.platform) for image in images if image.platform})) or "none"
        raise NotFound(
            f"image index {self.digest} has no image" + (f" for {platform}" if platform else ""),
            advice=f"ask for one of its platforms: {there}" if images else "name another image",
        )


def parse_manifest(raw: bytes, media_type: str | None = None) -> Manifest | IndexManifest:
    """Read a manifest or an index; ``media_type`` is the Content-Type from the registry, if any.

    Raises UnsupportedImage for Docker schema 1, LimitExceeded above MAX_MANIFEST_SIZE, PARTS or LAYERS, InvalidImage
    for malformed or ambiguous documents (the ambiguity that OCI image-spec 1.1 warns of).
    """
    fields = Fields.decode(raw, "manifest", limit=MAX_MANIFEST_SIZE)
    declared = (media_type or "").partition(";")[0].strip().lower()
    if fields.get("schemaVersion") == 1 or declared in mediatypes.DOCKER_SCHEMA1:
        raise UnsupportedImage(
            "the image is in Docker's schema 1, which has no digests to rely on",
            advice="push it again with a current client, or convert it: "
            "skopeo copy --format v2s2 docker://OLD docker://NEW",
        )
    if fields.get("schemaVersion") != 2:
        raise InvalidImage("manifest.schemaVersion is not 2", advice="the reference names something else than an image")
    kind = _media_type(fields, declared)
    if kind in mediatypes.INDEXES:
        manifests = tuple(Descriptor.from_json(item, where) for where, item in fields.items("manifests", limit=PARTS))
        return IndexManifest(raw, kind, manifests, fields.text_map("annotations"))
    layers = tuple(Descriptor.from_json(item, where) for where, item in fields.items("layers", limit=LAYERS))
    config = Descriptor.from_json(fields.get("config"), "manifest.config")
    return Manifest(raw, kind, config, layers, fields.text_map("annotations"))


def _encode(media_type: str, parts: Mapping[str, object], annotations: Mapping[str, str]) -> bytes:
    value = {"schemaVersion": 2, "mediaType": media_type, **parts}
    return dump_json(value | ({"annotations": annotations} if annotations else {}))


def _media_type(fields: Fields, declared: str) -> str:
    """What the document is: by its own word, else the registry's, else by its fields; all have to agree."""
    is_index = fields.get("manifests") is not None
    if is_index and any(fields.get(key) is not None for key in ("config", "layers")):
        raise InvalidImage("the manifest is image and index at once", advice="push the image anew")
    known = mediatypes.MANIFESTS | mediatypes.INDEXES
    said = {name for name in (fields.text("mediaType", ""), declared) if name in known}
    if len(said) > 1:
        raise InvalidImage(
            f"the registry calls the manifest {declared}, its own mediaType is {fields.text('mediaType')}",
            advice="push the image anew",
        )
    if (own := fields.text("mediaType", "")) and own not in known:
        raise UnsupportedImage(
            f"manifests of type {own!r} are not known here",
            advice="give the reference of a container image in OCI or Docker schema 2 format",
        )
    kind = said.pop() if said else _sniff(fields, is_index=is_index)
    if is_index != (kind in mediatypes.INDEXES):
        raise InvalidImage(f"the manifest's content doesn't fit its type {kind}", advice="push the image anew")
    return kind


def _sniff(fields: Fields, *, is_index: bool) -> str:
    if is_index:
        return mediatypes.OCI_INDEX
    of_docker = fields.nested("config").get("mediaType") == mediatypes.DOCKER_CONFIG
    return mediatypes.DOCKER_MANIFEST if of_docker else mediatypes.OCI_MANIFEST


def _preference(image: Descriptor) -> tuple[bool, bool, str, str]:
    """What is sorted by to choose where no platform is asked for; the smallest wins, the first of equals."""
    platform = image.platform or Platform("", "")
    return not platform.satisfies(_PREFERRED), platform.os != _PREFERRED.os, str(platform), platform.os_version


def _is_beside(manifest: Descriptor) -> bool:
    unknown = manifest.platform is not None and manifest.platform.os == manifest.platform.architecture == "unknown"
    return unknown or bool(manifest.artifact_type) or _ATTESTATION in manifest.annotations
