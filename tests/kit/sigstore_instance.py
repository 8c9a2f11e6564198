"""A Sigstore instance of one test: a certificate authority, a certificate log, a transparency log and their root."""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from opmkit.imagetools.signatures.documents import BUNDLE_V03, IN_TOTO, Envelope
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from pathlib import Path

ISSUER = "https://issuer.example.com"
IDENTITY = "release@example.com"
_AGE = timedelta(minutes=5)
_ISSUER_OID = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_SCT_OID = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")


def _encode(data: bytes) -> str:
    return base64.b64encode(data).decode()


@dataclass(frozen=True)
class Log:
    """A log, by its signing key."""

    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    @property
    def der(self) -> bytes:
        return self.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)

    @property
    def id(self) -> bytes:
        return hashlib.sha256(self.der).digest()

    def sign(self, data: bytes) -> bytes:
        return self.key.sign(data, ec.ECDSA(hashes.SHA256()))

    def to_json(self) -> dict[str, Any]:
        """Return the log as an entry of a trusted root."""
        valid = {"start": "2020-01-01T00:00:00Z"}
        key = {"rawBytes": _encode(self.der), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": valid}
        return {
            "baseUrl": "https://log.example.com",
            "hashAlgorithm": "SHA2_256",
            "publicKey": key,
            "logId": {"keyId": _encode(self.id)},
        }


@dataclass(frozen=True)
class SigstoreInstance:
    """The authorities, which issue certificates and log entries without checking anything."""

    certificate_log: Log = field(default_factory=Log)
    transparency_log: Log = field(default_factory=Log)
    authority_key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def write_trusted_root(self, path: Path) -> Path:
        path.write_text(json.dumps(self._trusted_root()))
        return path

    @property
    def authority_pem(self) -> bytes:
        """The certificate of the authority."""
        return self._certificate_of_authority().public_bytes(Encoding.PEM)

    @property
    def log_pem(self) -> bytes:
        """The public key of the transparency log."""
        return self.transparency_log.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    def write_trust_config(self, path: Path, url: str) -> Path:
        """Write the configuration of clients, for services at a URL."""
        service = {"url": url, "majorApiVersion": 1, "validFor": {"start": "2020-01-01T00:00:00Z"}, "operator": "test"}
        signing_config = {
            "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
            "caUrls": [service],
            "oidcUrls": [service],
            "rekorTlogUrls": [service],
            "rekorTlogConfig": {"selector": "ANY"},
            "tsaUrls": [],
            "tsaConfig": {"selector": "ANY"},
        }
        document = {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": self._trusted_root(),
            "signingConfig": signing_config,
        }
        path.write_text(json.dumps(document))
        return path

    def serve(self) -> WebServer:
        """Return a server of the certificate authority and the transparency log."""
        instance = self

        class Handler(QuietHandler):
            def do_POST(self) -> None:  # noqa: N802
                request = json.loads(self.request_body())
                if self.path == "/api/v2/signingCert":
                    self.answer(200, json.dumps(instance._respond_to_request(request)).encode())
                elif self.path == "/api/v1/log/entries":
                    self.answer(201, json.dumps(instance._respond_to_entry(request)).encode())
                else:
                    self.answer(404)

        return WebServer(Handler)

    @staticmethod
    def token(identity: str = IDENTITY, lifetime: int = 600) -> str:
        """Return an OIDC token without a valid signature, which nobody verifies."""
        now = int(time.time())
        claims = {"iss": ISSUER, "sub": identity, "aud": "sigstore", "iat": now, "exp": now + lifetime}
        parts = (json.dumps(part).encode() for part in ({"alg": "HS256", "typ": "JWT"}, claims))
        return ".".join([*(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts), "AAAA"])

    def _respond_to_request(self, request: dict[str, Any]) -> dict[str, Any]:
        """Issue a certificate for a signing request, to the identity of the tests."""
        requested = x509.load_pem_x509_csr(base64.b64decode(request["certificateSigningRequest"]))
        key = requested.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        chain = [self._issue(key, IDENTITY, ISSUER), self._certificate_of_authority()]
        certificates = [certificate.public_bytes(Encoding.PEM).decode() for certificate in chain]
        return {"signedCertificateEmbeddedSct": {"chain": {"certificates": certificates}}}

    def _respond_to_entry(self, request: dict[str, Any]) -> dict[str, Any]:
        """Log an entry and return it in the form of Rekor 1."""
        if request["kind"] == "hashedrekord":
            entry = self._log_entry(request)
        else:
            proposed = request["spec"]["proposedContent"]
            certificate = x509.load_pem_x509_certificate(base64.b64decode(proposed["verifiers"][0]))
            entry = self._log(Envelope.parse(proposed["envelope"].encode()), certificate)
        proof = entry["inclusionProof"]
        return {
            "0" * 64: {
                "body": entry["canonicalizedBody"],
                "integratedTime": int(entry["integratedTime"]),
                "logID": self.transparency_log.id.hex(),
                "logIndex": 0,
                "verification": {
                    "inclusionProof": {
                        "logIndex": 0,
                        "rootHash": base64.b64decode(proof["rootHash"]).hex(),
                        "treeSize": 1,
                        "hashes": [],
                        "checkpoint": proof["checkpoint"]["envelope"],
                    },
                    "signedEntryTimestamp": entry["inclusionPromise"]["signedEntryTimestamp"],
                },
            }
        }

    def _trusted_root(self) -> dict[str, Any]:
        authority = self._certificate_of_authority().public_bytes(Encoding.DER)
        return {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [self.transparency_log.to_json()],
            "ctlogs": [self.certificate_log.to_json()],
            "certificateAuthorities": [
                {
                    "subject": {"organization": "test", "commonName": "test"},
                    "uri": "https://fulcio.example.com",
                    "certChain": {"certificates": [{"rawBytes": _encode(authority)}]},
                    "validFor": {"start": "2020-01-01T00:00:00Z"},
                }
            ],
            "timestampAuthorities": [],
        }

    def bundle(
        self, payload: bytes, identity: str = IDENTITY, issuer: str = ISSUER, age: timedelta = _AGE
    ) -> dict[str, Any]:
        """Sign a payload with a new certificate, and log the signature now; return a bundle in version 0.3.

        The certificate is valid for ten minutes from ``age`` ago.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._issue(key.public_key(), identity, issuer, age)
        unsigned = Envelope(IN_TOTO, payload)
        signature = key.sign(unsigned.signed_content, ec.ECDSA(hashes.SHA256()))
        envelope = Envelope(IN_TOTO, payload, (signature,))
        return {
            "mediaType": BUNDLE_V03,
            "verificationMaterial": {
                "certificate": {"rawBytes": _encode(certificate.public_bytes(Encoding.DER))},
                "tlogEntries": [self._log(envelope, certificate)],
            },
            "dsseEnvelope": envelope.to_json(),
        }

    def _certificate_of_authority(self) -> x509.Certificate:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        public = self.authority_key.public_key()
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        return (
            _builder(name, name, public, timedelta(days=365), timedelta(days=30))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .sign(self.authority_key, hashes.SHA256())
        )

    def _issue(
        self, key: ec.EllipticCurvePublicKey, identity: str, issuer: str, age: timedelta = _AGE
    ) -> x509.Certificate:
        """Issue a certificate with the signature of the certificate log (RFC 6962) in it."""
        authority_key = self.authority_key.public_key()
        name: x509.GeneralName = x509.RFC822Name(identity)
        if "://" in identity:
            name = x509.UniformResourceIdentifier(identity)
        issuer_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
        builder = (
            _builder(x509.Name([]), issuer_name, key, timedelta(minutes=10), age)
            .add_extension(usage, critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key), critical=False)
            .add_extension(x509.SubjectAlternativeName([name]), critical=True)
            .add_extension(x509.UnrecognizedExtension(_ISSUER_OID, issuer.encode()), critical=False)
        )
        entry = builder.sign(self.authority_key, hashes.SHA256()).tbs_certificate_bytes
        issuer_der = authority_key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        timestamp = int(time.time() * 1000)
        signed = struct.pack("!BBQH", 0, 0, timestamp, 1) + hashlib.sha256(issuer_der).digest()
        signed += len(entry).to_bytes(3, "big") + entry + b"\0\0"
        signature = self.certificate_log.sign(signed)
        sct = struct.pack("!B32sQHBBH", 0, self.certificate_log.id, timestamp, 0, 4, 3, len(signature)) + signature
        sct_list = struct.pack("!HH", len(sct) + 2, len(sct)) + sct
        octets = bytes([4, len(sct_list)]) if len(sct_list) < 128 else bytes([4, 0x81, len(sct_list)])
        extension = x509.UnrecognizedExtension(_SCT_OID, octets + sct_list)
        return builder.add_extension(extension, critical=False).sign(self.authority_key, hashes.SHA256())

    def _log(self, envelope: Envelope, certificate: x509.Certificate) -> dict[str, Any]:
        """Log the signature of an envelope."""
        verifier = _encode(certificate.public_bytes(Encoding.PEM))
        spec = {
            "envelopeHash": {"algorithm": "sha256", "value": hashlib.sha256(envelope.encode()).hexdigest()},
            "payloadHash": {"algorithm": "sha256", "value": hashlib.sha256(envelope.payload).hexdigest()},
            "signatures": [{"signature": _encode(envelope.signatures[0]), "verifier": verifier}],
        }
        return self._log_entry({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec})

    def _log_entry(self, content: dict[str, Any]) -> dict[str, Any]:
        """Return the only entry of a log, with proof and promise of inclusion."""
        body = json.dumps(content).encode()
        integrated, log = int(time.time()), self.transparency_log
        promise = {"body": _encode(body), "integratedTime": integrated, "logID": log.id.hex(), "logIndex": 0}
        canonical = json.dumps(promise, separators=(",", ":"), sort_keys=True).encode()
        root = hashlib.sha256(b"\0" + body).digest()
        note = f"log.example.com - 1\n1\n{_encode(root)}\n"
        signature = _encode(log.id[:4] + log.sign(note.encode()))
        return {
            "logIndex": "0",
            "logId": {"keyId": _encode(log.id)},
            "kindVersion": {"kind": content["kind"], "version": "0.0.1"},
            "integratedTime": str(integrated),
            "inclusionPromise": {"signedEntryTimestamp": _encode(log.sign(canonical))},
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": _encode(root),
                "treeSize": "1",
                "hashes": [],
                "checkpoint": {"envelope": f"{note}\n\u2014 log.example.com {signature}\n"},
            },
            "canonicalizedBody": _encode(body),
        }


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, lifetime: timedelta, age: timedelta
) -> x509.CertificateBuilder:
    start = datetime.now(UTC) - age
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + lifetime)
    )
