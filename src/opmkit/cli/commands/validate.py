"""``opm validate``: validate a catalog."""

from __future__ import annotations

from typing import Annotated

import typer

from opmkit import CatalogCompat
from opmkit.cli.flags.catalog_validation import CatalogReportFlags, RequirementFlags
from opmkit.cli.flags.index import INDEX_HELP
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.catalog_report import print_catalog_report
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

    Nothing is printed for a valid catalog. The exit code is 1 if there is an error (with --fail-on warning: or a
    warning), or an index cannot be read. Findings that the policy file allows do not change it.

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
    print_catalog_report(result, report_flags.output, fail_on)
    if not result.passes(fail_on):
        ctx.exit(1)
