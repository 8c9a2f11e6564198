"""Flags for manifests for OLM v1."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

import typer

from opmkit import InstallerPermissions, OlmVersion
from opmkit.cli.output.errors import UsageError
from opmkit.cli.parser.declaration import flag
from opmkit.cli.parser.go_commands import given_flags

V1_PANEL = "OLM v1"
_V0_FLAGS = frozenset(
    {
        *("address", "namespace", "display-name", "publisher", "pull-secret", "starting-csv", "approval"),
        *("security-context", "memory-target", "extract-content", "extract-catalog-dir", "extract-cache-dir"),
        *("node-selector", "toleration", "priority-class", "pod-config"),
    }
)
_V1_FLAGS = frozenset({"version", "availability", "service-account", "installer-permissions"})
_V1_PACKAGE_FLAGS = _V1_FLAGS - {"availability"}


class Availability(StrEnum):
    """Availability modes of a ClusterCatalog."""

    AVAILABLE = "Available"
    UNAVAILABLE = "Unavailable"


@dataclass(frozen=True, slots=True)
class OlmV1Flags:
    """Flags for the ClusterCatalog and the ClusterExtension."""

    panel: ClassVar[str] = V1_PANEL

    olm: OlmVersion = flag(
        OlmVersion.V0, "OLM to write manifests for: v0, or v1 (ClusterCatalog and ClusterExtension)", panel=""
    )
    availability: Availability | None = flag(None, "Whether OLM v1 serves the catalog", case_sensitive=False)
    version: str = flag("", "Version, or range of versions, to install; default: the latest one", metavar="RANGE")
    service_account: str = flag(
        "",
        "ServiceAccount to install with, which OLM v1 requires up to 1.10; default: PACKAGE-installer",
        metavar="NAME",
    )
    installer_permissions: InstallerPermissions = flag(
        InstallerPermissions.BUNDLE,
        "Permissions of the ServiceAccount: those that the bundle needs, cluster-admin, or none; with none, "
        "it must exist, or is omitted without --service-account",
    )

    def check_flags(self, ctx: typer.Context, package: str) -> None:
        """Raise UsageError for flags of the other major version."""
        given = given_flags(ctx)
        for name in sorted(given & (_V0_FLAGS if self.olm is OlmVersion.V1 else _V1_FLAGS)):
            other = OlmVersion.V0 if self.olm is OlmVersion.V1 else OlmVersion.V1
            raise UsageError(f"--{name} requires --olm {other}", ctx.command_path)
        if not package and (unused := sorted(given & _V1_PACKAGE_FLAGS)):
            raise UsageError(f"--{unused[0]} requires --package", ctx.command_path)
