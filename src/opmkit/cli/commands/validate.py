"""``opm validate``: validate a catalog."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from opmkit.cli.catalog_validation import (
    CatalogReportFlags,
    RequirementFlags,
    apply_policy,
    print_catalog_report,
)
from opmkit.cli.flags.index import INDEX_HELP
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.output.fbc import CompatOption
from opmkit.cli.progress.command import waiting
from opmkit.core.lazy import call_once
from opmkit.index.fbc.compat import CatalogCompat


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
    from opmkit import IndexSource, RegistryClient
    from opmkit.index.fbc.check.result import validate
    from opmkit.index.operations.gate import with_published

    policy = report_flags.policy()
    fail_on = report_flags.severity(policy)
    flags = requirement_flags.with_defaults(policy.catalog)
    tool = call_once(registry_flags.tool)
    with waiting(f"Validating {catalog}"):
        requirements, notices = with_published(flags.policy(), flags.against, tool, fragment=flags.fragment)
        source = IndexSource.resolve(tool, catalog)
        loaded = source.load()
        if flags.require_signature:
            from opmkit.supply.sign.bundle_images import with_signatures

            with RegistryClient(registry_flags.options()) as client:
                requirements = with_signatures(requirements, flags.require_signature, loaded, client)
        result = replace(validate(loaded, compat, requirements, target=catalog), notices=notices)
    result = apply_policy(policy, result, requirements.rules)
    print_catalog_report(result, source, report_flags.output, fail_on)
    if not result.passes(fail_on):
        ctx.exit(1)
