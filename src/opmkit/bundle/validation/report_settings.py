"""Settings that the report of a validation depends on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from opmkit.bundle.finding import Severity
from opmkit.bundle.policy import Ignore, Policy

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.bundle.validation.baseline import Baseline


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """Settings that a report depends on in addition to the results.

    Attributes:
        profile: Name of the profile, which has the cross-bundle rules.
        compat: Value of the compatibility mode.
        fail_on: Lowest severity that makes the command fail.
        policy: Severities and ignored findings.
        known: Findings of the baseline, None without one.
    """

    profile: str
    compat: str
    fail_on: Severity
    policy: Policy
    known: Baseline | None = None

    def encode(self) -> dict[str, Any]:
        """Return the settings in JSON types."""
        return {
            "profile": self.profile,
            "compat": self.compat,
            "fail_on": self.fail_on.value,
            "severities": [[rule, severity and severity.value] for rule, severity in self.policy.severities],
            "ignores": [
                {name: getattr(ignore, name) for name in Ignore.__dataclass_fields__} for ignore in self.policy.ignores
            ],
            "known": None if self.known is None else [[*key, count] for key, count in sorted(self.known.items())],
        }

    @classmethod
    def decode(cls, value: Mapping[str, Any]) -> Self:
        """Return the settings that `encode` wrote."""
        known = value["known"]
        severities = tuple((rule, Severity(name) if name else None) for rule, name in value["severities"])
        return cls(
            value["profile"],
            value["compat"],
            Severity(value["fail_on"]),
            Policy(severities=severities, ignores=tuple(Ignore(**ignore) for ignore in value["ignores"])),
            None if known is None else Counter({(a, b, c, d): count for a, b, c, d, count in known}),
        )
