"""``opm validate``: validate a catalog."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from opmkit import CatalogCompat, Policy
from opmkit.cli.flags.catalog_validation import CatalogReportFlags, RequirementFlags
from opmkit.cli.flags.index import INDEX_HELP
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.catalog_report import CatalogReportFormat, print_catalog_report
from opmkit.cli.output.fbc import CompatOption
from opmkit.cli.progress.command import progress


def validate(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    requirement_flags: RequirementFlags,
    report_flags: CatalogReportFlags,
    catalog: Annotated[str, typer.Argument(metavar="CATALOG", help=INDEX_HELP)],
    compat: CompatOption = CatalogCompat.NEWEST,
) -> None:
    """Validate a catalog and report each finding with file, line and a hint

    Warnings about a valid catalog are printed on a terminal, or with another flag. The exit code is 1 for errors (with
    --fail-on warning: and warnings) that no policy allows, and for an index that cannot be read.

    [bold]Examples:[/]
      opm validate ./catalog
      opm validate quay.io/me/catalog:1 --output json
      opm validate catalogs/v4.17 --openshift-version 4.17 --require-digests --allowed-registries registry.redhat.io/
      opm validate ./catalog --against quay.io/me/catalog:1 --config policy.yaml --output sarif
    """
    policy = report_flags.policy()
    fail_on = report_flags.severity(policy)
    requirements = requirement_flags.requirements(policy)
    with progress(f"Validating {catalog}") as bars:
        result = registry_flags.opm().validate_index(catalog, requirements, compat=compat, policy=policy, progress=bars)
    print_catalog_report(
        result,
        report_flags.output or CatalogReportFormat.TEXT,
        fail_on,
        as_go=_is_call_of_go(requirement_flags, report_flags, policy),
    )
    if not result.passes(fail_on):
        ctx.exit(1)


def _is_call_of_go(requirement_flags: RequirementFlags, report_flags: CatalogReportFlags, policy: Policy) -> bool:
    """Return whether a program may be calling what it takes for Go opm: without a terminal, flags and a policy."""
    is_plain = (requirement_flags, report_flags, policy) == (RequirementFlags(), CatalogReportFlags(), Policy())
    return is_plain and not sys.stderr.isatty()
