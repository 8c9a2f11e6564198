"""Flags of ``opm validate``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from opmkit.cli.flags.policy import (
    REPORT_PANEL,
    ConfigOption,
    IgnoreOption,
    find_policy_file,
    load_policy,
    parse_fail_on,
)
from opmkit.cli.help.panels import ADVANCED_PANEL
from opmkit.cli.output.catalog_report import CatalogReportFormat
from opmkit.cli.output.errors import UsageError
from opmkit.cli.output.fbc import parse_openshift_version
from opmkit.cli.parser.declaration import flag

if TYPE_CHECKING:
    from opmkit import IndexRequirements, Policy, Severity

COMMAND = "opm validate"
REQUIREMENTS_PANEL = "Requirements"
_ANY, _NONE = "any", "none"
_EMPTY = "empty"
"""Value of ``--fail-on`` for errors and catalogs without documents."""


@dataclass(frozen=True, slots=True)
class RequirementFlags:
    """Flags for requirements on a catalog in addition to its validity."""

    panel: ClassVar[str] = REQUIREMENTS_PANEL

    openshift_version: str = flag("", "OpenShift version of the clusters, such as 4.17", metavar="VERSION")
    require_digests: bool = flag(False, "Require a digest in the bundle images")
    allowed_registries: list[str] | None = flag(
        None, "Allowed registries, or prefixes, of bundle images; default: any", metavar="PREFIX,..."
    )
    related_images: bool = flag(False, "Apply both to related images as well")
    against: str = flag(
        "", "Published index, whose packages, channels, heads, bundles and upgrade paths must remain", metavar="INDEX"
    )
    fragment: bool = flag(False, "Ignore other packages of the published index")
    pull_bundles: bool = flag(False, "Read missing CRDs from the bundle images")
    allowed_permissions: str = flag(
        _ANY,
        "Dangerous permissions that updates may add, such as workloads or PACKAGE/secrets; none allows none, any all",
        metavar="KIND,...",
        panel=ADVANCED_PANEL,
    )
    profile: str = flag("", "Pipeline whose checks apply: konflux", metavar="NAME")
    require_signature: str | None = flag(
        None, "Public key that must have signed the bundle images, or a policy.json with keys by name", metavar="FILE"
    )

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
            self.pull_bundles,
            self._allowed(),
            self.profile,
        ).with_defaults(policy.catalog)
        if required.fragment and not required.against:
            raise UsageError("--fragment requires --against", COMMAND)
        if required.pull_bundles and not required.against:
            raise UsageError("--pull-bundles requires --against", COMMAND)
        if required.allowed_permissions is not None and not required.against:
            raise UsageError("--allowed-permissions, and allowed-permissions in a policy, require --against", COMMAND)
        if required.openshift_version:
            parse_openshift_version(required.openshift_version, COMMAND)
        return required

    def _allowed(self) -> tuple[str, ...] | None:
        """Return the allowed permissions, None for any; an empty value, perhaps of a variable, allows none.

        Raises:
            UsageError: A kind is unknown.
        """
        if self.allowed_permissions == _ANY:
            return None
        names = tuple(filter(None, self.allowed_permissions.split(",")))
        if names in ((), (_NONE,)):
            return ()
        from opmkit import DangerKind

        if unknown := next((name for name in names if name.rpartition("/")[2] not in tuple(DangerKind)), ""):
            hint = f"use {_NONE}, or some of {', '.join(DangerKind)}, also as PACKAGE/KIND"
            raise UsageError(f"invalid value of --allowed-permissions: {unknown}", COMMAND, hint=hint)
        return names


@dataclass(frozen=True, slots=True)
class CatalogReportFlags:
    """Flags for the report, and for the findings that make the command fail."""

    output: CatalogReportFormat | None = flag(
        None,
        "Output format: text (default), json, yaml, sarif, junit, github or markdown",
        "-o",
        panel=REPORT_PANEL,
        metavar="FORMAT",
    )
    fail_on: str = flag(
        "",
        "Lowest severity that makes it fail: error (default) or warning; empty: no documents, too",
        panel=REPORT_PANEL,
        metavar="SEVERITY",
    )
    ignore: IgnoreOption = None
    config: ConfigOption = None

    def policy(self) -> Policy:
        """Return the policy; raises UsageError, InvalidPolicy and DiskError."""
        policy = load_policy(find_policy_file(self.config), self.ignore or (), COMMAND)
        return policy.with_error("FBC-EMPTY") if self.fail_on == _EMPTY else policy

    def severity(self, policy: Policy) -> Severity:
        """Return the lowest severity that makes the command fail; raises UsageError."""
        return parse_fail_on("error" if self.fail_on == _EMPTY else self.fail_on, policy, COMMAND)
