"""Keys, and their files."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import TYPE_CHECKING

import nacl.bindings
import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from opmkit.imagetools.signatures.errors import InvalidKey
from opmkit.imagetools.signatures.keys import (
    PrivateKey,
    PublicKey,
    encrypt_private_key,
    load_private_key,
    load_public_key,
    write_key_pair,
)
from tests.kit.opm import FIXTURES
from tests.kit.signing import private_key

if TYPE_CHECKING:
    from collections.abc import Callable

KINDS = ("ecdsa", "p384", "rsa", "ed25519")
SAMPLES = FIXTURES / "signatures"


def fail() -> str:
    raise AssertionError("the password was read")


@pytest.mark.parametrize("kind", KINDS)
def test_sign_and_verify(kind: str) -> None:
    key = private_key(kind)
    signature = key.sign(b"content")
    public = PublicKey.parse(key.public_key.pem, "key.pub")
    assert public.verifies(signature, b"content")
    assert not public.verifies(signature, b"contents")
    assert not public.verifies(signature[:-1], b"content")
    assert not public.verifies(b"", b"content")
    others = [private_key(other).public_key for other in KINDS if other != kind]
    assert not any(other.verifies(signature, b"content") for other in others)


@pytest.mark.parametrize("kind", KINDS)
def test_signatures_are_reproducible(kind: str) -> None:
    assert private_key(kind).sign(b"content") == private_key(kind).sign(b"content")


def test_ecdsa_with_the_hash_of_its_curve() -> None:
    key = private_key("p384")
    assert isinstance(key.key, ec.EllipticCurvePrivateKey)
    assert key.public_key.verifies(key.key.sign(b"content", ec.ECDSA(hashes.SHA384())), b"content")


def test_ed25519ph() -> None:
    key = private_key("ed25519")
    assert isinstance(key.key, ed25519.Ed25519PrivateKey)
    state = nacl.bindings.crypto_sign_ed25519ph_state()
    nacl.bindings.crypto_sign_ed25519ph_update(state, b"content")
    secret = key.key.private_bytes_raw() + key.key.public_key().public_bytes_raw()
    signature = nacl.bindings.crypto_sign_ed25519ph_final_create(state, secret)
    assert key.public_key.verifies(signature, b"content")
    assert not key.public_key.verifies(signature, b"contents")


@pytest.fixture
def _quick_encryption(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opmkit.imagetools.signatures.keys._SCRYPT_N", 1 << 10)


@pytest.mark.usefixtures("_quick_encryption")
@pytest.mark.parametrize("kind", KINDS)
def test_encrypted_key_round_trips(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "cosign.key"
    path.write_bytes(encrypt_private_key(private_key(kind), "pässword"))
    loaded = load_private_key(str(path), lambda: "pässword")
    assert loaded.der == private_key(kind).der
    with pytest.raises(InvalidKey, match="password is wrong"):
        load_private_key(str(path), lambda: "another")


def test_key_of_cosign() -> None:
    key = load_private_key(str(SAMPLES / "ecdsa.key"), lambda: "throw-away")
    assert key.public_key.pem == (SAMPLES / "ecdsa.pub").read_bytes()
    assert load_public_key(str(SAMPLES / "ecdsa.pub")).hint == key.public_key.hint


@pytest.mark.parametrize("form", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_plain_keys_need_no_password(form: PrivateFormat, monkeypatch: pytest.MonkeyPatch) -> None:
    pem = private_key("rsa").key.private_bytes(Encoding.PEM, form, NoEncryption())
    monkeypatch.setenv("SIGNING_KEY", pem.decode())
    assert load_private_key("env://SIGNING_KEY", fail).der == private_key("rsa").der


def test_encrypted_pkcs8(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    encryption = BestAvailableEncryption(b"secret")
    path.write_bytes(private_key("ecdsa").key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
    assert load_private_key(str(path), lambda: "secret").der == private_key("ecdsa").der
    with pytest.raises(InvalidKey, match="password is wrong"):
        load_private_key(str(path), lambda: "another")


@pytest.mark.usefixtures("_quick_encryption")
def test_generated_key_pair(tmp_path: Path) -> None:
    private, public = write_key_pair(tmp_path / "cosign", lambda: "secret")
    assert private.stat().st_mode & 0o777 == 0o600
    key = load_private_key(str(private), lambda: "secret")
    assert load_public_key(str(public)).verifies(key.sign(b"x"), b"x")
    with pytest.raises(InvalidKey, match="refusing to overwrite"):
        write_key_pair(tmp_path / "cosign", fail)
    with pytest.raises(InvalidKey, match="No such file"):
        write_key_pair(tmp_path / "missing" / "cosign", lambda: "")


def edit_key(change: Callable[[dict[str, object]], object]) -> bytes:
    """Return cosign's key with a changed JSON document."""
    text = (SAMPLES / "ecdsa.key").read_text().split("-----\n")[1].partition("\n-----")[0]
    document = json.loads(base64.b64decode(text))
    change(document)
    encoded = base64.b64encode(json.dumps(document).encode())
    label = b"ENCRYPTED SIGSTORE PRIVATE KEY"
    return b"-----BEGIN %s-----\n%s\n-----END %s-----\n" % (label, encoded, label)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda key: key["kdf"]["params"].update(N=1 << 40), "too much memory"),
        (lambda key: key["kdf"]["params"].update(p=1 << 40), "too much memory"),
        (lambda key: key["kdf"]["params"].update(N=3), "malformed"),
        (lambda key: key["kdf"].update(name="argon2"), "unsupported encryption"),
        (lambda key: key.update(cipher=1), "malformed"),
        (lambda key: key.pop("ciphertext"), "malformed"),
        (lambda key: key.update(ciphertext="AAAA"), "password is wrong"),
        (lambda key: key["cipher"].update(nonce="AAAA"), "password is wrong"),
    ],
)
def test_hostile_key_files(
    change: Callable[[dict[str, object]], object], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SIGNING_KEY", edit_key(change).decode())
    with pytest.raises(InvalidKey, match=problem):
        load_private_key("env://SIGNING_KEY", lambda: "throw-away")


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("missing.key", "file does not exist"),
        ("env://OPMKIT_NO_SUCH_KEY", "not set"),
        ("awskms:///alias/x", "unsupported place"),
        ("/dev/zero", "larger than"),
        (str(Path(__file__)), "not a p"),
    ],
)
def test_unreadable_keys(source: str, problem: str) -> None:
    with pytest.raises(InvalidKey, match=problem):
        load_private_key(source, fail)
    with pytest.raises(InvalidKey, match=problem):
        load_public_key(source)


@pytest.mark.parametrize(
    "key",
    [
        ec.generate_private_key(ec.SECP256K1()),
        rsa.generate_private_key(65537, 1024),
        dsa.generate_private_key(1024),
    ],
    ids=["curve", "short RSA", "DSA"],
)
def test_unsupported_types(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey | dsa.DSAPrivateKey) -> None:
    with pytest.raises(InvalidKey, match="unsupported type"):
        PrivateKey.parse(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), "key")
    with pytest.raises(InvalidKey, match="unsupported type"):
        PublicKey.parse(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo), "key")
