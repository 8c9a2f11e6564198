"""``opm bundle`` and ``opm alpha bundle``: generate, build, validate, unpack and extract bundles."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from opmkit.cli.flags.bundle import BundleFlags
from opmkit.cli.flags.container_tools import BUILD_TOOL_HELP, PUSH_HELP, FormatOption, PullToolWithoutShorthand
from opmkit.cli.flags.generation import GenerationFlags
from opmkit.cli.flags.registry import CA_FILE_HELP, REGISTRY_PANEL, RegistryFlags
from opmkit.cli.output.console import ValueFormat, print_line, print_value
from opmkit.cli.output.errors import UsageError, conflicting_flags, print_warning
from opmkit.cli.output.index import print_unpushed
from opmkit.cli.output.streams import printing_result
from opmkit.cli.parser.declaration import argument, flag
from opmkit.cli.parser.go_commands import given_flags, require_flags
from opmkit.cli.progress.command import progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opmkit import BuiltBundle, ConfigMap, Opm, Progress


DOCKERFILE_PANEL = "Build from a Dockerfile"
_MANIFEST_FLAGS = ("directory", "package", "channels", "default", "output-dir", "base-image", "overwrite")
_DOCKERFILE_FLAGS = ("label", "build-arg")


@dataclass(frozen=True, slots=True)
class DockerfileFlags:
    """Flags for a Dockerfile, with the names that they have in ``docker build``."""

    panel: ClassVar[str] = DOCKERFILE_PANEL

    context: str = argument(
        "", "With --file, directory to copy files from; default: the working directory", metavar="[CONTEXT]"
    )
    file: Path | None = flag(None, "Dockerfile to build from", "-f", metavar="FILE")
    label: list[str] | None = flag(None, "Label to set; can be repeated", metavar="KEY=VALUE")
    build_arg: list[str] | None = flag(
        None, "Value of an ARG, by default that of the environment variable; can be repeated", metavar="NAME=VALUE"
    )

    def check_flags(self, ctx: typer.Context) -> None:
        """Raise UsageError if a flag is missing, or only valid with or without a Dockerfile."""
        given = given_flags(ctx)
        if self.file is None:
            unused = [f"--{name}" for name in _DOCKERFILE_FLAGS if name in given] + ["CONTEXT"] * bool(self.context)
            if unused:
                raise UsageError(f"{unused[0]} requires --file", ctx.command_path, hint=self._directory_hint())
            hint = "pass --directory for a directory of manifests, or --file for a Dockerfile, and --tag"
            require_flags(ctx, "directory", "tag", hint=hint)
            return
        for name in _MANIFEST_FLAGS:
            if name in given:
                raise conflicting_flags("--file", f"--{name}", ctx.command_path)
        require_flags(ctx, "tag")

    def _directory_hint(self) -> str:
        """Return the flag for a bundle or its manifests that were given as the context, "" for others."""
        directory = Path(self.context)
        if not self.context or not directory.is_dir():
            return ""
        manifests = directory / "manifests"
        return f"pass --directory {manifests if manifests.is_dir() else directory} for a directory of manifests"

    def build(self, opm: Opm, tags: Sequence[str], *, push: bool, progress: Progress) -> BuiltBundle:
        """Build the image of the Dockerfile, and print warnings about it."""
        return opm.build_dockerfile(
            self.file or Path(),
            *tags,
            context=Path(self.context),
            arguments=_parse_arguments(self.build_arg or ()),
            labels=_parse_labels(self.label or ()),
            push=push,
            warn=print_warning,
            progress=progress,
        )


def _parse_arguments(texts: Iterable[str]) -> dict[str, str]:
    """Parse ``NAME=VALUE``; an argument without a value is that of the environment, if there is one."""
    arguments = {}
    for text in texts:
        name, has_value, value = text.partition("=")
        if has_value or name in os.environ:
            arguments[name] = value if has_value else os.environ[name]
    return arguments


def _parse_labels(texts: Iterable[str]) -> dict[str, str]:
    """Parse ``KEY=VALUE``; a label without a value is empty."""
    labels = {name: value for name, _, value in (text.partition("=") for text in texts)}
    if "" in labels:
        raise UsageError("--label: empty name", hint="write KEY=VALUE")
    return labels


_BUNDLE_HELP = "Bundle image, or bundle directory as ./DIR"


@dataclass(frozen=True, slots=True)
class UnpackRegistryFlags(RegistryFlags):
    """Flags for access to registries with the additional names that they have in ``opm bundle unpack`` of Go opm."""

    skip_tls: bool = flag(False, "", "-s")
    ca_file: Path | None = flag(
        None, CA_FILE_HELP, "--ca-file", "--root-ca", "-c", panel=REGISTRY_PANEL, metavar="FILE"
    )
    debug: bool = flag(False, "", "-d")


@dataclass(frozen=True, slots=True)
class ConfigMapFlags:
    """Flags for the ConfigMap to write a bundle to."""

    configmapname: str = flag("", "Name of the ConfigMap (required)", "-c", metavar="NAME")
    namespace: str = flag(
        "openshift-operator-lifecycle-manager", "Namespace of the ConfigMap", "-n", metavar="NAMESPACE"
    )
    kubeconfig: str = flag("", "Kubeconfig file to use if KUBECONFIG is not set", "-k", metavar="FILE")
    dry_run: bool = flag(False, "Print the ConfigMap without accessing the cluster")
    output: ValueFormat = flag(ValueFormat.YAML, "Output format of --dry-run: yaml or json", "-o")

    def write(self, opm: Opm, config_map: ConfigMap) -> None:
        """Write the ConfigMap to the cluster, or print it for a dry run; raises ClusterError."""
        if self.dry_run:
            print_value(config_map.to_dict(), self.output)
        else:
            opm.write_bundle(config_map, os.environ.get("KUBECONFIG") or self.kubeconfig)


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
    for name in ("input", "base-csv", "version", "extra-service-accounts"):
        if name in given:
            raise conflicting_flags("--directory", f"--{name}", ctx.command_path)
    bundle_flags.generate(ctx)


def build(
    ctx: typer.Context,
    dockerfile_flags: DockerfileFlags,
    registry_flags: RegistryFlags,
    bundle_flags: BundleFlags,
    tag: list[str] | None = flag(None, "Name of the image (required); can be repeated", "-t", metavar="IMAGE"),
    push: bool = flag(False, PUSH_HELP),
    overwrite: bool = flag(False, "Overwrite existing annotations and Dockerfile", "-o"),
    image_builder: str = flag("none", BUILD_TOOL_HELP, "--image-builder", "--container-tool", "-b", metavar="TOOL"),
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
    dockerfile_flags.check_flags(ctx)
    tags = tag or [""]
    opm = registry_flags.opm(image_builder, image_format=image_format)
    with progress() as bars:
        if dockerfile_flags.file:
            built = dockerfile_flags.build(opm, tags, push=push, progress=bars)
        else:
            built = bundle_flags.build(opm, tags, overwrite=overwrite, push=push, progress=bars)
    for name in built.references:
        with printing_result(f"{name}: image {'pushed' if push else 'built'}"):
            print_line(name)
    if not push:
        print_unpushed(tags, opm.built_images)


def unpack(
    registry_flags: UnpackRegistryFlags,
    image: Annotated[str, typer.Argument(metavar="IMAGE", help=_BUNDLE_HELP)],
    out: Path = flag(Path(), "Directory to write the files to", "-o", metavar="DIR"),
    skip_validation: bool = flag(False, "Unpack images that are not valid bundles", "-v"),
    container_tool: PullToolWithoutShorthand = "none",
) -> None:
    """Validate a bundle image and write its files to a directory

    [bold]Example:[/] opm bundle unpack quay.io/me/lagoon:0.1.0 --out lagoon
    """
    for warning in registry_flags.opm(container_tool).unpack_bundle(image, out, validate=not skip_validation):
        print_warning(warning)


def extract(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    config_map_flags: ConfigMapFlags,
    source: str = argument("", f"{_BUNDLE_HELP}, to use instead of --manifestsdir", metavar="[SOURCE]"),
    manifestsdir: Path = flag(Path("/"), "Directory that contains manifests and metadata", "-m", metavar="DIR"),
    datalimit: int = flag(1 << 20, "Maximum size of the files in bytes", "-l", metavar="BYTES", min=0),
    gzip: bool = flag(False, "Compress the files", "-z"),
    container_tool: PullToolWithoutShorthand = "none",
) -> None:
    """Write the files of a bundle to a ConfigMap, which is created if it does not exist

    The cluster is taken from KUBECONFIG, --kubeconfig or the service account of the pod, in this order.

    [bold]Examples:[/]
      opm bundle extract --manifestsdir / --configmapname lagoon --namespace olm --gzip
      opm bundle extract quay.io/me/lagoon:0.1.0 --configmapname lagoon --namespace olm --dry-run
    """
    from opmkit import ExtractionOptions

    require_flags(ctx, "configmapname")
    if source and "manifestsdir" in given_flags(ctx):
        raise conflicting_flags("SOURCE", "--manifestsdir", ctx.command_path)
    flags, image = config_map_flags, os.environ.get("CONTAINER_IMAGE", "")
    opm = registry_flags.opm(container_tool)
    options = ExtractionOptions(flags.namespace, flags.configmapname, datalimit, gzip, image)
    flags.write(opm, opm.extract_bundle(source or manifestsdir, options))
