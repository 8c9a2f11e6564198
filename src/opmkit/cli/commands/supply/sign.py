"""``opm image``: sign images and verify their signatures."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from opmkit.cli.flags.output import Output
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.signing import SignedImages, SignerFlags, SigningFlags, parse_annotations, read_new_password
from opmkit.cli.output.console import OutputFormat, print_json, print_line
from opmkit.cli.output.errors import print_to_stderr
from opmkit.cli.output.streams import printing_result
from opmkit.cli.parser.declaration import flag

if TYPE_CHECKING:
    from opmkit import SignedImage


def sign(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    signing_flags: SigningFlags,
    images: SignedImages,
    annotations: list[str] | None = flag(None, "Annotations to sign with the digest", "-a", metavar="NAME=VALUE,..."),
    recursive: bool = flag(False, "Sign the image of each platform as well as the index", "-r"),
    sign_container_identity: str = flag(
        "", "Name that the signature contains; default: the image's repository", metavar="NAME"
    ),
    output: Output = OutputFormat.TEXT,
) -> None:
    """Sign images with a key, so that cosign, podman and clusters can verify them, or keyless

    A tag is resolved to its digest, which is signed. Signatures by others are retained, and nothing changes if the key
    has signed the image already.

    [bold]Examples:[/]
      opm image sign --key cosign.key quay.io/me/catalog:1
      opm image sign --key cosign.key --recursive -a release=1.2 quay.io/me/lagoon@sha256:...
      opm image sign --keyless --format both quay.io/me/catalog:1
    """

    def print_signed(image: SignedImage) -> None:
        with printing_result(f"{image.image}: signed"):
            if output is OutputFormat.JSON:
                print_json(image)
            else:
                print_line(image.image)

    registry_flags.opm().sign_images(
        images,
        signing_flags.signer(),
        annotations=parse_annotations(annotations or (), ctx.command_path),
        recursive=recursive,
        identity=sign_container_identity,
        signed=print_signed,
    )
    signing_flags.print_verifiers()


def verify(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    signer_flags: SignerFlags,
    images: SignedImages,
    annotations: list[str] | None = flag(
        None, "Annotations that the signature must contain", "-a", metavar="NAME=VALUE,..."
    ),
    signed_repository: list[str] | None = flag(
        None, "Repositories of which the signature must name one; default: any", metavar="NAME,..."
    ),
    output: Output = OutputFormat.TEXT,
) -> None:
    """Verify the signatures of images with a public key, or keyless ones

    Signatures under cosign's tags and Sigstore bundles are read. They are bound to the digest of the image, and valid
    for copies in other repositories as well, unless --signed-repository is given.

    [bold]Examples:[/]
      opm image verify --key cosign.pub quay.io/me/catalog:1
      opm image verify --certificate-identity me@example.com --certificate-oidc-issuer https://login.example.com IMAGE
    """
    verified = registry_flags.opm().verify_images(
        images,
        keys=signer_flags.key or (),
        certificate=signer_flags.certificate,
        annotations=parse_annotations(annotations or (), ctx.command_path),
        repositories=signed_repository or (),
    )
    if output is OutputFormat.JSON:
        print_json(verified)
        return
    for image in verified:
        for signature in image.signatures:
            content = "".join(f" {name}={value}" for name, value in sorted(signature.annotations.items()))
            print_line(f"{image.image}: signed with {signature.key}{content}")


def generate_key_pair(
    output_key_prefix: str = flag("cosign", "Path of the files, without .key and .pub", metavar="PATH"),
) -> None:
    """Generate a key pair in cosign's format: PATH.key, encrypted with COSIGN_PASSWORD, and PATH.pub

    [bold]Example:[/] opm image generate-key-pair
    """
    from opmkit.api import Opm

    pair = Opm().generate_key_pair(Path(output_key_prefix), lambda: read_new_password(f"{output_key_prefix}.key"))
    for path in (pair.private_key, pair.public_key):
        print_to_stderr(f"written: {path}")
