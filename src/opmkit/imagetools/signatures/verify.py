"""Verification of the signatures and attestations of an image."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import msgspec
from msgspec import Struct

from opmkit.core.hints import Hint
from opmkit.imagetools.hint_terms import ImageOperation
from opmkit.imagetools.signatures.attachments import (
    ATTESTATION_SUFFIX,
    CONTENT_ERRORS,
    ENVELOPE_LAYER,
    SIGNATURE_ANNOTATION,
    SIGNATURE_SUFFIX,
    SIMPLE_SIGNING_LAYER,
    Attachment,
    attached_bundles,
    tagged_attachments,
)
from opmkit.imagetools.signatures.documents import (
    IN_TOTO,
    MAX_ATTESTATION_SIZE,
    MAX_PAYLOAD_SIZE,
    SIGN_PREDICATE,
    Envelope,
    SigstoreBundle,
    SimpleSigning,
    Statement,
    decode_base64,
)
from opmkit.imagetools.signatures.errors import InvalidSignature, VerificationFailed
from opmkit.imagetools.signatures.identity import IdentityMatcher, any_identity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opmkit.imagetools.repository import ImageSource
    from opmkit.imagetools.signatures.keys import PublicKey

T = TypeVar("T")
MAX_ATTACHMENTS = 1000
"""Signatures or attestations of an image in one format that are read."""
_MAX_REASONS = 10
_KEY = "signed with a key instead of a certificate"
_UNKNOWN_KEY = "not signed with the key"


@dataclass(frozen=True, slots=True)
class Signature:
    """A verified signature of an image.

    Attributes:
        digest: The digest of the image.
        key: The name of the key that verifies it.
        format: ``simple-signing`` under cosign's tag, or ``bundle``.
        repository: The repository that the signature names, "" in a bundle.
        annotations: The signed annotations.
    """

    digest: str
    key: str
    format: str
    repository: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Attestation:
    """A verified statement about an image, and the name of the key that verifies it."""

    statement: Statement
    key: str
    format: str


class CertificateVerifier(Protocol):
    """A verifier of bundles with a certificate for one identity."""

    @property
    def name(self) -> str:
        """The identity, for messages."""
        ...

    def verify(self, bundle: bytes) -> bytes:
        """Return the payload of the envelope in a bundle; raise InvalidSignature."""
        ...


class SignatureRequirements(Struct, frozen=True):
    """Requirements on a signature.

    Attributes:
        keys: The keys of which one must have signed.
        certificate: The identity that a certificate must name instead, None to require a key.
        annotations: Annotations that the signature must contain.
        identity: Whether the repository that the signature names is accepted, or "" if there is none.
    """

    keys: Sequence[PublicKey]
    annotations: Mapping[str, str] = {}
    identity: IdentityMatcher = any_identity
    certificate: CertificateVerifier | None = None

    @property
    def signer_names(self) -> str:
        """The names of the keys or of the identity, for messages."""
        return self.certificate.name if self.certificate else ", ".join(key.name for key in self.keys)

    def find_bundle_signer(self, raw: bytes, bundle: SigstoreBundle) -> str:
        """Return the name of the key or identity that signed a bundle; raise InvalidSignature."""
        if not bundle.has_certificate:
            return self.find_key(bundle.envelope.is_signed_by).name
        if self.certificate is None:
            raise InvalidSignature("signed with a certificate instead of a key")
        if self.certificate.verify(raw) != bundle.envelope.payload:
            raise InvalidSignature("ambiguous bundle")
        return self.certificate.name

    def find_key(self, verifies: Callable[[PublicKey], bool]) -> PublicKey:
        """Return the first key for which ``verifies`` is true; raise InvalidSignature."""
        for key in self.keys:
            if verifies(key):
                return key
        raise InvalidSignature(_KEY if self.certificate else _UNKNOWN_KEY)

    def check(self, signature: Signature, digest: str) -> Signature:
        """Return a signature of the image ``digest`` if it satisfies the requirements, else raise InvalidSignature."""
        if signature.digest != digest:
            raise InvalidSignature(f"of another image: {signature.digest}")
        if not self.identity(signature.repository):
            raise InvalidSignature(f"for the repository {signature.repository or '(none)'}")
        for name, value in self.annotations.items():
            if signature.annotations.get(name) != value:
                raise InvalidSignature(f"without the annotation {name}={value}")
        return signature


class _Results(Struct, Generic[T]):
    """Verified items at an image, and the reasons for rejecting others."""

    accepted: list[T] = []
    rejected: Counter[str] = msgspec.field(default_factory=Counter)

    def collect(
        self,
        attachments: Iterator[Attachment | InvalidSignature],
        verify: Callable[[Attachment], T | None],
        *,
        first: bool = False,
    ) -> None:
        """Verify attachments, with ``first`` only until one item is accepted."""
        try:
            for attachment in islice(attachments, MAX_ATTACHMENTS):
                if first and self.accepted:
                    return
                self._add(attachment, verify)
        except CONTENT_ERRORS as error:  # the list itself is malformed
            self.rejected[error.message] += 1

    def _add(self, attachment: Attachment | InvalidSignature, verify: Callable[[Attachment], T | None]) -> None:
        try:
            if isinstance(attachment, InvalidSignature):
                raise attachment
            item = verify(attachment)
        except CONTENT_ERRORS as error:
            self.rejected[error.message] += 1
        else:
            self.accepted += [] if item is None else [item]


def verify_signatures(
    source: ImageSource, digest: str, name: str, requirements: SignatureRequirements, *, first: bool = False
) -> list[Signature]:
    """Return the signatures of an image that satisfy the requirements.

    At most MAX_ATTACHMENTS of each format are read.

    Args:
        source: The repository of the image.
        digest: The digest of the image.
        name: The name of the image, for messages.
        requirements: The requirements.
        first: Whether one signature is enough.

    Raises:
        VerificationFailed: There is no such signature.
    """

    payloads: dict[str, bytes] = {}

    def read_payload(attachment: Attachment) -> bytes:
        """Read a payload; signatures with several keys usually have the same one."""
        digest_of_payload = attachment.descriptor.digest
        if digest_of_payload not in payloads:
            payload = attachment.read(MAX_PAYLOAD_SIZE)
            payloads.clear()
            payloads[digest_of_payload] = payload
        return payloads[digest_of_payload]

    def verify_simple(attachment: Attachment) -> Signature:
        encoded = attachment.descriptor.annotations.get(SIGNATURE_ANNOTATION, "")
        signed, payload = decode_base64(encoded, "signature"), read_payload(attachment)
        key = requirements.find_key(lambda key: key.verifies(signed, payload))
        content = SimpleSigning.parse(payload)
        signature = Signature(content.digest, key.name, "simple-signing", content.repository, content.annotations)
        return requirements.check(signature, digest)

    def verify_bundle(attachment: Attachment) -> Signature | None:
        raw, bundle, statement = _parse_bundle(attachment, digest)
        if statement.predicate_type != SIGN_PREDICATE:
            return None
        signer = requirements.find_bundle_signer(raw, bundle)
        signature = Signature(digest, signer, "bundle", statement.repository, statement.annotations)
        return requirements.check(signature, digest)

    results: _Results[Signature] = _Results()
    results.collect(
        tagged_attachments(source, digest, SIGNATURE_SUFFIX, SIMPLE_SIGNING_LAYER), verify_simple, first=first
    )
    if not (first and results.accepted):
        results.collect(attached_bundles(source, digest), verify_bundle, first=first)
    if results.accepted:
        return results.accepted
    raise _failure(name, "signature", results.rejected, requirements)


def verify_attestations(
    source: ImageSource, digest: str, name: str, requirements: SignatureRequirements, predicate_type: str = ""
) -> list[Attestation]:
    """Return the attestations of an image that are signed with one of the keys.

    At most MAX_ATTACHMENTS of each format are read.

    Args:
        source: The repository of the image.
        digest: The digest of the image.
        name: The name of the image, for messages.
        requirements: The requirements; only the keys apply.
        predicate_type: The type of the predicate, or "" for any.

    Raises:
        VerificationFailed: There is no such attestation.
    """

    def is_wanted(statement: Statement) -> bool:
        return statement.predicate_type != SIGN_PREDICATE and predicate_type in ("", statement.predicate_type)

    def verify_envelope(attachment: Attachment) -> Attestation | None:
        envelope = Envelope.parse(attachment.read(MAX_ATTESTATION_SIZE))
        statement = _parse_statement(envelope, digest)
        if not is_wanted(statement):
            return None
        return Attestation(statement, requirements.find_key(envelope.is_signed_by).name, "envelope")

    def verify_bundle(attachment: Attachment) -> Attestation | None:
        raw, bundle, statement = _parse_bundle(attachment, digest)
        if not is_wanted(statement):
            return None
        return Attestation(statement, requirements.find_bundle_signer(raw, bundle), "bundle")

    results: _Results[Attestation] = _Results()
    results.collect(tagged_attachments(source, digest, ATTESTATION_SUFFIX, ENVELOPE_LAYER), verify_envelope)
    results.collect(attached_bundles(source, digest), verify_bundle)
    if results.accepted:
        return results.accepted
    kind = f"attestation of type {predicate_type}" if predicate_type else "attestation"
    raise _failure(name, kind, results.rejected, requirements)


def _failure(name: str, kind: str, rejected: Counter[str], requirements: SignatureRequirements) -> VerificationFailed:
    if not rejected:
        operation = ImageOperation.SIGN_IMAGE if kind == "signature" else ImageOperation.ATTEST_IMAGE
        return VerificationFailed(
            f"{name}: no {kind} found",
            hint=Hint.any_of(
                Hint("create one with {}", operation), "copy it from the repository of the original image"
            ),
        )
    found = "; ".join(f"{count} {reason}" for reason, count in rejected.most_common(_MAX_REASONS))
    return VerificationFailed(
        f"{name}: no valid {kind} by {requirements.signer_names}: {rejected.total()} found: {found}",
        hint="check that this is the signer that the image's publisher names; if it is, do not use the image",
    )


def _parse_bundle(attachment: Attachment, digest: str) -> tuple[bytes, SigstoreBundle, Statement]:
    raw = attachment.read(MAX_ATTESTATION_SIZE)
    bundle = SigstoreBundle.parse(raw)
    return raw, bundle, _parse_statement(bundle.envelope, digest)


def _parse_statement(envelope: Envelope, digest: str) -> Statement:
    if envelope.payload_type != IN_TOTO:
        raise InvalidSignature(f"unsupported payload type {envelope.payload_type}")
    return Statement.parse(envelope.payload, digest)
