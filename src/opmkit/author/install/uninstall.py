"""Removal of an OLM release."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from opmkit.author.install.status import DELETED, ObjectStatus, describe
from opmkit.author.run.errors import OlmNotInstalled, ReleaseFailed
from opmkit.author.run.hint_terms import OlmSetting
from opmkit.author.run.objects import items, name_of, namespace_of, strings, subject, text
from opmkit.author.run.waiting import Pending, wait_until
from opmkit.core.errors import OpmkitError
from opmkit.core.hints import Hint
from opmkit.kube.errors import ClusterError
from opmkit.kube.resources import ALL_NAMESPACES, API_SERVICE, SUBSCRIPTION

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.author.install.release import Release
    from opmkit.author.run.waiting import Deadline, Reporter
    from opmkit.kube import Cluster
    from opmkit.kube.resources import Object

PACKAGES_API = "v1.packages.operators.coreos.com"
"""APIService of the package server, which OLM creates. Without its server it blocks the deletion of namespaces."""


def uninstall_release(cluster: Cluster, release: Release, deadline: Deadline, reporter: Reporter) -> list[ObjectStatus]:
    """Delete the objects of a release, wait until they are gone, and return those that existed.

    OLM's own custom objects and the CRDs are deleted first, while OLM still runs and can remove finalizers.

    Raises:
        OlmNotInstalled: none of the objects exists.
        ReleaseFailed: objects still exist at the deadline; the details list them with the reasons.
        ClusterError: the cluster cannot be reached.
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
