"""Policies that require signatures."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions, RegistryRepository
from opmkit.imagetools.signatures.documents import SignatureFormat
from opmkit.imagetools.signatures.errors import InvalidKey, InvalidSignaturePolicy, VerificationFailed
from opmkit.imagetools.signatures.identity import IdentityRule, SignedIdentity
from opmkit.imagetools.signatures.policy import SignaturePolicy
from opmkit.imagetools.spec.fields import Fields
from opmkit.supply.sign.sign import Signer
from tests.kit.signing import Signed, private_key

if TYPE_CHECKING:
    from pathlib import Path

KEY = private_key("ecdsa")
KEY_DATA = base64.b64encode(KEY.public_key.pem).decode()
CLIENT = RegistryClient(RegistryOptions(plain_http=True))
ACCEPT, REJECT = {"type": "insecureAcceptAnything"}, {"type": "reject"}


def signed_with_key(**identity: str) -> dict[str, Any]:
    """Return the requirement of a signature with the key, and a name in it that matches."""
    return {"type": "sigstoreSigned", "keyData": KEY_DATA, "signedIdentity": identity or {"type": "matchRepository"}}


def policy(tmp_path: Path, document: dict[str, Any]) -> SignaturePolicy:
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(document))
    return SignaturePolicy.load(str(path))


def reference(signed: Signed) -> Reference:
    """Return the reference of a pushed image by tag."""
    assert isinstance(signed.repository, RegistryRepository)
    return Reference.parse(f"{signed.repository.name}:1")


def test_key_for_all_images(pushed: Signed, tmp_path: Path) -> None:
    path = tmp_path / "cosign.pub"
    path.write_bytes(KEY.public_key.pem)
    required = SignaturePolicy.load(str(path))
    with pytest.raises(VerificationFailed, match=rf"{pushed.image.digest}: no signature found"):
        required.verify(reference(pushed), CLIENT)
    Signer(private_key("rsa")).sign(pushed.repository, pushed.image, "x/y")
    with pytest.raises(VerificationFailed, match=r"no valid signature by .*cosign\.pub: 1 found"):
        required.verify(reference(pushed), CLIENT)
    Signer(KEY, SignatureFormat.BUNDLE).sign(pushed.repository, pushed.image, "")
    assert required.verify(reference(pushed), CLIENT) == pushed.image.digest


def test_policy_by_repository(pushed: Signed, tmp_path: Path) -> None:
    image = reference(pushed)
    scopes = {image.registry: [REJECT], image.name: [signed_with_key()]}
    required = policy(tmp_path, {"default": [ACCEPT], "transports": {"docker": scopes}})
    with pytest.raises(VerificationFailed, match="no signature found"):
        required.verify(image, CLIENT)
    Signer(KEY).sign(pushed.repository, pushed.image, "quay.io/me/other")
    with pytest.raises(VerificationFailed, match=r"1 for the repository quay\.io/me/other"):
        required.verify(image, CLIENT)
    Signer(KEY).sign(pushed.repository, pushed.image, image.name)
    assert required.verify(image, CLIENT) == pushed.image.digest
    namespace = image.name.rpartition("/")[0]
    required = policy(tmp_path, {"default": [ACCEPT], "transports": {"docker": {namespace: [REJECT]}}})
    with pytest.raises(VerificationFailed, match="rejected by"):
        required.verify(image, CLIENT)
    required = policy(tmp_path, {"default": [ACCEPT], "transports": {"docker": {"quay.io": [REJECT]}}})
    assert required.verify(image, CLIENT) == pushed.image.digest


def test_all_requirements_must_be_satisfied(pushed: Signed, tmp_path: Path) -> None:
    image = reference(pushed)
    both = {**signed_with_key(), "keyData": base64.b64encode(private_key("rsa").public_key.pem).decode()}
    required = policy(tmp_path, {"default": [signed_with_key(), both]})
    Signer(KEY).sign(pushed.repository, pushed.image, image.name)
    with pytest.raises(VerificationFailed, match="1 not signed with the key"):
        required.verify(image, CLIENT)
    Signer(private_key("rsa")).sign(pushed.repository, pushed.image, image.name)
    assert required.verify(image, CLIENT) == pushed.image.digest


BY_TAG = Reference.parse("quay.io/me/app:1")
BY_DIGEST = Reference.parse("quay.io/me/app@sha256:" + "a" * 64)
HUB = Reference.parse("docker.io/library/app:1")


@pytest.mark.parametrize(
    ("rule", "image", "identity", "accepted"),
    [
        ({}, BY_TAG, "quay.io/me/app:1", True),
        ({}, BY_TAG, "quay.io/me/app", False),
        ({}, BY_TAG, "quay.io/me/app:2", False),
        ({}, BY_DIGEST, "quay.io/me/app:3", True),
        ({}, BY_DIGEST, "quay.io/me/app", False),
        ({}, BY_DIGEST, "quay.io/me/other", False),
        ({"type": "matchExact"}, BY_TAG, "quay.io/me/app:1", True),
        ({"type": "matchExact"}, BY_DIGEST, "quay.io/me/app", False),
        ({"type": "matchRepository"}, BY_TAG, "quay.io/me/app:2", True),
        ({"type": "matchRepository"}, HUB, "index.docker.io/library/app", True),
        ({"type": "matchRepository"}, BY_TAG, "", False),
        ({"type": "matchRepository"}, BY_TAG, "\x1b[2J", False),
        ({"type": "exactReference", "dockerReference": "quay.io/you/app:1"}, BY_TAG, "quay.io/you/app:1", True),
        ({"type": "exactReference", "dockerReference": "quay.io/you/app:1"}, BY_TAG, "quay.io/you/app:2", False),
        ({"type": "exactRepository", "dockerRepository": "quay.io/you/app"}, BY_TAG, "quay.io/you/app:7", True),
        (
            {"type": "remapIdentity", "prefix": "quay.io/me", "signedPrefix": "registry.example/vendor"},
            BY_DIGEST,
            "registry.example/vendor/app:1",
            True,
        ),
        (
            {"type": "remapIdentity", "prefix": "quay.io/m", "signedPrefix": "registry.example/vendor"},
            BY_DIGEST,
            "registry.example/vendor/app",
            False,
        ),
    ],
)
def test_names_in_signatures(rule: dict[str, str], image: Reference, identity: str, *, accepted: bool) -> None:
    default = SignedIdentity(IdentityRule.MATCH_REPO_DIGEST_OR_EXACT)
    parsed = SignedIdentity.parse(Fields(rule, "rule")) if rule else default
    assert parsed.matcher(image)(identity) is accepted


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({}, r"default: expected at least one requirement"),
        ({"default": {}}, "expected a list"),
        ({"default": [1]}, "expected an object"),
        ({"default": [ACCEPT], "transports": []}, "expected an object"),
        ({"default": [ACCEPT], "transports": {"docker": {"quay.io": []}}}, r"expected at least one requirement"),
        ({"default": [{"type": "signedByX"}]}, "unsupported type 'signedByX'"),
        (
            {"default": [{"type": "signedBaseLayer", "baseLayerIdentity": {"type": "matchExact"}}]},
            "type: signedBaseLayer",
        ),
        ({"default": [{"type": "signedBaseLayer", "baseLayerIdentity": {}}]}, "baseLayerIdentity.type: missing"),
        ({"default": [{**signed_with_key(), "keyPath": ""}]}, "expected one of keyPath"),
        ({"default": [{"type": "sigstoreSigned", "fulcio": {"caPath": "x"}}]}, "expected one log with fulcio"),
        ({"default": [{"type": "sigstoreSigned", "pki": {}, "rekorPublicKeyPath": "x"}]}, "none with pki"),
        ({"default": [{**signed_with_key(), "pki": {}}]}, "expected one of keyPath"),
        ({"default": [{"type": "signedBy"}]}, "keyType: missing"),
        ({"default": [{"type": "signedBy", "keyType": "x", "keyPath": "k"}]}, "invalid key type 'x'"),
        ({"default": [{"type": "signedBy", "keyType": "X509Certificates", "keyPath": "k"}]}, "X509Certificates: unsup"),
        ({"default": [{"type": "signedBy", "keyType": "GPGKeys"}]}, "expected one of keyPath"),
        ({"default": [{"type": "sigstoreSigned"}]}, "expected one of keyPath"),
        ({"default": [{**signed_with_key(), "keyPath": "x"}]}, "expected one of keyPath"),
        ({"default": [{**signed_with_key(), "keyData": "?"}]}, "invalid base64"),
        ({"default": [{**signed_with_key(), "rekorPublicKeyPath": "x"}]}, "rekorPublicKeyPath: unsupported"),
        ({"default": [signed_with_key(type="x")]}, "unsupported type 'x'"),
        ({"default": [signed_with_key(type="exactReference")]}, "dockerReference: missing"),
    ],
)
def test_malformed_policies(document: dict[str, Any], problem: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidSignaturePolicy, match=problem) as caught:
        policy(tmp_path, document)
    assert caught.value.hint


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("missing.pub", r"missing\.pub: file does not exist"),
        ("\0", r"'\\x00': not a valid path"),
        ("\ud800", r"'\\ud800': not a valid path"),
    ],
)
def test_missing_key_of_a_policy(path: str, problem: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidKey, match=rf"policy\.json\.default\[0\]: .*{problem}"):
        policy(tmp_path, {"default": [{"type": "sigstoreSigned", "keyPath": path}]})
