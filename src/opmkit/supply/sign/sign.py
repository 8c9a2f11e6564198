"""Signing of images, and of statements about them."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.imagetools.spec import IndexManifest
from opmkit.supply.sign.attachments import (
    ATTESTATION_SUFFIX,
    ENVELOPE_LAYER,
    PREDICATE_ANNOTATION,
    SIGNATURE_ANNOTATION,
    SIGNATURE_SUFFIX,
    SIMPLE_SIGNING_LAYER,
    attach_bundle,
    attach_layer,
)
from opmkit.supply.sign.documents import SIGN_PREDICATE, Bundle, Envelope, SimpleSigning, Statement
from opmkit.supply.sign.formats import SignatureFormat

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.imagetools.repository import Repository
    from opmkit.imagetools.spec import Descriptor
    from opmkit.supply.sign.keys import PrivateKey


@dataclass(frozen=True, slots=True)
class Signer:
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
        bundle = Bundle(envelope, self.key.public_key.hint)
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
