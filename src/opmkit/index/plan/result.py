"""Plans: results for people and programs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from opmkit.bundle.finding import Finding, Severity, TargetResult
from opmkit.core.errors import LimitExceeded
from opmkit.index.plan.ending import Outcome
from opmkit.index.plan.explain import explain, explain_hold
from opmkit.index.plan.groups import PathGroup, group_problems
from opmkit.index.plan.paths import UpdatePath, follow_subscriptions
from opmkit.index.plan.walk import walk

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from opmkit.index.fbc.definitions import RefusedUpdate
    from opmkit.index.fbc.permissions import PermissionChange
    from opmkit.index.plan.explain import Explanation
    from opmkit.index.plan.namespace import Namespace, ResolvedStep
    from opmkit.index.plan.walk import Walk


class PlanProblem(NamedTuple):
    """A reason why a plan does not end as its users expect.

    Attributes:
        target: What it is about: a package and a channel, a namespace, or a ClusterExtension.
        kind: Its kind: ``stuck``, ``gone``, ``unresolvable``, ``circular``, ``crd``, ``permissions``, ``blocked`` or
            ``unsupported``.
        message: The reason.
        remedy: What to change, or "".
    """

    target: str
    kind: str
    message: str
    remedy: str = ""


class PlanReport(ABC):
    """What all plans can say: their problems, and reports of them."""

    __slots__ = ()

    @property
    @abstractmethod
    def targets(self) -> tuple[str, ...]:
        """What the plan is about."""

    @abstractmethod
    def problems(self) -> Iterator[PlanProblem]:
        """Yield the problems, target by target."""

    def fails(self, kinds: Collection[str]) -> bool:
        """Return whether the plan has a problem of one of the kinds."""
        return any(problem.kind in kinds for problem in self.problems())

    def to_junit(self, kinds: Collection[str]) -> str:
        """Return a JUnit document with a test suite per target, in which problems of these kinds are failures."""
        from opmkit.bundle.reports import junit

        findings = defaultdict(list)
        for problem in self.problems():
            severity = Severity.ERROR if problem.kind in kinds else Severity.WARNING
            rule = f"PLAN-{problem.kind.upper()}"
            findings[problem.target].append(Finding(problem.message, hint=problem.remedy, severity=severity, rule=rule))
        results = [TargetResult(target, tuple(findings[target])) for target in self.targets]
        return junit.report(results, Severity.ERROR, name="update plan")


MAX_HOPS = 10_000_000
"""Updates that the JSON form of a plan lists."""


@dataclass(frozen=True, slots=True)
class UpdatePlan(PlanReport):
    """Where each version that a published catalog can have left installed gets with a new one.

    Attributes:
        paths: The update paths, by package and channel.
        refused: The updates of these paths that OLM refuses because of a CustomResourceDefinition.
        permissions: The updates of these paths by which operators gain dangerous permissions.
    """

    paths: tuple[UpdatePath, ...]
    refused: tuple[RefusedUpdate, ...] = ()
    permissions: tuple[PermissionChange, ...] = ()

    @property
    def counts(self) -> dict[Outcome, int]:
        """Number of paths by outcome."""
        found = Counter(path.outcome for path in self.paths)
        return {outcome: found[outcome] for outcome in Outcome if found[outcome]}

    @property
    def groups(self) -> tuple[PathGroup, ...]:
        """Groups of the paths with the same problem."""
        return group_problems(self.paths)

    @property
    def targets(self) -> tuple[str, ...]:
        """The packages with their channels, and those with refused updates or new permissions."""
        others = (*map(_crd_target, self.refused), *map(_permission_target, self.permissions))
        return tuple(dict.fromkeys((*map(_target, self.paths), *others)))

    def problems(self) -> Iterator[PlanProblem]:
        """Yield the paths that do not end at the head of their channel, refused updates, and new permissions."""
        for path in self.paths:
            if path.reason and path.outcome is not Outcome.REFUSED:  # what is refused is listed below
                yield PlanProblem(_target(path), path.outcome.value, f"{path.installed}: {path.reason}", path.remedy)
        for update in self.refused:
            yield PlanProblem(_crd_target(update), "crd", str(update))
        for change in self.permissions:
            for line in change.lines():
                yield PlanProblem(_permission_target(change), "permissions", line)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan in JSON types; raise LimitExceeded if its paths have more than MAX_HOPS."""
        hops = Counter[str]()
        for path in self.paths:
            hops[path.package] += len(path.hops)
        if hops.total() > MAX_HOPS:
            (package, number), *_ = hops.most_common(1)
            raise LimitExceeded(
                f"package {package}: {number} updates on all paths, and {MAX_HOPS} are the limit of a plan in JSON",
                hint="print the plan as text, or truncate the channels of the package",
            )
        return {
            "counts": {outcome.value: count for outcome, count in self.counts.items()},
            "paths": [path.to_dict() for path in self.paths],
            "refused": [update.to_dict() for update in self.refused],
            "permissions": [change.to_dict() for change in self.permissions],
        }


@dataclass(frozen=True, slots=True)
class NamespacePlan(PlanReport):
    """What OLM does in a namespace.

    Attributes:
        walk: The resolutions.
        paths: The update paths of the Subscriptions, without those to dependencies that need none; none if the last
            resolution fails.
    """

    walk: Walk
    paths: tuple[UpdatePath, ...] = ()

    @classmethod
    def of_namespace(cls, namespace: Namespace) -> NamespacePlan:
        """Plan what OLM does in a namespace until nothing changes.

        Raises:
            AmbiguousChannel: Entries of a channel have no order.
            InvalidRequirement: A bundle has a requirement that OLM cannot parse.
        """
        walked = walk(namespace)
        return cls(walked, () if walked.blocked else tuple(follow_subscriptions(walked)))

    @property
    def is_blocked(self) -> bool:
        """Whether the last resolution fails."""
        return self.walk.blocked is not None

    @property
    def explanations(self) -> tuple[Explanation, ...]:
        """Why it fails."""
        return tuple(map(explain, self.walk.blocked.conflicts)) if self.walk.blocked else ()

    @property
    def held(self) -> tuple[Explanation, ...]:
        """Why OLM replaces installed operators with nothing, as far as no explanation says so."""
        held = [explain_hold(item.name, item.hold) for item in self.walk.start.installed if item.hold]
        causes = {cause for explanation in self.explanations for cause in explanation.causes}
        return tuple(each for each in held if each.summary not in causes)

    @property
    def targets(self) -> tuple[str, ...]:
        """The namespace."""
        return (f"namespace {self.walk.final.name}",)

    def problems(self) -> Iterator[PlanProblem]:
        """Yield why the namespace is blocked, or its updates do not end."""
        (target,) = self.targets
        for explanation in self.explanations:
            message = "; ".join((explanation.summary, *explanation.causes))
            yield PlanProblem(target, "blocked", message, "; or ".join(explanation.remedies))
        for path in self.paths:
            if path.reason:
                yield PlanProblem(target, path.outcome.value, f"{path.final}: {path.reason}", path.remedy)
        for held in self.held:
            yield PlanProblem(target, "blocked", held.summary, "; or ".join(held.remedies))

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
            "paths": [path.to_dict() for path in self.paths],
            "held": [explanation.to_dict() for explanation in self.held],
            "isCircular": self.walk.is_circular,
            "conflicts": [explanation.to_dict() for explanation in self.explanations],
        }


def _target(path: UpdatePath) -> str:
    return f"{path.package}/{path.followed} ({path.olm.value})"


def _crd_target(update: RefusedUpdate) -> str:
    return f"CRDs of {update.package} ({update.olm.value})"


def _permission_target(change: PermissionChange) -> str:
    return f"permissions of {change.package}"


def _step_as_dict(step: ResolvedStep) -> dict[str, Any]:
    return {
        "name": step.candidate.name,
        "package": step.candidate.package,
        "channel": step.candidate.channel,
        "catalog": step.candidate.catalog.name,
        "replaces": step.replaces,
        "requiredBy": list(step.required_by),
        "installPlan": step.install_plan,
    }
