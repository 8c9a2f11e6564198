"""``opm image``: attach signed statements to images, and verify them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.signing import SignedImage, SignedImages, SignerFlags, SigningFlags
from opmkit.cli.output.console import Output, OutputFormat, print_json, print_line
from opmkit.cli.output.errors import UsageError
from opmkit.cli.output.streams import printing_result

TYPE_HELP = "cyclonedx, link, openvex, slsaprovenance1, spdxjson, vuln, or a URI"


def attest(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    signing_flags: SigningFlags,
    image: SignedImage,
    predicate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSON file with the predicate; requires --type")
    ] = None,
    type_: Annotated[str, typer.Option("--type", metavar="TYPE", help=f"Type of the predicate: {TYPE_HELP}")] = "",
    sbom: Annotated[
        bool, typer.Option("--sbom", help="Attest the operators and images of a bundle or index, in CycloneDX")
    ] = False,
    provenance: Annotated[
        bool, typer.Option("--provenance", help="Attest the bundles and the base image of a bundle or index, in SLSA")
    ] = False,
    builder_id: Annotated[
        str,
        typer.Option(
            metavar="URI", help="With --provenance: platform that ran the build; default: this version of opmkit"
        ),
    ] = "",
) -> None:
    """Attach signed statements about an image to it: a file, an SBOM or provenance

    The statements are in-toto attestations in DSSE envelopes, as cosign writes them.

    [bold]Examples:[/]

      opm image attest --key cosign.key --sbom --provenance quay.io/me/catalog:1

      opm image attest --key cosign.key --type spdxjson --predicate sbom.json quay.io/me/lagoon:0.1.0
    """
    from opmkit import RegistryClient
    from opmkit.imagetools.reference import parse_image_reference
    from opmkit.supply.sign.attachments import open_for_signing
    from opmkit.supply.sign.documents import PREDICATE_TYPES, Statement, predicate_type, read_predicate

    if (predicate is None) != (not type_):
        raise UsageError("--predicate and --type require each other", ctx.command_path)
    if predicate is None and not (sbom or provenance):
        raise UsageError("nothing to attest: pass --predicate, --sbom or --provenance", ctx.command_path)
    predicates = {predicate_type(type_): read_predicate(predicate)} if predicate else {}
    target = open_for_signing(parse_image_reference(image), RegistryClient(registry_flags.options()))
    if sbom or provenance:
        from opmkit.supply.attest.contents import read_contents
        from opmkit.supply.attest.provenance import provenance as provenance_of
        from opmkit.supply.attest.sbom import sbom as sbom_of

        contents = read_contents(registry_flags.tool(), target.name)
        predicates |= {PREDICATE_TYPES["cyclonedx"]: sbom_of(contents)} if sbom else {}
        predicates |= {PREDICATE_TYPES["slsaprovenance1"]: provenance_of(contents, builder_id)} if provenance else {}
    signer = signing_flags.signer()
    for uri, content in predicates.items():
        signer.attest(target.source, target.image, Statement(target.image.digest, uri, content, target.repository))
    with printing_result(f"{target.name}: attested"):
        print_line(target.name)


def verify_attestation(
    registry_flags: RegistryFlags,
    signer_flags: SignerFlags,
    images: SignedImages,
    type_: Annotated[
        str, typer.Option("--type", metavar="TYPE", help=f"Type of the predicate: {TYPE_HELP}; default: any")
    ] = "",
    output: Output = OutputFormat.TEXT,
) -> None:
    """Verify the attestations of images with a public key, or keyless ones

    With --output json the verified statements are printed, including their predicates.

    [bold]Example:[/] opm image verify-attestation --key cosign.pub --type slsaprovenance1 quay.io/me/catalog:1
    """
    from opmkit import RegistryClient
    from opmkit.imagetools.reference import parse_image_reference
    from opmkit.supply.sign.attachments import open_for_verification
    from opmkit.supply.sign.documents import predicate_type
    from opmkit.supply.sign.verify import verify_attestations

    uri = predicate_type(type_) if type_ else ""
    requirements = signer_flags.requirements()
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
