"""``opm bundle`` and ``opm alpha bundle``: generate, build, unpack, extract and validate bundles."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.commands.bundle_validate import list_rules, validate
from opmkit.cli.console import ValueFormat, print_line, print_value, progress
from opmkit.cli.errors import UsageProblem, print_warning
from opmkit.cli.go_commands import given_flags, require_flags
from opmkit.cli.index_flags import TOOLS, Format, print_unpushed
from opmkit.cli.registry_flags import REGISTRY_PANEL, Connection
from opmkit.cli.streams import report_on
from opmkit.imagetools.epoch import source_date_epoch

if TYPE_CHECKING:
    from opmkit.bundle.config_map import ConfigMap
    from opmkit.bundle.generate import Generated


@dataclass(frozen=True, slots=True)
class Source:
    """The manifests of a bundle, and where it belongs in a catalog."""

    directory: Annotated[
        Path, typer.Option("--directory", "-d", metavar="DIR", help="Directory of the manifests (required).")
    ] = Path()
    package: Annotated[
        str,
        typer.Option(
            "--package",
            "-p",
            help="Package; default: from the package directory, or else from metadata/annotations.yaml",
        ),
    ] = ""
    channels: Annotated[
        str, typer.Option("--channels", "-c", metavar="NAME,...", help="Channels; default: likewise")
    ] = ""
    default: Annotated[str, typer.Option("--default", "-e", metavar="CHANNEL", help="The default channel.")] = ""
    output_dir: Annotated[
        Path | None,
        typer.Option(
            "--output-dir",
            "-u",
            metavar="DIR",
            help="Copy the manifests there, and write the metadata beside them. Default: beside --directory.",
        ),
    ] = None
    base_image: Annotated[str, typer.Option(metavar="IMAGE", help="Image that the bundle is layered on.")] = "scratch"

    def generate(self, ctx: typer.Context, *, overwrite: bool, needs_dockerfile: bool = True) -> Generated:
        """Write the annotations and the Dockerfile, and tell what there is to say of the manifests."""
        from opmkit.bundle.generate import AnnotationsInput, generate

        require_flags(ctx, "directory")
        place = AnnotationsInput(self.package, self.channels, self.default)
        generated = generate(
            self.directory,
            place,
            output=self.output_dir,
            base_image=self.base_image,
            overwrite=overwrite,
            needs_dockerfile=needs_dockerfile,
        )
        for warning in generated.warnings:
            print_warning(warning)
        return generated


@dataclass(frozen=True, slots=True)
class UnpackConnection(Connection):
    """The flags of registry access with the further spellings that unpack has in the Go tool."""

    skip_tls: Annotated[bool, typer.Option("--skip-tls", "-s", hidden=True)] = False
    ca_file: Annotated[
        Path | None,
        typer.Option(
            "--ca-file",
            "--root-ca",
            "-c",
            help="PEM file of further certificate authorities to trust.",
            rich_help_panel=REGISTRY_PANEL,
        ),
    ] = None
    debug: Annotated[bool, typer.Option("--debug", "-d", hidden=True)] = False


@dataclass(frozen=True, slots=True)
class ClusterConfigMap:
    """The ConfigMap that receives a bundle, and the cluster it is in."""

    configmapname: Annotated[
        str, typer.Option("--configmapname", "-c", metavar="NAME", help="Name of the ConfigMap (required).")
    ] = ""
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Namespace of the ConfigMap.")] = (
        "openshift-operator-lifecycle-manager"
    )
    kubeconfig: Annotated[
        str, typer.Option("--kubeconfig", "-k", metavar="FILE", help="Kubeconfig, where KUBECONFIG is not set.")
    ] = ""
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the ConfigMap; ask no cluster.")] = False
    output: Annotated[
        ValueFormat, typer.Option("--output", "-o", help="Form in which --dry-run prints: yaml or json.")
    ] = ValueFormat.YAML

    def put(self, config_map: ConfigMap) -> None:
        """Write the ConfigMap to the cluster, or print it; raises ClusterError."""
        if self.dry_run:
            print_value(config_map.manifest(), self.output)
            return
        from opmkit.bundle.cluster import Cluster
        from opmkit.bundle.config_map import MANAGED_ANNOTATIONS

        cluster = Cluster.connect(os.environ.get("KUBECONFIG") or self.kubeconfig)
        cluster.write(config_map, replacing=MANAGED_ANNOTATIONS)


def generate(ctx: typer.Context, source: Source) -> None:
    """Generate a bundle's metadata/annotations.yaml, and a bundle.Dockerfile in the working directory.

    [bold]Examples:[/]

      opm bundle generate --directory deploy/0.1.0/manifests --package lagoon --channels alpha,stable --default stable

      opm bundle generate -d deploy/0.1.0/manifests -p lagoon -c alpha --output-dir bundle
    """
    source.generate(ctx, overwrite=True)


def build(
    ctx: typer.Context,
    connection: Connection,
    source: Source,
    tag: Annotated[str, typer.Option("--tag", "-t", metavar="IMAGE", help="Name of the image (required).")] = "",
    push: Annotated[
        bool, typer.Option("--push", help="Push to the registry of --tag, instead of the embedded store.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", "-o", help="Replace annotations and Dockerfile that are there already.")
    ] = False,
    image_builder: Annotated[
        str,
        typer.Option("--image-builder", "--container-tool", "-b", metavar="TOOL", help=f"Tool that builds: {TOOLS}."),
    ] = "none",
    form: Format = None,
) -> None:
    """Build a bundle image: generate the metadata, and put manifests and metadata into one reproducible layer.

    [bold]Examples:[/]

      opm bundle build -d deploy/0.1.0/manifests -p lagoon -c alpha,stable -e stable -t quay.io/me/lagoon:0.1.0 --push

      opm bundle build -d deploy/0.1.0/manifests -p lagoon -c alpha -t oci:bundles/lagoon:0.1.0
    """
    from opmkit.bundle.build import bundle_build_spec
    from opmkit.imagetools.reference import parse_image_reference
    from opmkit.imagetools.transports import pin_reference

    require_flags(ctx, "directory", "tag")
    target = parse_image_reference(tag)
    tool = connection.tool_named(image_builder, form)
    base = None if source.base_image == "scratch" else parse_image_reference(source.base_image)
    generated = source.generate(ctx, overwrite=overwrite, needs_dockerfile=False)
    build_spec = bundle_build_spec(generated.manifests, generated.metadata, created=source_date_epoch())
    with progress() as bars:
        digest = tool.build(build_spec, base, [target], push=push, progress=bars)
    name = pin_reference(target, digest) if digest else str(target)
    with report_on(f"{name}: image {'pushed' if push else 'built'}"):
        print_line(name)
    if not push:
        print_unpushed([str(target)], tool)


def unpack(
    connection: UnpackConnection,
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="A bundle image, or a bundle's directory as ./DIR.")],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Where the files go.")] = Path(),
    skip_validation: Annotated[
        bool, typer.Option("--skip-validation", "-v", help="Unpack whatever the image holds.")
    ] = False,
    container_tool: Annotated[
        str, typer.Option("--container-tool", metavar="TOOL", help=f"Tool for pulling: {TOOLS}.")
    ] = "none",
) -> None:
    """Write the files of a bundle image to a directory, once it has been seen to be a bundle.

    [bold]Example:[/] opm bundle unpack quay.io/me/lagoon:0.1.0 --out lagoon
    """
    from opmkit.bundle.unpack import unpack_bundle

    for warning in unpack_bundle(connection.tool_named(container_tool), image, out, validate=not skip_validation):
        print_warning(warning)


def extract(
    ctx: typer.Context,
    connection: Connection,
    target: ClusterConfigMap,
    source: Annotated[
        str,
        typer.Argument(metavar="[SOURCE]", help="A bundle image, or a bundle's directory as ./DIR, in place of -m."),
    ] = "",
    manifestsdir: Annotated[
        Path, typer.Option("--manifestsdir", "-m", metavar="DIR", help="Directory with manifests and metadata in it.")
    ] = Path("/"),
    datalimit: Annotated[
        int, typer.Option("--datalimit", "-l", metavar="BYTES", min=0, help="The most bytes that the files may have.")
    ] = 1 << 20,
    gzip: Annotated[bool, typer.Option("--gzip", "-z", help="Compress the files.")] = False,
    container_tool: Annotated[
        str, typer.Option("--container-tool", metavar="TOOL", help=f"Tool for pulling: {TOOLS}.")
    ] = "none",
) -> None:
    """Write the files of a bundle into a ConfigMap of a cluster; it is created where it is missing.

    The cluster is that of KUBECONFIG, else of --kubeconfig, else of the pod in which this runs.

    [bold]Examples:[/]

      opm alpha bundle extract --manifestsdir / --configmapname lagoon --namespace olm --gzip

      opm bundle extract quay.io/me/lagoon:0.1.0 --configmapname lagoon --namespace olm --dry-run
    """
    from opmkit.bundle.config_map import ExtractionOptions, bundle_config_map
    from opmkit.bundle.load import fetch_bundle_files
    from opmkit.bundle.source import BundleSource

    require_flags(ctx, "configmapname")
    if source and "manifestsdir" in given_flags(ctx):
        raise UsageProblem("SOURCE and --manifestsdir exclude each other", ctx.command_path)
    bundle = BundleSource.parse(source) if source else BundleSource(str(manifestsdir), manifestsdir, "")
    files = fetch_bundle_files(connection.tool_named(container_tool), bundle)
    image = os.environ.get("CONTAINER_IMAGE") or bundle.image
    target.put(
        bundle_config_map(files, ExtractionOptions(target.namespace, target.configmapname, datalimit, gzip, image))
    )


COMMANDS = (
    ("generate", generate),
    ("build", build),
    ("unpack", unpack),
    ("extract", extract),
    ("validate", validate),
    ("rules", list_rules),
)
