"""``opm index manifests``: Kubernetes manifests for an index."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opmkit.cli.flags.container_tools import PullTool
from opmkit.cli.flags.olm_v1 import OlmV1Flags, OlmVersion
from opmkit.cli.flags.pod import PodFlags
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.help.panels import ADVANCED_PANEL
from opmkit.cli.output.console import print_json, print_yaml
from opmkit.cli.output.errors import UsageError, print_warning
from opmkit.cli.parser.go_commands import given_flags
from opmkit.cli.progress.command import waiting
from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.imagetools.hint_terms import ImageOperation

if TYPE_CHECKING:
    from opmkit import Reference
    from opmkit.index.operations.manifests.installation import Installation
    from opmkit.index.operations.manifests.pod_config import PodConfig
    from opmkit.index.operations.manifests.resources import CatalogSource

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

    address: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Address of a catalog that is already served; REF is then only read",
            rich_help_panel=SOURCE_PANEL,
        ),
    ] = ""
    name: Annotated[
        str,
        typer.Option(metavar="NAME", help="Name; default: the name of the image or host", rich_help_panel=SOURCE_PANEL),
    ] = ""
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="Namespace", rich_help_panel=SOURCE_PANEL)
    ] = "olm"
    display_name: Annotated[str, typer.Option(metavar="TEXT", help="Display name", rich_help_panel=ADVANCED_PANEL)] = ""
    publisher: Annotated[str, typer.Option(metavar="TEXT", help="Publisher", rich_help_panel=ADVANCED_PANEL)] = ""
    poll_interval: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="Time between checks for a new image, such as 30m",
            rich_help_panel=SOURCE_PANEL,
        ),
    ] = ""
    pull_secret: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,...", help="Secrets for pulling the image", rich_help_panel=SOURCE_PANEL),
    ] = None
    priority: Annotated[
        int,
        typer.Option(
            metavar="NUMBER",
            help="Priority among catalogs with the same package; higher ones are preferred",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = 0

    def source(self, reference: str, pod: PodConfig) -> CatalogSource:
        """Return the source for the index ``reference``, or for the catalog served at the address."""
        from opmkit.index.address import parse_address
        from opmkit.index.operations.manifests.names import as_label
        from opmkit.index.operations.manifests.resources import CatalogSource

        address, image = None, None
        if self.address:
            address = parse_address(self.address)
            default_name = address.host.partition(".")[0]
        else:
            image = _parse_image(reference)
            default_name = image.repository.rpartition("/")[2]
        return CatalogSource(
            name=self.name or as_label(default_name),
            namespace=self.namespace,
            image=image,
            address=address,
            display_name=self.display_name,
            publisher=self.publisher,
            poll_interval=self.poll_interval,
            secrets=tuple(self.pull_secret or ()),
            pod=pod,
            priority=self.priority,
        )


@dataclass(frozen=True, slots=True)
class InstallFlags:
    """Flags for the package to install."""

    package: Annotated[
        str, typer.Option("--package", "-p", metavar="NAME", help="Package to install", rich_help_panel=INSTALL_PANEL)
    ] = ""
    channel: Annotated[
        str,
        typer.Option(metavar="NAME", help="Channel; default: the default channel", rich_help_panel=INSTALL_PANEL),
    ] = ""
    starting_csv: Annotated[
        str,
        typer.Option(
            metavar="BUNDLE",
            help="First bundle to install; default: the head of the channel",
            rich_help_panel=INSTALL_PANEL,
        ),
    ] = ""
    approval: Annotated[
        Approval,
        typer.Option(
            case_sensitive=False, help="Approval of updates: Automatic or Manual", rich_help_panel=ADVANCED_PANEL
        ),
    ] = Approval.AUTOMATIC
    install_namespace: Annotated[
        str,
        typer.Option(
            metavar="NAMESPACE",
            help="Namespace to install to; default: the package's name",
            rich_help_panel=INSTALL_PANEL,
        ),
    ] = ""
    target_namespaces: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,...",
            help="Namespaces that the operator watches; default: all, or its own if it supports only that",
            rich_help_panel=INSTALL_PANEL,
        ),
    ] = None
    existing_namespace: Annotated[
        bool,
        typer.Option(
            "--existing-namespace",
            help="Omit the Namespace and the OperatorGroup, which already exist",
            rich_help_panel=ADVANCED_PANEL,
        ),
    ] = False

    def installation(self) -> Installation:
        """Return the installation."""
        from opmkit.index.operations.manifests.installation import Installation
        from opmkit.index.operations.manifests.names import as_label

        return Installation(
            package=self.package,
            namespace=self.install_namespace or as_label(self.package),
            channel=self.channel,
            starting_csv=self.starting_csv,
            approval=self.approval,
            targets=None if self.target_namespaces is None else tuple(self.target_namespaces),
            existing=self.existing_namespace,
        )


_INSTALL_ONLY_FLAGS = frozenset(
    {"channel", "starting-csv", "approval", "install-namespace", "target-namespaces", "existing-namespace"}
)


def manifests(
    ctx: typer.Context,
    *,
    reference: Annotated[
        str,
        typer.Argument(metavar="[REF]", help="Index image; with --address, any index, or none"),
    ] = "",
    catalog_source_flags: CatalogSourceFlags,
    pod_flags: PodFlags,
    install_flags: InstallFlags,
    olm_v1_flags: OlmV1Flags,
    output: Annotated[
        ManifestFormat, typer.Option("--output", "-o", help="Output format: yaml or json")
    ] = ManifestFormat.YAML,
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
        from opmkit.cli.olm_v1_manifests import OlmV1Manifests

        objects = OlmV1Manifests(
            image=_parse_image(reference),
            name=catalog_source_flags.name,
            poll_interval=catalog_source_flags.poll_interval,
            priority=catalog_source_flags.priority,
            package=install_flags.package,
            namespace=install_flags.install_namespace,
            channel=install_flags.channel,
            target_namespaces=tuple(install_flags.target_namespaces or ()),
            creates_namespace=not install_flags.existing_namespace,
            flags=olm_v1_flags,
        ).build(lambda: registry_flags.tool_named(container_tool))
    else:
        source = catalog_source_flags.source(reference, pod_flags.config())
        installation = install_flags.installation() if install_flags.package else None
        objects = _olm_v0_objects(source, installation, reference, registry_flags, container_tool)
    if output is ManifestFormat.JSON:
        print_json({"apiVersion": "v1", "kind": "List", "items": objects})
    else:
        print_yaml(objects)


def _olm_v0_objects(
    source: CatalogSource,
    installation: Installation | None,
    reference: str,
    registry_flags: RegistryFlags,
    container_tool: str,
) -> list[dict[str, Any]]:
    """Return the objects for OLM v0, and print warnings."""
    from opmkit import ImageToolsError
    from opmkit.imagetools.tools import NO_ENGINE
    from opmkit.index.operations.manifests.resources import build_manifests, is_available, with_server

    try:
        if installation and reference:
            index = str(source.image or reference)
            installation = _resolve(source, installation, index, registry_flags, container_tool)
        if container_tool in NO_ENGINE:
            with waiting(f"Reading {source.image}"):
                source = with_server(source, registry_flags.tool())
    except (ImageToolsError, LimitExceeded, DiskError) as error:
        unchecked = "package, channel and install modes are" if installation else "the server in the image is"
        print_warning(f"{unchecked} not checked: {error}")
    if installation and not is_available(source, installation):
        print_warning(
            f"OLM by default offers a catalog only in its namespace {source.namespace}, not in {installation.namespace}"
        )
    return build_manifests(source, installation)


def _parse_image(text: str) -> Reference:
    """Parse the name of an image; raises OpmkitError if clusters cannot pull it."""
    from opmkit import CatalogError, Reference
    from opmkit.core.hints import Hint
    from opmkit.imagetools.reference import parse_image_reference

    reference = None if Path(text).is_file() else parse_image_reference(text)
    if not isinstance(reference, Reference):
        raise CatalogError(
            f"{text}: clusters cannot pull this index",
            hint=Hint.any_of(
                "pass an image in a registry",
                Hint("copy it to a registry with {}", ImageOperation.COPY_IMAGE),
                "pass --address",
            ),
        )
    return reference.with_default_tag()


def _resolve(
    source: CatalogSource, installation: Installation, index: str, registry_flags: RegistryFlags, container_tool: str
) -> Installation:
    """Resolve the installation in the index."""
    from opmkit import IndexSource
    from opmkit.index.image.content import DatabaseContent
    from opmkit.index.operations.manifests.installation import resolve_in_catalog, resolve_in_database

    tool = registry_flags.tool_named(container_tool)
    found = IndexSource.find(lambda: tool, index, build_context=True)
    with waiting(f"Loading {index}"), found.open() as content:
        if not isinstance(content, DatabaseContent):
            return resolve_in_catalog(installation, content.blobs())
        source.check_database(index)
        with content.open() as database:
            return resolve_in_database(installation, database)
