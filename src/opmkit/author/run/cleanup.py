"""Remove an operator and everything that was created to install it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any

from opmkit.author.run.cleanup_plan import CleanupTarget, is_in_progress, plan_cleanup
from opmkit.author.run.errors import CleanupFailed
from opmkit.author.run.hint_terms import OlmSetting
from opmkit.author.run.objects import condition, items, operator_name, strings, text
from opmkit.author.run.waiting import Pending, TimedOut, WaitDeadline, wait_until
from opmkit.core.hints import Hint
from opmkit.kube.errors import ClusterError
from opmkit.kube.resources import OPERATOR

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from opmkit.author.run.waiting import Reporter
    from opmkit.kube import Cluster
    from opmkit.kube.resources import Object


MAX_INSTALLATION = 15.0
"""Seconds in which OLM should have created the objects of an InstallPlan."""


class RemovalResult(StrEnum):
    """Results of removing an object."""

    DELETED = "deleted"
    RETAINED = "retained"


@dataclass(frozen=True, slots=True)
class Removal:
    """An object of a removed operator; ``reason`` explains why it is retained."""

    kind: str
    name: str
    namespace: str
    result: RemovalResult
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RemovedOperator:
    """A package that was removed from a namespace, with its removed and retained objects."""

    package: str
    namespace: str
    objects: tuple[Removal, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the package in JSON types."""
        return asdict(self)


def clean_up(
    cluster: Cluster,
    package: str,
    namespace: str,
    deadline: WaitDeadline,
    reporter: Reporter,
    *,
    delete_crds: bool = True,
    delete_groups: bool = True,
) -> list[Removal]:
    """Remove a package from a namespace, wait until everything is gone, and return its objects.

    CustomResourceDefinitions that other operators own, CatalogSources that were not created to run the package, and
    OperatorGroups that others use are retained.

    Args:
        delete_crds: Whether to delete CustomResourceDefinitions, with all custom resources.
        delete_groups: Whether to delete the OperatorGroup.

    Returns:
        The objects in the order of their deletion, then those retained; empty if the package is not installed.

    Raises:
        OlmNotInstalled: The cluster does not have OLM.
        CleanupFailed: Objects still exist at the deadline.
        ClusterError: The cluster cannot be reached or rejects a request.
    """
    plan = plan_cleanup(cluster, namespace, package, delete_crds=delete_crds, delete_groups=delete_groups)
    if plan.in_progress:
        _wait_for_install_plans(cluster, plan.in_progress, deadline, reporter)
        plan = plan_cleanup(cluster, namespace, package, delete_crds=delete_crds, delete_groups=delete_groups)
    if plan.is_empty():
        return []
    removed: list[CleanupTarget] = []
    for targets, dependents in (
        (plan.subscriptions, ()),
        (plan.definitions, ()),
        (plan.installation, plan.dependents),
        (plan.catalog, ()),
        (plan.groups, ()),
    ):
        existing = [target for target in dependents if _find(cluster, target)]
        for target in targets:
            cluster.delete(target.resource, target.name, target.namespace)
        _wait_until_gone(cluster, [*targets, *existing], deadline, reporter)
        removed += [*targets, *existing]
    retained = {target.name for target in plan.retained}
    if name := remove_operator_object(cluster, package, namespace, retained, deadline, reporter):
        removed.append(CleanupTarget(OPERATOR, name))
    return [
        *(Removal(each.resource.kind, each.name, each.namespace, RemovalResult.DELETED) for each in removed),
        *(
            Removal(each.resource.kind, each.name, each.namespace, RemovalResult.RETAINED, reason)
            for each, reason in plan.retained.items()
        ),
    ]


def _wait_for_install_plans(
    cluster: Cluster, targets: Sequence[CleanupTarget], deadline: WaitDeadline, reporter: Reporter
) -> None:
    """Wait until OLM has created the objects of InstallPlans, because it does not stop when they are deleted."""

    def check(target: CleanupTarget) -> bool | Pending:
        found = _find(cluster, target)
        if found is None or not is_in_progress(found):
            return True
        return Pending(f"OLM to complete {target}, so that it creates nothing later")

    with suppress(TimedOut):
        wait = WaitDeadline(min(MAX_INSTALLATION, deadline.remaining))
        for target in targets:
            wait_until(partial(check, target), wait, reporter)


def _wait_until_gone(
    cluster: Cluster, targets: Sequence[CleanupTarget], deadline: WaitDeadline, reporter: Reporter
) -> None:
    for target in targets:
        try:
            wait_until(lambda target=target: _gone(cluster, target), deadline, reporter)  # type: ignore[misc]
        except TimedOut as error:
            raise _failure(cluster, targets, error) from error
        reporter.finished(f"{target} deleted")


def _gone(cluster: Cluster, target: CleanupTarget) -> bool | Pending:
    found = _find(cluster, target)
    if found is None:
        return True
    if not text(found, "metadata", "deletionTimestamp"):  # created again, such as by an InstallPlan in progress
        cluster.delete(target.resource, target.name, target.namespace)
    return Pending(f"{target} to be deleted", _describe(found))


def _find(cluster: Cluster, target: CleanupTarget) -> Object | None:
    return cluster.find(target.resource, target.name, target.namespace)


def _describe(found: Object) -> str:
    """Return the finalizers of an object that is being deleted, and why a CRD still exists."""
    finalizers = strings(found, "metadata", "finalizers")
    message = text(condition(found, "Terminating"), "message")
    parts = [f"finalizers {', '.join(finalizers)}"] if finalizers else []
    return "; ".join([*parts, *([message] if message else [])])


def _failure(cluster: Cluster, targets: Sequence[CleanupTarget], error: TimedOut) -> CleanupFailed:
    remaining = [(target, found) for target in targets if (found := _find(cluster, target)) is not None]
    return CleanupFailed(
        f"not removed completely: {error.message}",
        details=[f"  {Pending(f'{target} still exists', _describe(found))}" for target, found in remaining],
        hint=Hint.any_of(
            Hint("wait longer with {}", OlmSetting.TIMEOUT),
            "remove the finalizers of objects whose controller does not run any more",
        ),
    )


MAX_WAIT = 15.0
"""Seconds in which OLM should notice that the components are gone."""


def remove_operator_object(
    cluster: Cluster,
    package: str,
    namespace: str,
    retained: Collection[str],
    deadline: WaitDeadline,
    reporter: Reporter,
) -> str:
    """Delete the Operator object of a package after OLM has noticed that its components are gone.

    It is not deleted if components are retained, or if it may not be read or deleted.

    Args:
        retained: Names of components that are not removed.

    Returns:
        Name of the deleted object, or "" if none was deleted.
    """
    name = operator_name(package, namespace)
    try:
        wait = WaitDeadline(min(MAX_WAIT, deadline.remaining))
        if not wait_until(lambda: _is_unused(cluster, name, retained), wait, reporter):
            return ""
    except TimedOut:  # OLM lists objects that do not exist any more
        pass
    except ClusterError as error:
        if error.status != 403:
            raise
        return ""
    try:
        return name if cluster.delete(OPERATOR, name) else ""
    except ClusterError as error:
        if error.status != 403:
            raise
        return ""


def _is_unused(cluster: Cluster, name: str, retained: Collection[str]) -> bool | Pending:
    """Return whether the Operator object has no components; False if only retained ones are left."""
    components = items(cluster.find(OPERATOR, name), "status", "components", "refs")
    remaining = [each for each in components if text(each, "name") not in retained]
    if remaining:
        described = f"{text(remaining[0], 'kind')} {text(remaining[0], 'name')}"
        return Pending(f"OLM to notice that the components of Operator {name} are gone", described)
    return not components
