"""``opm bundle`` and ``opm alpha bundle``: generate, build, unpack, extract and validate bundles."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.flags.bundle import BundleFlags
from opmkit.cli.flags.container_tools import BUILD_TOOL_HELP, PUSH_HELP, FormatOption, PullToolWithoutShorthand
from opmkit.cli.flags.dockerfile import DockerfileFlags
from opmkit.cli.flags.generation import GenerationFlags
from opmkit.cli.flags.registry import CA_FILE_HELP, REGISTRY_PANEL, RegistryFlags
from opmkit.cli.output.console import ValueFormat, print_line, print_value
from opmkit.cli.output.errors import conflicting_flags, print_warning
from opmkit.cli.output.index import print_unpushed
from opmkit.cli.output.streams import printing_result
from opmkit.cli.parser.go_commands import given_flags, require_flags
from opmkit.cli.progress.command import progress

if TYPE_CHECKING:
    from opmkit.bundle.config_map import ConfigMap
    from opmkit.imagetools.reference import ImageReference


_BUNDLE_HELP = "Bundle image, or bundle directory as ./DIR"


@dataclass(frozen=True, slots=True)
class UnpackRegistryFlags(RegistryFlags):
    """Flags for access to registries with the additional names that they have in ``opm bundle unpack`` of Go opm."""

    skip_tls: Annotated[bool, typer.Option("--skip-tls", "-s", hidden=True)] = False
    ca_file: Annotated[
        Path | None,
        typer.Option(
            "--ca-file",
            "--root-ca",
            "-c",
            metavar="FILE",
            help=CA_FILE_HELP,
            rich_help_panel=REGISTRY_PANEL,
        ),
    ] = None
    debug: Annotated[bool, typer.Option("--debug", "-d", hidden=True)] = False


@dataclass(frozen=True, slots=True)
class ConfigMapFlags:
    """Flags for the ConfigMap to write a bundle to."""

    configmapname: Annotated[
        str, typer.Option("--configmapname", "-c", metavar="NAME", help="Name of the ConfigMap (required)")
    ] = ""
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="Namespace of the ConfigMap")
    ] = "openshift-operator-lifecycle-manager"
    kubeconfig: Annotated[
        str, typer.Option("--kubeconfig", "-k", metavar="FILE", help="Kubeconfig file to use if KUBECONFIG is not set")
    ] = ""
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the ConfigMap without accessing the cluster")] = (
        False
    )
    output: Annotated[ValueFormat, typer.Option("--output", "-o", help="Output format of --dry-run: yaml or json")] = (
        ValueFormat.YAML
    )

    def write(self, config_map: ConfigMap) -> None:
        """Write the ConfigMap to the cluster, or print it for a dry run; raises ClusterError."""
        if self.dry_run:
            print_value(config_map.manifest(), self.output)
            return
        from opmkit.bundle.config_map import MANAGED_ANNOTATIONS, write_config_map
        from opmkit.kube.cluster import Cluster

        kubeconfig = os.environ.get("KUBECONFIG") or self.kubeconfig
        cluster = Cluster.connect(kubeconfig) if kubeconfig else Cluster.of_this_pod()
        write_config_map(cluster, config_map, replacing=MANAGED_ANNOTATIONS)


def generate(ctx: typer.Context, bundle_flags: BundleFlags, generation_flags: GenerationFlags) -> None:
    """Generate a bundle from the manifests that install an operator, or the metadata of existing manifests

    With --directory, only metadata/annotations.yaml and bundle.Dockerfile are written, for the manifests of a bundle.

    Otherwise, a bundle is generated from manifests as for kubectl apply: Deployments, roles, bindings, service
    accounts, CRDs, webhooks and sample custom resources. They fill in the ClusterServiceVersion of --base-csv, whose
    other fields are retained.

    [bold]Examples:[/]

      kustomize build config/default | opm bundle generate -p lagoon-operator --version 0.1.0 -c alpha
        --base-csv base.yaml

      opm bundle generate --input deploy/ --package lagoon-operator --version 0.1.0 --channels alpha,stable
        --default stable

      opm bundle generate --directory deploy/0.1.0/manifests --package lagoon-operator --channels alpha,stable
        --default stable

      opm bundle generate -d deploy/0.1.0/manifests -p lagoon-operator -c alpha --output-dir bundle
    """
    given = given_flags(ctx)
    if "directory" not in given:
        generation_flags.generate(ctx, bundle_flags)
        return
    for flag in ("input", "base-csv", "version", "extra-service-accounts"):
        if flag in given:
            raise conflicting_flags("--directory", f"--{flag}", ctx.command_path)
    bundle_flags.generate(ctx, overwrite=True)


def build(
    ctx: typer.Context,
    dockerfile_flags: DockerfileFlags,
    registry_flags: RegistryFlags,
    bundle_flags: BundleFlags,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", "-t", metavar="IMAGE", help="Name of the image (required); can be repeated"),
    ] = None,
    push: Annotated[bool, typer.Option("--push", help=PUSH_HELP)] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", "-o", help="Overwrite existing annotations and Dockerfile")
    ] = False,
    image_builder: Annotated[
        str,
        typer.Option("--image-builder", "--container-tool", "-b", metavar="TOOL", help=BUILD_TOOL_HELP),
    ] = "none",
    image_format: FormatOption = None,
) -> None:
    """Build a reproducible bundle image from a directory of manifests or from a Dockerfile

    With --directory, the metadata and a Dockerfile are generated. With --file, an existing Dockerfile is built, which
    may contain FROM, ARG, LABEL, COPY and ADD.

    [bold]Examples:[/]

      opm bundle build -d deploy/0.1.0/manifests -p lagoon-operator -c alpha,stable -e stable
        -t quay.io/me/lagoon:0.1.0 --push

      opm bundle build -d deploy/0.1.0/manifests -p lagoon-operator -c alpha -t oci:bundles/lagoon:0.1.0

      opm bundle build -f bundle.Dockerfile -t quay.io/me/lagoon:0.1.0 --push .
    """
    from opmkit.imagetools.reference import parse_image_reference

    dockerfile_flags.check_flags(ctx)
    targets = [parse_image_reference(name) for name in tag or [""]]
    tool = registry_flags.tool_named(image_builder, image_format)
    if dockerfile_flags.file:
        built = dockerfile_flags.build_spec()
        build_spec, base = built.spec, built.base
    else:
        build_spec, base = bundle_flags.build_spec(ctx, overwrite=overwrite), bundle_flags.base_image
    base_image = None if base in ("", "scratch") else parse_image_reference(base)
    with progress() as bars:
        digest = tool.build(build_spec, base_image, targets, push=push, progress=bars)
    for target in targets:
        _print_image(target, digest, pushed=push)
    if not push:
        print_unpushed([str(target) for target in targets], tool)


def _print_image(target: ImageReference, digest: str, *, pushed: bool) -> None:
    """Print the name of an image, by its digest if this is known."""
    from opmkit.imagetools.transports import pin_reference

    name = pin_reference(target, digest) if digest else str(target)
    with printing_result(f"{name}: image {'pushed' if pushed else 'built'}"):
        print_line(name)


def unpack(
    registry_flags: UnpackRegistryFlags,
    image: Annotated[str, typer.Argument(metavar="IMAGE", help=_BUNDLE_HELP)],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="DIR", help="Directory to write the files to")] = Path(),
    skip_validation: Annotated[
        bool, typer.Option("--skip-validation", "-v", help="Unpack images that are not valid bundles")
    ] = False,
    container_tool: PullToolWithoutShorthand = "none",
) -> None:
    """Validate a bundle image and write its files to a directory

    [bold]Example:[/] opm bundle unpack quay.io/me/lagoon:0.1.0 --out lagoon
    """
    from opmkit.bundle.unpack import unpack_bundle

    for warning in unpack_bundle(registry_flags.tool_named(container_tool), image, out, validate=not skip_validation):
        print_warning(warning)


def extract(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    config_map_flags: ConfigMapFlags,
    source: Annotated[
        str,
        typer.Argument(metavar="[SOURCE]", help=f"{_BUNDLE_HELP}, to use instead of --manifestsdir"),
    ] = "",
    manifestsdir: Annotated[
        Path, typer.Option("--manifestsdir", "-m", metavar="DIR", help="Directory that contains manifests and metadata")
    ] = Path("/"),
    datalimit: Annotated[
        int, typer.Option("--datalimit", "-l", metavar="BYTES", min=0, help="Maximum size of the files in bytes")
    ] = 1 << 20,
    gzip: Annotated[bool, typer.Option("--gzip", "-z", help="Compress the files")] = False,
    container_tool: PullToolWithoutShorthand = "none",
) -> None:
    """Write the files of a bundle to a ConfigMap, which is created if it does not exist

    The cluster is taken from KUBECONFIG, --kubeconfig or the service account of the pod, in this order.

    [bold]Examples:[/]

      opm bundle extract --manifestsdir / --configmapname lagoon --namespace olm --gzip

      opm bundle extract quay.io/me/lagoon:0.1.0 --configmapname lagoon --namespace olm --dry-run
    """
    from opmkit.bundle.config_map import ExtractionOptions, bundle_config_map
    from opmkit.bundle.load import fetch_bundle_files
    from opmkit.bundle.source import BundleSource

    require_flags(ctx, "configmapname")
    if source and "manifestsdir" in given_flags(ctx):
        raise conflicting_flags("SOURCE", "--manifestsdir", ctx.command_path)
    bundle = BundleSource.parse(source) if source else BundleSource(str(manifestsdir), manifestsdir, "")
    files = fetch_bundle_files(registry_flags.tool_named(container_tool), bundle)
    image = os.environ.get("CONTAINER_IMAGE") or bundle.image
    extraction = ExtractionOptions(config_map_flags.namespace, config_map_flags.configmapname, datalimit, gzip, image)
    config_map_flags.write(bundle_config_map(files, extraction))
