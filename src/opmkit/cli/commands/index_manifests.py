"""``opm index manifests``: the Kubernetes objects that put an index to use."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.console import print_json, print_yaml
from opmkit.cli.errors import UsageProblem, print_warning
from opmkit.cli.go_commands import given_flags
from opmkit.cli.index_flags import PullTool
from opmkit.cli.registry_flags import Connection

if TYPE_CHECKING:
    from opmkit.imagetools.reference import Reference
    from opmkit.index.operations.manifests.catalog_source import CatalogSource
    from opmkit.index.operations.manifests.installation import Installation

SOURCE_PANEL = "Catalog source"
INSTALL_PANEL = "Installing a package"


class ManifestFormat(StrEnum):
    """The forms of manifests: YAML documents, or a JSON list."""

    YAML = "yaml"
    JSON = "json"


class SecurityContext(StrEnum):
    """What OLM lets the pod of a catalog do."""

    LEGACY = "legacy"
    RESTRICTED = "restricted"


class Approval(StrEnum):
    """Who approves updates."""

    AUTOMATIC = "Automatic"
    MANUAL = "Manual"


@dataclass(frozen=True, slots=True)
class SourceFlags:
    """What the CatalogSource says."""

    address: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Where the cluster reaches the catalog, if it is served already; then REF is only read.",
            rich_help_panel=SOURCE_PANEL,
        ),
    ] = ""
    name: Annotated[
        str,
        typer.Option(metavar="NAME", help="Its name; default: the image's, or host's.", rich_help_panel=SOURCE_PANEL),
    ] = ""
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NAMESPACE", help="Where it is.", rich_help_panel=SOURCE_PANEL)
    ] = "olm"
    display_name: Annotated[
        str, typer.Option(metavar="TEXT", help="What people see as its name.", rich_help_panel=SOURCE_PANEL)
    ] = ""
    publisher: Annotated[str, typer.Option(metavar="TEXT", help="Who publishes it.", rich_help_panel=SOURCE_PANEL)] = ""
    poll_interval: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="How often to look whether the image's tag was moved, such as 30m.",
            rich_help_panel=SOURCE_PANEL,
        ),
    ] = ""
    pull_secret: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,...", help="Secrets to pull the image with.", rich_help_panel=SOURCE_PANEL),
    ] = None
    security_context: Annotated[
        SecurityContext | None,
        typer.Option(metavar="CONTEXT", help="Of the pod: legacy or restricted.", rich_help_panel=SOURCE_PANEL),
    ] = None

    def source(self, reference: str) -> CatalogSource:
        """The source of the index ``reference``, or of what is served at the address."""
        from opmkit.index.client.address import parse_address
        from opmkit.index.operations.manifests.catalog_source import CatalogSource
        from opmkit.index.operations.manifests.names import as_label

        address, image = None, None
        if self.address:
            address = parse_address(self.address)
            named_after = address.host.partition(".")[0]
        else:
            image = _image(reference)
            named_after = image.repository.rpartition("/")[2]
        return CatalogSource(
            name=self.name or as_label(named_after),
            namespace=self.namespace,
            image=image,
            address=address,
            display_name=self.display_name,
            publisher=self.publisher,
            poll_interval=self.poll_interval,
            secrets=tuple(self.pull_secret or ()),
            security_context=self.security_context or "",
        )


@dataclass(frozen=True, slots=True)
class InstallFlags:
    """What is installed from it, and where."""

    package: Annotated[
        str, typer.Option("--package", "-p", metavar="NAME", help="The package.", rich_help_panel=INSTALL_PANEL)
    ] = ""
    channel: Annotated[
        str,
        typer.Option(metavar="NAME", help="Its channel; default: the default channel.", rich_help_panel=INSTALL_PANEL),
    ] = ""
    starting_csv: Annotated[
        str,
        typer.Option(
            metavar="BUNDLE", help="The bundle to start with; default: the head.", rich_help_panel=INSTALL_PANEL
        ),
    ] = ""
    approval: Annotated[
        Approval,
        typer.Option(case_sensitive=False, help="Of updates: Automatic or Manual.", rich_help_panel=INSTALL_PANEL),
    ] = Approval.AUTOMATIC
    install_namespace: Annotated[
        str,
        typer.Option(
            metavar="NAMESPACE", help="Where to install it; default: one of its own.", rich_help_panel=INSTALL_PANEL
        ),
    ] = ""
    target_namespaces: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,...",
            help="What the operator watches; default: all namespaces, or its own if it does not support that.",
            rich_help_panel=INSTALL_PANEL,
        ),
    ] = None
    existing_namespace: Annotated[
        bool,
        typer.Option(
            "--existing-namespace",
            help="The namespace is there with its OperatorGroup: leave both out.",
            rich_help_panel=INSTALL_PANEL,
        ),
    ] = False

    def installation(self) -> Installation:
        """The same for the index package."""
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


_ONLY_TO_INSTALL = frozenset(
    {"channel", "starting-csv", "approval", "install-namespace", "target-namespaces", "existing-namespace"}
)


def manifests(
    ctx: typer.Context,
    *,
    reference: Annotated[
        str,
        typer.Argument(metavar="[REF]", help="The index image. With --address, any index, or none: it is only read."),
    ] = "",
    source_flags: SourceFlags,
    install_flags: InstallFlags,
    output: Annotated[
        ManifestFormat, typer.Option("--output", "-o", help="Form of the result: yaml or json.")
    ] = ManifestFormat.YAML,
    container_tool: PullTool = "none",
    connection: Connection,
) -> None:
    """Print the manifests that put an index to use in a cluster: CatalogSource, OperatorGroup and Subscription.

    Without a package it is the CatalogSource alone. Channel and targets are looked up in the index.

    [bold]Examples:[/]

      opm index manifests quay.io/me/catalog:1 --poll-interval 30m | kubectl apply -f -

      opm index manifests quay.io/me/catalog:1 --package lagoon-operator | kubectl apply -f -

      opm index manifests index.db --address catalog.olm.svc:50051 --package lagoon-operator --channel stable
    """
    from opmkit.index.operations.manifests.resources import build_manifests, is_available

    if not reference and not source_flags.address:
        raise UsageProblem("name the index image, or give --address", ctx.command_path)
    if not install_flags.package and (idle := sorted(given_flags(ctx) & _ONLY_TO_INSTALL)):
        raise UsageProblem(f"--{idle[0]} is for the package to install: give --package, too", ctx.command_path)
    source = source_flags.source(reference)
    installation = install_flags.installation() if install_flags.package else None
    if installation:
        if reference:
            index = str(source.image or reference)
            installation = _looked_up(installation, index, connection, container_tool)
        if not is_available(source, installation):
            print_warning(
                f"OLM offers a catalog of the namespace {source.namespace} in that namespace only, not in "
                f"{installation.namespace}, unless it is set up otherwise"
            )
    objects = build_manifests(source, installation)
    if output is ManifestFormat.JSON:
        print_json({"apiVersion": "v1", "kind": "List", "items": objects})
    else:
        print_yaml(objects)


def _image(text: str) -> Reference:
    """The image that a cluster pulls; raises OpmkitError for one that it can't."""
    from opmkit.imagetools.reference import Reference, parse_image_reference
    from opmkit.index.errors import CatalogError

    reference = None if Path(text).is_file() else parse_image_reference(text)
    if not isinstance(reference, Reference):
        raise CatalogError(
            f"{text}: a cluster can't pull that",
            hint="name an image in a registry ('opm image copy' brings it there), or give --address",
        )
    return reference.with_default_tag()


def _looked_up(installation: Installation, index: str, connection: Connection, container_tool: str) -> Installation:
    """Resolve the installation in the index; print a warning and return it unchanged if the index cannot be read."""
    from opmkit.imagetools.errors import ImageToolsError
    from opmkit.index.image.content import DatabaseContent
    from opmkit.index.image.source import IndexSource
    from opmkit.index.operations.manifests.installation import resolve_in_catalog, resolve_in_database

    try:
        tool = connection.tool_named(container_tool)
        with IndexSource.find(lambda: tool, index, build_context=True).open() as content:
            if not isinstance(content, DatabaseContent):
                return resolve_in_catalog(installation, content.blobs())
            with content.open() as database:
                return resolve_in_database(installation, database)
    except ImageToolsError as error:
        print_warning(f"package, channel and install modes are not checked: {error}")
        return installation
