"""Signatures and attestations next to their image, in registries and layouts: cosign's tags, and referrers."""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from msgspec import Struct

from opmkit.core.errors import LimitExceeded
from opmkit.core.hints import Hint
from opmkit.imagetools.errors import DigestMismatch, InvalidImage, NotFound, UnsupportedImage, prefix_errors
from opmkit.imagetools.hint_terms import ImageOperation
from opmkit.imagetools.reference import LayoutReference, OciArchiveReference, Reference, StoreReference
from opmkit.imagetools.repository import digest_tag, update_tag
from opmkit.imagetools.signatures.documents import BUNDLE_V03
from opmkit.imagetools.signatures.errors import InvalidSignature
from opmkit.imagetools.spec import Descriptor, IndexManifest, Manifest, media_types, sha256_digest
from opmkit.imagetools.spec.fields import dump_json
from opmkit.imagetools.store import LayoutRepository

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.repository import ImageSource, Repository


SIGNATURE_SUFFIX, ATTESTATION_SUFFIX = ".sig", ".att"
SIMPLE_SIGNING_LAYER = "application/vnd.dev.cosign.simplesigning.v1+json"
ENVELOPE_LAYER = "application/vnd.dsse.envelope.v1+json"
SIGNATURE_ANNOTATION = "dev.cosignproject.cosign/signature"
PREDICATE_ANNOTATION = "predicateType"
CONTENT_ERRORS = (InvalidSignature, InvalidImage, LimitExceeded, DigestMismatch, UnsupportedImage, NotFound)
"""Errors of a single attachment, which do not prevent others from being valid."""
_BUNDLE_TYPES = "application/vnd.dev.sigstore.bundle"
_BUNDLE_CONTENT, _BUNDLE_PREDICATE = "dev.sigstore.bundle.content", "dev.sigstore.bundle.predicateType"
_EMPTY = b"{}"
_NO_TIME = "0001-01-01T00:00:00Z"


class Attachment(Struct, frozen=True):
    """A blob that is attached to an image, and the place that it is read from."""

    source: ImageSource
    descriptor: Descriptor

    def read(self, limit: int) -> bytes:
        """Return the verified content.

        Raises:
            InvalidSignature: It is larger than ``limit`` bytes.
        """
        if self.descriptor.size > limit:
            raise InvalidSignature(f"it is larger than {limit} bytes")
        with self.source.open_blob(self.descriptor) as stream:
            return stream.read()


def tagged_attachments(source: ImageSource, digest: str, suffix: str, media_type: str) -> Iterator[Attachment]:
    """Yield the layers of a media type under cosign's tag for an image.

    Raises:
        InvalidSignature: The tag names something else than a manifest.
    """
    try:
        manifest = source.get_manifest(digest_tag(digest, suffix))
    except NotFound:
        return
    if isinstance(manifest, IndexManifest):
        raise InvalidSignature(f"tag {digest_tag(digest, suffix)}: expected a manifest, not an index")
    for layer in manifest.layers:
        if layer.media_type == media_type:
            yield Attachment(source, layer)


def attached_bundles(source: ImageSource, digest: str) -> Iterator[Attachment | InvalidSignature]:
    """Yield the Sigstore bundles that refer to an image, and an error for each that cannot be read."""
    for referrer in source.referrers(digest):
        if not referrer.artifact_type.startswith(_BUNDLE_TYPES):
            continue
        try:
            manifest = source.get_manifest(referrer.digest)
        except CONTENT_ERRORS as error:
            yield InvalidSignature(error.message)
            continue
        if isinstance(manifest, IndexManifest) or len(manifest.layers) != 1:
            yield InvalidSignature(f"referrer {referrer.digest}: expected a manifest with one layer")
        else:
            yield Attachment(source, manifest.layers[0])


def attach_layer(
    repository: Repository, digest: str, suffix: str, content: bytes, media_type: str, annotations: Mapping[str, str]
) -> None:
    """Add a layer to the manifest under cosign's tag for an image, unless it is there; safe with other writers."""
    layer = Descriptor(media_type, sha256_digest(content), len(content), annotations=dict(annotations))
    repository.put_blob(layer, partial(io.BytesIO, content))

    def add(current: Manifest | IndexManifest | None) -> Manifest:
        if isinstance(current, IndexManifest):
            raise InvalidSignature(
                f"tag {digest_tag(digest, suffix)}: expected a manifest, not an index", hint="delete the tag"
            )
        if current and layer in current.layers:
            return current
        layers = [*(current.layers if current else ()), layer]
        config = _put_config(repository, layers)
        return Manifest.build(config, layers, current.annotations if current else None)

    update_tag(repository, digest_tag(digest, suffix), add)


def attach_bundle(repository: Repository, subject: Descriptor, content: bytes, predicate_type: str) -> None:
    """Store a Sigstore bundle as a referrer of an image."""
    config = Descriptor(media_types.OCI_EMPTY, sha256_digest(_EMPTY), len(_EMPTY))
    layer = Descriptor(BUNDLE_V03, sha256_digest(content), len(content))
    repository.put_blob(config, partial(io.BytesIO, _EMPTY))
    repository.put_blob(layer, partial(io.BytesIO, content))
    annotations = {_BUNDLE_CONTENT: "dsse-envelope", _BUNDLE_PREDICATE: predicate_type}
    image = Descriptor(subject.media_type, subject.digest, subject.size)
    repository.put_manifest(Manifest.build(config, [layer], annotations, artifact_type=BUNDLE_V03, subject=image))


def _put_config(repository: Repository, layers: list[Descriptor]) -> Descriptor:
    """Store an image configuration for the layers, which cosign expects."""
    content = dump_json(
        {
            "architecture": "",
            "os": "",
            "created": _NO_TIME,
            "config": {},
            "history": [{"created": _NO_TIME}] * len(layers),
            "rootfs": {"type": "layers", "diff_ids": [layer.digest for layer in layers]},
        }
    )
    config = Descriptor(media_types.OCI_CONFIG, sha256_digest(content), len(content))
    repository.put_blob(config, partial(io.BytesIO, content))
    return config


S = TypeVar("S", bound="ImageSource")


class SignatureTarget(Struct, Generic[S], frozen=True):
    """An image with the place that it is in.

    Attributes:
        source: The place.
        image: The descriptor of the image.
        repository: The name of the repository, "" in an image layout.
        location: The reference without tag and digest.
    """

    source: S
    image: Descriptor
    repository: str
    location: str

    @property
    def name(self) -> str:
        """The reference by digest."""
        return self.name_of(self.image)

    def name_of(self, image: Descriptor) -> str:
        """Return the reference of an image of the same repository by digest."""
        return f"{self.location}@{image.digest}"


def open_for_signing(reference: ImageReference, client: RegistryClient) -> SignatureTarget[Repository]:
    """Resolve an image whose repository can be written to.

    Raises:
        UnsupportedImage: Archives, engines and the embedded store cannot store signatures.
        NotFound: The image does not exist.
    """
    match reference:
        case Reference():
            return _target(client.target(reference), reference, reference.name)
        case LayoutReference():
            return _target(LayoutRepository(reference.path), reference)
        case _:
            raise _unsupported(reference)


def open_for_verification(reference: ImageReference, client: RegistryClient) -> SignatureTarget[ImageSource]:
    """Resolve an image whose signatures can be read, in a registry or its mirrors, a layout or an archive of one.

    Raises:
        UnsupportedImage: The place stores no signatures.
        NotFound: The image does not exist.
    """
    match reference:
        case Reference():
            return _target(client.repository(reference), reference, reference.name)
        case LayoutReference():
            return _target(LayoutRepository(reference.path), reference)
        case OciArchiveReference():
            from opmkit.imagetools.archive import ArchivedLayout, TarArchive
            from opmkit.imagetools.store.reader import LayoutReader

            return _target(LayoutReader(ArchivedLayout(TarArchive.open(reference.path))), reference)
        case _:
            raise _unsupported(reference)


def _target(
    source: S, reference: Reference | LayoutReference | OciArchiveReference, repository: str = ""
) -> SignatureTarget[S]:
    with prefix_errors(str(reference), repository):
        image = source.get_manifest(reference.identifier).descriptor  # not what the registry claims to have
    if isinstance(reference, Reference):
        return SignatureTarget(source, image, repository, repository)
    scheme = "oci" if isinstance(reference, LayoutReference) else "oci-archive"
    return SignatureTarget(source, image, "", f"{scheme}:{reference.path}")


def require_signature_storage(reference: ImageReference) -> None:
    """Raise UnsupportedImage for an image in a place that stores no signatures."""
    if not isinstance(reference, Reference | LayoutReference | OciArchiveReference | StoreReference):
        raise _unsupported(reference)


def _unsupported(reference: ImageReference) -> UnsupportedImage:
    return UnsupportedImage(
        f"{reference}: signatures are only supported in registries and OCI image layouts",
        hint=Hint("copy the image to one with {}", ImageOperation.COPY_IMAGE),
    )
