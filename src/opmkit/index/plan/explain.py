"""Explanations of blocked namespaces: sentences for people, and what to change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.index.plan.namespace import (
    ApiReason,
    DeprecationReason,
    InstalledReason,
    PackageReason,
    ReplacementReason,
    RequirementReason,
    SubscriptionReason,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from opmkit.index.plan.candidate import Hold
    from opmkit.index.plan.namespace import Conflict, Reason

MAX_NAMES = 4
"""Maximum number of bundles that a sentence names."""


class Explanation(Struct, frozen=True):
    """Why a conflict blocks a namespace.

    Attributes:
        summary: Who cannot be satisfied.
        causes: One sentence for each reason, the most specific one first.
        remedies: What to change, the smallest change first.
    """

    summary: str
    causes: tuple[str, ...]
    remedies: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation in JSON types."""
        return {"summary": self.summary, "causes": list(self.causes), "remedies": list(self.remedies)}


def explain(conflict: Conflict) -> Explanation:
    """Return why a conflict blocks a namespace, and what to change."""
    names = [
        *(f"Subscription {subscription.name}" for subscription in conflict.subscriptions),
        *(f"installed operator {bundle.name}" for bundle in conflict.installed),
    ]
    together = " together" if len(names) > 1 else ""
    ranked = sorted(conflict.reasons, key=_rank)
    causes = dict.fromkeys(filter(None, map(_cause, ranked)))
    holds = [reason for reason in ranked if isinstance(reason, InstalledReason) and reason.bundle.hold]
    followed = {subscription.package for subscription in conflict.subscriptions}
    wrong = {reason.subscription for reason in ranked if isinstance(reason, SubscriptionReason) and reason.problem}
    remedies = dict.fromkeys(
        remedy
        for reason in holds or ranked  # nothing else helps while OLM cannot replace an operator
        for remedy in _remedies(reason, followed)
        if not isinstance(reason, SubscriptionReason) or reason.problem or reason.subscription not in wrong
    )
    return Explanation(f"{_join(names)} cannot be satisfied{together}", tuple(causes), tuple(remedies))


def _rank(reason: Reason) -> int:
    """Return how specific a reason is: what does not exist comes before what excludes each other."""
    match reason:
        case SubscriptionReason(problem=problem) if problem:
            return 0
        case InstalledReason(bundle) if bundle.hold:
            return 0
        case RequirementReason(providers=()):
            return 1
        case DeprecationReason():
            return 2
        case RequirementReason():
            return 3
        case ApiReason() | PackageReason() | ReplacementReason():
            return 4
        case _:
            return 5


def _cause(reason: Reason) -> str:
    match reason:
        case SubscriptionReason(subscription, problem) if problem:
            return f"Subscription {subscription.name}: {problem}"
        case SubscriptionReason(subscription, accepted=accepted) if accepted:
            return f"Subscription {subscription.name} accepts only {_names(accepted)}"
        case RequirementReason(bundle, requirement, ()):
            return f"{bundle.name} requires {requirement}, which neither a catalog nor the namespace has"
        case RequirementReason(bundle, requirement, providers):
            return f"{bundle.name} requires {requirement}, which only {_names(providers)} can satisfy"
        case InstalledReason(bundle) if bundle.hold:
            return f"{bundle.name} {bundle.hold.reason}"
        case InstalledReason(bundle):
            return f"{bundle.name} is installed without a Subscription, so that OLM neither updates nor removes it"
        case ApiReason((group, version, kind)):
            return f"a namespace can have one provider of {kind} ({group}/{version})"
        case PackageReason(package):
            return f"a namespace can have one operator of package {package}"
        case DeprecationReason(bundle):
            return f"{bundle.name} is deprecated, so that OLM does not install it"
        case _:
            return ""


def _remedies(reason: Reason, followed: Collection[str]) -> Iterator[str]:
    """Yield what to change; ``followed`` are the packages of the Subscriptions that have a part in the conflict."""
    match reason:
        case SubscriptionReason(remedy=remedy) if remedy:
            yield remedy
        case RequirementReason(_, requirement, ()):
            yield f"add a catalog with {requirement}"
        case InstalledReason(bundle) if bundle.hold:
            yield from filter(None, (bundle.hold.remedy,))
        case InstalledReason(bundle):
            subscribe = f", or subscribe to package {bundle.package}" if bundle.package not in followed else ""
            yield f"delete the ClusterServiceVersion {bundle.name}{subscribe}"
        case SubscriptionReason(subscription):
            yield f"delete Subscription {subscription.name}, or move it to another namespace"


def explain_hold(name: str, hold: Hold) -> Explanation:
    """Return why OLM replaces an installed operator with nothing, and what to change."""
    return Explanation(f"{name} {hold.reason}", (), tuple(filter(None, (hold.remedy,))))


def _names(bundles: Iterable[object]) -> str:
    names = list(dict.fromkeys(map(str, bundles)))
    more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
    return ", ".join(names[:MAX_NAMES]) + more


def _join(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
