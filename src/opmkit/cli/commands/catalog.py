"""``opm catalog``: query a running catalog over gRPC."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opmkit.cli.flags.output import PROGRESS_HELP, ListOutput, ValueOutput
from opmkit.cli.output.console import ListFormat, ValueFormat, print_line, print_listing, print_table, print_value
from opmkit.cli.output.errors import UsageError, conflicting_flags
from opmkit.cli.parser.declaration import argument, flag
from opmkit.cli.progress.command import ProgressFormat, set_progress_format, waiting
from opmkit.core.escape import escape_controls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit import BundleUpdates, CatalogClient, RemoteBundle, RemotePackage


PackageFilter = Annotated[str, typer.Argument(metavar="[PACKAGE]", help="Package to list; default: all")]
PackageName = Annotated[str, typer.Argument(metavar="PACKAGE", help="Name of a package")]
ChannelName = Annotated[str, typer.Argument(metavar="CHANNEL", help="Name of a channel")]
BundleName = Annotated[str, typer.Argument(metavar="BUNDLE", help="Name of a bundle, such as lagoon-operator.v0.1.0")]


@dataclass(frozen=True, slots=True)
class ClientFlags:
    """Flags of the client of a running catalog."""

    address: str = flag("localhost:50051", "Address of the catalog", metavar="HOST:PORT")
    timeout: float = flag(60.0, "Timeout of each call", metavar="SECONDS", min=0.001)
    tls: bool = flag(False, "Use TLS")
    ca_file: Path | None = flag(
        None, "PEM file of certificate authorities to trust instead of the system's; implies --tls", metavar="FILE"
    )

    progress: ProgressFormat = flag(ProgressFormat.AUTO, PROGRESS_HELP)

    def check(self) -> None:
        """Apply the format of progress."""
        set_progress_format(self.progress)

    @contextmanager
    def connect(self) -> Iterator[CatalogClient]:
        """Return a client of the catalog; the block, which shows that it waits, must not print."""
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # gRPC would also log the errors
        logging.getLogger("grpc").addHandler(logging.NullHandler())
        from opmkit import CatalogClient

        tls = self.tls or self.ca_file is not None
        with (
            waiting(f"Waiting for {self.address}"),
            CatalogClient.connect(self.address, timeout=self.timeout, tls=tls, ca_file=self.ca_file) as client,
        ):
            yield client


def list_packages(client_flags: ClientFlags, output: ValueOutput = ValueFormat.TEXT) -> None:
    """List the packages of a running catalog with their default channels and heads

    [bold]Example:[/] opm catalog list packages --address localhost:50051
    """
    with client_flags.connect() as client:
        listed = client.fetch_packages()
    heads = [{channel.name: channel.head for channel in package.channels} for package in listed]
    rows = [
        (package.name, package.default_channel, head.get(package.default_channel, ""))
        for package, head in zip(listed, heads, strict=True)
    ]
    print_listing(listed, ("PACKAGE", "DEFAULT CHANNEL", "HEAD"), rows, output)


def list_channels(
    client_flags: ClientFlags, package: PackageFilter = "", output: ValueOutput = ValueFormat.TEXT
) -> None:
    """List the channels of a running catalog or a package with their heads

    [bold]Example:[/] opm catalog list channels lagoon-operator --address localhost:50051
    """
    with client_flags.connect() as client:
        listed = client.fetch_packages(package)
    rows = [
        {"package": parent.name, **asdict(channel), "default": channel.name == parent.default_channel}
        for parent in listed
        for channel in sorted(parent.channels, key=lambda channel: channel.name)
    ]
    cells = [(row["package"], row["name"], row["head"], "yes" if row["default"] else "") for row in rows]
    print_listing(rows, ("PACKAGE", "CHANNEL", "HEAD", "DEFAULT"), cells, output)


def list_bundles(
    client_flags: ClientFlags,
    package: PackageFilter = "",
    channel: str = flag("", "Channel to list; default: all", metavar="NAME"),
    output: ListOutput = ListFormat.TEXT,
) -> None:
    """List the bundles of a running catalog, a package or a channel with their update edges

    [bold]Examples:[/]
      opm catalog list bundles --address localhost:50051
      opm catalog list bundles lagoon-operator --channel stable --output json
    """
    with client_flags.connect() as client:
        found = client.fetch_bundles(package=package, channel=channel)
    print_bundles(found, output)


def list_apis(client_flags: ClientFlags, package: PackageFilter = "", output: ValueOutput = ValueFormat.TEXT) -> None:
    """List the APIs that the bundles of a running catalog provide, with packages and channels

    [bold]Example:[/] opm catalog list apis --address localhost:50051
    """
    with client_flags.connect() as client:
        apis = client.fetch_apis(package)
    rows = [(api.api, api.package, ",".join(api.channels)) for api in apis]
    print_listing(apis, ("API", "PACKAGE", "CHANNELS"), rows, output)


def list_documents(
    client_flags: ClientFlags,
    schema: Annotated[str, typer.Argument(metavar="SCHEMA", help="Custom schema, such as example.com.note")],
    package: str = argument("", "Package; default: documents without a package", metavar="[PACKAGE]"),
    output: ValueOutput = ValueFormat.TEXT,
) -> None:
    """List the documents of a custom schema of a running catalog

    Servers of file-based catalogs answer this experimental call since release 1.69 of operator-registry.

    [bold]Examples:[/]
      opm catalog list documents example.com.note --address localhost:50051
      opm catalog list documents example.com.note lagoon-operator --output json
    """
    with client_flags.connect() as client:
        documents = list(client.list_custom_schemas(schema, package))
    rows = [tuple(str(document.get(key, "")) for key in ("schema", "package", "name")) for document in documents]
    print_listing(documents, ("SCHEMA", "PACKAGE", "NAME"), rows, output)


def get_package(client_flags: ClientFlags, package: PackageName, output: ValueOutput = ValueFormat.TEXT) -> None:
    """Show a package of a running catalog: default channel, channels and heads

    [bold]Example:[/] opm catalog get package lagoon-operator --address localhost:50051
    """
    with client_flags.connect() as client:
        found = client.get_package(package)
    print_package(found, output)


def get_bundle(
    client_flags: ClientFlags,
    package: PackageName,
    channel: ChannelName,
    bundle: str = argument("", "Name of a bundle; default: the head of the channel", metavar="[BUNDLE]"),
    output: ValueOutput = ValueFormat.TEXT,
) -> None:
    """Show a bundle of a running catalog, as JSON or YAML with its manifests

    [bold]Examples:[/]
      opm catalog get bundle lagoon-operator stable --address localhost:50051
      opm catalog get bundle lagoon-operator stable lagoon-operator.v0.1.0 --output yaml
    """
    with client_flags.connect() as client:
        found = client.fetch_bundle(package, channel, bundle)
    print_bundle(found, output)


def find_providers(
    ctx: typer.Context,
    client_flags: ClientFlags,
    api: Annotated[
        str, typer.Argument(metavar="GROUP/VERSION/KIND", help="API, such as water.example.com/v1alpha1/Lagoon")
    ],
    latest: bool = flag(False, "Find only the newest bundle of each channel"),
    default: bool = flag(
        False, "Find only the bundle that OLM resolves a dependency to, which is in a default channel"
    ),
    output: ValueOutput = ValueFormat.TEXT,
) -> None:
    """Find the bundles of a running catalog that provide an API

    [bold]Examples:[/]
      opm catalog find providers water.example.com/v1alpha1/Lagoon --address localhost:50051
      opm catalog find providers water.example.com/v1alpha1/Lagoon --default
    """
    parts = api.split("/")
    if len(parts) != 3 or not all(parts[1:]):
        raise UsageError(f"{api!r}: invalid API: must be GROUP/VERSION/KIND", ctx.command_path)
    if latest and default:
        raise conflicting_flags("--latest", "--default", ctx.command_path)
    with client_flags.connect() as client:
        bundle = client.get_default_bundle_that_provides(*parts) if default else None
        updates = [] if default else client.fetch_providers(*parts, latest=latest)
    if bundle:
        print_bundle(bundle, output)
    else:
        print_updates(updates, output)


def find_successors(client_flags: ClientFlags, bundle: BundleName, output: ValueOutput = ValueFormat.TEXT) -> None:
    """Find the bundles of a running catalog that replace or skip a bundle, in all channels

    [bold]Example:[/] opm catalog find successors lagoon-operator.v0.1.0 --address localhost:50051
    """
    with client_flags.connect() as client:
        found = client.fetch_successors(bundle)
    print_updates(found, output)


def find_predecessors(client_flags: ClientFlags, bundle: BundleName, output: ListOutput = ListFormat.TEXT) -> None:
    """Find the bundles that a bundle of a running catalog replaces and skips, in all channels

    [bold]Example:[/] opm catalog find predecessors lagoon-operator.v0.2.0 --address localhost:50051
    """
    with client_flags.connect() as client:
        found = client.fetch_bundles(name=bundle)
    print_bundles(found, output)


def find_replacement(
    client_flags: ClientFlags,
    package: PackageName,
    channel: ChannelName,
    bundle: BundleName,
    output: ValueOutput = ValueFormat.TEXT,
) -> None:
    """Show the bundle that a cluster updates to from a bundle in a channel of a running catalog

    [bold]Example:[/] opm catalog find replacement lagoon-operator stable lagoon-operator.v0.1.0
    """
    with client_flags.connect() as client:
        found = client.get_bundle_that_replaces(bundle, package, channel)
    print_bundle(found, output)


def health(client_flags: ClientFlags) -> None:
    """Check the health of a running catalog; the exit code is 1 if it is not serving

    [bold]Example:[/] opm catalog health --address localhost:50051 --timeout 2
    """
    from opmkit import CatalogError

    with client_flags.connect() as client:
        if not client.is_healthy():
            raise CatalogError(f"{client_flags.address}: not serving")
    print_line("serving")


_MAX_VALUE_LENGTH = 200
"""Characters shown of a property or dependency."""


def print_updates(rows: Sequence[BundleUpdates], output: ValueFormat) -> None:
    """Print bundles with the bundles that they replace."""
    cells = [(row.package, row.channel, row.bundle, ",".join(row.replaces)) for row in rows]
    print_listing(rows, ("PACKAGE", "CHANNEL", "BUNDLE", "REPLACES"), cells, output)


def print_bundles(bundles: Sequence[RemoteBundle], output: ListFormat) -> None:
    """Print bundles with their update edges and images."""
    header = ("PACKAGE", "CHANNEL", "BUNDLE", "REPLACES", "SKIPS", "SKIP RANGE", "IMAGE")
    rows = (
        (each.package, each.channel, each.name, each.replaces, ",".join(each.skips), each.skip_range, each.image)
        for each in bundles
    )
    values = [bundle.to_dict() for bundle in bundles]
    print_listing(values, header, rows, output, optional=("IMAGE", "SKIP RANGE", "SKIPS", "PACKAGE"))


def print_bundle(bundle: RemoteBundle, output: ValueFormat) -> None:
    """Print a bundle with all of its fields."""
    values = bundle.to_dict()
    if output is not ValueFormat.TEXT:
        print_value(values, output)
        return
    _print_fields(
        [
            ("Name", bundle.name),
            ("Package", bundle.package),
            ("Channel", bundle.channel),
            ("Version", bundle.version),
            ("Image", bundle.image),
            ("Skip range", bundle.skip_range),
            *(("Provides", str(api)) for api in bundle.provided_apis),
            *(("Requires", str(api)) for api in bundle.required_apis),
            *(("Depends on", f"{dependency.type}: {dependency.value}") for dependency in bundle.dependencies),
            *(("Properties", f"{entry.type}: {entry.value}") for entry in bundle.properties),
            *(("Manifests", _format_manifest(value)) for value in values["objects"]),
            ("Deprecated", bundle.deprecation.message if bundle.deprecation else ""),
        ]
    )


def print_package(package: RemotePackage, output: ValueFormat) -> None:
    """Print a package and its channels."""
    if output is not ValueFormat.TEXT:
        print_value(package, output)
        return
    _print_fields(
        [
            ("Name", package.name),
            ("Default channel", package.default_channel),
            ("Deprecated", package.deprecation.message if package.deprecation else ""),
        ]
    )
    print_line()
    print_table(("CHANNEL", "HEAD"), [(channel.name, channel.head) for channel in package.channels])


def _print_fields(fields: Sequence[tuple[str, str]]) -> None:
    """Print fields that are not empty, one per line; a repeated key is printed once."""
    shown = [(key, _truncate(escape_controls(value))) for key, value in fields if value]
    width = max(len(key) for key, _ in shown) + 3
    for number, (key, value) in enumerate(shown):
        repeats = number > 0 and shown[number - 1][0] == key
        print_line(f"{'' if repeats else f'{key}:':<{width}}{value}", hanging=width)


def _truncate(text: str) -> str:
    return text if len(text) <= _MAX_VALUE_LENGTH else f"{text[: _MAX_VALUE_LENGTH - 1]}…"


def _format_manifest(manifest: Any) -> str:
    """Return kind and name of a manifest."""
    if not isinstance(manifest, dict):
        return "?"
    metadata = manifest.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    return f"{manifest.get('kind', '?')} {name}".rstrip()
