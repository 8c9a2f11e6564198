"""Keyless signatures by the authorities of a test, verified without a network."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.signing import NAME, Question, Signed, ask, private_key
from tests.kit.sigstore_instance import IDENTITY, ISSUER, SigstoreInstance

from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.registry import RegistryRepository
from opmkit.imagetools.signatures.attachments import attach_bundle
from opmkit.imagetools.signatures.documents import SIGN_PREDICATE, SignatureFormat, Statement
from opmkit.imagetools.signatures.errors import VerificationFailed
from opmkit.imagetools.signatures.verify import SignatureRequirements, verify_attestations, verify_signatures
from opmkit.supply.sign.keyless import CertificateIdentity, KeylessSigner
from opmkit.supply.sign.sign import Signer

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("sigstore", reason="the extra keyless is not installed")


@pytest.fixture(scope="module")
def sigstore() -> SigstoreInstance:
    return SigstoreInstance()


@pytest.fixture
def trusted_root(sigstore: SigstoreInstance, tmp_path: Path) -> Path:
    return sigstore.write_trusted_root(tmp_path / "trusted_root.json")


def attach(signed: Signed, bundle: dict[str, Any]) -> None:
    attach_bundle(signed.repository, signed.image, json.dumps(bundle).encode(), SIGN_PREDICATE)


def statement(signed: Signed, predicate_type: str = SIGN_PREDICATE) -> bytes:
    return Statement(signed.image.digest, predicate_type, {}, annotations={"a": "b"}).encode()


def requirements(trusted_root: Path, identity: str = IDENTITY, issuer: str = ISSUER) -> SignatureRequirements:
    return SignatureRequirements([], certificate=CertificateIdentity(identity, issuer, trusted_root))


def reason(signed: Signed, required: SignatureRequirements) -> str:
    with pytest.raises(VerificationFailed) as caught:
        verify_signatures(signed.repository, signed.image.digest, "IMAGE", required)
    return caught.value.message


@pytest.mark.parametrize("identity", [IDENTITY, "https://ci.example.com/workflow@refs/heads/main"])
def test_verify(signed: Signed, sigstore: SigstoreInstance, trusted_root: Path, identity: str) -> None:
    attach(signed, sigstore.bundle(statement(signed), identity))
    required = requirements(trusted_root, identity)
    (signature,) = verify_signatures(signed.repository, signed.image.digest, "IMAGE", required)
    assert (signature.key, signature.annotations) == (f"{identity} ({ISSUER})", {"a": "b"})
    assert "1 signed with a certificate instead of a key" in reason(
        signed, SignatureRequirements([private_key("ecdsa").public_key])
    )


def test_attestation(signed: Signed, sigstore: SigstoreInstance, trusted_root: Path) -> None:
    attach(signed, sigstore.bundle(statement(signed, "https://example.com/type")))
    required = requirements(trusted_root)
    (attestation,) = verify_attestations(signed.repository, signed.image.digest, "IMAGE", required)
    assert attestation.statement.predicate_type == "https://example.com/type"
    assert reason(signed, required) == "IMAGE: no signature found"


def test_other_identities(signed: Signed, sigstore: SigstoreInstance, trusted_root: Path) -> None:
    attach(signed, sigstore.bundle(statement(signed)))
    assert "not signed by other@example.com" in reason(signed, requirements(trusted_root, "other@example.com"))
    assert "not signed by" in reason(signed, requirements(trusted_root, issuer="https://other.example.com"))
    Signer(private_key("ecdsa")).sign(signed.repository, signed.image, NAME)
    message = reason(signed, requirements(trusted_root, "other@example.com"))
    assert "1 signed with a key instead of a certificate" in message


@pytest.mark.parametrize(
    ("identity", "issuer", "age", "accepted"),
    [
        (IDENTITY, ISSUER, timedelta(minutes=5), True),
        (IDENTITY, ISSUER, timedelta(minutes=11), False),
        (IDENTITY, ISSUER, timedelta(days=20), False),
        (IDENTITY, ISSUER, timedelta(minutes=-5), False),
        ("other@example.com", ISSUER, timedelta(minutes=5), False),
        (f"{IDENTITY}.example.org", ISSUER, timedelta(minutes=5), False),
        (IDENTITY.upper(), ISSUER, timedelta(minutes=5), False),
        (f"https://{IDENTITY}", ISSUER, timedelta(minutes=5), False),
        (IDENTITY, "https://other.example.com", timedelta(minutes=5), False),
        (IDENTITY, f"{ISSUER}/", timedelta(minutes=5), False),
    ],
    ids=[
        "valid",
        "expired",
        "expired long ago",
        "not yet valid",
        "other identity",
        "longer identity",
        "case of the identity",
        "other type of identity",
        "other issuer",
        "issuer with a slash",
    ],
)
def test_validly_issued_certificates(
    signed: Signed,
    sigstore: SigstoreInstance,
    trusted_root: Path,
    identity: str,
    issuer: str,
    age: timedelta,
    *,
    accepted: bool,
) -> None:
    attach(signed, sigstore.bundle(statement(signed), identity, issuer, age))
    if accepted:
        assert len(verify_signatures(signed.repository, signed.image.digest, "IMAGE", requirements(trusted_root))) == 1
    else:
        assert f"1 not signed by {IDENTITY} ({ISSUER})" in reason(signed, requirements(trusted_root))


def test_other_instance(signed: Signed, trusted_root: Path) -> None:
    attach(signed, SigstoreInstance().bundle(statement(signed)))
    assert "not signed by" in reason(signed, requirements(trusted_root))


def flip(text: str) -> str:
    """Return base64 text with another first byte."""
    return ("A" if text[0] != "A" else "B") + text[1:]


def test_tampered_bundles(signed: Signed, sigstore: SigstoreInstance, trusted_root: Path) -> None:
    required = requirements(trusted_root)
    original = sigstore.bundle(statement(signed))
    attach(signed, sigstore.bundle(Statement("sha256:" + "0" * 64, SIGN_PREDICATE, {}).encode()))
    other_payload = json.loads(json.dumps(original))
    other_payload["dsseEnvelope"]["payload"] = sigstore.bundle(statement(signed) + b" ")["dsseEnvelope"]["payload"]
    attach(signed, other_payload)
    for path in (
        ("dsseEnvelope", "signatures", 0, "sig"),
        ("verificationMaterial", "tlogEntries", 0, "canonicalizedBody"),
        ("verificationMaterial", "tlogEntries", 0, "inclusionPromise", "signedEntryTimestamp"),
        ("verificationMaterial", "tlogEntries", 0, "inclusionProof", "rootHash"),
        ("verificationMaterial", "certificate", "rawBytes"),
    ):
        tampered: Any = json.loads(json.dumps(original))
        parent = tampered
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = flip(parent[path[-1]])
        attach(signed, tampered)
    without_log = json.loads(json.dumps(original))
    del without_log["verificationMaterial"]["tlogEntries"]
    attach(signed, without_log)
    message = reason(signed, required)
    assert "8 found" in message
    assert "it is about another image" in message
    attach(signed, original)
    assert len(verify_signatures(signed.repository, signed.image.digest, "IMAGE", required)) == 1


def test_invalid_trusted_root(tmp_path: Path) -> None:
    path = tmp_path / "root.json"
    for content, problem in (("", "invalid trusted root"), ("{}", "invalid trusted root"), ("[1]", "invalid")):
        path.write_text(content)
        with pytest.raises(ImageToolsError, match=problem):
            CertificateIdentity(IDENTITY, ISSUER, path).load()
    with pytest.raises(ImageToolsError, match="No such file"):
        CertificateIdentity(IDENTITY, ISSUER, tmp_path / "missing").load()


def test_sign(signed: Signed, sigstore: SigstoreInstance, trusted_root: Path, tmp_path: Path) -> None:
    with sigstore.serve() as services:
        config = sigstore.write_trust_config(tmp_path / "config.json", f"http://{services.host}")
        signer = KeylessSigner(sigstore.token(), config)
        signer.sign(signed.repository, signed.image, NAME, {"a": "b"})
        signer.attest(signed.repository, signed.image, Statement(signed.image.digest, "https://example.com/type", {}))
    required = requirements(trusted_root)
    (signature,) = verify_signatures(signed.repository, signed.image.digest, "IMAGE", required)
    assert signature.annotations == {"a": "b"}
    assert len(verify_attestations(signed.repository, signed.image.digest, "IMAGE", required)) == 1


@pytest.mark.timeout(900)  # building takes a minute, the first time
def test_signature_in_both_formats(
    pushed: Signed, sigstore: SigstoreInstance, trusted_root: Path, tmp_path: Path, gopolicy: Path
) -> None:
    assert isinstance(pushed.repository, RegistryRepository)
    name = pushed.repository.name
    with sigstore.serve() as services:
        config = sigstore.write_trust_config(tmp_path / "config.json", f"http://{services.host}")
        signer = KeylessSigner(sigstore.token(), config, format=SignatureFormat.BOTH)
        signer.sign(pushed.repository, pushed.image, name, {"a": "b"})
        with pytest.raises(ImageToolsError, match="keyless attestations: unsupported format: both"):
            signer.attest(pushed.repository, pushed.image, Statement(pushed.image.digest, "https://example.com/x", {}))
    (signature,) = verify_signatures(pushed.repository, pushed.image.digest, "IMAGE", requirements(trusted_root))
    assert (signature.repository, signature.annotations) == (name, {"a": "b"})
    # podman and CRI-O verify the other format.
    (tmp_path / "ca.pem").write_bytes(sigstore.authority_pem)
    (tmp_path / "log.pem").write_bytes(sigstore.log_pem)
    (tmp_path / "registries.yaml").write_text("default-docker:\n  use-sigstore-attachments: true\n")
    (tmp_path / "registries.conf").write_text("")
    questions: list[Question] = []
    for subject, issuer in ((IDENTITY, ISSUER), ("other@example.com", ISSUER), (IDENTITY, "https://other.example.com")):
        required = {
            "type": "sigstoreSigned",
            "fulcio": {"caPath": str(tmp_path / "ca.pem"), "oidcIssuer": issuer, "subjectEmail": subject},
            "rekorPublicKeyPath": str(tmp_path / "log.pem"),
            "signedIdentity": {"type": "matchRepository"},
        }
        policy = tmp_path / f"policy-{len(questions)}.json"
        policy.write_text(json.dumps({"default": [required]}))
        settings = str(tmp_path), str(tmp_path / "registries.conf")
        questions.append(Question(str(policy), f"docker://{name}:1", *settings))
    answers = ask(gopolicy, questions)
    assert [answer["accepted"] for answer in answers] == [True, False, False], answers


def test_sign_without_services(signed: Signed, sigstore: SigstoreInstance, tmp_path: Path) -> None:
    with sigstore.serve() as services:
        url = f"http://{services.host}"
    config = sigstore.write_trust_config(tmp_path / "config.json", url)
    with pytest.raises(ImageToolsError, match="the Sigstore services failed"):
        KeylessSigner(sigstore.token(), config).sign(signed.repository, signed.image, NAME)
    with sigstore.serve() as services:
        sigstore.write_trust_config(config, f"http://{services.host}/missing")
        with pytest.raises(ImageToolsError, match="the Sigstore services failed"):
            KeylessSigner(sigstore.token(), config).sign(signed.repository, signed.image, NAME)
    assert signed.repository.referrers(signed.image.digest) == ()


@pytest.mark.parametrize("token", ["x", "a.b.c", SigstoreInstance.token(lifetime=-60)])
def test_invalid_token(signed: Signed, token: str) -> None:
    with pytest.raises(ImageToolsError, match="invalid OIDC token"):
        KeylessSigner(token).sign(signed.repository, signed.image, NAME)


def test_no_identity(signed: Signed, tmp_path: Path) -> None:
    with pytest.raises(ImageToolsError, match="no OIDC token found") as caught:
        KeylessSigner(trust_config=tmp_path / "missing").sign(signed.repository, signed.image, NAME)
    assert "identity_token" in str(caught.value.hint)


def test_invalid_trust_config(signed: Signed, sigstore: SigstoreInstance, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{}")
    with pytest.raises(ImageToolsError, match=r"config\.json: cannot be read"):
        KeylessSigner(sigstore.token(), path).sign(signed.repository, signed.image, NAME)
    with pytest.raises(ImageToolsError, match="No such file"):
        KeylessSigner(sigstore.token(), tmp_path / "missing").sign(signed.repository, signed.image, NAME)
