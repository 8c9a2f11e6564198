"""Flags of ``opm bundle generate`` for the generation of a bundle from the manifests that install an operator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.bundle_generation import (
    BUNDLE_DIRECTORY,
    STDIN,
    BundleWriter,
    find_project,
    has_piped_input,
    package_name,
    read_base,
    read_objects,
)
from opmkit.cli.output.errors import UsageError

if TYPE_CHECKING:
    from opmkit.cli.flags.bundle import BundleFlags

ACCOUNTS_HELP = "Service accounts of the operator that none of its Deployments use"
_CHANNELS = "alpha"


@dataclass(frozen=True, slots=True)
class GenerationFlags:
    """Flags for the manifests that install an operator, and for the ClusterServiceVersion."""

    manifest_input: Annotated[
        Path | None,
        typer.Option(
            "--input",
            metavar="FILE|DIR|-",
            help="Manifests that install the operator, instead of --directory; default: stdin unless a terminal",
        ),
    ] = None
    base_csv: Annotated[
        Path | None,
        typer.Option(
            "--base-csv",
            metavar="FILE",
            help="ClusterServiceVersion to fill in; default: the one in the manifests, or placeholders",
        ),
    ] = None
    version: Annotated[
        str, typer.Option("--version", metavar="VERSION", help="Version of the operator; default: that of the base")
    ] = ""
    extra_service_accounts: Annotated[
        list[str] | None, typer.Option("--extra-service-accounts", metavar="NAME,...", help=ACCOUNTS_HELP)
    ] = None

    def generate(self, ctx: typer.Context, bundle_flags: BundleFlags) -> None:
        """Generate a bundle; raises UsageError if there is no input."""
        from opmkit.author.generate.bundle import BundleSettings
        from opmkit.author.generate.metadata import BundleLabels
        from opmkit.author.generate.write import existing_channels

        if self.manifest_input is None and not has_piped_input():
            raise UsageError(
                "no manifests given: none of --directory, --input and standard input",
                ctx.command_path,
                hint="pass --directory for the manifests of a bundle, or --input for those that install an operator, "
                "for example 'kustomize build config/default | opm bundle generate --package NAME --version 0.1.0'",
            )
        directory = bundle_flags.output_dir or BUNDLE_DIRECTORY
        project = find_project()
        name = package_name(bundle_flags.package, project, ctx.command_path)
        layout = ",".join(project.layout) if project else ""
        objects = read_objects(self.manifest_input or STDIN)
        base = read_base(self.base_csv) if self.base_csv else []
        settings = BundleSettings(name, self.version, layout, tuple(self.extra_service_accounts or ()))
        channels, default = bundle_flags.channels, bundle_flags.default
        if not channels:
            channels, existing_default = existing_channels(directory)
            channels, default = channels or _CHANNELS, default or existing_default
        writer = BundleWriter(directory)
        writer.write_manifests(objects, settings, base)
        writer.write_metadata(BundleLabels(name, channels, default, layout), base_image=bundle_flags.base_image)
