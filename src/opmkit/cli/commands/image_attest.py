"""``opm image``: attach signed statements to images, and verify them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opmkit.cli.console import Output, OutputFormat, print_json, print_line
from opmkit.cli.registry_flags import RegistryFlags
from opmkit.cli.signing_flags import (
    NewBundleFormat,
    SignedImage,
    SignedImages,
    SigningKey,
    VerificationKeys,
    load_public_keys,
    read_password,
)
from opmkit.cli.streams import printing_result

TYPE_HELP = "cyclonedx, link, openvex, slsaprovenance1, spdxjson, vuln, or a URI"


def attest(
    registry_flags: RegistryFlags,
    image: SignedImage,
    key: SigningKey,
    predicate: Annotated[Path, typer.Option(metavar="FILE", help="JSON file with the predicate")],
    type_: Annotated[str, typer.Option("--type", metavar="TYPE", help=f"Type of the predicate: {TYPE_HELP}")],
    new_bundle_format: NewBundleFormat = False,
) -> None:
    """Attach signed statements about an image to it

    The statement is an in-toto attestation in a DSSE envelope, as cosign writes it.

    [bold]Example:[/] opm image attest --key cosign.key --type spdxjson --predicate sbom.json quay.io/me/catalog:1
    """
    from opmkit.imagetools.reference import parse_image_reference
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.signing.documents import Statement
    from opmkit.imagetools.signing.key_files import load_private_key
    from opmkit.imagetools.signing.predicates import predicate_type, read_predicate
    from opmkit.imagetools.signing.sign import Signer
    from opmkit.imagetools.signing.target import open_for_signing

    uri, content = predicate_type(type_), read_predicate(predicate)
    target = open_for_signing(parse_image_reference(image), RegistryClient(registry_flags.options()))
    signer = Signer(load_private_key(key, read_password), new_bundle_format)
    signer.attest(target.source, target.image, Statement(target.image.digest, uri, content, target.repository))
    with printing_result(f"{target.name}: attested"):
        print_line(target.name)


def verify_attestation(
    registry_flags: RegistryFlags,
    images: SignedImages,
    key: VerificationKeys,
    type_: Annotated[
        str, typer.Option("--type", metavar="TYPE", help=f"Type of the predicate: {TYPE_HELP}; default: any")
    ] = "",
    output: Output = OutputFormat.TEXT,
) -> None:
    """Verify the attestations of images with a public key

    With --output json the verified statements are printed, including their predicates.

    [bold]Example:[/] opm image verify-attestation --key cosign.pub --type slsaprovenance1 quay.io/me/catalog:1
    """
    from opmkit.imagetools.reference import parse_image_reference
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.signing.predicates import predicate_type
    from opmkit.imagetools.signing.target import open_for_verification
    from opmkit.imagetools.signing.verify import SignatureRequirements, verify_attestations

    uri = predicate_type(type_) if type_ else ""
    requirements = SignatureRequirements(load_public_keys(key))
    references = [parse_image_reference(image) for image in images]
    client = RegistryClient(registry_flags.options())
    targets = [open_for_verification(reference, client) for reference in references]
    verified = [
        (target, verify_attestations(target.source, target.image.digest, target.name, requirements, uri))
        for target in targets
    ]
    if output is OutputFormat.JSON:
        print_json([{"image": target.name, "attestations": attestations} for target, attestations in verified])
        return
    for target, attestations in verified:
        for attestation in attestations:
            print_line(f"{target.name}: {attestation.statement.predicate_type}, signed with {attestation.key}")


COMMANDS = (("attest", attest), ("verify-attestation", verify_attestation))
