"""Flags of ``opm validate``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.flags.policy import (
    REPORT_PANEL,
    ConfigOption,
    FailOnOption,
    IgnoreOption,
    find_policy_file,
    load_policy,
    parse_fail_on,
)
from opmkit.cli.output.catalog_report import CatalogReportFormat
from opmkit.cli.output.errors import UsageError
from opmkit.cli.output.fbc import parse_openshift_version

if TYPE_CHECKING:
    from opmkit import IndexRequirements, Policy, Severity

COMMAND = "opm validate"
REQUIREMENTS_PANEL = "Requirements"


@dataclass(frozen=True, slots=True)
class RequirementFlags:
    """Flags for requirements on a catalog in addition to its validity."""

    openshift_version: Annotated[
        str,
        typer.Option(
            metavar="VERSION",
            help="OpenShift version that serves the catalog, such as 4.17",
            rich_help_panel=REQUIREMENTS_PANEL,
        ),
    ] = ""
    require_digests: Annotated[
        bool,
        typer.Option(
            "--require-digests", help="Require a digest in the bundle images", rich_help_panel=REQUIREMENTS_PANEL
        ),
    ] = False
    allowed_registries: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PREFIX,...",
            help="Allowed registries, or prefixes, of bundle images; default: any",
            rich_help_panel=REQUIREMENTS_PANEL,
        ),
    ] = None
    related_images: Annotated[
        bool,
        typer.Option(
            "--related-images",
            help="Apply both to related images as well",
            rich_help_panel=REQUIREMENTS_PANEL,
        ),
    ] = False
    against: Annotated[
        str,
        typer.Option(
            metavar="INDEX",
            help="Published index, whose packages, channels, heads, bundles and upgrade paths must remain",
            rich_help_panel=REQUIREMENTS_PANEL,
        ),
    ] = ""
    fragment: Annotated[
        bool,
        typer.Option(
            "--fragment",
            help="The catalog is a part of the published index: ignore its other packages",
            rich_help_panel=REQUIREMENTS_PANEL,
        ),
    ] = False

    require_signature: Annotated[
        str,
        typer.Option(
            metavar="FILE",
            help="Public key that must have signed the bundle images, or a policy.json with keys by name",
            rich_help_panel=REQUIREMENTS_PANEL,
        ),
    ] = ""

    def requirements(self, policy: Policy) -> IndexRequirements:
        """Return the requirements, with those of the policy for flags that are not given; raises UsageError."""
        from opmkit import IndexRequirements

        required = IndexRequirements(
            self.openshift_version,
            self.require_digests,
            tuple(self.allowed_registries or ()),
            self.related_images,
            self.against,
            self.fragment,
            self.require_signature,
        ).with_defaults(policy.catalog)
        if required.fragment and not required.against:
            raise UsageError("--fragment requires --against", COMMAND)
        if required.openshift_version:
            parse_openshift_version(required.openshift_version, COMMAND)
        return required


@dataclass(frozen=True, slots=True)
class CatalogReportFlags:
    """Flags for the report, and for the findings that make the command fail."""

    output: Annotated[
        CatalogReportFormat,
        typer.Option(
            "--output",
            "-o",
            metavar="FORMAT",
            help="Output format: text, json, yaml, sarif, junit, github or markdown",
            rich_help_panel=REPORT_PANEL,
        ),
    ] = CatalogReportFormat.TEXT
    fail_on: FailOnOption = ""
    ignore: IgnoreOption = None
    config: ConfigOption = None

    def policy(self) -> Policy:
        """Return the policy; raises UsageError, InvalidPolicy and DiskError."""
        return load_policy(find_policy_file(self.config), self.ignore or (), COMMAND)

    def severity(self, policy: Policy) -> Severity:
        """Return the lowest severity that makes the command fail; raises UsageError."""
        return parse_fail_on(self.fail_on, policy, COMMAND)
