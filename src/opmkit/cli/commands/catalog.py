"""``opm catalog``: ask a running catalog, over gRPC, what it holds."""

from __future__ import annotations

import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opmkit.cli.console import ValueFormat, ValueOutput, print_line, print_table, print_value
from opmkit.cli.errors import UsageProblem
from opmkit.cli.go_commands import GoGroup
from opmkit.cli.registration import group
from opmkit.imagetools.escape import escape_controls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.index.client import Bundle, CatalogClient, Package
    from opmkit.index.client.queries import Updates

_LENGTH = 200
"""Characters of a property or dependency that people are shown."""

Only = Annotated[str, typer.Argument(metavar="[PACKAGE]", help="Only this package.")]
PackageName = Annotated[str, typer.Argument(metavar="PACKAGE", help="A package.")]
ChannelName = Annotated[str, typer.Argument(metavar="CHANNEL", help="A channel of it.")]
BundleName = Annotated[str, typer.Argument(metavar="BUNDLE", help="A bundle's name, such as lagoon-operator.v0.1.0.")]


@dataclass(frozen=True, slots=True)
class Server:
    """The running catalog that is asked."""

    address: Annotated[str, typer.Option("--address", metavar="HOST:PORT", help="Where the catalog is served.")] = (
        "localhost:50051"
    )
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.001, help="How long an answer may take.")
    ] = 60.0
    tls: Annotated[bool, typer.Option("--tls", help="Speak TLS; the system's authorities are trusted.")] = False
    ca_file: Annotated[
        Path | None,
        typer.Option("--ca-file", metavar="FILE", help="Speak TLS, and trust the authorities in this PEM file alone."),
    ] = None

    def connect(self) -> CatalogClient:
        """The client of that catalog."""
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # errors tell what gRPC would log beside them
        logging.getLogger("grpc").addHandler(logging.NullHandler())
        from opmkit.index.client import CatalogClient

        tls = self.tls or self.ca_file is not None
        return CatalogClient.connect(self.address, timeout=self.timeout, tls=tls, ca_file=self.ca_file)


def list_packages(server: Server, output: ValueOutput = ValueFormat.TEXT) -> None:
    """List the packages of a running catalog, with their default channels and what heads these.

    [bold]Example:[/] opm catalog list packages --address localhost:50051
    """
    from opmkit.index.client.queries import packages

    with server.connect() as registry:
        found = packages(registry)
    if output is not ValueFormat.TEXT:
        print_value(found, output)
        return
    heads = [{channel.name: channel.head for channel in package.channels} for package in found]
    rows = [
        (package.name, package.default_channel, head.get(package.default_channel, ""))
        for package, head in zip(found, heads, strict=True)
    ]
    print_table(("PACKAGE", "DEFAULT CHANNEL", "HEAD"), rows)


def list_channels(server: Server, package: Only = "", output: ValueOutput = ValueFormat.TEXT) -> None:
    """List the channels of a running catalog, or of one of its packages, with their heads.

    [bold]Example:[/] opm catalog list channels lagoon-operator --address localhost:50051
    """
    from opmkit.index.client.queries import packages

    with server.connect() as registry:
        found = [registry.get_package(package)] if package else packages(registry)
    rows = [
        {"package": one.name, **asdict(channel), "default": channel.name == one.default_channel}
        for one in found
        for channel in sorted(one.channels, key=lambda channel: channel.name)
    ]
    if output is not ValueFormat.TEXT:
        print_value(rows, output)
        return
    cells = [(row["package"], row["name"], row["head"], "yes" if row["default"] else "") for row in rows]
    print_table(("PACKAGE", "CHANNEL", "HEAD", "DEFAULT"), cells)


def list_bundles(
    server: Server,
    package: Only = "",
    channel: Annotated[str, typer.Option("--channel", metavar="NAME", help="Only this channel.")] = "",
    output: ValueOutput = ValueFormat.TEXT,
) -> None:
    """List the bundles of a running catalog, or of one of its packages or channels, with what they replace.

    [bold]Examples:[/]

      opm catalog list bundles --address localhost:50051

      opm catalog list bundles lagoon-operator --channel stable --output json
    """
    from opmkit.index.client.queries import bundles

    with server.connect() as registry:
        _print_bundles(bundles(registry, package=package, channel=channel), output)


def list_apis(server: Server, package: Only = "", output: ValueOutput = ValueFormat.TEXT) -> None:
    """List the APIs that bundles of a running catalog provide, with packages and channels.

    [bold]Example:[/] opm catalog list apis --address localhost:50051
    """
    from opmkit.index.client.queries import bundles, provided_apis

    with server.connect() as registry:
        found = provided_apis(bundles(registry, package=package))
    if output is not ValueFormat.TEXT:
        print_value(found, output)
        return
    print_table(("API", "PACKAGE", "CHANNELS"), [(row.api, row.package, ",".join(row.channels)) for row in found])


def get_package(server: Server, package: PackageName, output: ValueOutput = ValueFormat.TEXT) -> None:
    """Show a package of a running catalog: its channels, their heads, and which is the default.

    [bold]Example:[/] opm catalog get package lagoon-operator --address localhost:50051
    """
    with server.connect() as registry:
        found = registry.get_package(package)
    if output is not ValueFormat.TEXT:
        print_value(found, output)
        return
    _print_fields(_package_fields(found))
    print_line()
    print_table(("CHANNEL", "HEAD"), [(channel.name, channel.head) for channel in found.channels])


def get_bundle(
    server: Server,
    package: PackageName,
    channel: ChannelName,
    bundle: Annotated[
        str, typer.Argument(metavar="[BUNDLE]", help="A bundle of the channel; its head, if left out.")
    ] = "",
    output: ValueOutput = ValueFormat.TEXT,
) -> None:
    """Show a bundle of a running catalog; as JSON or YAML with its manifests, where the catalog has them.

    [bold]Examples:[/]

      opm catalog get bundle lagoon-operator stable --address localhost:50051

      opm catalog get bundle lagoon-operator stable lagoon-operator.v0.1.0 --output yaml
    """
    from opmkit.index.client.queries import head

    with server.connect() as registry:
        _print_bundle(
            registry.get_bundle(package, channel, bundle) if bundle else head(registry, package, channel), output
        )


def find_providers(
    ctx: typer.Context,
    server: Server,
    api: Annotated[
        str, typer.Argument(metavar="GROUP/VERSION/KIND", help="An API, such as lagoons.example.com/v1/Lagoon.")
    ],
    latest: Annotated[bool, typer.Option("--latest", help="Only the newest bundle of each channel.")] = False,
    default: Annotated[
        bool, typer.Option("--default", help="Only the bundle that a dependency is resolved to: of a default channel.")
    ] = False,
    output: ValueOutput = ValueFormat.TEXT,
) -> None:
    """Find the bundles of a running catalog that provide an API.

    [bold]Examples:[/]

      opm catalog find providers lagoons.example.com/v1/Lagoon --address localhost:50051

      opm catalog find providers lagoons.example.com/v1/Lagoon --default
    """
    from opmkit.index.client.queries import updates

    parts = api.split("/")
    if len(parts) != 3 or not all(parts[1:]):
        raise UsageProblem(f"{api!r} is no API: write GROUP/VERSION/KIND", ctx.command_path)
    if latest and default:
        raise UsageProblem("--latest and --default exclude each other", ctx.command_path)
    with server.connect() as registry:
        if default:
            _print_bundle(registry.get_default_bundle_that_provides(*parts), output)
            return
        ask = registry.get_latest_channel_entries_that_provide if latest else registry.get_channel_entries_that_provide
        _print_updates(updates(ask(*parts)), output)


def find_successors(server: Server, bundle: BundleName, output: ValueOutput = ValueFormat.TEXT) -> None:
    """Find the bundles of a running catalog that replace or skip a bundle, in all channels.

    [bold]Example:[/] opm catalog find successors lagoon-operator.v0.1.0 --address localhost:50051
    """
    from opmkit.index.client.queries import updates

    with server.connect() as registry:
        _print_updates(updates(registry.get_channel_entries_that_replace(bundle)), output)


def find_predecessors(server: Server, bundle: BundleName, output: ValueOutput = ValueFormat.TEXT) -> None:
    """Find what a bundle of a running catalog replaces and skips, in all channels.

    [bold]Example:[/] opm catalog find predecessors lagoon-operator.v0.2.0 --address localhost:50051
    """
    from opmkit.index.client.queries import bundles

    with server.connect() as registry:
        _print_bundles(bundles(registry, name=bundle), output)


def find_replacement(
    server: Server,
    package: PackageName,
    channel: ChannelName,
    bundle: BundleName,
    output: ValueOutput = ValueFormat.TEXT,
) -> None:
    """Show the bundle of a running catalog that a cluster updates to from a bundle, in a channel.

    [bold]Example:[/] opm catalog find replacement lagoon-operator stable lagoon-operator.v0.1.0
    """
    with server.connect() as registry:
        _print_bundle(registry.get_bundle_that_replaces(bundle, package, channel), output)


def health(server: Server) -> None:
    """Ask a running catalog whether it is well; exits with 1 if it isn't, or doesn't answer.

    [bold]Example:[/] opm catalog health --address localhost:50051 --timeout 2
    """
    from opmkit.index.errors import CatalogError

    with server.connect() as registry:
        if not registry.is_healthy():
            raise CatalogError(f"{server.address}: the server says that it does not serve just now")
    print_line("serving")


def _print_updates(rows: Sequence[Updates], output: ValueFormat) -> None:
    if output is not ValueFormat.TEXT:
        print_value(rows, output)
        return
    cells = [(row.package, row.channel, row.bundle, ",".join(row.replaces)) for row in rows]
    print_table(("PACKAGE", "CHANNEL", "BUNDLE", "REPLACES"), cells)


def _print_bundles(found: Sequence[Bundle], output: ValueFormat) -> None:
    if output is not ValueFormat.TEXT:
        print_value([_described(bundle) for bundle in found], output)
        return
    header = ("PACKAGE", "CHANNEL", "BUNDLE", "REPLACES", "SKIPS", "SKIP RANGE", "IMAGE")
    rows = [
        (one.package, one.channel, one.name, one.replaces, ",".join(one.skips), one.skip_range, one.image)
        for one in found
    ]
    print_table(header, rows)


def _print_bundle(bundle: Bundle, output: ValueFormat) -> None:
    if output is not ValueFormat.TEXT:
        print_value(_described(bundle), output)
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
            *(("Depends on", f"{one.type}: {one.value}") for one in bundle.dependencies),
            *(("Properties", f"{one.type}: {one.value}") for one in bundle.properties),
            *(("Manifests", _title(text)) for text in bundle.objects),
            ("Deprecated", bundle.deprecation.message if bundle.deprecation else ""),
        ]
    )


def _package_fields(package: Package) -> list[tuple[str, str]]:
    return [
        ("Name", package.name),
        ("Default channel", package.default_channel),
        ("Deprecated", package.deprecation.message if package.deprecation else ""),
    ]


def _print_fields(fields: Sequence[tuple[str, str]]) -> None:
    """Print what is not empty, a line each; a key that repeats is named once."""
    shown = [(key, _excerpt(escape_controls(value))) for key, value in fields if value]
    width = max(len(key) for key, _ in shown) + 3
    for number, (key, value) in enumerate(shown):
        repeats = number > 0 and shown[number - 1][0] == key
        print_line(f"{'' if repeats else f'{key}:':<{width}}{value}")


def _excerpt(text: str) -> str:
    return text if len(text) <= _LENGTH else f"{text[: _LENGTH - 1]}…"


def _described(bundle: Bundle) -> dict[str, Any]:
    """The bundle with the JSON in it as values, so that programs need not parse it again."""
    described = asdict(bundle)
    described["csv"] = _value(bundle.csv)
    described["objects"] = [_value(text) for text in bundle.objects]
    for key in ("dependencies", "properties"):
        described[key] = [{"type": one["type"], "value": _value(one["value"])} for one in described[key]]
    return described


def _value(text: str) -> Any:
    """What a JSON text stands for; a text that is none, or nested too deeply to be printed again, as it is."""
    import orjson

    try:
        value = orjson.loads(text) if text else None
        orjson.dumps([[[[[value]]]]])
    except (ValueError, TypeError):
        return text
    return value


def _title(manifest: str) -> str:
    """Kind and name of a manifest."""
    value = _value(manifest)
    if not isinstance(value, dict):
        return "?"
    metadata = value.get("metadata")
    name = metadata.get("name", "") if isinstance(metadata, dict) else ""
    return f"{value.get('kind', '?')} {name}".rstrip()


_LIST = (("packages", list_packages), ("channels", list_channels), ("bundles", list_bundles), ("apis", list_apis))
_GET = (("package", get_package), ("bundle", get_bundle))
_FIND = (
    ("providers", find_providers),
    ("successors", find_successors),
    ("predecessors", find_predecessors),
    ("replacement", find_replacement),
)

COMMANDS = (
    ("list", group("list", "List the packages, channels, bundles or APIs of a running catalog.", _LIST, GoGroup)),
    ("get", group("get", "Show a package or a bundle of a running catalog.", _GET, GoGroup)),
    ("find", group("find", "Find bundles of a running catalog by API, or along updates.", _FIND, GoGroup)),
    ("health", health),
)
