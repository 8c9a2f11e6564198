"""Remove an operator and everything that was created to install it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING

import orjson
from msgspec import Struct, field

from opmkit.author.run.errors import CleanupFailed
from opmkit.author.run.hint_terms import OlmSetting
from opmkit.author.run.objects import (
    CONTROLLED_BY,
    INSTANCE_LABEL,
    MANAGED_BY_LABEL,
    catalog_name,
    condition,
    is_owned_by,
    items,
    name_of,
    namespace_of,
    operator_name,
    strings,
    text,
)
from opmkit.author.run.objects import field as get_field
from opmkit.author.run.package_manifests import deployment_names, owned_crds
from opmkit.author.run.resources import OPERATOR_GROUP_NAME
from opmkit.author.run.session import Pending, TimedOut, WaitDeadline, list_subscriptions, wait_until
from opmkit.bundle.property_types import PACKAGE
from opmkit.core.hints import Hint
from opmkit.core.json_types import JsonResult
from opmkit.kube.api import (
    ALL_NAMESPACES,
    CATALOG_SOURCE,
    CONFIG_MAP,
    CRD,
    CSV,
    DEPLOYMENT,
    INSTALL_PLAN,
    OPERATOR,
    OPERATOR_GROUP,
    POD,
    SUBSCRIPTION,
)
from opmkit.kube.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from opmkit.author.run.session import Reporter
    from opmkit.kube import Cluster
    from opmkit.kube.api import Object, Resource


MAX_INSTALLATION = 15.0
"""Seconds in which OLM should have created the objects of an InstallPlan."""


class RemovalResult(StrEnum):
    """Results of removing an object."""

    DELETED = "deleted"
    RETAINED = "retained"


class Removal(Struct, frozen=True):
    """An object of a removed operator; ``reason`` explains why it is retained."""

    kind: str
    name: str
    namespace: str
    result: RemovalResult
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RemovedOperator(JsonResult):
    """A package that was removed from a namespace, with its removed and retained objects."""

    package: str
    namespace: str
    objects: tuple[Removal, ...]


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


_COPIED_LABEL = "olm.copiedFrom"
_PROPERTIES_ANNOTATION = "operatorframework.io/properties"
_UNFINISHED = frozenset({"Planning", "RequiresApproval", "Installing"})
"""Phases of InstallPlans before the last one."""
_PUBLISHERS = frozenset({CONTROLLED_BY, "operator-sdk"})
"""Publishers of the CatalogSources that this program and operator-sdk create."""


class CleanupTarget(Struct, frozen=True):
    """An object to remove; ``namespace`` is "" for one of the cluster."""

    resource: Resource
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        """Return kind, namespace and name."""
        return (
            f"{self.resource.kind} {self.namespace}/{self.name}"
            if self.namespace
            else f"{self.resource.kind} {self.name}"
        )


class CleanupPlan(Struct):
    """The objects of an operator.

    Attributes:
        in_progress: InstallPlans that OLM is executing: it creates further objects, also after they are deleted.
        subscriptions: Subscriptions to the package and their InstallPlans; removed first, so that OLM installs
            nothing more.
        definitions: CRDs, removed while the operator still runs and can finalize its custom resources.
        installation: ClusterServiceVersions, and objects of the cluster that InstallPlans created.
        dependents: Deployments that the cluster removes with the ClusterServiceVersions.
        catalog: CatalogSource, pods and ConfigMaps.
        groups: OperatorGroups, removed last.
        retained: Objects that are not removed, each with the reason.
    """

    in_progress: list[CleanupTarget] = []
    subscriptions: list[CleanupTarget] = []
    definitions: list[CleanupTarget] = []
    installation: list[CleanupTarget] = []
    dependents: list[CleanupTarget] = []
    catalog: list[CleanupTarget] = []
    groups: list[CleanupTarget] = []
    retained: dict[CleanupTarget, str] = {}

    def is_empty(self) -> bool:
        """Return whether nothing belongs to the package; an OperatorGroup alone does not."""
        return not (self.subscriptions or self.definitions or self.installation or self.catalog)


def plan_cleanup(
    cluster: Cluster, namespace: str, package: str, *, delete_crds: bool = True, delete_groups: bool = True
) -> CleanupPlan:
    """Find the objects of a package in a namespace.

    Raises:
        OlmNotInstalled: The cluster does not have OLM.
        ClusterError: The cluster cannot be reached or rejects a request.
    """
    return _Planner(cluster, namespace, package).plan(delete_crds=delete_crds, delete_groups=delete_groups)


class _Planner(Struct):
    cluster: Cluster
    namespace: str
    package: str
    result: CleanupPlan = field(default_factory=CleanupPlan)

    def plan(self, *, delete_crds: bool, delete_groups: bool) -> CleanupPlan:
        subscriptions = list_subscriptions(self.cluster, self.namespace, self.package)
        self.result.subscriptions = [self._target(SUBSCRIPTION, name_of(each)) for each in subscriptions]
        versions = self._find_versions(subscriptions)
        plans = self._find_install_plans(subscriptions, {name_of(each) for each in versions})
        names = dict.fromkeys(name for csv in versions for name in deployment_names(csv))
        self.result.in_progress = [self._target(INSTALL_PLAN, name_of(each)) for each in plans if is_in_progress(each)]
        self.result.subscriptions += [self._target(INSTALL_PLAN, name_of(each)) for each in plans]
        self.result.installation = [
            *(self._target(CSV, name_of(each)) for each in versions),
            *self._find_cluster_objects(plans),
        ]
        self.result.dependents = [self._target(DEPLOYMENT, name) for name in names]
        self._add_definitions(versions, plans, delete=delete_crds)
        self._add_catalog(subscriptions)
        self._add_groups(subscriptions, delete=delete_groups)
        return self.result

    def _target(self, resource: Resource, name: str) -> CleanupTarget:
        return CleanupTarget(resource, name, self.namespace if resource.namespaced else "")

    def _find_versions(self, subscriptions: Sequence[Object]) -> list[Object]:
        """Return the ClusterServiceVersions that the Subscriptions refer to, or that OLM records as of the package."""
        fields = ("installedCSV", "currentCSV")
        wanted = {text(each, "status", name) for each in subscriptions for name in fields}
        label = f"operators.coreos.com/{operator_name(self.package, self.namespace)}"
        return [
            each
            for each in self.cluster.list(CSV, self.namespace)
            if (
                name_of(each) in wanted
                or label in (get_field(each, "metadata", "labels") or {})
                or _package_of(each) == self.package
            )
            and _COPIED_LABEL not in (get_field(each, "metadata", "labels") or {})
        ]

    def _find_install_plans(self, subscriptions: Sequence[Object], versions: Collection[str]) -> list[Object]:
        """Return the InstallPlans that belong to the Subscriptions alone."""
        uids = {text(each, "metadata", "uid") for each in subscriptions}
        known = {*versions, *(text(each, "spec", "startingCSV") for each in subscriptions)}

        def is_ours(plan: Object) -> bool:
            owners = {text(owner, "uid") for owner in items(plan, "metadata", "ownerReferences")}
            names = set(strings(plan, "spec", "clusterServiceVersionNames"))
            return (bool(owners) and owners <= uids) or (bool(names) and names <= known)

        return [each for each in self.cluster.list(INSTALL_PLAN, self.namespace) if is_ours(each)]

    def _add_definitions(self, versions: Sequence[Object], plans: Sequence[Object], *, delete: bool) -> None:
        created = (text(step, "name") for step in _created(plans) if text(step, "kind") == CRD.kind)
        names = dict.fromkeys([*(name for csv in versions for name in owned_crds(csv)), *created])
        others = self._owners_elsewhere({name_of(each) for each in versions}) if names and delete else {}
        for name in names:
            target = CleanupTarget(CRD, name)
            if not delete:
                self.result.retained[target] = "deletion of CustomResourceDefinitions is disabled"
            elif owner := others.get(name):
                self.result.retained[target] = f"also owned by {owner}"
            else:
                self.result.definitions.append(target)

    def _find_cluster_objects(self, plans: Sequence[Object]) -> list[CleanupTarget]:
        """Return the objects of the cluster, such as ClusterRoles, which OLM creates but does not remove."""
        found: list[CleanupTarget] = []
        for step in _created(plans):
            group, version, kind = (text(step, name) for name in ("group", "version", "kind"))
            try:
                resource = self.cluster.resource_for(f"{group}/{version}" if group else version, kind)
            except ClusterError as error:
                if error.status not in (403, 404):
                    raise
                continue
            if not resource.namespaced and resource != CRD:
                found.append(CleanupTarget(resource, text(step, "name")))
        return list(dict.fromkeys(found))

    def _owners_elsewhere(self, versions: Collection[str]) -> dict[str, str]:
        """Return other ClusterServiceVersions by the CRDs that they own, as far as they can be read."""
        try:
            found = self.cluster.list(CSV, ALL_NAMESPACES)
        except ClusterError as error:
            if error.status != 403:
                raise
            found = self.cluster.list(CSV, self.namespace)
        return {
            name: f"{namespace_of(each)}/{name_of(each)}"
            for each in found
            if _COPIED_LABEL not in (get_field(each, "metadata", "labels") or {})
            and not (namespace_of(each) == self.namespace and name_of(each) in versions)
            for name in owned_crds(each)
        }

    def _add_catalog(self, subscriptions: Sequence[Object]) -> None:
        default = catalog_name(self.package)
        sources = {(default, self.namespace)}
        sources |= {(text(each, "spec", "source"), text(each, "spec", "sourceNamespace")) for each in subscriptions}
        for name, namespace in sorted(sources):
            found = self.cluster.find(CATALOG_SOURCE, name, namespace) if name and namespace else None
            if found is None or (not subscriptions and text(found, "spec", "displayName") not in ("", self.package)):
                continue  # the names of two packages can result in the same name
            labels = get_field(found, "metadata", "labels") or {}
            ours = labels.get(MANAGED_BY_LABEL) == CONTROLLED_BY or text(found, "spec", "publisher") in _PUBLISHERS
            target = CleanupTarget(CATALOG_SOURCE, name, namespace)
            if not ours:
                self.result.retained[target] = "not created to run this package"
                continue
            self.result.catalog.append(target)
            self._add_servers(namespace, text(found, "metadata", "uid"))
        stray = [each for each in self._labelled(default) if each not in self.result.catalog]
        self.result.catalog += stray

    def _add_servers(self, namespace: str, uid: str) -> None:
        for resource in (POD, CONFIG_MAP):
            owned = (each for each in self.cluster.list(resource, namespace) if is_owned_by(each, uid))
            self.result.catalog += [CleanupTarget(resource, name_of(each), namespace) for each in owned]

    def _labelled(self, catalog: str) -> list[CleanupTarget]:
        """Return pods and ConfigMaps of an earlier attempt whose CatalogSource does not exist any more."""
        labels = {MANAGED_BY_LABEL: CONTROLLED_BY, INSTANCE_LABEL: catalog}
        return [
            self._target(resource, name_of(each))
            for resource in (POD, CONFIG_MAP)
            for each in self.cluster.list(resource, self.namespace, labels=labels)
        ]

    def _add_groups(self, subscriptions: Sequence[Object], *, delete: bool) -> None:
        """Add the OperatorGroup that was created for the package, unless other packages use it."""
        if not self.cluster.find(OPERATOR_GROUP, OPERATOR_GROUP_NAME, self.namespace):
            return
        target = self._target(OPERATOR_GROUP, OPERATOR_GROUP_NAME)
        ours = {name_of(each) for each in subscriptions}
        others = [
            name_of(each) for each in self.cluster.list(SUBSCRIPTION, self.namespace) if name_of(each) not in ours
        ]
        if not delete:
            self.result.retained[target] = "deletion of OperatorGroups is disabled"
        elif others:
            self.result.retained[target] = f"used by Subscription {', '.join(sorted(others))}"
        else:
            self.result.groups.append(target)


def is_in_progress(install_plan: Object) -> bool:
    """Return whether OLM is creating the objects of an InstallPlan; it waits between attempts that fail."""
    approved = get_field(install_plan, "spec", "approved") is True
    return (
        approved
        and text(install_plan, "status", "phase") in _UNFINISHED
        and not text(install_plan, "status", "message")
    )


def _package_of(csv: Object) -> str:
    """Return the package of a ClusterServiceVersion that an InstallPlan created, or "" if it is not recorded.

    It is the only record if OLM created the version after its Subscription was deleted.
    """
    try:
        recorded = orjson.loads(text(get_field(csv, "metadata", "annotations"), _PROPERTIES_ANNOTATION))
    except orjson.JSONDecodeError:
        return ""
    found = (each for each in items(recorded, "properties") if text(each, "type") == PACKAGE)
    return next((text(each, "value", "packageName") for each in found), "")


def _created(plans: Sequence[Object]) -> Iterator[Object]:
    """Yield the resources that InstallPlans created."""
    for plan in plans:
        for step in items(plan, "status", "plan"):
            resource = get_field(step, "resource")
            if isinstance(resource, dict) and text(step, "status") == "Created":
                yield resource
