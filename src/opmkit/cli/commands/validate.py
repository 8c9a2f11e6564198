"""``opm validate``: validate a catalog."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.console import ValueFormat, ValueOutput, format_count, print_value
from opmkit.cli.errors import UsageError, print_hint, print_to_stderr, print_warning
from opmkit.cli.fbc_output import CompatOption
from opmkit.cli.index_flags import INDEX_HELP
from opmkit.cli.lazy import call_once
from opmkit.cli.registry_flags import RegistryFlags
from opmkit.index.fbc.compat import Compat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.index.fbc.check.policy import CatalogPolicy
    from opmkit.index.fbc.check.result import ValidationResult


def validate(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    catalog: Annotated[str, typer.Argument(metavar="CATALOG", help=INDEX_HELP)],
    output: ValueOutput = ValueFormat.TEXT,
    compat: CompatOption = Compat.NEWEST,
    openshift_version: Annotated[
        str,
        typer.Option(
            metavar="VERSION",
            help="OpenShift version that serves the catalog, such as 4.17, which determines the format of its bundles",
        ),
    ] = "",
    require_digests: Annotated[
        bool, typer.Option("--require-digests", help="Require a digest in the bundle images")
    ] = False,
    allowed_registries: Annotated[
        list[str] | None,
        typer.Option(metavar="PREFIX,...", help="Allowed prefixes of bundle images; default: any"),
    ] = None,
    against: Annotated[
        str,
        typer.Option(
            metavar="INDEX",
            help="Published index, whose packages, channels, heads, bundles and upgrade paths must remain",
        ),
    ] = "",
    fragment: Annotated[
        bool,
        typer.Option("--fragment", help="The catalog is a part of the published index: ignore its other packages"),
    ] = False,
) -> None:
    """Validate a catalog and report each finding with file, line and a hint

    Nothing is printed for a valid catalog. The exit code is 1 if there is an error; warnings do not change it.

    [bold]Examples:[/]

      opm validate ./catalog

      opm validate quay.io/me/catalog:1 --output json

      opm validate catalogs/v4.17 --openshift-version 4.17 --require-digests --allowed-registries registry.redhat.io/

      opm validate ./catalog --against quay.io/me/catalog:1
    """
    from opmkit.index.fbc.check.result import validate
    from opmkit.index.image.source import IndexSource

    tool = call_once(registry_flags.tool)
    policy = _policy(openshift_version, allowed_registries or (), require_digests=require_digests)
    if fragment and not against:
        raise UsageError("--fragment requires --against", ctx.command_path)
    if against:
        published = IndexSource.resolve(tool, against).blobs()
        if not published.packages:
            print_warning(f"{against}: the published index has no packages")
        policy = replace(policy, published=published, fragment=fragment)
    result = validate(IndexSource.resolve(tool, catalog).load(), compat, policy)
    if output is ValueFormat.TEXT:
        _print_findings(result, catalog)
    else:
        print_value(result.report(), output)
    if not result.passed:
        ctx.exit(1)


def _policy(version: str, registries: Sequence[str], *, require_digests: bool) -> CatalogPolicy:
    from opmkit.bundle.validation.openshift import OpenShiftVersion
    from opmkit.index.fbc.check.policy import CatalogPolicy

    try:
        openshift = OpenShiftVersion.parse(version) if version else None
    except ValueError as error:
        raise UsageError(f"invalid value of --openshift-version: {error}", "opm validate") from error
    return CatalogPolicy(openshift, require_digests, tuple(filter(None, registries)))


def _print_findings(result: ValidationResult, catalog: str) -> None:
    """Print findings to stderr as ``FILE:LINE: SEVERITY: MESSAGE``, then the first error as the ``Error:`` line."""
    from opmkit.bundle.finding import Severity

    directory = f"{catalog.rstrip('/')}/" if Path(catalog).is_dir() else ""
    for finding in result.findings:
        location = f"{directory}{finding.location}: " if finding.file else ""
        subject = f"{finding.subject}: " if finding.subject else ""
        print_to_stderr(f"{location}{finding.severity}: {subject}{finding.message}")
        print_hint(finding.hint)
    if not result.passed:
        first = next(finding for finding in result.findings if finding.severity is Severity.ERROR)
        counts = f"{format_count(len(result.errors), 'error')}, {format_count(len(result.warnings), 'warning')}"
        print_to_stderr(f"Error: {catalog}: invalid catalog: {first} ({counts})")
