"""Comparison of all objects of a cluster before and after commands."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.kit.cluster.client import PATIENCE

if TYPE_CHECKING:
    from tests.kit.cluster.client import KubeClient, Object

_VOLATILE = ("resourceVersion", "managedFields", "generation")
_POLL_INTERVAL = 0.5


def cluster_state(client: KubeClient) -> dict[str, Object]:
    """Return the objects of the cluster without what changes when an object is written."""
    objects = client.dump()
    for each in objects.values():
        each["metadata"] = {key: value for key, value in each["metadata"].items() if key not in _VOLATILE}
    return objects


def wait_for_state(client: KubeClient, expected: dict[str, Object]) -> None:
    """Return once the cluster has the expected objects again; pods end a moment after their owners."""
    deadline = time.monotonic() + PATIENCE
    while (found := cluster_state(client)) != expected and time.monotonic() < deadline:
        time.sleep(_POLL_INTERVAL)
    differing = sorted(path for path in found.keys() | expected.keys() if found.get(path) != expected.get(path))
    lines = [f"{path}: {expected.get(path)} became {found.get(path)}" for path in differing]
    assert not lines, "\n".join(lines)
