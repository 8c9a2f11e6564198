"""``opm bundle render``: print the objects of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit import CertificateProvider
from opmkit.cli.flags.container_tools import PullTool
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.console import print_bytes, print_json
from opmkit.cli.output.errors import UsageError, print_to_stderr
from opmkit.cli.parser.declaration import flag
from opmkit.cli.parser.go_commands import require_flags
from opmkit.cli.progress.command import waiting

if TYPE_CHECKING:
    from opmkit import InstallConfig

_MAX_CONFIG = 1 << 20


def render(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    bundle: Annotated[str, typer.Argument(metavar="BUNDLE", help="Bundle image, or bundle directory as ./DIR")],
    *,
    namespace: str = flag("", "Namespace of the operator (required)", "-n", metavar="NAMESPACE"),
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
    output: str = flag("yaml", "Output format: yaml or json", "-o", metavar="yaml|json"),
    container_tool: PullTool = "none",
) -> None:
    """Print the objects that OLM v1 applies for a bundle

    They can be applied without OLM, to a namespace that exists. Names, order and content are those of OLM v1; bundles
    that it does not support are refused.

    [bold]Examples:[/]
      opm bundle render quay.io/me/lagoon:0.1.0 --namespace lagoon
      opm bundle render ./lagoon/0.1.0 --namespace lagoon --output-dir lagoon-base --kustomize
    """
    from opmkit import RenderRequest

    require_flags(ctx, "namespace")
    if output not in ("yaml", "json"):
        raise UsageError(f"invalid value of --output: {output!r}", ctx.command_path, hint="use yaml or json")
    if kustomize and output_dir is None:
        raise UsageError("--kustomize requires --output-dir", ctx.command_path)
    settings = _read_config(config)
    watched = tuple(filter(None, watch_namespace or ()))
    if watched and settings.watch_namespace and watched != (settings.watch_namespace,):
        raise UsageError("--watch-namespace differs from watchNamespace in --config", ctx.command_path)
    watched = watched or tuple(filter(None, (settings.watch_namespace,)))
    request = RenderRequest(namespace, watched, settings.deployment, certificates)
    with waiting(f"Reading {bundle}"):
        rendered = registry_flags.opm(container_tool).render_bundle(bundle, request)
    if output_dir is not None:
        files = rendered.write(output_dir, kustomize=kustomize)
        print_to_stderr(f"{len(files)} files written to {output_dir}")
    elif output == "json":
        print_json(rendered.to_dict())
    else:
        print_bytes([rendered.to_yaml()])


def _read_config(config: str) -> InstallConfig:
    from opmkit import InstallConfig
    from opmkit.core.files import disk_errors, read_limited

    if not config:
        return InstallConfig()
    path = Path("/dev/stdin" if config == "-" else config)
    with disk_errors(path):
        return InstallConfig.parse(read_limited(path, _MAX_CONFIG), config)
