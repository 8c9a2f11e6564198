"""``opm generate bundle``: generate a bundle with the flags of operator-sdk."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
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
from opmkit.cli.flags.generation import ACCOUNTS_HELP
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.errors import UsageError, conflicting_flags, print_warning
from opmkit.cli.parser.go_commands import given_flags, runs_as_operator_sdk
from opmkit.cli.progress.command import progress

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.author.generate.input import InputObject

_CRD = "CustomResourceDefinition"
_CSV = "ClusterServiceVersion"
_UNKNOWN_LAYOUT = "unknown"


@dataclass(frozen=True, slots=True)
class InputFlags:
    """Flags for the manifests to read."""

    input_dir: Annotated[
        Path | None,
        typer.Option(
            "--input-dir", metavar="DIR", help="Directory of the manifests that install the operator; default: stdin"
        ),
    ] = None
    deploy_dir: Annotated[
        Path | None, typer.Option("--deploy-dir", metavar="DIR", help="Same as --input-dir, for use with --crds-dir")
    ] = None
    crds_dir: Annotated[
        Path | None,
        typer.Option("--crds-dir", metavar="DIR", help="Directory of the CRDs, if they are not in --deploy-dir"),
    ] = None
    kustomize_dir: Annotated[
        Path,
        typer.Option(
            "--kustomize-dir",
            metavar="DIR",
            help="Directory with the base bases/PACKAGE.clusterserviceversion.yaml, used if there is none in the input",
        ),
    ] = Path("config/manifests")

    def read(self, ctx: typer.Context) -> list[InputObject]:
        """Return all objects of the input; raises UsageError if there is no input, or too much."""
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
        objects = read_objects(directory or STDIN)
        if self.crds_dir is None:
            return objects
        crds = [item for item in read_objects(self.crds_dir) if item.kind == _CRD]
        return [*(item for item in objects if item.kind != _CRD), *crds]

    def read_base(self, objects: list[InputObject], package: str) -> list[InputObject]:
        """Return the objects of the base file, none if there is no file or the input has a base."""
        path = self.kustomize_dir / "bases" / f"{package}.clusterserviceversion.yaml"
        if any(item.kind == _CSV for item in objects) or not path.is_file():
            return []
        return read_base(path)


def bundle(
    ctx: typer.Context,
    input_flags: InputFlags,
    registry_flags: RegistryFlags,
    *,
    version: Annotated[
        str,
        typer.Option("--version", "-v", metavar="VERSION", help="Version of the operator; default: that of the base"),
    ] = "",
    output_dir: Annotated[
        Path | None, typer.Option("--output-dir", metavar="DIR", help="Directory of the bundle (default: bundle)")
    ] = None,
    package: Annotated[
        str, typer.Option("--package", metavar="NAME", help="Package name (default: projectName in PROJECT)")
    ] = "",
    channels: Annotated[str, typer.Option("--channels", metavar="NAME,...", help="Channels")] = "alpha",
    default_channel: Annotated[str, typer.Option("--default-channel", metavar="CHANNEL", help="Default channel")] = "",
    manifests: Annotated[bool, typer.Option("--manifests", help="Generate only the manifests")] = False,
    metadata: Annotated[bool, typer.Option("--metadata", help="Generate only the annotations and the Dockerfile")] = (
        False
    ),
    overwrite: Annotated[
        bool, typer.Option("--overwrite/--no-overwrite", help="Overwrite existing annotations and Dockerfile")
    ] = True,
    use_image_digests: Annotated[
        bool,
        typer.Option("--use-image-digests", help="Replace tags of images by digests, list all related images"),
    ] = False,
    stdout: Annotated[bool, typer.Option("--stdout", help="Print the manifests instead of writing files")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only errors and warnings")] = False,
    extra_service_accounts: Annotated[
        list[str] | None,
        typer.Option(
            "--extra-service-accounts",
            metavar="NAME,...",
            help=ACCOUNTS_HELP,
        ),
    ] = None,
) -> None:
    """Generate a bundle from the manifests that install an operator, as operator-sdk generate bundle does

    Reads Deployments, roles, bindings, service accounts, CRDs, webhooks, sample custom resources and a base
    ClusterServiceVersion. Writes bundle/manifests, bundle/metadata, bundle/tests and bundle.Dockerfile.

    [bold]Examples:[/]

      kustomize build config/manifests | opm generate bundle --version 0.1.0 --channels alpha,stable

      opm generate bundle --input-dir deploy --package lagoon-operator --version 0.1.0
    """
    from opmkit.author.generate.bundle import BundleSettings
    from opmkit.author.generate.metadata import BundleLabels

    if stdout and output_dir:
        raise conflicting_flags("--stdout", "--output-dir", ctx.command_path)
    selected = given_flags(ctx) & {"manifests", "metadata"}
    project = find_project()
    layout = ",".join(project.layout) if project else _UNKNOWN_LAYOUT
    name = package_name(package, project, ctx.command_path)
    directory = output_dir or BUNDLE_DIRECTORY
    transform = partial(_pin_images, registry_flags) if use_image_digests else dict
    writer = BundleWriter(None if stdout else directory, quiet, transform)
    if manifests or not selected:
        settings = BundleSettings(name, version, layout, tuple(extra_service_accounts or ()))
        objects = input_flags.read(ctx)
        writer.write_manifests(objects, settings, input_flags.read_base(objects, name))
    if metadata or not (selected or stdout):
        labels = BundleLabels(name, channels, default_channel, layout)
        writer.write_metadata(labels, overwrite=overwrite, retain=not runs_as_operator_sdk(ctx))


def _pin_images(registry_flags: RegistryFlags, files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return manifests with digests instead of the tags of images."""
    from opmkit.author.pin.pin import pin_files, read_manifests
    from opmkit.author.pin.related_images_mode import RelatedImagesMode
    from opmkit.author.pin.resolve import PinOptions, resolve_images

    manifests = read_manifests(files)
    uses = [use for manifest in manifests for use in manifest.uses()]
    with progress() as bars:
        images = resolve_images(uses, PinOptions(), registry_flags.tool().registry_digest, bars)
    pinned = pin_files(manifests, images, RelatedImagesMode.COMPLETE)
    for warning in pinned.warnings:
        print_warning(warning)
    return {**files, **pinned.files}
