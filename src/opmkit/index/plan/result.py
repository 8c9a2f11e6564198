"""Plans: results for people and programs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit.index.plan.explain import explain
from opmkit.index.plan.paths import Outcome, UpdatePath

if TYPE_CHECKING:
    from collections.abc import Collection

    from opmkit.index.plan.explain import Explanation
    from opmkit.index.plan.namespace import ResolvedStep
    from opmkit.index.plan.walk import Walk


@dataclass(frozen=True, slots=True)
class UpdatePlan:
    """Where each version that a published catalog can have left installed gets with a new one.

    Attributes:
        paths: The update paths, by package and channel.
    """

    paths: tuple[UpdatePath, ...]

    @property
    def counts(self) -> dict[Outcome, int]:
        """Number of paths by outcome."""
        found = Counter(path.outcome for path in self.paths)
        return {outcome: found[outcome] for outcome in Outcome if found[outcome]}

    def failures(self, outcomes: Collection[str]) -> tuple[UpdatePath, ...]:
        """Return the paths with one of the outcomes."""
        return tuple(path for path in self.paths if path.outcome.value in outcomes)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan in JSON types."""
        return {
            "counts": {outcome.value: count for outcome, count in self.counts.items()},
            "paths": [path.to_dict() for path in self.paths],
        }


@dataclass(frozen=True, slots=True)
class NamespacePlan:
    """What OLM does in a namespace.

    Attributes:
        walk: The resolutions.
    """

    walk: Walk

    @property
    def is_blocked(self) -> bool:
        """Whether the last resolution fails."""
        return self.walk.blocked is not None

    @property
    def explanations(self) -> tuple[Explanation, ...]:
        """Why it fails."""
        return tuple(map(explain, self.walk.blocked.conflicts)) if self.walk.blocked else ()

    def to_dict(self) -> dict[str, Any]:
        """Return the plan in JSON types."""
        return {
            "namespace": self.walk.final.name,
            "resolutions": [
                {
                    "steps": list(map(_step_as_dict, resolution.steps)),
                    "isDetermined": resolution.is_determined,
                    "others": [list(map(_step_as_dict, other)) for other in resolution.others],
                }
                for resolution in self.walk.resolutions
            ],
            "installed": [item.name for item in self.walk.final.installed],
            "isCircular": self.walk.is_circular,
            "conflicts": [explanation.to_dict() for explanation in self.explanations],
        }


def _step_as_dict(step: ResolvedStep) -> dict[str, Any]:
    return {
        "name": step.candidate.name,
        "package": step.candidate.package,
        "channel": step.candidate.channel,
        "catalog": step.candidate.catalog.name,
        "replaces": step.replaces,
        "requiredBy": list(step.required_by),
    }
