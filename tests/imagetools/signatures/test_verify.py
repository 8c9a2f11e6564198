"""Signatures and attestations of images in layouts and registries, by friends and enemies."""

from __future__ import annotations

import base64
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import NotFound, RegistryUnavailable, UnsupportedImage
from opmkit.imagetools.reference import Reference, parse_image_reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions, RegistryRepository, RetryPolicy
from opmkit.imagetools.repository import digest_tag
from opmkit.imagetools.signatures.attachments import (
    SIGNATURE_ANNOTATION,
    SIGNATURE_SUFFIX,
    SIMPLE_SIGNING_LAYER,
    attach_bundle,
    attach_layer,
    open_for_signing,
    open_for_verification,
)
from opmkit.imagetools.signatures.documents import (
    BUNDLE_V03,
    MAX_PAYLOAD_SIZE,
    SIGN_PREDICATE,
    Envelope,
    SignatureFormat,
    SigstoreBundle,
    SimpleSigning,
    Statement,
)
from opmkit.imagetools.signatures.errors import VerificationFailed
from opmkit.imagetools.signatures.identity import repository_matcher
from opmkit.imagetools.signatures.keys import load_public_key
from opmkit.imagetools.signatures.verify import (
    Attestation,
    Signature,
    SignatureRequirements,
    verify_attestations,
    verify_signatures,
)
from opmkit.imagetools.spec import Descriptor, IndexManifest, Manifest, Platform, media_types
from opmkit.imagetools.store import LayoutRepository
from opmkit.supply.sign.sign import Signer, images_of
from tests.kit.content import described, put, put_image
from tests.kit.faults import Answer, Corrupt, Fault, FaultProxy
from tests.kit.opm import FIXTURES
from tests.kit.signing import NAME, Signed, private_key

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.registry import Registry

KEY = private_key("ecdsa")
TRUSTED = SignatureRequirements([KEY.public_key])
STRANGER = private_key("ed25519")
SAMPLES = FIXTURES / "signatures"
FORMAT = (SignatureFormat.TAG, SignatureFormat.BUNDLE)
FORMATS = pytest.mark.parametrize("bundles", [False, True], ids=["tag", "bundle"])


def verify(signed: Signed, requirements: SignatureRequirements = TRUSTED) -> list[Signature]:
    return verify_signatures(signed.repository, signed.image.digest, "IMAGE", requirements)


def reason(signed: Signed, requirements: SignatureRequirements = TRUSTED) -> str:
    """Return the message of the failure."""
    with pytest.raises(VerificationFailed) as caught:
        verify(signed, requirements)
    return caught.value.message


def attach_payload(signed: Signed, payload: bytes, signature: bytes) -> None:
    """Store a payload under the tag for signatures."""
    annotations = {SIGNATURE_ANNOTATION: base64.b64encode(signature).decode()}
    attach_layer(signed.repository, signed.image.digest, SIGNATURE_SUFFIX, payload, SIMPLE_SIGNING_LAYER, annotations)


@FORMATS
@pytest.mark.parametrize("kind", ["ecdsa", "p384", "rsa", "ed25519"])
def test_sign_and_verify(signed: Signed, kind: str, *, bundles: bool) -> None:
    Signer(private_key(kind), FORMAT[bundles]).sign(signed.repository, signed.image, NAME, {"a": "b"})
    (signature,) = verify(signed, SignatureRequirements([KEY.public_key, private_key(kind).public_key], {"a": "b"}))
    assert signature == Signature(
        signed.image.digest, kind, "bundle" if bundles else "simple-signing", "" if bundles else NAME, {"a": "b"}
    )


def test_sign_in_both_formats(signed: Signed) -> None:
    Signer(KEY, SignatureFormat.BOTH).sign(signed.repository, signed.image, NAME)
    assert {signature.format for signature in verify(signed)} == {"simple-signing", "bundle"}


@FORMATS
def test_sign_in_a_registry(pushed: Signed, *, bundles: bool) -> None:
    for key in (STRANGER, KEY, KEY):
        Signer(key, FORMAT[bundles]).sign(pushed.repository, pushed.image, NAME)
    assert len(verify(pushed)) == 1
    assert len(verify(pushed, SignatureRequirements([STRANGER.public_key, KEY.public_key]))) == 2


@FORMATS
def test_concurrent_signers(pushed: Signed, *, bundles: bool) -> None:
    keys = [private_key(kind) for kind in ("ecdsa", "p384", "rsa", "ed25519")]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda key: Signer(key, FORMAT[bundles]).sign(pushed.repository, pushed.image, NAME), keys))
    assert len(verify(pushed, SignatureRequirements([key.public_key for key in keys]))) == 4


@FORMATS
def test_attest_and_verify(signed: Signed, *, bundles: bool) -> None:
    statement = Statement(signed.image.digest, "https://example.com/type", {"x": 1}, NAME)
    Signer(KEY, FORMAT[bundles]).sign(signed.repository, signed.image, NAME)
    Signer(STRANGER, FORMAT[bundles]).attest(signed.repository, signed.image, statement)
    Signer(KEY, FORMAT[bundles]).attest(signed.repository, signed.image, statement)
    found = verify_attestations(signed.repository, signed.image.digest, "IMAGE", TRUSTED)
    assert found == [Attestation(statement, "ecdsa", "bundle" if bundles else "envelope")]
    with pytest.raises(VerificationFailed, match="no attestation of type https://other found"):
        verify_attestations(signed.repository, signed.image.digest, "IMAGE", TRUSTED, "https://other")
    assert len(verify(signed)) == 1


def test_index_and_its_images(signed: Signed) -> None:
    repository = signed.repository
    children = [
        Descriptor(
            media_types.OCI_MANIFEST, manifest.digest, len(manifest.raw), platform=Platform("linux", architecture)
        )
        for architecture in ("amd64", "arm64")
        for manifest in [put_image(repository, architecture, architecture.encode())]
    ]
    index = repository.put_manifest(IndexManifest.build(children), "multi")
    images = images_of(repository, index)
    assert [image.digest for image in images] == [index.digest, *(child.digest for child in children)]


def test_missing_signature(signed: Signed) -> None:
    assert reason(signed) == "IMAGE: no signature found"
    with pytest.raises(VerificationFailed) as caught:
        verify(signed)
    assert "opm" not in str(caught.value.hint)
    assert "sign_image" in str(caught.value.hint)


@FORMATS
def test_wrong_key(signed: Signed, *, bundles: bool) -> None:
    Signer(STRANGER, FORMAT[bundles]).sign(signed.repository, signed.image, NAME)
    assert reason(signed) == "IMAGE: no valid signature by ecdsa: 1 found: 1 not signed with the key"


def test_tampered_payload(signed: Signed) -> None:
    payload = SimpleSigning(NAME, signed.image.digest).encode()
    attach_payload(signed, payload.replace(b"quay.io/me", b"quay.io/it"), KEY.sign(payload))
    assert "1 not signed with the key" in reason(signed)


def test_signature_of_another_image(signed: Signed) -> None:
    other = "sha256:" + "0" * 64
    payload = SimpleSigning(NAME, other).encode()
    attach_payload(signed, payload, KEY.sign(payload))
    statement = Statement(other, SIGN_PREDICATE, {})
    bundle = SigstoreBundle(Envelope.sign(statement.encode(), KEY), KEY.public_key.hint)
    attach_bundle(signed.repository, signed.image, bundle.encode(), SIGN_PREDICATE)
    assert f"1 of another image: {other}" in reason(signed)
    assert "1 it is about another image" in reason(signed)


@FORMATS
def test_requirements(signed: Signed, *, bundles: bool) -> None:
    Signer(KEY, FORMAT[bundles]).sign(signed.repository, signed.image, NAME, {"stage": "test"})
    stage = SignatureRequirements([KEY.public_key], {"stage": "release"})
    assert "1 without the annotation stage=release" in reason(signed, stage)
    repository = SignatureRequirements([KEY.public_key], identity=repository_matcher("quay.io/you/app"))
    assert f"1 for the repository {'(none)' if bundles else NAME}" in reason(signed, repository)


def test_attestation_is_no_signature(signed: Signed) -> None:
    for bundles in (False, True):
        statement = Statement(signed.image.digest, "https://example.com/type", {})
        Signer(KEY, FORMAT[bundles]).attest(signed.repository, signed.image, statement)
    assert reason(signed) == "IMAGE: no signature found"


def test_one_valid_signature_among_malformed_ones(signed: Signed) -> None:
    attach_payload(signed, b"{", KEY.sign(b"{"))
    attach_payload(signed, b"x" * (MAX_PAYLOAD_SIZE + 1), b"")
    attach_bundle(signed.repository, signed.image, b"{}", SIGN_PREDICATE)
    attach_bundle(signed.repository, signed.image, b"\xff", SIGN_PREDICATE)
    config = put(signed.repository, b"{}", media_types.OCI_EMPTY)
    signed.repository.put_manifest(Manifest.build(config, [], artifact_type=BUNDLE_V03, subject=signed.image))
    message = reason(signed)
    for expected in (
        "5 found",
        f"larger than {MAX_PAYLOAD_SIZE} bytes",
        "payload: invalid JSON",
        "bundle.mediaType: missing",
        "bundle: invalid JSON",
        "expected a manifest with one layer",
    ):
        assert expected in message
    Signer(KEY).sign(signed.repository, signed.image, NAME)
    assert len(verify(signed)) == 1


def test_tag_of_signatures_names_an_index(signed: Signed) -> None:
    signed.repository.put_manifest(IndexManifest.build([signed.image]), digest_tag(signed.image.digest, ".sig"))
    assert "expected a manifest, not an index" in reason(signed)
    Signer(KEY, SignatureFormat.BUNDLE).sign(signed.repository, signed.image, NAME)
    assert len(verify(signed)) == 1


def test_missing_blobs(signed: Signed, tmp_path: Path) -> None:
    Signer(KEY).sign(signed.repository, signed.image, NAME)
    Signer(KEY, SignatureFormat.BUNDLE).sign(signed.repository, signed.image, NAME)
    for path in (tmp_path / "layout" / "blobs" / "sha256").iterdir():
        if b"cosign container image signature" in path.read_bytes() or b"dsseEnvelope" in path.read_bytes():
            path.unlink()
    assert "2 found" in reason(signed)
    assert "not found" in reason(signed)


def test_thousands_of_signatures_are_not_all_read(signed: Signed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opmkit.imagetools.signatures.verify.MAX_ATTACHMENTS", 5)
    content = SimpleSigning(NAME, signed.image.digest).encode()
    layer = Descriptor(SIMPLE_SIGNING_LAYER, described(content).digest, len(content))
    put(signed.repository, content, SIMPLE_SIGNING_LAYER)
    layers = [
        Descriptor(layer.media_type, layer.digest, layer.size, annotations={SIGNATURE_ANNOTATION: f"{n:08}"})
        for n in range(1000)
    ]
    config = put(signed.repository, b"{}", media_types.OCI_CONFIG)
    signed.repository.put_manifest(Manifest.build(config, layers), digest_tag(signed.image.digest, ".sig"))
    assert "5 found" in reason(signed)


@pytest.mark.parametrize("tag", ["tags", "bundles"])
@pytest.mark.parametrize("kind", ["ecdsa", "p384", "rsa", "ed25519"])
def test_signatures_of_cosign(tag: str, kind: str) -> None:
    layout = LayoutRepository(SAMPLES / "layout")
    digest = layout.resolve(tag).digest
    requirements = SignatureRequirements([load_public_key(str(SAMPLES / f"{kind}.pub"))])
    (signature,) = verify_signatures(layout, digest, tag, requirements)
    assert signature.annotations == {"key": kind}
    with pytest.raises(VerificationFailed, match="4 found: 4 not signed with the key"):
        verify_signatures(layout, digest, tag, TRUSTED)


@pytest.mark.parametrize("tag", ["tags", "bundles"])
@pytest.mark.parametrize("kind", ["ecdsa", "ed25519"])
def test_attestations_of_cosign(tag: str, kind: str) -> None:
    layout = LayoutRepository(SAMPLES / "layout")
    requirements = SignatureRequirements([load_public_key(str(SAMPLES / f"{kind}.pub"))])
    (attestation,) = verify_attestations(layout, layout.resolve(tag).digest, tag, requirements)
    assert attestation.statement.predicate_type == "https://cyclonedx.org/bom"
    assert attestation.statement.predicate == {"content": "sample"}


def test_places_without_signatures() -> None:
    client = RegistryClient()
    for name in ("docker-archive:x.tar", "docker-daemon:x:1", "store:x:1"):
        for open_image in (open_for_signing, open_for_verification):
            with pytest.raises(UnsupportedImage, match="only supported in registries and OCI image layouts"):
                open_image(parse_image_reference(name), client)
    with pytest.raises(NotFound):
        open_for_signing(parse_image_reference(f"oci:{SAMPLES}/layout:missing"), client)


def through(pushed: Signed, proxy: FaultProxy) -> Signed:
    """Return the image as read and written through a proxy, without waiting between attempts."""
    assert isinstance(pushed.repository, RegistryRepository)
    client = RegistryClient(RegistryOptions(plain_http=True), retry=RetryPolicy(sleep=lambda _: None))
    return Signed(client.target(Reference(proxy.host, pushed.repository.location.repository)), pushed.image)


@pytest.mark.parametrize("path", ["/v2/.*/manifests/sha256-.*\\.sig$", "/v2/.*/blobs/", "/v2/.*/referrers/"])
def test_registry_faults_are_not_missing_signatures(pushed: Signed, registry: Registry, path: str) -> None:
    Signer(KEY).sign(pushed.repository, pushed.image, NAME)
    failing = Fault("GET", path, Answer(503), times=100)
    with FaultProxy(registry.host, failing) as proxy, pytest.raises(RegistryUnavailable, match="503"):
        verify(through(pushed, proxy))
    with FaultProxy(registry.host, Fault("GET", path, Answer(503), times=3)) as proxy:
        assert len(verify(through(pushed, proxy))) == 1


def test_corrupt_payload(pushed: Signed, registry: Registry) -> None:
    Signer(KEY).sign(pushed.repository, pushed.image, NAME)
    with FaultProxy(registry.host, Fault("GET", "/v2/.*/blobs/", Corrupt(5), times=100)) as proxy:
        assert "digest mismatch" in reason(through(pushed, proxy))


@FORMATS
def test_fault_while_signing_retains_other_signatures(pushed: Signed, registry: Registry, *, bundles: bool) -> None:
    Signer(STRANGER, FORMAT[bundles]).sign(pushed.repository, pushed.image, NAME)
    tags = Fault("PUT", "/v2/.*/manifests/sha256-", Answer(500), times=100)
    with FaultProxy(registry.host, tags) as proxy, pytest.raises(RegistryUnavailable):
        Signer(KEY, FORMAT[bundles]).sign(through(pushed, proxy).repository, pushed.image, NAME)
    assert len(verify(pushed, SignatureRequirements([STRANGER.public_key]))) == 1
    Signer(KEY, FORMAT[bundles]).sign(pushed.repository, pushed.image, NAME)
    assert len(verify(pushed, SignatureRequirements([STRANGER.public_key, KEY.public_key]))) == 2


def test_many_signatures_with_one_payload_are_read_once(pushed: Signed, registry: Registry) -> None:
    for kind in ("ecdsa", "p384", "rsa", "ed25519"):
        Signer(private_key(kind)).sign(pushed.repository, pushed.image, NAME)
    with FaultProxy(registry.host) as proxy:
        keys = [private_key(kind).public_key for kind in ("ecdsa", "p384", "rsa", "ed25519")]
        assert len(verify(through(pushed, proxy), SignatureRequirements(keys))) == 4
        assert proxy.count("GET", "/v2/.*/blobs/") == 1
