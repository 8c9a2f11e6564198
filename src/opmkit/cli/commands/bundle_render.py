"""``opm bundle render``: print the objects of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit import CertificateProvider, ChartRequest, CrdLocation
from opmkit.cli.flags.container_tools import PullTool
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.console import print_bytes, print_json
from opmkit.cli.output.errors import UsageError, announce_standard_input, print_to_stderr, print_warnings
from opmkit.cli.parser.declaration import flag
from opmkit.cli.parser.go_commands import require_flags
from opmkit.cli.progress.command import waiting

if TYPE_CHECKING:
    from opmkit import InstallConfig, Opm

_MAX_CONFIG = 1 << 20


def render(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    bundle: Annotated[str, typer.Argument(metavar="BUNDLE", help="Bundle image, or bundle directory as ./DIR")],
    *,
    namespace: str = flag("", "Namespace of the operator (required, but not by --helm)", "-n", metavar="NAMESPACE"),
    watch_namespace: list[str] | None = flag(
        None, "Namespaces to watch; default: all namespaces, if the operator supports it", metavar="NAMESPACE,..."
    ),
    config: str = flag(
        "", "Configuration as in spec.config.inline of a ClusterExtension, in YAML or JSON", metavar="FILE"
    ),
    certificates: CertificateProvider = flag(
        CertificateProvider.CERT_MANAGER, "What provides certificates of webhooks: cert-manager, service-ca or none"
    ),
    output_dir: Path | None = flag(None, "Directory for a file per object; it must be new or empty", metavar="DIR"),
    kustomize: bool = flag(False, "Make the directory a base for kustomize"),
    helm: bool = flag(False, "Make the directory a Helm chart; namespaces and configuration are its values"),
    helm_crds: CrdLocation = flag(
        CrdLocation.CRDS, "Where a chart has its CRDs: crds, which Helm does not update, or templates"
    ),
    output: str = flag("yaml", "Output format: yaml or json", "-o", metavar="yaml|json"),
    container_tool: PullTool = "none",
) -> None:
    """Print the objects that OLM v1 applies for a bundle

    They can be applied without OLM, to a namespace that exists. Names, order and content are those of OLM v1; bundles
    that it does not support are refused. --namespace is optional with --helm.

    [bold]Examples:[/]
      opm bundle render quay.io/me/lagoon:0.1.0 --namespace lagoon
      opm bundle render ./lagoon/0.1.0 --namespace lagoon --output-dir lagoon-base --kustomize
      opm bundle render ./lagoon/0.1.0 --output-dir lagoon-chart --helm
    """
    from opmkit import RenderRequest

    if not helm:
        require_flags(ctx, "namespace")
    _check_output(ctx, output, output_dir, kustomize=kustomize, helm=helm)
    settings = _read_config(config)
    watched = tuple(filter(None, watch_namespace or ()))
    if watched and settings.watch_namespace and watched != (settings.watch_namespace,):
        raise UsageError("--watch-namespace differs from watchNamespace in --config", ctx.command_path)
    watched = watched or tuple(filter(None, (settings.watch_namespace,)))
    opm = registry_flags.opm(container_tool)
    if helm and output_dir is not None:
        chart = ChartRequest(namespace, watched, settings.deployment, certificates, helm_crds)
        _write_chart(opm, bundle, chart, output_dir)
        return
    request = RenderRequest(namespace, watched, settings.deployment, certificates)
    with waiting(f"Reading {bundle}"):
        rendered = opm.render_bundle(bundle, request)
    print_warnings(rendered.warnings)
    if output_dir is not None:
        files = rendered.write(output_dir, kustomize=kustomize)
        print_to_stderr(f"{len(files)} files written to {output_dir}")
    elif output == "json":
        print_json(rendered.to_dict())
    else:
        print_bytes([rendered.to_yaml()])


def _check_output(ctx: typer.Context, output: str, output_dir: Path | None, *, kustomize: bool, helm: bool) -> None:
    if output not in ("yaml", "json"):
        raise UsageError(f"invalid value of --output: {output!r}", ctx.command_path, hint="use yaml or json")
    if kustomize and helm:
        raise UsageError("--kustomize and --helm exclude each other", ctx.command_path)
    if (kustomize or helm) and output_dir is None:
        name = "--kustomize" if kustomize else "--helm"
        raise UsageError(f"{name} requires --output-dir", ctx.command_path)


def _write_chart(opm: Opm, bundle: str, request: ChartRequest, directory: Path) -> None:
    with waiting(f"Reading {bundle}"):
        chart = opm.make_chart(bundle, request)
    print_warnings(chart.warnings)
    files = chart.write(directory)
    if chart.templated_crds:
        names = ", ".join(chart.templated_crds)
        print_to_stderr(f"CRDs with a conversion webhook are templates, since they name the namespace: {names}")
    print_to_stderr(f"{len(files)} files written to {directory}")


def _read_config(config: str) -> InstallConfig:
    from opmkit import InstallConfig
    from opmkit.core.files import disk_errors, read_limited

    if not config:
        return InstallConfig()
    if config == "-":
        announce_standard_input()
    path = Path("/dev/stdin" if config == "-" else config)
    with disk_errors(path):
        return InstallConfig.parse(read_limited(path, _MAX_CONFIG), config)
