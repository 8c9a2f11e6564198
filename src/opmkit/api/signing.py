"""Operations on signatures and attestations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.api.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from opmkit.imagetools.repository import ImageSource
    from opmkit.imagetools.signatures.attachments import SignatureTarget
    from opmkit.imagetools.signatures.verify import SignatureRequirements
    from opmkit.supply.sign.keyless import CertificateIdentity, KeylessSigner
    from opmkit.supply.sign.sign import (
        AttestedImage,
        KeyPair,
        SignedImage,
        Signer,
        SigningKey,
        VerifiedAttestations,
        VerifiedImage,
    )


class SigningOperations(Session):
    """Operations on signatures and attestations."""

    def generate_key_pair(self, prefix: Path, password: str | Callable[[], str]) -> KeyPair:
        """Generate a key pair in cosign's format: ``PREFIX.key``, which only the user can read, and ``PREFIX.pub``.

        Args:
            prefix: Path of the files, without ``.key`` and ``.pub``.
            password: Password that the private key is encrypted with, or a function that returns it.

        Raises:
            ImageToolsError: A file exists already, or cannot be written.
        """
        from opmkit.imagetools.signatures.keys import write_key_pair
        from opmkit.supply.sign.sign import KeyPair

        return KeyPair(*write_key_pair(Path(prefix), password if callable(password) else lambda: password))

    def sign_images(
        self,
        images: Sequence[str],
        signer: SigningKey | KeylessSigner,
        *,
        annotations: Mapping[str, str] | None = None,
        recursive: bool = False,
        identity: str = "",
        signed: Callable[[SignedImage], None] = lambda _: None,
    ) -> tuple[SignedImage, ...]:
        """Sign images, so that cosign, podman and clusters can verify them.

        Tags are resolved to digests, which are signed; nothing is signed unless all images exist. Signatures by others
        are retained, and nothing changes if the key has signed an image already.

        Args:
            images: Images in registries or OCI layouts.
            signer: Private key, or an identity for keyless signing.
            annotations: Annotations to sign with the digest.
            recursive: Sign the image of each platform as well as the index.
            identity: Name that the signature contains, by default the repository of the image.
            signed: Called with each image as soon as it is signed.

        Returns:
            The signed images, each followed by those of its platforms if ``recursive`` is set.

        Raises:
            ImageToolsError: An image does not exist, its place stores no signatures, or the key cannot be used.
        """
        from opmkit.imagetools.reference import parse_image_reference
        from opmkit.imagetools.signatures.attachments import open_for_signing
        from opmkit.supply.sign.sign import SignedImage, images_of

        references = [parse_image_reference(image) for image in images]
        targets = [open_for_signing(reference, self._client) for reference in references]
        opened, content, done = _open(signer), dict(annotations or {}), []
        for target in targets:
            for image in images_of(target.source, target.image) if recursive else [target.image]:
                opened.sign(target.source, image, identity or target.repository, content)
                done.append(SignedImage(target.name_of(image), image.digest, content))
                signed(done[-1])
        return tuple(done)

    def verify_images(
        self,
        images: Sequence[str],
        *,
        keys: Sequence[Path | str] = (),
        certificate: CertificateIdentity | None = None,
        annotations: Mapping[str, str] | None = None,
        repositories: Sequence[str] = (),
    ) -> tuple[VerifiedImage, ...]:
        """Verify the signatures of images with public keys, or keyless ones.

        Args:
            images: Images in registries, OCI layouts or archives of one.
            keys: Files with public keys, of which one must have signed.
            certificate: Identity in the certificate of a keyless signature, instead of keys.
            annotations: Annotations that the signature must contain.
            repositories: Repositories of which the signature must name one, by default any.

        Raises:
            ImageToolsError: An image or a valid signature does not exist, or a key cannot be read.
            ValueError: Neither ``keys`` nor ``certificate`` are given, or both.
        """
        from opmkit.imagetools.signatures.verify import verify_signatures
        from opmkit.supply.sign.sign import VerifiedImage

        requirements = _requirements(keys, certificate, annotations or {}, repositories)
        return tuple(
            VerifiedImage(
                image.name, tuple(verify_signatures(image.source, image.image.digest, image.name, requirements))
            )
            for image in self._open_signed(images)
        )

    def attest_image(
        self,
        image: str,
        signer: SigningKey | KeylessSigner,
        *,
        predicates: Mapping[str, Mapping[str, object] | Path] | None = None,
        sbom: bool = False,
        provenance: bool = False,
        builder_id: str = "",
    ) -> AttestedImage:
        """Attach signed statements about an image to it, as in-toto attestations in the format of cosign.

        Args:
            image: Image in a registry or an OCI layout.
            signer: Private key, or an identity for keyless signing.
            predicates: Content of statements, or JSON files with it, by type: a URI, or cosign's name such as
                ``spdxjson``.
            sbom: Attest the operators and images of a bundle or index, in CycloneDX.
            provenance: Attest the bundles and the base image of a bundle or index, in SLSA.
            builder_id: URI of the platform that ran the build, for the provenance; by default this version of opmkit.

        Raises:
            ImageToolsError: The image does not exist, its place stores no attestations, or the key cannot be used.
            BundleError, CatalogError: The SBOM or provenance cannot be created, because the content is invalid.
            ValueError: There is nothing to attest.
        """
        from opmkit.imagetools.reference import parse_image_reference
        from opmkit.imagetools.signatures.attachments import open_for_signing
        from opmkit.imagetools.signatures.documents import Statement, predicate_type, read_predicate
        from opmkit.supply.sign.sign import AttestedImage

        if not (predicates or sbom or provenance):
            raise ValueError("nothing to attest: pass predicates, sbom or provenance")
        contents = {
            predicate_type(name): read_predicate(content) if isinstance(content, Path) else content
            for name, content in (predicates or {}).items()
        }
        target = open_for_signing(parse_image_reference(image), self._client)
        contents |= self._described(target.name, sbom=sbom, provenance=provenance, builder_id=builder_id)
        opened, digest = _open(signer), target.image.digest
        for uri, content in contents.items():
            opened.attest(target.source, target.image, Statement(digest, uri, content, target.repository))
        return AttestedImage(target.name, digest, tuple(contents))

    def verify_attestations(
        self,
        images: Sequence[str],
        *,
        predicate_type: str = "",
        keys: Sequence[Path | str] = (),
        certificate: CertificateIdentity | None = None,
    ) -> tuple[VerifiedAttestations, ...]:
        """Verify the attestations of images with public keys, or keyless ones.

        Args:
            images: Images in registries, OCI layouts or archives of one.
            predicate_type: Required type of the statements: a URI, or cosign's name such as ``spdxjson``; "" for any.
            keys: Files with public keys, of which one must have signed.
            certificate: Identity in the certificate of a keyless attestation, instead of keys.

        Raises:
            ImageToolsError: An image or a valid attestation does not exist, or a key cannot be read.
            ValueError: Neither ``keys`` nor ``certificate`` are given, or both.
        """
        from opmkit.imagetools.signatures import documents
        from opmkit.imagetools.signatures.verify import verify_attestations
        from opmkit.supply.sign.sign import VerifiedAttestations

        uri = documents.predicate_type(predicate_type) if predicate_type else ""
        requirements = _requirements(keys, certificate, {}, ())
        return tuple(
            VerifiedAttestations(
                image.name,
                tuple(verify_attestations(image.source, image.image.digest, image.name, requirements, uri)),
            )
            for image in self._open_signed(images)
        )

    def _open_signed(self, images: Sequence[str]) -> list[SignatureTarget[ImageSource]]:
        """Resolve all images before the first is verified."""
        from opmkit.imagetools.reference import parse_image_reference
        from opmkit.imagetools.signatures.attachments import open_for_verification

        references = [parse_image_reference(image) for image in images]
        return [open_for_verification(reference, self._client) for reference in references]

    def _described(
        self, image: str, *, sbom: bool, provenance: bool, builder_id: str
    ) -> dict[str, Mapping[str, object]]:
        """Return predicates about the content of a bundle or index, by the URIs of their types."""
        if not (sbom or provenance):
            return {}
        from opmkit.imagetools.signatures.documents import PREDICATE_TYPES
        from opmkit.supply.attest.contents import provenance as provenance_of
        from opmkit.supply.attest.contents import read_contents
        from opmkit.supply.attest.contents import sbom as sbom_of

        contents = read_contents(self._registry_tool, image)
        described: dict[str, Mapping[str, object]] = {}
        if sbom:
            described[PREDICATE_TYPES["cyclonedx"]] = sbom_of(contents)
        if provenance:
            described[PREDICATE_TYPES["slsaprovenance1"]] = provenance_of(contents, builder_id)
        return described


def _open(signer: SigningKey | KeylessSigner) -> Signer | KeylessSigner:
    """Return the signer of a key, with the key loaded."""
    from opmkit.supply.sign.sign import SigningKey

    return signer.signer if isinstance(signer, SigningKey) else signer


def _requirements(
    keys: Sequence[Path | str],
    certificate: CertificateIdentity | None,
    annotations: Mapping[str, str],
    repositories: Sequence[str],
) -> SignatureRequirements:
    """Return the requirements on signatures, with the keys or the trusted root loaded."""
    from opmkit.imagetools.signatures.identity import any_identity, repository_matcher
    from opmkit.imagetools.signatures.keys import load_public_key
    from opmkit.imagetools.signatures.verify import SignatureRequirements

    if bool(keys) == bool(certificate):
        raise ValueError("pass either keys or a certificate")
    if not all(repositories):
        raise ValueError("repositories that signatures must name cannot be empty")
    if certificate:
        certificate.load()
    identity = repository_matcher(*repositories) if repositories else any_identity
    return SignatureRequirements([load_public_key(str(key)) for key in keys], annotations, identity, certificate)
