"""``opm index manifests``: Kubernetes manifests for an index."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import typer

from opmkit import InstallerPermissions, OlmVersion
from opmkit.cli.flags.container_tools import PullTool
from opmkit.cli.flags.olm import PodSecurity
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.help.panels import ADVANCED_PANEL
from opmkit.cli.output.console import print_json, print_yaml
from opmkit.cli.output.errors import UsageError, print_warnings
from opmkit.cli.output.status_lines import report_status
from opmkit.cli.parser.declaration import argument, flag
from opmkit.cli.parser.go_commands import given_flags

if TYPE_CHECKING:
    from opmkit import CatalogSourceOptions, ClusterCatalogOptions, ClusterExtensionOptions, Installation, PodConfig


CATALOG_DIRECTORY = "/configs"
"""Directory of the file-based catalog in images that opm builds."""
POD_PANEL = "Pod of the catalog source"


@dataclass(frozen=True, slots=True)
class PodFlags:
    """Flags for the pod that OLM runs an index image in."""

    panel: ClassVar[str] = POD_PANEL

    security_context: PodSecurity | None = flag(None, "Security context: legacy or restricted", metavar="CONTEXT")
    memory_target: str = flag("", "Soft memory limit of the server, such as 512Mi", metavar="SIZE")
    extract_content: bool = flag(
        False, "Serve the file-based catalog of the image with OLM's own opm; implied if the image has no server"
    )
    extract_catalog_dir: str = flag("", "Directory of the catalog to extract; default: /configs", metavar="DIR")
    extract_cache_dir: str = flag(
        "",
        "Directory of the cache to extract, such as /tmp/cache; default: create the cache when the pod starts",
        metavar="DIR",
    )
    node_selector: list[str] | None = flag(None, "Labels of the nodes to run on", metavar="KEY=VALUE,...")
    toleration: list[str] | None = flag(None, "Taints of nodes to tolerate", metavar="KEY[=VALUE][:EFFECT],...")
    priority_class: str = flag("", "PriorityClass of the pod", metavar="NAME")
    pod_config: Path | None = flag(
        None, "YAML file with further fields of grpcPodConfig, such as affinity", metavar="FILE"
    )

    def config(self) -> PodConfig:
        """Return the configuration of the pod; raises OpmkitError for invalid values."""
        from opmkit import PodConfig

        extracts = self.extract_content or self.extract_catalog_dir or self.extract_cache_dir
        return PodConfig(
            security_context=self.security_context or "",
            memory_target=self.memory_target,
            catalog_directory=(self.extract_catalog_dir or CATALOG_DIRECTORY) if extracts else "",
            cache_directory=self.extract_cache_dir,
            node_selector=dict(_parse_label(text) for text in self.node_selector or ()),
            tolerations=tuple(self.toleration or ()),
            priority_class=self.priority_class,
            fields=PodConfig.read_fields(self.pod_config) if self.pod_config else {},
        )


def _parse_label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals:
        raise UsageError(f"--node-selector: {text!r} is not a label", hint="write KEY=VALUE")
    return key, value


V1_PANEL = "OLM v1"
_V0_FLAGS = frozenset(
    {
        *("address", "namespace", "display-name", "publisher", "pull-secret", "starting-csv", "approval"),
        *("security-context", "memory-target", "extract-content", "extract-catalog-dir", "extract-cache-dir"),
        *("node-selector", "toleration", "priority-class", "pod-config"),
    }
)
_V1_FLAGS = frozenset({"version", "availability", "service-account", "installer-permissions"})
_V1_PACKAGE_FLAGS = _V1_FLAGS - {"availability"}


class Availability(StrEnum):
    """Availability modes of a ClusterCatalog."""

    AVAILABLE = "Available"
    UNAVAILABLE = "Unavailable"


@dataclass(frozen=True, slots=True)
class OlmV1Flags:
    """Flags for the ClusterCatalog and the ClusterExtension."""

    panel: ClassVar[str] = V1_PANEL

    olm: OlmVersion = flag(
        OlmVersion.V0, "OLM to write manifests for: v0, or v1 (ClusterCatalog and ClusterExtension)", panel=""
    )
    availability: Availability | None = flag(None, "Whether OLM v1 serves the catalog", case_sensitive=False)
    version: str = flag("", "Version, or range of versions, to install; default: the latest one", metavar="RANGE")
    service_account: str = flag(
        "",
        "ServiceAccount to install with, which OLM v1 requires up to 1.10; default: PACKAGE-installer",
        metavar="NAME",
    )
    installer_permissions: InstallerPermissions = flag(
        InstallerPermissions.BUNDLE,
        "Permissions of the ServiceAccount: those that the bundle needs, cluster-admin, or none; with none, "
        "it must exist, or is omitted without --service-account",
    )

    def check_flags(self, ctx: typer.Context, package: str) -> None:
        """Raise UsageError for flags of the other major version."""
        given = given_flags(ctx)
        for name in sorted(given & (_V0_FLAGS if self.olm is OlmVersion.V1 else _V1_FLAGS)):
            other = OlmVersion.V0 if self.olm is OlmVersion.V1 else OlmVersion.V1
            raise UsageError(f"--{name} requires --olm {other}", ctx.command_path)
        if not package and (unused := sorted(given & _V1_PACKAGE_FLAGS)):
            raise UsageError(f"--{unused[0]} requires --package", ctx.command_path)


SOURCE_PANEL = "Catalog source"
INSTALL_PANEL = "Package installation"


class ManifestFormat(StrEnum):
    """Output formats: YAML documents, or a JSON list."""

    YAML = "yaml"
    JSON = "json"


class Approval(StrEnum):
    """Approval strategies for updates."""

    AUTOMATIC = "Automatic"
    MANUAL = "Manual"


@dataclass(frozen=True, slots=True)
class CatalogSourceFlags:
    """Flags for the CatalogSource."""

    panel: ClassVar[str] = SOURCE_PANEL

    address: str = flag("", "Address of a catalog that is already served; REF is then only read", metavar="HOST:PORT")
    name: str = flag("", "Name; default: the name of the image or host", metavar="NAME")
    namespace: str = flag("olm", "Namespace", "-n", metavar="NAMESPACE")
    display_name: str = flag("", "Display name", panel=ADVANCED_PANEL, metavar="TEXT")
    publisher: str = flag("", "Publisher", panel=ADVANCED_PANEL, metavar="TEXT")
    poll_interval: str = flag("", "Time between checks for a new image, such as 30m", metavar="DURATION")
    pull_secret: list[str] | None = flag(None, "Secrets for pulling the image", metavar="NAME,...")
    priority: int = flag(
        0,
        "Priority among catalogs with the same package; higher ones are preferred",
        panel=ADVANCED_PANEL,
        metavar="NUMBER",
    )

    def options(self, pod: PodConfig) -> CatalogSourceOptions:
        """Return the options of the CatalogSource."""
        from opmkit import CatalogSourceOptions

        return CatalogSourceOptions(
            name=self.name,
            namespace=self.namespace,
            address=self.address,
            display_name=self.display_name,
            publisher=self.publisher,
            poll_interval=self.poll_interval,
            secrets=tuple(self.pull_secret or ()),
            pod=pod,
            priority=self.priority,
        )

    def cluster_catalog(self, availability: str) -> ClusterCatalogOptions:
        """Return the options of the ClusterCatalog."""
        from opmkit import ClusterCatalogOptions

        return ClusterCatalogOptions(self.name, self.poll_interval, self.priority, availability)


@dataclass(frozen=True, slots=True)
class InstallFlags:
    """Flags for the package to install."""

    panel: ClassVar[str] = INSTALL_PANEL

    package: str = flag("", "Package to install", "-p", metavar="NAME")
    channel: str = flag("", "Channel; default: the default channel", metavar="NAME")
    starting_csv: str = flag("", "First bundle to install; default: the head of the channel", metavar="BUNDLE")
    approval: Approval = flag(
        Approval.AUTOMATIC, "Approval of updates: Automatic or Manual", panel=ADVANCED_PANEL, case_sensitive=False
    )
    install_namespace: str = flag("", "Namespace to install to; default: the package's name", metavar="NAMESPACE")
    target_namespaces: list[str] | None = flag(
        None,
        "Namespaces that the operator watches; default: all, or its own if it supports only that",
        metavar="NAME,...",
    )
    existing_namespace: bool = flag(
        False, "Omit the Namespace and the OperatorGroup, which already exist", panel=ADVANCED_PANEL
    )

    def installation(self) -> Installation | None:
        """Return the installation with OLM v0; raises CatalogError for invalid names."""
        from opmkit import Installation

        if not self.package:
            return None
        return Installation(
            package=self.package,
            namespace=self.install_namespace,
            channel=self.channel,
            starting_csv=self.starting_csv,
            approval=self.approval,
            targets=None if self.target_namespaces is None else tuple(self.target_namespaces),
            existing=self.existing_namespace,
        )

    def extension(self, olm_v1_flags: OlmV1Flags) -> ClusterExtensionOptions | None:
        """Return the options of the installation with OLM v1."""
        from opmkit import ClusterExtensionOptions

        if not self.package:
            return None
        return ClusterExtensionOptions(
            package=self.package,
            namespace=self.install_namespace,
            channel=self.channel,
            version=olm_v1_flags.version,
            service_account=olm_v1_flags.service_account,
            permissions=olm_v1_flags.installer_permissions,
            target_namespaces=tuple(self.target_namespaces or ()),
            existing_namespace=self.existing_namespace,
        )


_INSTALL_ONLY_FLAGS = frozenset(
    {"channel", "starting-csv", "approval", "install-namespace", "target-namespaces", "existing-namespace"}
)


def manifests(
    ctx: typer.Context,
    *,
    reference: str = argument("", "Index image; with --address, any index, or none", metavar="[REF]"),
    catalog_source_flags: CatalogSourceFlags,
    pod_flags: PodFlags,
    install_flags: InstallFlags,
    olm_v1_flags: OlmV1Flags,
    output: ManifestFormat = flag(ManifestFormat.YAML, "Output format: yaml or json", "-o"),
    container_tool: PullTool = "none",
    registry_flags: RegistryFlags,
) -> None:
    """Print the CatalogSource, OperatorGroup and Subscription for an index

    Without --package, only the CatalogSource is printed. Channel and target namespaces are looked up in the index.

    With --olm v1, the ClusterCatalog and ClusterExtension are printed instead, with a ServiceAccount that has the
    permissions to install the bundle.

    [bold]Examples:[/]
      opm index manifests quay.io/me/catalog:1 --poll-interval 30m | kubectl apply -f -
      opm index manifests quay.io/me/catalog:1 --package lagoon-operator | kubectl apply -f -
      opm index manifests index.db --address catalog.olm.svc:50051 --package lagoon-operator --channel stable
      opm index manifests quay.io/me/catalog:1 --olm v1 --package lagoon-operator --version '>=0.1, <1'
    """
    olm_v1_flags.check_flags(ctx, install_flags.package)
    if not reference and not catalog_source_flags.address:
        raise UsageError("no index: pass REF or --address", ctx.command_path)
    if not install_flags.package and (unused := sorted(given_flags(ctx) & _INSTALL_ONLY_FLAGS)):
        raise UsageError(f"--{unused[0]} requires --package", ctx.command_path)
    if olm_v1_flags.olm is OlmVersion.V1:
        catalog = catalog_source_flags.cluster_catalog(olm_v1_flags.availability or "")
        extension = install_flags.extension(olm_v1_flags)
        built = registry_flags.opm(container_tool).build_olm_v1_manifests(reference, catalog, extension)
    else:
        options, installation = catalog_source_flags.options(pod_flags.config()), install_flags.installation()
        with report_status() as reporter:
            opm = registry_flags.opm(container_tool)
            built = opm.build_olm_v0_manifests(reference, options, installation, reporter=reporter)
    print_warnings(built.warnings)
    if output is ManifestFormat.JSON:
        print_json(built.to_dict())
    else:
        print_yaml(built.objects)
