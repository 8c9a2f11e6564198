"""Signed documents: simple signing payloads, DSSE envelopes, in-toto statements and Sigstore bundles."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.core.errors import LimitExceeded
from opmkit.core.files import disk_errors
from opmkit.imagetools.errors import ImageToolsError, InvalidImage
from opmkit.imagetools.signatures.errors import InvalidSignature
from opmkit.imagetools.spec.fields import Fields, dump_json

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from opmkit.imagetools.signatures.keys import PrivateKey, PublicKey


MAX_PAYLOAD_SIZE = 1 << 20
"""Bytes of a simple signing payload."""
MAX_ATTESTATION_SIZE = 64 << 20
"""Bytes of an envelope or a bundle, which contains an SBOM, for example."""
MAX_ENVELOPE_SIGNATURES = 100
IN_TOTO = "application/vnd.in-toto+json"
BUNDLE_V03 = "application/vnd.dev.sigstore.bundle.v0.3+json"
SIGN_PREDICATE = "https://sigstore.dev/cosign/sign/v1"
"""The predicate type of the statement with which cosign 3 signs an image."""
STATEMENT_V1 = "https://in-toto.io/Statement/v1"
_STATEMENTS = frozenset({STATEMENT_V1, "https://in-toto.io/Statement/v0.1"})
_SIMPLE_SIGNING = "cosign container image signature"
_SIMPLE_SIGNING_TYPES = frozenset({_SIMPLE_SIGNING, SIGN_PREDICATE, "atomic container signature"})
_BUNDLES = frozenset(
    {BUNDLE_V03, *(f"application/vnd.dev.sigstore.bundle+json;version=0.{minor}" for minor in (1, 2, 3))}
)


def decode_base64(text: str, subject: str) -> bytes:
    """Decode base64; raise InvalidSignature, which names ``subject``."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidSignature(f"{subject}: invalid base64") from error


def _fields(raw: bytes, subject: str, limit: int) -> Fields:
    try:
        return Fields.from_json(raw, subject, limit=limit)
    except (InvalidImage, LimitExceeded) as error:
        raise InvalidSignature(error.message) from error


class SimpleSigning(Struct, frozen=True):
    """A payload that binds a signature to the digest of an image.

    See containers-signature(5) and cosign's SIGNATURE_SPEC.md. ``repository`` is the docker-reference.
    """

    repository: str
    digest: str
    annotations: Mapping[str, str] = {}

    def encode(self) -> bytes:
        """Return the JSON text."""
        critical = {
            "identity": {"docker-reference": self.repository},
            "image": {"docker-manifest-digest": self.digest},
            "type": _SIMPLE_SIGNING,
        }
        return dump_json({"critical": critical, "optional": dict(self.annotations) or None})

    @classmethod
    def parse(cls, raw: bytes) -> SimpleSigning:
        """Parse the JSON text; raise InvalidSignature."""
        try:
            fields = _fields(raw, "payload", MAX_PAYLOAD_SIZE)
            critical = fields.nested("critical")
            if critical.string("type") not in _SIMPLE_SIGNING_TYPES:
                raise InvalidSignature("payload.critical.type: not a signature of a container image")
            return cls(
                critical.nested("identity").string("docker-reference", ""),
                critical.nested("image").string("docker-manifest-digest"),
                _strings(fields.nested("optional")),
            )
        except InvalidImage as error:
            raise InvalidSignature(error.message) from error


def _strings(fields: Fields) -> dict[str, str]:
    return {name: value for name, value in fields.values.items() if isinstance(value, str)}


@dataclass(frozen=True, slots=True)
class Envelope:
    """A DSSE envelope (Dead Simple Signing Envelope 1.0)."""

    payload_type: str
    payload: bytes = field(repr=False)
    signatures: tuple[bytes, ...] = ()

    @classmethod
    def sign(cls, payload: bytes, key: PrivateKey, payload_type: str = IN_TOTO) -> Envelope:
        """Sign a payload."""
        unsigned = cls(payload_type, payload)
        return cls(payload_type, payload, (key.sign(unsigned.signed_content),))

    @property
    def signed_content(self) -> bytes:
        """The pre-authentication encoding, which signatures refer to."""
        kind = self.payload_type.encode()
        return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(self.payload), self.payload)

    def is_signed_by(self, key: PublicKey) -> bool:
        """Return whether one of the signatures is by this key."""
        content = self.signed_content
        return any(key.verifies(signature, content) for signature in self.signatures)

    def encode(self) -> bytes:
        """Return the JSON text."""
        return dump_json(self.to_json())

    def to_json(self) -> dict[str, object]:
        """Return the JSON object."""
        return {
            "payload": base64.b64encode(self.payload).decode(),
            "payloadType": self.payload_type,
            "signatures": [{"sig": base64.b64encode(signature).decode()} for signature in self.signatures],
        }

    @classmethod
    def parse(cls, raw: bytes) -> Envelope:
        """Parse the JSON text; raise InvalidSignature."""
        return cls.from_fields(_fields(raw, "envelope", MAX_ATTESTATION_SIZE))

    @classmethod
    def from_fields(cls, fields: Fields) -> Envelope:
        """Parse the JSON object; raise InvalidSignature."""
        try:
            signatures = tuple(
                decode_base64(Fields.from_value(item, path).string("sig"), path)
                for path, item in fields.items("signatures", limit=MAX_ENVELOPE_SIGNATURES)
            )
            payload = decode_base64(fields.string("payload"), f"{fields.path}.payload")
            return cls(fields.string("payloadType"), payload, signatures)
        except (InvalidImage, LimitExceeded) as error:
            raise InvalidSignature(error.message) from error


@dataclass(frozen=True, slots=True)
class Statement:
    """An in-toto statement about one image.

    ``repository`` is the name of the subject, or "" if it has no name; ``annotations`` are those of the subject.
    """

    digest: str
    predicate_type: str
    predicate: Mapping[str, object] = field(repr=False)
    repository: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the JSON text."""
        algorithm, _, encoded = self.digest.partition(":")
        optional = {"name": self.repository, "annotations": dict(self.annotations)}
        subject = {"digest": {algorithm: encoded}} | {key: value for key, value in optional.items() if value}
        return dump_json(
            {
                "_type": STATEMENT_V1,
                "subject": [subject],
                "predicateType": self.predicate_type,
                "predicate": self.predicate,
            }
        )

    @classmethod
    def parse(cls, raw: bytes, digest: str) -> Statement:
        """Parse the JSON text of a statement about the image ``digest``.

        Raises:
            InvalidSignature: The text is malformed, or about something else.
        """
        try:
            fields = _fields(raw, "statement", MAX_ATTESTATION_SIZE)
            if fields.string("_type") not in _STATEMENTS:
                raise InvalidSignature("statement._type: not an in-toto statement")
            algorithm, _, encoded = digest.partition(":")
            for path, item in fields.items("subject", limit=1000):
                subject = Fields.from_value(item, path)
                if subject.nested("digest").get(algorithm) == encoded:
                    return cls(
                        digest,
                        fields.string("predicateType"),
                        fields.nested("predicate").values,
                        subject.string("name", ""),
                        _strings(subject.nested("annotations")),
                    )
        except (InvalidImage, LimitExceeded) as error:
            raise InvalidSignature(error.message) from error
        raise InvalidSignature("it is about another image")


class SigstoreBundle(Struct, frozen=True):
    """A Sigstore bundle with an envelope, signed by the key that ``key_hint`` names, or with a certificate."""

    envelope: Envelope
    key_hint: str = ""
    has_certificate: bool = False

    def encode(self) -> bytes:
        """Return the JSON text of a bundle in version 0.3."""
        return dump_json(
            {
                "mediaType": BUNDLE_V03,
                "verificationMaterial": {"publicKey": {"hint": self.key_hint}},
                "dsseEnvelope": self.envelope.to_json(),
            }
        )

    @classmethod
    def parse(cls, raw: bytes) -> SigstoreBundle:
        """Parse the JSON text; raise InvalidSignature."""
        try:
            fields = _fields(raw, "bundle", MAX_ATTESTATION_SIZE)
            if fields.string("mediaType") not in _BUNDLES:
                raise InvalidSignature(f"unsupported type of bundle: {fields.string('mediaType')}")
            if fields.get("dsseEnvelope") is None:
                raise InvalidSignature("unsupported bundle: it contains no envelope")
            material = fields.nested("verificationMaterial")
            return cls(
                Envelope.from_fields(fields.nested("dsseEnvelope")),
                material.nested("publicKey").string("hint", ""),
                has_certificate=any(material.get(key) is not None for key in ("certificate", "x509CertificateChain")),
            )
        except InvalidImage as error:
            raise InvalidSignature(error.message) from error


PREDICATE_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "cyclonedx": "https://cyclonedx.org/bom",
        "link": "https://in-toto.io/Link/v1",
        "openvex": "https://openvex.dev/ns",
        "slsaprovenance": "https://slsa.dev/provenance/v0.2",
        "slsaprovenance02": "https://slsa.dev/provenance/v0.2",
        "slsaprovenance1": "https://slsa.dev/provenance/v1",
        "spdxjson": "https://spdx.dev/Document",
        "vuln": "https://cosign.sigstore.dev/attestation/vuln/v1",
    }
)
"""The types that cosign has names for."""


def predicate_type(name: str) -> str:
    """Return the URI of a type of predicate, given its URI or cosign's name for it.

    Raises:
        ImageToolsError: The name is unknown.
    """
    if name in PREDICATE_TYPES:
        return PREDICATE_TYPES[name]
    if ":" in name:
        return name
    raise ImageToolsError(
        f"unknown type of predicate {name!r}", hint=f"use a URI, or one of: {', '.join(PREDICATE_TYPES)}"
    )


def read_predicate(path: Path) -> Mapping[str, object]:
    """Read a predicate from a file with a JSON object.

    Raises:
        DiskError: The file cannot be read.
        ImageToolsError: It does not contain a JSON object.
    """
    with disk_errors(path), path.open("rb") as file:
        content = file.read(MAX_ATTESTATION_SIZE + 1)
    try:
        return Fields.from_json(content, str(path), limit=MAX_ATTESTATION_SIZE).values
    except (InvalidImage, LimitExceeded) as error:
        raise ImageToolsError(error.message, hint="pass a file with a JSON object") from error


class SignatureFormat(StrEnum):
    """The format of signatures and attestations: each verifier reads some."""

    TAG = "tag"
    """Layers under cosign's tags."""
    BUNDLE = "bundle"
    """Sigstore bundles as referrers, as cosign 3 stores them by default."""
    BOTH = "both"

    @property
    def has_tag(self) -> bool:
        """Whether layers under cosign's tags are written."""
        return self is not SignatureFormat.BUNDLE

    @property
    def has_bundle(self) -> bool:
        """Whether Sigstore bundles are written."""
        return self is not SignatureFormat.TAG
