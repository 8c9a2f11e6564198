"""Flags of commands that run operators in a cluster."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from opmkit.cli.flags.registry import REGISTRY_PANEL
from opmkit.cli.output.errors import UsageError, print_warning
from opmkit.cli.parser.declaration import flag

if TYPE_CHECKING:
    from opmkit import PodOptions


POD_PANEL = "Catalog pod"


class PodSecurity(StrEnum):
    """Security contexts of the pod of a catalog."""

    LEGACY = "legacy"
    RESTRICTED = "restricted"


class PullPolicy(StrEnum):
    """Image pull policies of Kubernetes."""

    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


Timeout = Annotated[
    str, typer.Option("--timeout", metavar="DURATION", help="Time until the command fails, such as 90s or 5m")
]
InstallModeOption = Annotated[
    str,
    typer.Option(
        "--install-mode",
        metavar="MODE",
        help="OwnNamespace, AllNamespaces, SingleNamespace=NAME or MultiNamespace=NAME,...; default: AllNamespaces or "
        "OwnNamespace, as the operator supports",
    ),
]
CaSecretOption = Annotated[
    str,
    typer.Option(
        "--ca-secret-name",
        metavar="NAME",
        help="Secret whose key cert.pem has certificate authorities to trust when this command pulls images",
        rich_help_panel=REGISTRY_PANEL,
    ),
]
AddModeOption = Annotated[str, typer.Option("--mode", hidden=True)]
"""The hidden flag of operator-sdk for database indexes."""
DEFAULT_TIMEOUT = "2m0s"


@dataclass(frozen=True, slots=True)
class RegistryPodFlags:
    """Flags for the pod that serves the catalog, and for the images that the cluster pulls."""

    panel: ClassVar[str] = POD_PANEL

    serving_image: str = flag("", "Image with opm that serves the catalog", metavar="IMAGE")
    decompression_image: str = flag(
        "registry.access.redhat.com/ubi9/ubi:9.8",
        "Image with sh and gzip, for a catalog that does not fit into one ConfigMap",
        metavar="IMAGE",
    )
    image_pull_policy: PullPolicy = flag(PullPolicy.ALWAYS, "Image pull policy of the pod")
    security_context_config: PodSecurity = flag(PodSecurity.LEGACY, "Security context of the pod: legacy or restricted")
    service_account: str = flag("", "Service account of the pod; default: the default one", metavar="NAME")
    pull_secret_name: str = flag("", "Secret for pulling the bundle image and the images of the pod", metavar="NAME")

    def options(self) -> PodOptions:
        """Return the options of the pod."""
        from opmkit import PodOptions

        return PodOptions(
            image=self.serving_image,
            decompression_image=self.decompression_image,
            pull_policy=self.image_pull_policy.value,
            security_context=self.security_context_config.value,
            service_account=self.service_account,
            pull_secret=self.pull_secret_name,
        )


def warn_of_add_mode(mode: str) -> None:
    """Print a warning if an add mode is given, which operator-sdk only supports for database indexes."""
    if mode:
        print_warning("--mode is ignored: the bundle replaces the one before it in a channel for tests")


_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART = r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)"
_DURATION = re.compile(rf"(?:{_PART})+", re.ASCII)
_PARTS = re.compile(_PART, re.ASCII)


def parse_timeout(text: str) -> float:
    """Return the seconds until a command fails; raises UsageError."""
    return parse_duration(text, "--timeout")


def parse_duration(text: str, flag: str) -> float:
    """Return the seconds of a Go duration, such as ``90s`` or ``1h30m``; raises UsageError unless it is positive."""
    seconds = (
        sum(float(number) * _UNITS[unit] for number, unit in _PARTS.findall(text)) if _DURATION.fullmatch(text) else 0
    )
    if not 0 < seconds < math.inf:
        raise UsageError(f"invalid duration {text!r} of {flag}", hint="write a positive Go duration: 90s, 2m0s, 1h30m")
    return seconds
