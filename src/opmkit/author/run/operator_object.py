"""The Operator object that OLM creates for a package, and creates again while objects with its label exist."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.author.run.objects import items, operator_name, text
from opmkit.author.run.waiting import Deadline, Pending, TimedOut, wait_until
from opmkit.kube.errors import ClusterError
from opmkit.kube.resources import OPERATOR

if TYPE_CHECKING:
    from collections.abc import Collection

    from opmkit.author.run.waiting import Reporter
    from opmkit.kube import Cluster

MAX_WAIT = 15.0
"""Seconds in which OLM should notice that the components are gone."""


def remove_operator_object(
    cluster: Cluster, package: str, namespace: str, retained: Collection[str], deadline: Deadline, reporter: Reporter
) -> str:
    """Delete the Operator object of a package after OLM has noticed that its components are gone.

    It is not deleted if components are retained, or if it may not be read or deleted.

    Args:
        retained: names of components that are not removed.

    Returns:
        Name of the deleted object, "" if none was deleted.
    """
    name = operator_name(package, namespace)
    try:
        wait = Deadline(min(MAX_WAIT, deadline.remaining))
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
