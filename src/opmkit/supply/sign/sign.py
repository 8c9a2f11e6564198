"""Signing of images and of statements about them, and the results."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.core.json_types import JsonResult
from opmkit.imagetools.signatures.attachments import (
    ATTESTATION_SUFFIX,
    ENVELOPE_LAYER,
    PREDICATE_ANNOTATION,
    SIGNATURE_ANNOTATION,
    SIGNATURE_SUFFIX,
    SIMPLE_SIGNING_LAYER,
    attach_bundle,
    attach_layer,
)
from opmkit.imagetools.signatures.documents import (
    SIGN_PREDICATE,
    Envelope,
    SignatureFormat,
    SigstoreBundle,
    SimpleSigning,
    Statement,
)
from opmkit.imagetools.spec import IndexManifest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from opmkit.imagetools.repository import Repository
    from opmkit.imagetools.signatures.keys import PrivateKey
    from opmkit.imagetools.signatures.verify import Attestation, Signature
    from opmkit.imagetools.spec import Descriptor


class Signer(Struct, frozen=True):
    """A key, and the format of what it signs.

    Attributes:
        key: The private key.
        format: The format to store signatures and attestations in.
    """

    key: PrivateKey
    format: SignatureFormat = SignatureFormat.TAG

    def sign(
        self, repository: Repository, image: Descriptor, name: str, annotations: Mapping[str, str] | None = None
    ) -> None:
        """Sign an image and store the signature next to it.

        Args:
            repository: The repository of the image.
            image: The descriptor of the image.
            name: The name of the repository, which the signature contains.
            annotations: Further content of the signature.
        """
        if self.format.has_tag:
            payload = SimpleSigning(name, image.digest, annotations or {}).encode()
            signature = {SIGNATURE_ANNOTATION: base64.b64encode(self.key.sign(payload)).decode()}
            attach_layer(repository, image.digest, SIGNATURE_SUFFIX, payload, SIMPLE_SIGNING_LAYER, signature)
        if self.format.has_bundle:
            statement = Statement(image.digest, SIGN_PREDICATE, {}, annotations=annotations or {})
            self._attach_bundle(repository, image, statement)

    def attest(self, repository: Repository, image: Descriptor, statement: Statement) -> None:
        """Sign a statement about an image and store it next to the image."""
        if self.format.has_tag:
            content = Envelope.sign(statement.encode(), self.key).encode()
            annotations = {SIGNATURE_ANNOTATION: "", PREDICATE_ANNOTATION: statement.predicate_type}
            attach_layer(repository, image.digest, ATTESTATION_SUFFIX, content, ENVELOPE_LAYER, annotations)
        if self.format.has_bundle:
            self._attach_bundle(repository, image, statement)

    def _attach_bundle(self, repository: Repository, image: Descriptor, statement: Statement) -> None:
        envelope = Envelope.sign(statement.encode(), self.key)
        bundle = SigstoreBundle(envelope, self.key.public_key.hint)
        attach_bundle(repository, image, bundle.encode(), statement.predicate_type)


def images_of(repository: Repository, image: Descriptor) -> list[Descriptor]:
    """Return the descriptors of an image and, if it is an index, of the images in it."""
    found, pending = {image.digest: image}, [image]
    while pending:
        manifest = repository.get_manifest(pending.pop().digest)
        children = manifest.images if isinstance(manifest, IndexManifest) else ()
        pending += [child for child in children if child.digest not in found]
        found |= {child.digest: child for child in children}
    return list(found.values())


@dataclass(frozen=True)
class SigningKey:
    """A private key to sign with, in a file of cosign or in PEM format.

    Attributes:
        source: The path of the file, or ``env://NAME`` for an environment variable.
        password: The password of an encrypted key, or a function that returns it.
        format: The format to store signatures and attestations in: ``tag``, ``bundle`` or ``both``.
    """

    source: Path | str
    password: str | Callable[[], str] = field(default="", repr=False)
    format: SignatureFormat | str = SignatureFormat.TAG

    @cached_property
    def signer(self) -> Signer:
        """The signer with the decrypted key; decryption takes about a second.

        Raises:
            InvalidKey: The key cannot be read, decrypted or used.
        """
        from opmkit.imagetools.signatures.keys import load_private_key

        password = self.password
        read = password if callable(password) else lambda: password
        return Signer(load_private_key(str(self.source), read), SignatureFormat(self.format))


@dataclass(frozen=True, slots=True)
class KeyPair(JsonResult):
    """The files of a new key pair.

    Attributes:
        private_key: The encrypted private key.
        public_key: The public key.
    """

    private_key: Path
    public_key: Path


@dataclass(frozen=True, slots=True)
class SignedImage(JsonResult):
    """An image that was signed, with the annotations of the signature.

    Attributes:
        image: The reference by digest.
        digest: The digest.
        annotations: The signed annotations.
    """

    image: str
    digest: str
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AttestedImage(JsonResult):
    """An image that statements were attached to.

    Attributes:
        image: The reference by digest.
        digest: The digest.
        predicate_types: The URIs of the types of the statements.
    """

    image: str
    digest: str
    predicate_types: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VerifiedImage(JsonResult):
    """An image with its verified signatures.

    Attributes:
        image: The reference by digest, under which the verified image can be pulled.
        signatures: The signatures that satisfy the requirements, at least one.
    """

    image: str
    signatures: tuple[Signature, ...]


@dataclass(frozen=True, slots=True)
class VerifiedAttestations(JsonResult):
    """An image with its verified attestations.

    Attributes:
        image: The reference by digest.
        attestations: The attestations of the required type by the required signer, at least one.
    """

    image: str
    attestations: tuple[Attestation, ...]
