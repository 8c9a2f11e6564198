"""Private and public keys: ECDSA, RSA and Ed25519."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import nacl.bindings
import nacl.exceptions
from cryptography.exceptions import InvalidSignature as SignatureMismatch
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_der_private_key,
    load_der_public_key,
    load_pem_private_key,
    load_pem_public_key,
)

from opmkit.supply.sign.errors import InvalidKey

if TYPE_CHECKING:
    from collections.abc import Callable

_PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | ed25519.Ed25519PrivateKey
_PublicKey = ec.EllipticCurvePublicKey | rsa.RSAPublicKey | ed25519.Ed25519PublicKey
_CURVES: dict[str, hashes.HashAlgorithm] = {
    "secp256r1": hashes.SHA256(),
    "secp384r1": hashes.SHA384(),
    "secp521r1": hashes.SHA512(),
}
_RSA_BITS = range(2048, 8192 + 1)
_SUPPORTED = "use an ECDSA key on P-256, P-384 or P-521, an Ed25519 key, or an RSA key of 2048 to 8192 bits"


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key; ``name`` is that of its file, for messages."""

    key: _PublicKey = field(repr=False)
    name: str = ""

    @classmethod
    def parse(cls, content: bytes, name: str = "") -> PublicKey:
        """Parse a key in PEM (SubjectPublicKeyInfo or PKCS #1) or DER; raise InvalidKey."""
        load = load_pem_public_key if content.lstrip().startswith(b"-----") else load_der_public_key
        try:
            key = load(content)
        except (ValueError, UnsupportedAlgorithm) as error:
            hint = "pass the public key in PEM format, such as cosign.pub"
            raise InvalidKey(f"{name}: not a public key", hint=hint) from error
        if not isinstance(key, _PublicKey) or not _is_supported(key):
            raise InvalidKey(f"{name}: unsupported type of key", hint=_SUPPORTED)
        return cls(key, name)

    @property
    def pem(self) -> bytes:
        """The key in PEM format."""
        return self.key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)

    @property
    def hint(self) -> str:
        """The SHA-256 digest of the key in base64, by which bundles name their key."""
        der = self.key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        return base64.b64encode(hashlib.sha256(der).digest()).decode()

    def verifies(self, signature: bytes, content: bytes) -> bool:
        """Return whether this is a signature of the content by this key.

        Ed25519 signatures are accepted in the variant Ed25519ph as well, which cosign uses.
        """
        match self.key:
            case ec.EllipticCurvePublicKey() as key:
                hashes_by_name = {item.name: item for item in (_CURVES[key.curve.name], hashes.SHA256())}
                attempts = [partial(key.verify, signature, content, ec.ECDSA(item)) for item in hashes_by_name.values()]
                return any(map(_succeeds, attempts))
            case rsa.RSAPublicKey() as key:
                return _succeeds(partial(key.verify, signature, content, padding.PKCS1v15(), hashes.SHA256()))
            case key:
                return _succeeds(partial(key.verify, signature, content)) or _is_prehashed(key, signature, content)


@dataclass(frozen=True, slots=True)
class PrivateKey:
    """A private key; ``name`` is that of its file, for messages."""

    key: _PrivateKey = field(repr=False)
    name: str = ""

    @classmethod
    def generate(cls) -> PrivateKey:
        """Generate an ECDSA key on P-256, the type that cosign generates."""
        return cls(ec.generate_private_key(ec.SECP256R1()))

    @classmethod
    def parse(cls, content: bytes, name: str = "", password: bytes | None = None) -> PrivateKey:
        """Parse a key in PEM or DER, encrypted with ``password`` if it is given; raise InvalidKey."""
        load = load_pem_private_key if content.lstrip().startswith(b"-----") else load_der_private_key
        try:
            key = load(content, password)
        except (ValueError, TypeError, UnsupportedAlgorithm) as error:
            problem = "the password is wrong, or the key is damaged" if password else "not a private key"
            hint = "pass a private key in PEM format, such as cosign.key"
            raise InvalidKey(f"{name}: {problem}", hint=hint) from error
        if not isinstance(key, _PrivateKey) or not _is_supported(key.public_key()):
            raise InvalidKey(f"{name}: unsupported type of key", hint=_SUPPORTED)
        return cls(key, name)

    @property
    def public_key(self) -> PublicKey:
        """The public key."""
        return PublicKey(self.key.public_key(), self.name)

    @property
    def der(self) -> bytes:
        """The key in PKCS #8 without encryption."""
        return self.key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())

    def sign(self, content: bytes) -> bytes:
        """Sign the content with SHA-256, the digest that cosign and podman expect for every type of key.

        The same key gives the same signature again, except ECDSA where OpenSSL does not support RFC 6979.
        """
        match self.key:
            case ec.EllipticCurvePrivateKey() as key:
                return key.sign(content, _ecdsa(hashes.SHA256()))
            case rsa.RSAPrivateKey() as key:
                return key.sign(content, padding.PKCS1v15(), hashes.SHA256())
            case key:
                return key.sign(content)


def _ecdsa(algorithm: hashes.HashAlgorithm) -> ec.ECDSA:
    try:
        return ec.ECDSA(algorithm, deterministic_signing=True)
    except UnsupportedAlgorithm:
        return ec.ECDSA(algorithm)


def _is_supported(key: _PublicKey) -> bool:
    match key:
        case ec.EllipticCurvePublicKey():
            return key.curve.name in _CURVES
        case rsa.RSAPublicKey():
            return key.key_size in _RSA_BITS
        case _:
            return True


def _succeeds(verify: Callable[[], None]) -> bool:
    try:
        verify()
    except (SignatureMismatch, ValueError):
        return False
    return True


def _is_prehashed(key: ed25519.Ed25519PublicKey, signature: bytes, content: bytes) -> bool:
    """Return whether this is an Ed25519ph signature (RFC 8032, section 5.1)."""
    if len(signature) != nacl.bindings.crypto_sign_BYTES:
        return False
    state = nacl.bindings.crypto_sign_ed25519ph_state()
    nacl.bindings.crypto_sign_ed25519ph_update(state, content)
    try:
        return bool(nacl.bindings.crypto_sign_ed25519ph_final_verify(state, signature, key.public_bytes_raw()))
    except nacl.exceptions.BadSignatureError:
        return False
