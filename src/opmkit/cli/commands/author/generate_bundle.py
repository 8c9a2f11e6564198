"""``opm generate bundle``: generate a bundle with the flags of operator-sdk."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from opmkit.cli.flags.generation import ACCOUNTS_HELP, find_project, has_piped_input, package_name
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.errors import UsageError, conflicting_flags
from opmkit.cli.output.generation import print_generated
from opmkit.cli.parser.declaration import flag
from opmkit.cli.parser.go_commands import given_flags, runs_as_operator_sdk
from opmkit.cli.progress.command import progress

_STDIN = Path("-")
_UNKNOWN_LAYOUT = "unknown"


@dataclass(frozen=True, slots=True)
class InputFlags:
    """Flags for the manifests to read."""

    input_dir: Path | None = flag(
        None, "Directory of the manifests that install the operator; default: stdin", metavar="DIR"
    )
    deploy_dir: Path | None = flag(None, "Same as --input-dir, for use with --crds-dir", metavar="DIR")
    crds_dir: Path | None = flag(None, "Directory of the CRDs, if they are not in --deploy-dir", metavar="DIR")
    kustomize_dir: Path = flag(
        Path("config/manifests"),
        "Directory with the base bases/PACKAGE.clusterserviceversion.yaml, used if there is none in the input",
        metavar="DIR",
    )

    def manifests(self, ctx: typer.Context) -> Path:
        """Return the file or directory of the manifests; raises UsageError if there is none, or several."""
        if self.input_dir and (self.deploy_dir or self.crds_dir):
            other = "--deploy-dir" if self.deploy_dir else "--crds-dir"
            raise conflicting_flags("--input-dir", other, ctx.command_path)
        if self.crds_dir and not self.deploy_dir:
            raise UsageError("--crds-dir requires --deploy-dir", ctx.command_path)
        directory = self.input_dir or self.deploy_dir
        if directory is None and not has_piped_input():
            raise UsageError(
                "no manifests given: neither standard input nor --input-dir or --deploy-dir",
                ctx.command_path,
                hint="pipe the output of 'kustomize build config/manifests' to the command, or pass --input-dir",
            )
        return directory or _STDIN


def bundle(
    ctx: typer.Context,
    input_flags: InputFlags,
    registry_flags: RegistryFlags,
    *,
    version: str = flag("", "Version of the operator; default: that of the base", "-v", metavar="VERSION"),
    output_dir: Path | None = flag(None, "Directory of the bundle (default: bundle)", metavar="DIR"),
    package: str = flag("", "Package name (default: projectName in PROJECT)", metavar="NAME"),
    channels: str = flag("alpha", "Channels", metavar="NAME,..."),
    default_channel: str = flag("", "Default channel", metavar="CHANNEL"),
    manifests: bool = flag(False, "Generate only the manifests"),
    metadata: bool = flag(False, "Generate only the annotations and the Dockerfile"),
    overwrite: bool = flag(True, "Overwrite existing annotations and Dockerfile", "--overwrite/--no-overwrite"),
    use_image_digests: bool = flag(False, "Replace tags of images by digests, list all related images"),
    stdout: bool = flag(False, "Print the manifests instead of writing files"),
    quiet: bool = flag(False, "Print only errors and warnings", "-q"),
    extra_service_accounts: list[str] | None = flag(None, ACCOUNTS_HELP, metavar="NAME,..."),
) -> None:
    """Generate a bundle from the manifests that install an operator, as operator-sdk generate bundle does

    Reads Deployments, roles, bindings, service accounts, CRDs, webhooks, sample custom resources and a base
    ClusterServiceVersion. Writes bundle/manifests, bundle/metadata, bundle/tests and bundle.Dockerfile.

    [bold]Examples:[/]
      kustomize build config/manifests | opm generate bundle --version 0.1.0 --channels alpha,stable
      opm generate bundle --input-dir deploy --package lagoon-operator --version 0.1.0
    """
    from opmkit import GenerationOptions

    if stdout and output_dir:
        raise conflicting_flags("--stdout", "--output-dir", ctx.command_path)
    selected = given_flags(ctx) & {"manifests", "metadata"}
    with_manifests = manifests or not selected
    project = find_project()
    options = GenerationOptions(
        package_name(package, project, ctx.command_path),
        version,
        ",".join(project.layout) if project else _UNKNOWN_LAYOUT,
        tuple(extra_service_accounts or ()),
        manifests=input_flags.manifests(ctx) if with_manifests else _STDIN,
        crds=input_flags.crds_dir,
        kustomize=input_flags.kustomize_dir,
        directory=None if stdout else output_dir or Path("bundle"),
        channels=channels,
        default_channel=default_channel,
        with_manifests=with_manifests,
        with_metadata=metadata or not (selected or stdout),
        overwrite=overwrite,
        retain=not runs_as_operator_sdk(ctx),
        pin_images=use_image_digests,
    )
    with progress() as bars:
        generated = registry_flags.opm().generate_bundle(options, progress=bars)
    print_generated(generated, quiet=quiet)
