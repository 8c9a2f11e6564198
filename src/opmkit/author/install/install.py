"""Installation and removal of an OLM release."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from opmkit.author.install.release import is_package_server, version_of
from opmkit.author.install.status import DELETED, ObjectStatus, describe, inspect, problem, rollout_problem
from opmkit.author.run.errors import AlreadyInstalled, OlmNotInstalled, ReleaseFailed
from opmkit.author.run.hint_terms import OlmOperation, OlmSetting
from opmkit.author.run.inspection import Involved, find_problems
from opmkit.author.run.objects import field as get_field
from opmkit.author.run.objects import items, name_of, namespace_of, strings, subject, text
from opmkit.author.run.package_manifests import deployment_names
from opmkit.author.run.session import Pending, wait_until
from opmkit.core import interrupts
from opmkit.core.errors import OpmkitError
from opmkit.core.hints import Hint
from opmkit.kube.api import ALL_NAMESPACES, API_SERVICE, CRD, CSV, DEPLOYMENT, FIELD_MANAGER, SUBSCRIPTION
from opmkit.kube.errors import UNKNOWN_RESOURCE, ClusterError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opmkit.author.install.release import Release
    from opmkit.author.run.session import Reporter, WaitDeadline
    from opmkit.kube import Cluster
    from opmkit.kube.api import Object


RELEASE_ANNOTATION = "opmkit.author.run.release"
"""Annotation with the version of the release that an object was installed from."""
_MAX_NAMES = 5

T = TypeVar("T")


def install_release(
    cluster: Cluster, release: Release, deadline: WaitDeadline, reporter: Reporter
) -> list[ObjectStatus]:
    """Install a release, or complete an installation that failed, and wait until OLM runs.

    Raises:
        AlreadyInstalled: OLM is installed, or objects exist that another tool created; nothing was changed.
        ReleaseFailed: OLM does not run; the details list the reasons and the created objects.
        ClusterError: The cluster cannot be reached, or rejects the first requests.
    """
    existing = _check_absent(cluster, release, reporter)
    installation = _Installation(cluster, release, deadline, reporter, existing)
    try:
        installation.run()
    except OpmkitError as error:
        raise installation.explain(error) from error
    return inspect(cluster, release)


def _check_absent(cluster: Cluster, release: Release, reporter: Reporter) -> frozenset[str]:
    """Return the objects that a former installation applied; raise AlreadyInstalled for others, or a complete one."""
    existing = [found for each in release.objects if (found := release.find(cluster, each))]
    if not existing:
        return frozenset()
    versions = {version_of(each) for each in existing if is_package_server(each)}
    remove = Hint.any_of(
        Hint("check it with {}", OlmOperation.OLM_STATUS), Hint("remove it first with {}", OlmOperation.UNINSTALL_OLM)
    )
    complete = len(existing) == len(release.objects) and not any(map(problem, existing))
    if versions and (complete or release.version not in versions):
        version = ", ".join(filter(None, versions)) or "an unknown version"
        raise AlreadyInstalled(f"OLM is already installed in the cluster {cluster.host}: {version}", hint=remove)
    foreign = [subject(each) for each in existing if not _is_applied(each)]
    if foreign:
        more = f" and {len(foreign) - _MAX_NAMES} more" if len(foreign) > _MAX_NAMES else ""
        raise AlreadyInstalled(
            f"detected existing OLM resources in the cluster {cluster.host}: {', '.join(foreign[:_MAX_NAMES])}{more}",
            hint="remove OLM completely before the installation",
        )
    reporter.finished(f"continuing an incomplete installation with {len(existing)} existing objects")
    return frozenset(map(subject, existing))


def _is_applied(obj: Object) -> bool:
    """Return whether a former installation applied an object.

    The API server records who has applied the annotation. It records nobody for objects without any field, such as a
    ServiceAccount with just a name, whoever created them.
    """
    return any(
        text(entry, "manager") == FIELD_MANAGER and text(entry, "operation") == "Apply"
        for entry in items(obj, "metadata", "managedFields")
    )


class _Installation(Struct):
    cluster: Cluster
    release: Release
    deadline: WaitDeadline
    reporter: Reporter
    existing: frozenset[str] = frozenset()
    applied: list[Object] = []

    def run(self) -> None:
        for each in self.release.definitions:
            self._apply(each)
        for each in self.release.definitions:
            self._wait_for_definition(name_of(each))
        for each in self.release.others:
            self._apply(each)
        for each in self.release.others:
            if each["kind"] == DEPLOYMENT.kind:
                self._wait_for_deployment(name_of(each), namespace_of(each))
        for each in self.release.others:
            if each["kind"] == CSV.kind:
                self._wait_for_csv(name_of(each), namespace_of(each))
            elif each["kind"] == SUBSCRIPTION.kind:
                self._wait_for_subscription(name_of(each), namespace_of(each))

    def explain(self, error: OpmkitError) -> ReleaseFailed:
        """Return the error to raise for a failure, with the reasons of the cluster and the created objects."""
        details: list[str] = []
        if not isinstance(error, ClusterError) or error.status:
            servers = [name_of(each) for each in self.applied if is_package_server(each)]
            involved = Involved(self.release.namespace, csv=servers[0] if servers else "")
            deployments = [name_of(each) for each in self.applied if each["kind"] == DEPLOYMENT.kind]
            if self.applied:
                details = [f"  {found}" for found in find_problems(self.cluster, involved, deployments)]
        hint = error.hint
        if created := [each for each in map(subject, self.applied) if each not in self.existing]:
            details.append(f"created objects: {', '.join(created)}")
        if self.applied:
            hint = Hint.all_of(
                error.hint,
                Hint.any_of(
                    "run the command again to continue", Hint("remove the objects with {}", OlmOperation.UNINSTALL_OLM)
                ),
            )
        return ReleaseFailed(f"OLM not installed: {error.message}", details=details, hint=hint)

    def _apply(self, obj: Object) -> None:
        """Apply an object with the annotation, again until the API server knows its kind."""
        annotations = get_field(obj, "metadata", "annotations")
        marked = {**(annotations if isinstance(annotations, dict) else {}), RELEASE_ANNOTATION: self.release.version}
        annotated = {**obj, "metadata": {**obj["metadata"], "annotations": marked}}

        def attempt() -> Object | Pending:
            try:
                return self.cluster.apply(annotated)
            except ClusterError as error:
                if error.reason != UNKNOWN_RESOURCE:
                    raise ClusterError(
                        f"{subject(obj)}: {error.message}", hint=error.hint, status=error.status, reason=error.reason
                    ) from error
                return Pending(f"the API of {subject(obj)}")

        self.applied.append(self._wait(attempt))
        interrupts.record_update(subject(obj))
        self.reporter.finished(f"{subject(obj)} applied{' again' if subject(obj) in self.existing else ''}")

    def _wait_for_definition(self, name: str) -> None:
        self._wait(lambda: self._pending(CRD.kind, self.cluster.find(CRD, name), name))

    def _wait_for_deployment(self, name: str, namespace: str) -> None:
        def check() -> bool | Pending:
            found = self.cluster.find(DEPLOYMENT, name, namespace)
            if found is not None and "deadline exceeded" in (remark := rollout_problem(found)):
                raise ReleaseFailed(f"Deployment {namespace}/{name}: {remark}")
            return self._pending(DEPLOYMENT.kind, found, name)

        self._wait(check)
        self.reporter.finished(f"Deployment {namespace}/{name} rolled out")

    def _wait_for_csv(self, name: str, namespace: str) -> None:
        def check() -> Object | Pending:
            found = self.cluster.find(CSV, name, namespace)
            if text(found, "status", "phase") == "Failed":
                cause = f"{text(found, 'status', 'reason')}: {text(found, 'status', 'message')}"
                raise ReleaseFailed(f"ClusterServiceVersion {namespace}/{name}: phase Failed: {cause}")
            state = self._pending(CSV.kind, found, name)
            return state if isinstance(state, Pending) else found or {}

        csv = self._wait(check)
        self.reporter.finished(f"ClusterServiceVersion {namespace}/{name} succeeded")
        for deployment in deployment_names(csv):
            self._wait_for_deployment(deployment, namespace)

    def _wait_for_subscription(self, name: str, namespace: str) -> None:
        def check() -> str | Pending:
            found = self.cluster.find(SUBSCRIPTION, name, namespace)
            return text(found, "status", "installedCSV") or Pending(f"Subscription {namespace}/{name} to install")

        self._wait_for_csv(self._wait(check), namespace)

    def _pending(self, kind: str, found: Object | None, name: str) -> bool | Pending:
        """Return True for an object that is ready."""
        if found is None:
            return Pending(f"{kind} {name} to be created")
        remark = problem(found)
        return Pending(f"{kind} {name}: {remark}") if remark else True

    def _wait(self, check: Callable[[], T | Pending]) -> T:
        return wait_until(check, self.deadline, self.reporter)


PACKAGES_API = "v1.packages.operators.coreos.com"
"""APIService of the package server, which OLM creates. Without its server it blocks the deletion of namespaces."""


def uninstall_release(
    cluster: Cluster, release: Release, deadline: WaitDeadline, reporter: Reporter
) -> list[ObjectStatus]:
    """Delete the objects of a release, wait until they are gone, and return those that existed.

    OLM's own custom objects and the CRDs are deleted first, while OLM still runs and can remove finalizers.

    Raises:
        OlmNotInstalled: None of the objects exists.
        ReleaseFailed: Objects still exist at the deadline; the details list them with the reasons.
        ClusterError: The cluster cannot be reached.
    """
    stages = [[each for each in stage if release.find(cluster, each)] for stage in _stages(release)]
    existing = [each for stage in stages for each in stage]
    if not existing:
        raise OlmNotInstalled(f"OLM is not installed in the cluster {cluster.host}: none of its objects exists")
    remaining = list(existing)
    for each in _subscriptions(cluster):
        reporter.finished(f"{subject(each)} will be deleted with its CustomResourceDefinition")
    try:
        for stage in stages:
            for each in stage:
                cluster.delete(release.resource_of(cluster, each), name_of(each), namespace_of(each))
            for each in stage:
                wait_until(partial(_check_gone, cluster, release, each), deadline, reporter)
                remaining.remove(each)
                reporter.finished(f"{subject(each)} deleted")
            cluster.delete(API_SERVICE, PACKAGES_API)
    except OpmkitError as error:
        raise _explain(cluster, release, error, remaining) from error
    return [replace(describe(each, None), status=DELETED) for each in existing]


def _subscriptions(cluster: Cluster) -> list[Object]:
    """Return the Subscriptions of all operators, none if they cannot be listed."""
    try:
        return cluster.list(SUBSCRIPTION, ALL_NAMESPACES)
    except ClusterError as error:
        if error.status not in (403, 404):
            raise
        return []


def _stages(release: Release) -> list[list[Object]]:
    """Return the objects to delete one after the other, each stage in the reverse order of creation."""
    groups = {text(each, "spec", "group") for each in release.definitions}
    custom = [each for each in release.others if each["apiVersion"].partition("/")[0] in groups]
    namespaces = [each for each in release.others if each["kind"] == "Namespace"]
    others = [each for each in release.others if each not in custom and each not in namespaces]
    return [list(reversed(stage)) for stage in (custom, release.definitions, others, namespaces)]


def _check_gone(cluster: Cluster, release: Release, obj: Object) -> bool | Pending:
    found = release.find(cluster, obj)
    if found is None:
        return True
    causes = "; ".join(_causes(found))
    return Pending(f"{subject(obj)} to be deleted{f': {causes}' if causes else ''}")


def _causes(obj: Object) -> Iterator[str]:
    """Yield why an object that is being deleted still exists."""
    if finalizers := strings(obj, "metadata", "finalizers"):
        yield f"finalizers {', '.join(finalizers)}"
    for entry in items(obj, "status", "conditions"):
        if text(entry, "type") in _BLOCKING and entry.get("status") == "True":
            yield text(entry, "message")


_BLOCKING = frozenset(
    {
        *("NamespaceDeletionDiscoveryFailure", "NamespaceDeletionGroupVersionParsingFailure"),
        *(
            "NamespaceDeletionContentFailure",
            "NamespaceContentRemaining",
            "NamespaceFinalizersRemaining",
            "Terminating",
        ),
    }
)


def _explain(cluster: Cluster, release: Release, error: OpmkitError, remaining: list[Object]) -> ReleaseFailed:
    details = []
    if not isinstance(error, ClusterError) or error.status:
        for each in remaining:
            try:
                found = release.find(cluster, each)
            except ClusterError as failure:
                details.append(f"  {subject(each)}: {failure.message}")
                continue
            if found:
                causes = "; ".join(_causes(found))
                details.append(f"  {subject(each)}: still exists{f': {causes}' if causes else ''}")
    hint = Hint.any_of(
        "remove the finalizers of objects whose controllers no longer run, and run the command again",
        Hint("raise {}", OlmSetting.TIMEOUT),
    )
    return ReleaseFailed(f"OLM not removed: {error.message}", details=details, hint=Hint.all_of(error.hint, hint))
