"""Private and public keys: ECDSA, RSA and Ed25519, and the files of cosign and OpenSSL that contain them."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import secrets
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import nacl.bindings
import nacl.exceptions
import nacl.secret
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

from opmkit.core.errors import LimitExceeded
from opmkit.imagetools.errors import InvalidImage
from opmkit.imagetools.signatures.errors import InvalidKey
from opmkit.imagetools.spec.fields import Fields

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


_MAX_SIZE = 1 << 20
_SCRYPT_N, _SCRYPT_R, _SCRYPT_P = 1 << 16, 8, 1
_MAX_SCRYPT_MEMORY = 1 << 28
_LABELS = (b"ENCRYPTED SIGSTORE PRIVATE KEY", b"ENCRYPTED COSIGN PRIVATE KEY")
_ENCRYPTED_PKCS8 = b"-----BEGIN ENCRYPTED PRIVATE KEY-----"
_ENVIRONMENT = "env://"


def load_private_key(source: str, password: Callable[[], str]) -> PrivateKey:
    """Load a private key from a file, or from an environment variable (``env://NAME``).

    Args:
        source: The path or variable.
        password: A function that returns the password; it is called if the key is encrypted.

    Raises:
        InvalidKey: The key cannot be read, decrypted or used.
    """
    content = read_key_file(source)
    for label in _LABELS:
        if b"-----BEGIN %s-----" % label in content:
            return PrivateKey.parse(_decrypt(content, label, source, password), source)
    secret = password().encode() if _ENCRYPTED_PKCS8 in content else None
    return PrivateKey.parse(content, source, secret)


def load_public_key(source: str) -> PublicKey:
    """Load a public key from a file, or from an environment variable (``env://NAME``); raise InvalidKey."""
    return PublicKey.parse(read_key_file(source), source)


def encrypt_private_key(key: PrivateKey, password: str) -> bytes:
    """Return the key in the format of cosign's ``cosign.key``."""
    salt, nonce = secrets.token_bytes(32), secrets.token_bytes(nacl.secret.SecretBox.NONCE_SIZE)
    box = nacl.secret.SecretBox(_derive(password, salt, _SCRYPT_N, _SCRYPT_R, _SCRYPT_P))
    document = {
        "kdf": {
            "name": "scrypt",
            "params": {"N": _SCRYPT_N, "r": _SCRYPT_R, "p": _SCRYPT_P},
            "salt": base64.b64encode(salt).decode(),
        },
        "cipher": {"name": "nacl/secretbox", "nonce": base64.b64encode(nonce).decode()},
        "ciphertext": base64.b64encode(box.encrypt(key.der, nonce).ciphertext).decode(),
    }
    text = base64.encodebytes(json.dumps(document, separators=(",", ":")).encode()).replace(b"\n", b"")
    lines = [text[start : start + 64] for start in range(0, len(text), 64)]
    return b"\n".join((b"-----BEGIN %s-----" % _LABELS[0], *lines, b"-----END %s-----" % _LABELS[0], b""))


def write_key_pair(prefix: Path, password: Callable[[], str]) -> tuple[Path, Path]:
    """Generate a key and write ``PREFIX.key``, which only the user can read, and ``PREFIX.pub``.

    Args:
        prefix: The path without a suffix.
        password: A function that returns the password; it is called if no file exists yet.

    Raises:
        InvalidKey: A file exists already, or cannot be written.
    """
    paths = Path(f"{prefix}.key"), Path(f"{prefix}.pub")
    for path in paths:
        if path.exists():
            raise InvalidKey(f"{path}: refusing to overwrite an existing file", hint="choose another path")
    key = PrivateKey.generate()
    contents = (encrypt_private_key(key, password()), 0o600), (key.public_key.pem, 0o644)
    for path, (content, mode) in zip(paths, contents, strict=True):
        try:
            path.touch(mode, exist_ok=False)
            path.write_bytes(content)
        except OSError as error:
            raise InvalidKey(f"{path}: {error.strerror or error}", hint="choose a directory that exists") from error
    return paths


def read_key_file(source: str) -> bytes:
    """Return the content of a file, or of an environment variable (``env://NAME``); raise InvalidKey."""
    if source.startswith(_ENVIRONMENT):
        name = source.removeprefix(_ENVIRONMENT)
        if name not in os.environ:
            raise InvalidKey(f"{source}: the environment variable {name} is not set", hint=f"set {name} to the key")
        return os.environ[name].encode()
    if "://" in source:
        raise InvalidKey(
            f"{source}: unsupported place of a key", hint="pass a file, or env://NAME for an environment variable"
        )
    try:
        with Path(source).open("rb") as file:
            content = file.read(_MAX_SIZE + 1)
    except FileNotFoundError as error:
        raise InvalidKey(f"{source}: file does not exist", hint="check the path") from error
    except OSError as error:
        raise InvalidKey(f"{source}: {error.strerror or error}", hint="check the path") from error
    except ValueError as error:  # NUL characters and lone surrogates
        raise InvalidKey(f"{source!r}: not a valid path", hint="check the path") from error
    if len(content) > _MAX_SIZE:
        raise InvalidKey(f"{source}: not a key: larger than {_MAX_SIZE} bytes", hint="pass a key in PEM format")
    return content


def _decrypt(content: bytes, label: bytes, source: str, password: Callable[[], str]) -> bytes:
    """Return the decrypted key in PKCS #8."""
    text = content.partition(b"-----BEGIN %s-----" % label)[2].partition(b"-----END")[0]
    try:
        document = Fields.from_json(base64.b64decode(text), "key", limit=_MAX_SIZE)
        kdf, cipher = document.nested("kdf"), document.nested("cipher")
        if (kdf.string("name"), cipher.string("name")) != ("scrypt", "nacl/secretbox"):
            raise InvalidKey(f"{source}: unsupported encryption of the key", hint="encrypt it with a current cosign")
        parameters = kdf.nested("params")
        n, r, p = (parameters.integer(name) for name in ("N", "r", "p"))
        salt, nonce = base64.b64decode(kdf.string("salt")), base64.b64decode(cipher.string("nonce"))
        ciphertext = base64.b64decode(document.string("ciphertext"))
        if 128 * n * r > _MAX_SCRYPT_MEMORY or not 1 <= p <= 16:
            raise InvalidKey(f"{source}: invalid key: the encryption needs too much memory or time")
        box = nacl.secret.SecretBox(_derive(password(), salt, n, r, p))
        return box.decrypt(ciphertext, nonce)
    except nacl.exceptions.CryptoError as error:
        raise InvalidKey(
            f"{source}: the password is wrong, or the key is damaged", hint="set COSIGN_PASSWORD to the password"
        ) from error
    except (ValueError, InvalidImage, LimitExceeded) as error:
        raise InvalidKey(f"{source}: malformed encrypted key", hint="create the key again") from error


def _derive(password: str, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(password.encode(), salt=salt, n=n, r=r, p=p, maxmem=_MAX_SCRYPT_MEMORY + (64 << 20), dklen=32)
