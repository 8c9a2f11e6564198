"""Signatures and attestations of the public API, with the installed command as the other side."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from opmkit import CertificateIdentity, ImageToolsError, Opm, RegistryOptions, SigningKey
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient
from tests.kit.content import put_image
from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm as Command
    from tests.kit.registry import Registry

SAMPLES = FIXTURES / "signatures"
PUBLIC_KEY, OTHER_KEY = SAMPLES / "ecdsa.pub", SAMPLES / "rsa.pub"
FLAGS = ("--use-http", "--key", str(PUBLIC_KEY))
OPTIONS = RegistryOptions(plain_http=True)


@pytest.fixture(scope="module")
def key() -> SigningKey:
    """Return the key, which is decrypted once."""
    return SigningKey(SAMPLES / "ecdsa.key", password="throw-away")


@pytest.fixture
def image(registry: Registry, tmp_path: Path) -> str:
    """Push an image and return its name with a tag."""
    name = f"api-signing/{tmp_path.name.lower().replace('_', '-')}"
    put_image(RegistryClient(OPTIONS).target(Reference(registry.host, name)), "1", b"x")
    return f"{registry.host}/{name}:1"


def test_the_command_verifies_signatures(key: SigningKey, image: str, opm: Command, tmp_path: Path) -> None:
    api = Opm(OPTIONS, tmp_path / "store")
    (signed,) = api.sign_images([image], key, annotations={"stage": "test"})
    assert signed.to_dict() == {"image": signed.image, "digest": signed.digest, "annotations": {"stage": "test"}}
    (verified,) = api.verify_images([image], keys=[PUBLIC_KEY], annotations={"stage": "test"})
    (printed,) = json.loads(opm("image", "verify", *FLAGS, "-o", "json", image))
    assert verified.to_dict() == printed
    assert verified.image == signed.image


def test_the_command_verifies_attestations(key: SigningKey, image: str, opm: Command, tmp_path: Path) -> None:
    api = Opm(OPTIONS, tmp_path / "store")
    attested = api.attest_image(image, key, predicates={"spdxjson": {"name": "x"}})
    assert attested.predicate_types == ("https://spdx.dev/Document",)
    (verified,) = api.verify_attestations([image], predicate_type="spdxjson", keys=[PUBLIC_KEY])
    (printed,) = json.loads(opm("image", "verify-attestation", *FLAGS, "-o", "json", image))
    assert verified.to_dict() == printed
    assert verified.attestations[0].statement.predicate == {"name": "x"}


def test_other_keys_and_other_content_are_rejected(key: SigningKey, image: str, tmp_path: Path) -> None:
    api = Opm(OPTIONS, tmp_path / "store")
    with pytest.raises(ImageToolsError, match="no signature found"):
        api.verify_images([image], keys=[PUBLIC_KEY])
    api.sign_images([image], key)
    with pytest.raises(ImageToolsError, match="not signed with the key"):
        api.verify_images([image], keys=[OTHER_KEY])
    with pytest.raises(ImageToolsError, match="without the annotation a=b"):
        api.verify_images([image], keys=[PUBLIC_KEY], annotations={"a": "b"})
    with pytest.raises(ImageToolsError, match="for the repository"):
        api.verify_images([image], keys=[PUBLIC_KEY], repositories=["quay.io/me/other"])
    with pytest.raises(ImageToolsError, match="no attestation"):
        api.verify_attestations([image], keys=[PUBLIC_KEY])


def test_a_signer_is_required(key: SigningKey, image: str, tmp_path: Path) -> None:
    api = Opm(OPTIONS, tmp_path / "store")
    with pytest.raises(ValueError, match="either keys or a certificate"):
        api.verify_images([image])
    with pytest.raises(ValueError, match="nothing to attest"):
        api.attest_image(image, key)
    with pytest.raises(ImageToolsError, match="the password is wrong"):
        api.sign_images([image], SigningKey(SAMPLES / "ecdsa.key", password="wrong"))
    assert "throw-away" not in repr(key)


def test_empty_restrictions_are_errors(image: str, tmp_path: Path) -> None:
    for identity, issuer in (("", "https://login.example.com"), ("me@example.com", "")):
        with pytest.raises(ValueError, match="cannot be empty"):
            CertificateIdentity(identity, issuer)
    with pytest.raises(ValueError, match="cannot be empty"):
        Opm().verify_images([image], keys=[tmp_path / "key.pub"], repositories=[""])


def test_key_pairs_are_not_overwritten(tmp_path: Path) -> None:
    pair = Opm().generate_key_pair(tmp_path / "release", password="secret")
    assert pair.private_key.stat().st_mode & 0o777 == 0o600
    assert pair.to_dict() == {"private_key": f"{tmp_path}/release.key", "public_key": f"{tmp_path}/release.pub"}
    with pytest.raises(ImageToolsError, match="refusing to overwrite"):
        Opm().generate_key_pair(tmp_path / "release", password="secret")
