"""``opm image sign``, ``attest`` and their verification with the installed command."""

from __future__ import annotations

import json
import os
import re
import subprocess
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.signatures.attachments import attach_bundle
from opmkit.imagetools.signatures.documents import SIGN_PREDICATE, Statement
from opmkit.imagetools.signatures.keys import load_private_key
from opmkit.imagetools.store import LayoutRepository
from tests.kit.bundles import bundle_image, push_image, resolve_digest
from tests.kit.command_lines import console_script
from tests.kit.content import put_image
from tests.kit.images import small_image
from tests.kit.opm import FIXTURES, PROGRAM

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

SAMPLES = FIXTURES / "signatures"
ENCRYPTED_KEY, KEY = str(SAMPLES / "ecdsa.key"), ("--key", "env://SIGNING_KEY")
PUBLIC_KEY = ("--key", str(SAMPLES / "ecdsa.pub"))
OTHER_KEY = ("--key", str(SAMPLES / "rsa.pub"))


@pytest.fixture(scope="module")
def plain_key() -> str:
    """Return the key without encryption, which takes a second to remove."""
    key = load_private_key(ENCRYPTED_KEY, lambda: "throw-away").key
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


@pytest.fixture
def signer(opm: Opm, plain_key: str) -> Opm:
    opm.env["SIGNING_KEY"] = plain_key
    return opm


@pytest.fixture
def image(registry: Registry, request: pytest.FixtureRequest) -> str:
    """Push an image and return its name with a tag."""
    name = "e2e-signing/" + re.sub("[^a-z]", "", request.node.name.lower())
    put_image(RegistryClient(RegistryOptions(plain_http=True)).target(Reference(registry.host, name)), "1", b"x")
    return f"{registry.host}/{name}:1"


@pytest.mark.parametrize("format_", [(), ("--new-bundle-format",)], ids=["tag", "bundle"])
def test_sign_and_verify(signer: Opm, image: str, format_: tuple[str, ...]) -> None:
    name = signer("image", "sign", "--use-http", *KEY, "-a", "stage=test", *format_, image).strip()
    assert name.startswith(f"{image.removesuffix(':1')}@sha256:")
    expected = f"{name}: signed with {PUBLIC_KEY[1]} stage=test\n"
    assert signer("image", "verify", "--use-http", *PUBLIC_KEY, "-a", "stage=test", image) == expected
    (document,) = json.loads(signer("image", "verify", "--use-http", *PUBLIC_KEY, "-o", "json", name))
    assert document["signatures"][0]["annotations"] == {"stage": "test"}
    failed = signer.attempt("image", "verify", "--use-http", *OTHER_KEY, image)
    assert failed.returncode == 1
    assert failed.stderr.startswith(
        f"Error: {name}: no valid signature by {OTHER_KEY[1]}: 1 found: 1 not signed with the key\n  hint: "
    )


TAG = "stored under cosign's tag: verified by opm, cosign 2 and 3, podman, CRI-O and OpenShift\n"
BUNDLE = "stored as a Sigstore bundle: verified by opm and cosign 3"
ONLY_BUNDLE = f"{BUNDLE}; podman, CRI-O and OpenShift require --format both\n"


@pytest.mark.parametrize(
    ("flags", "stored", "verifiers"),
    [
        ((), {"simple-signing"}, TAG),
        (("--format", "tag"), {"simple-signing"}, TAG),
        (("--format", "bundle"), {"bundle"}, ONLY_BUNDLE),
        (("--new-bundle-format",), {"bundle"}, ONLY_BUNDLE),
        (("--format", "both"), {"simple-signing", "bundle"}, f"{TAG}{BUNDLE}\n"),
    ],
)
def test_formats(signer: Opm, image: str, flags: tuple[str, ...], stored: set[str], verifiers: str) -> None:
    done = signer.attempt("image", "sign", "--use-http", *KEY, *flags, image)
    assert done.returncode == 0
    assert done.stderr == verifiers
    (document,) = json.loads(signer("image", "verify", "--use-http", *PUBLIC_KEY, "-o", "json", image))
    assert {signature["format"] for signature in document["signatures"]} == stored
    (signer.directory / "predicate.json").write_text("{}")
    signer("image", "attest", "--use-http", *KEY, *flags, image, "--type", "vuln", "--predicate", "predicate.json")
    verified = signer("image", "verify-attestation", "--use-http", *PUBLIC_KEY, image)
    assert len(verified.splitlines()) == len(stored)


def test_conflicting_formats(signer: Opm, image: str) -> None:
    failed = signer.attempt("image", "sign", "--use-http", *KEY, "--format", "both", "--new-bundle-format", image)
    assert "--new-bundle-format" in failed.stderr
    assert "--format" in failed.stderr
    assert "invalid" in signer.attempt("image", "sign", *KEY, "--format", "all", image).stderr.lower()


def test_unsigned_image(opm: Opm, image: str) -> None:
    failed = opm.attempt("image", "verify", "--use-http", *PUBLIC_KEY, image)
    assert failed.returncode == 1
    assert "no signature found\n  hint: create one with 'opm image sign'" in failed.stderr


def test_layout(signer: Opm) -> None:
    digest = put_image(LayoutRepository(signer.directory / "layout"), "1", b"x").digest
    name = f"oci:{signer.directory}/layout@{digest}"
    identity = "quay.io/me/app"
    assert (
        signer("image", "sign", *KEY, "--sign-container-identity", identity, "oci:layout:1") == f"oci:layout@{digest}\n"
    )
    signer("image", "verify", *PUBLIC_KEY, "--signed-repository", identity, name)
    failed = signer.attempt("image", "verify", *PUBLIC_KEY, "--signed-repository", "quay.io/you/app", name)
    assert "1 for the repository quay.io/me/app" in failed.stderr


def test_attest_and_verify(signer: Opm, image: str) -> None:
    (signer.directory / "sbom.json").write_text('{"spdxVersion": "SPDX-2.3"}')
    attest = ("image", "attest", "--use-http", *KEY, "--predicate", "sbom.json", image, "--type")
    name = signer(*attest, "spdxjson").strip()
    signer(*attest, "https://example.com/type", "--new-bundle-format")
    verify = ("image", "verify-attestation", "--use-http", *PUBLIC_KEY, image)
    assert signer(*verify) == (
        f"{name}: https://spdx.dev/Document, signed with {PUBLIC_KEY[1]}\n"
        f"{name}: https://example.com/type, signed with {PUBLIC_KEY[1]}\n"
    )
    (document,) = json.loads(signer(*verify, "--type", "spdxjson", "-o", "json"))
    assert document["attestations"][0]["statement"]["predicate"] == {"spdxVersion": "SPDX-2.3"}
    failed = signer.attempt(*verify, "--type", "vuln")
    assert "no attestation of type https://cosign.sigstore.dev/attestation/vuln/v1 found" in failed.stderr
    assert "hint: create one with 'opm image attest'" in failed.stderr


def test_invalid_input(signer: Opm, image: str) -> None:
    (signer.directory / "list.json").write_text("[]")
    attest = ("image", "attest", "--use-http", *KEY, image, "--predicate", "list.json", "--type")
    assert "unknown type of predicate 'sbom'" in signer.attempt(*attest, "sbom").stderr
    assert "list.json: expected an object" in signer.attempt(*attest, "vuln").stderr
    sign = ("image", "sign", "--use-http", image, "--key")
    assert "missing.key: file does not exist" in signer.attempt(*sign, "missing.key").stderr
    assert "invalid annotation 'a': expected NAME=VALUE" in signer.attempt(*sign, KEY[1], "-a", "a").stderr
    assert "the private key is encrypted: no password" in signer.attempt(*sign, ENCRYPTED_KEY).stderr
    signer.env["COSIGN_PASSWORD"] = "wrong"
    failed = signer.attempt(*sign, ENCRYPTED_KEY)
    assert "the password is wrong" in failed.stderr
    assert "hint: set COSIGN_PASSWORD" in failed.stderr


def test_key_pair_without_a_password(opm: Opm) -> None:
    failed = opm.attempt("image", "generate-key-pair", "--output-key-prefix", "new")
    assert failed.stderr == (
        "Error: new.key: does not exist and cannot be created: no password\n"
        "  hint: set COSIGN_PASSWORD to a new password\n"
    )
    assert not list(opm.directory.iterdir())


def test_terminal_escapes_in_annotations(signer: Opm, image: str) -> None:
    signer("image", "sign", "--use-http", *KEY, "-a", "x=\x1b[2J", image)
    assert "x=\\x1b[2J" in signer("image", "verify", "--use-http", *PUBLIC_KEY, image)


def test_examples_of_the_documentation(registry: Registry, tmp_path: Path) -> None:
    repository = RegistryClient(RegistryOptions(plain_http=True)).target(Reference(registry.host, "catalog"))
    put_image(repository, "1", b"x")
    script = console_script(FIXTURES.parent / "docs" / "signing.md")
    assert script.count("opm image") >= 5
    env = {**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}", "REGISTRY": registry.host}
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"bomFormat": "CycloneDX"' in done.stdout
    done = subprocess.run(
        [PROGRAM, "image", "generate-key-pair"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "cosign.key: refusing to overwrite" in done.stderr


@pytest.fixture
def index(signer: Opm, registry: Registry, request: pytest.FixtureRequest) -> tuple[str, str]:
    """Push a bundle and an index of it by digest; return the names of both images, by digest."""
    prefix = f"{registry.host}/{re.sub('[^a-z]', '', request.node.name.lower())}"
    push_image(f"{prefix}/lagoon:1.0.0", bundle_image("lagoon", "1.0.0", signer.directory))
    bundle = f"{prefix}/lagoon@{resolve_digest(f'{prefix}/lagoon:1.0.0')}"
    add = ("index", "add", "-b", bundle, "-i", "scratch", "-t", f"{prefix}/catalog:1", "--to-fbc", "--push")
    signer(*add, "--use-http")
    return bundle, f"{prefix}/catalog@{resolve_digest(f'{prefix}/catalog:1')}"


def test_attest_sbom_and_provenance(signer: Opm, index: tuple[str, str]) -> None:
    bundle, catalog = index
    for image in (bundle, catalog):
        signer("image", "attest", "--use-http", *KEY, "--sbom", "--provenance", image)
        verified = signer("image", "verify-attestation", "--use-http", *PUBLIC_KEY, "-o", "json", image)
        sbom, provenance = (item["statement"]["predicate"] for item in json.loads(verified)[0]["attestations"])
        assert sbom["metadata"]["component"]["bom-ref"] == image
        (entry,) = provenance["buildDefinition"]["externalParameters"]["bundles"]
        assert (entry["package"], entry["name"]) == ("lagoon", "lagoon.v1.0.0")
        digests = [item["digest"]["sha256"] for item in provenance["buildDefinition"]["resolvedDependencies"]]
        assert digests == ([bundle.rpartition(":")[2]] if image == catalog else [])
    names = [item["name"] for item in sbom["components"]]
    assert "lagoon.v1.0.0" in names
    # The statements are reproducible, and so are signatures: nothing is added by a second run.
    signer("image", "attest", "--use-http", *KEY, "--sbom", "--provenance", catalog)
    again = signer("image", "verify-attestation", "--use-http", *PUBLIC_KEY, "-o", "json", catalog)
    assert again == verified


def test_attest_another_image(signer: Opm, image: str) -> None:
    push_image(image, small_image(signer.directory, {"file": b"x"}))
    attest = ("image", "attest", "--use-http", *KEY, image)
    assert "not a bundle or index image" in signer.attempt(*attest, "--sbom").stderr
    assert "nothing to attest" in signer.attempt(*attest).stderr
    assert "--predicate and --type require each other" in signer.attempt(*attest, "--type", "vuln").stderr


@pytest.mark.parametrize(
    ("identity", "issuer", "minutes"),
    [
        ("", "", 30),
        ("", "", -30),
        ("other@example.com", "", 5),
        ("", "https://other.example.com", 5),
    ],
    ids=["expired", "not yet valid", "other identity", "other issuer"],
)
def test_certificate_that_is_not_accepted(opm: Opm, identity: str, issuer: str, minutes: int) -> None:
    pytest.importorskip("sigstore", reason="the extra keyless is not installed")
    from tests.kit.sigstore_instance import IDENTITY, ISSUER, SigstoreInstance

    sigstore, repository = SigstoreInstance(), LayoutRepository(opm.directory / "layout")
    image = put_image(repository, "1", b"x").descriptor
    sigstore.write_trusted_root(opm.directory / "root.json")
    statement = Statement(image.digest, SIGN_PREDICATE, {}).encode()
    bundle = sigstore.bundle(statement, identity or IDENTITY, issuer or ISSUER, timedelta(minutes=minutes))
    attach_bundle(repository, image, json.dumps(bundle).encode(), SIGN_PREDICATE)
    required = ("--certificate-identity", IDENTITY, "--certificate-oidc-issuer", ISSUER, "--trusted-root", "root.json")
    failed = opm.attempt("image", "verify", "oci:layout:1", *required)
    assert failed.returncode == 1
    assert f"1 not signed by {IDENTITY} ({ISSUER}): " in failed.stderr


def test_keyless_signature(opm: Opm) -> None:
    pytest.importorskip("sigstore", reason="the extra keyless is not installed")
    from tests.kit.sigstore_instance import IDENTITY, ISSUER, SigstoreInstance

    sigstore, repository = SigstoreInstance(), LayoutRepository(opm.directory / "layout")
    image = put_image(repository, "1", b"x").descriptor
    sigstore.write_trusted_root(opm.directory / "root.json")
    with sigstore.serve() as services:
        sigstore.write_trust_config(opm.directory / "config.json", f"http://{services.host}")
        keyless = ("--keyless", "--trust-config", "config.json", "--identity-token", sigstore.token())
        signed = opm.attempt("image", "sign", *keyless, "--format", "both", "oci:layout:1")
        assert signed.stdout == f"oci:layout@{image.digest}\n", signed.stderr
        assert signed.stderr == (
            "stored under cosign's tag: verified by cosign 2 and 3, podman, CRI-O and OpenShift, but not by opm\n"
            "stored as a Sigstore bundle: verified by opm and cosign 3\n"
        )
        opm.env["SIGSTORE_ID_TOKEN"] = sigstore.token()
        (opm.directory / "predicate.json").write_text("{}")
        opm("image", "attest", *keyless[:3], "--type", "vuln", "--predicate", "predicate.json", "oci:layout:1")
    identity = ("--certificate-identity", IDENTITY, "--certificate-oidc-issuer", ISSUER)
    verify = ("image", "verify", "oci:layout:1")
    output = opm(*verify, *identity, "--trusted-root", "root.json")
    assert output == f"oci:layout@{image.digest}: signed with {IDENTITY} ({ISSUER})\n"
    assert "vuln/v1, signed with" in opm(
        "image", "verify-attestation", *verify[2:], *identity, "--trusted-root", "root.json"
    )
    failed = opm.attempt("image", "sign", *keyless[:3], "--key", "x", "oci:layout:1")
    assert "pass either --key or --keyless" in failed.stderr
    (opm.directory / "root.json").write_text("{}")
    assert "root.json: invalid trusted root" in opm.attempt(*verify, *identity, "--trusted-root", "root.json").stderr
    assert "pass either --key, or --certificate-identity" in opm.attempt(*verify).stderr
    assert "require each other" in opm.attempt(*verify, *identity[:2]).stderr
    assert "--trusted-root requires" in opm.attempt(*verify, *PUBLIC_KEY, "--trusted-root", "x").stderr
