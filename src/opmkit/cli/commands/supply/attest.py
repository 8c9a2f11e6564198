"""``opm image``: attach signed statements to images, and verify them."""

from __future__ import annotations

from pathlib import Path

import typer

from opmkit.cli.flags.output import Output
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.flags.signing import SignedImage, SignedImages, SignerFlags, SigningFlags
from opmkit.cli.output.console import OutputFormat, print_json, print_line
from opmkit.cli.output.errors import UsageError
from opmkit.cli.output.streams import printing_result
from opmkit.cli.parser.declaration import flag

TYPE_HELP = "cyclonedx, link, openvex, slsaprovenance1, spdxjson, vuln, or a URI"


def attest(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    signing_flags: SigningFlags,
    image: SignedImage,
    predicate: Path | None = flag(None, "JSON file with the predicate; requires --type", metavar="FILE"),
    type_: str = flag("", f"Type of the predicate: {TYPE_HELP}", "--type", metavar="TYPE"),
    sbom: bool = flag(False, "Attest the operators and images of a bundle or index, in CycloneDX"),
    provenance: bool = flag(False, "Attest the bundles and the base image of a bundle or index, in SLSA"),
    builder_id: str = flag(
        "", "With --provenance: platform that ran the build; default: this version of opmkit", metavar="URI"
    ),
) -> None:
    """Attach signed statements about an image to it: a file, an SBOM or provenance

    The statements are in-toto attestations in DSSE envelopes, as cosign writes them.

    [bold]Examples:[/]
      opm image attest --key cosign.key --sbom --provenance quay.io/me/catalog:1
      opm image attest --key cosign.key --type spdxjson --predicate sbom.json quay.io/me/lagoon:0.1.0
    """
    if (predicate is None) != (not type_):
        raise UsageError("--predicate and --type require each other", ctx.command_path)
    if predicate is None and not (sbom or provenance):
        raise UsageError("nothing to attest: pass --predicate, --sbom or --provenance", ctx.command_path)
    attested = registry_flags.opm().attest_image(
        image,
        signing_flags.signer(),
        predicates={type_: predicate} if predicate else {},
        sbom=sbom,
        provenance=provenance,
        builder_id=builder_id,
    )
    with printing_result(f"{attested.image}: attested"):
        print_line(attested.image)


def verify_attestation(
    registry_flags: RegistryFlags,
    signer_flags: SignerFlags,
    images: SignedImages,
    type_: str = flag("", f"Type of the predicate: {TYPE_HELP}; default: any", "--type", metavar="TYPE"),
    output: Output = OutputFormat.TEXT,
) -> None:
    """Verify the attestations of images with a public key, or keyless ones

    With --output json the verified statements are printed, including their predicates.

    [bold]Example:[/] opm image verify-attestation --key cosign.pub --type slsaprovenance1 quay.io/me/catalog:1
    """
    verified = registry_flags.opm().verify_attestations(
        images, predicate_type=type_, keys=signer_flags.key or (), certificate=signer_flags.certificate
    )
    if output is OutputFormat.JSON:
        print_json(verified)
        return
    for image in verified:
        for attestation in image.attestations:
            print_line(f"{image.image}: {attestation.statement.predicate_type}, signed with {attestation.key}")
