"""Signatures and attestations exchanged with cosign 3, in both formats and with all types of keys.

Set OPMKIT_REFERENCE_COSIGN to the path of cosign 3.1.3 to run these tests.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from tests.kit.content import put_image
from tests.kit.signing import private_key
from tests.kit.sigstore_instance import IDENTITY, ISSUER, SigstoreInstance

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

COSIGN = os.environ.get("OPMKIT_REFERENCE_COSIGN", "")
PASSWORD = {"COSIGN_PASSWORD": "secret"}
OFFLINE = ("--tlog-upload=false", "--use-signing-config=false", "--yes")
KINDS = ("ecdsa", "p384", "rsa", "ed25519")
FORMATS = pytest.mark.parametrize("bundles", [False, True], ids=["tag", "bundle"])
PREDICATE = '{"content": "sample"}'

pytestmark = pytest.mark.skipif(not COSIGN, reason="OPMKIT_REFERENCE_COSIGN is not set")


@pytest.fixture
def signer(opm: Opm) -> Opm:
    """Write a key of each type, and a predicate; return the command."""
    command = replace(opm, flags=("--use-http",), env=PASSWORD)
    for kind in KINDS:
        key = private_key(kind)
        pem = key.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (command.directory / f"{kind}.pem").write_bytes(pem)
        (command.directory / f"{kind}.pub").write_bytes(key.public_key.pem)
    (command.directory / "predicate.json").write_text(PREDICATE)
    return command


@pytest.fixture
def cosign(signer: Opm) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs cosign in the directory of the keys."""
    return partial(_run, signer)


def _run(signer: Opm, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COSIGN, *arguments],
        cwd=signer.directory,
        env={**os.environ, **PASSWORD},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def image(registry: Registry, request: pytest.FixtureRequest) -> str:
    """Push an image and return its name by digest."""
    name = "cosign/" + re.sub("[^a-z0-9]", "", request.node.name.lower())
    repository = RegistryClient(RegistryOptions(plain_http=True)).target(Reference(registry.host, name))
    return f"{repository.name}@{put_image(repository, '1', b'x').digest}"


@FORMATS
@pytest.mark.parametrize("kind", KINDS)
def test_cosign_verifies_signatures(
    signer: Opm, cosign: Callable[..., subprocess.CompletedProcess[str]], image: str, kind: str, *, bundles: bool
) -> None:
    signer("image", "sign", "--key", f"{kind}.pem", "-a", "a=b", *(["--new-bundle-format"] if bundles else []), image)
    verify = ("verify", "--insecure-ignore-tlog=true", "-a", "a=b", image, "--key")
    done = cosign(*verify, f"{kind}.pub")
    assert done.returncode == 0, done.stderr
    assert '"optional":{"a":"b"}' in done.stdout or bundles
    assert cosign(*verify, "ed25519.pub" if kind != "ed25519" else "rsa.pub").returncode != 0


@FORMATS
@pytest.mark.parametrize("kind", KINDS)
def test_cosign_verifies_attestations(
    signer: Opm, cosign: Callable[..., subprocess.CompletedProcess[str]], image: str, kind: str, *, bundles: bool
) -> None:
    form = ["--new-bundle-format"] if bundles else []
    attest = ("image", "attest", "--key", f"{kind}.pem", "--type", "cyclonedx", "--predicate", "predicate.json")
    signer(*attest, *form, image)
    verify = ("verify-attestation", "--insecure-ignore-tlog=true", image, "--key", f"{kind}.pub", "--type")
    done = cosign(*verify, "cyclonedx")
    assert done.returncode == 0, done.stderr
    assert cosign(*verify, "spdxjson").returncode != 0


@FORMATS
@pytest.mark.parametrize("kind", KINDS)
def test_opm_verifies_cosign(
    signer: Opm, cosign: Callable[..., subprocess.CompletedProcess[str]], image: str, kind: str, *, bundles: bool
) -> None:
    imported = cosign("import-key-pair", "--key", f"{kind}.pem", "--output-key-prefix", f"imported-{kind}", "--yes")
    assert imported.returncode == 0, imported.stderr
    key = ("--key", f"imported-{kind}.key", f"--new-bundle-format={str(bundles).lower()}")
    signed = cosign("sign", *key, *OFFLINE, "-a", "a=b", image)
    assert signed.returncode == 0, signed.stderr
    predicate = ("--type", "cyclonedx", "--predicate", "predicate.json")
    attested = cosign("attest", *key, *OFFLINE, *predicate, image)
    assert attested.returncode == 0, attested.stderr
    signer("image", "verify", "--key", f"{kind}.pub", "-a", "a=b", image)
    signer("image", "verify-attestation", "--key", f"{kind}.pub", "--type", "cyclonedx", image)
    # Both add to the signatures of the other.
    signer("image", "sign", "--key", f"imported-{kind}.key", *(["--new-bundle-format"] if bundles else []), image)
    output = signer("image", "verify", "--key", f"{kind}.pub", image)
    assert len(output.splitlines()) == 2
    assert cosign("sign", *key, *OFFLINE, "-a", "c=d", image).returncode == 0
    signer("image", "verify", "--key", f"{kind}.pub", "-a", "c=d", image)
    signer("image", "verify", "--key", f"{kind}.pub", "-a", "a=b", image)


def test_cosign_reads_generated_keys(signer: Opm, cosign: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    signer.attempt("image", "generate-key-pair")
    done = cosign("public-key", "--key", "cosign.key")
    assert done.stdout.strip() == (signer.directory / "cosign.pub").read_text().strip(), done.stderr


@pytest.mark.parametrize("new", ["true", "false"])
def test_cosign_verifies_both_formats(
    signer: Opm, cosign: Callable[..., subprocess.CompletedProcess[str]], image: str, new: str
) -> None:
    signer("image", "sign", "--key", "ecdsa.pem", "--format", "both", image)
    verify = ("verify", "--insecure-ignore-tlog=true", f"--new-bundle-format={new}", image, "--key")
    done = cosign(*verify, "ecdsa.pub")
    assert done.returncode == 0, done.stderr
    assert cosign(*verify, "rsa.pub").returncode != 0


@pytest.mark.parametrize("new", ["true", "false"])
def test_cosign_verifies_keyless_signatures_in_both_formats(
    signer: Opm, cosign: Callable[..., subprocess.CompletedProcess[str]], image: str, new: str
) -> None:
    pytest.importorskip("sigstore", reason="the extra keyless is not installed")
    sigstore = SigstoreInstance()
    with sigstore.serve() as services:
        sigstore.write_trust_config(signer.directory / "config.json", f"http://{services.host}")
        keyless = ("--keyless", "--trust-config", "config.json", "--identity-token", sigstore.token())
        signer("image", "sign", *keyless, "--format", "both", image)
    sigstore.write_trusted_root(signer.directory / "root.json")
    trusted = ("--trusted-root", "root.json", "--certificate-oidc-issuer", ISSUER, image, "--certificate-identity")
    done = cosign("verify", f"--new-bundle-format={new}", *trusted, IDENTITY)
    assert done.returncode == 0, done.stderr
    assert cosign("verify", f"--new-bundle-format={new}", *trusted, "other@example.com").returncode != 0


def test_cosign_verifies_keyless_signatures(
    signer: Opm, cosign: Callable[..., subprocess.CompletedProcess[str]], image: str
) -> None:
    pytest.importorskip("sigstore", reason="the extra keyless is not installed")
    sigstore = SigstoreInstance()
    with sigstore.serve() as services:
        sigstore.write_trust_config(signer.directory / "config.json", f"http://{services.host}")
        keyless = ("--keyless", "--trust-config", "config.json", "--identity-token", sigstore.token())
        signer("image", "sign", *keyless, "-a", "a=b", image)
        signer("image", "attest", *keyless, "--type", "cyclonedx", "--predicate", "predicate.json", image)
    sigstore.write_trusted_root(signer.directory / "root.json")
    trusted = ("--trusted-root", "root.json", "--certificate-oidc-issuer", ISSUER, image, "--certificate-identity")
    done = cosign("verify", *trusted, IDENTITY)
    assert done.returncode == 0, done.stderr
    assert cosign("verify", *trusted, "other@example.com").returncode != 0
    done = cosign("verify-attestation", "--type", "cyclonedx", *trusted, IDENTITY)
    assert done.returncode == 0, done.stderr
