"""Comparison of all objects of a cluster before and after commands."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.kit.cluster.client import KubeClient, Object

_PATIENCE = 60
_VOLATILE = ("resourceVersion", "managedFields", "generation")
_SAMPLE_NAMES = re.compile(r"\b(?:pond|test-)\d+")


def cluster_state(client: KubeClient, *names: str) -> dict[str, Object]:
    """Return the objects of the cluster without what changes when an object is written.

    Objects of other tests are omitted: those whose paths contain a name of a sample that is not in ``names``.
    """
    objects = {path: each for path, each in client.dump().items() if set(names).issuperset(_SAMPLE_NAMES.findall(path))}
    for each in objects.values():
        each["metadata"] = {key: value for key, value in each["metadata"].items() if key not in _VOLATILE}
    return objects


def wait_for_state(client: KubeClient, expected: dict[str, Object], *names: str) -> None:
    """Return once the cluster has the expected objects again; pods end a moment after their owners."""
    deadline = time.monotonic() + _PATIENCE
    while (found := cluster_state(client, *names)) != expected and time.monotonic() < deadline:
        time.sleep(0.5)
    differing = sorted(path for path in found.keys() | expected.keys() if found.get(path) != expected.get(path))
    assert [(path, expected.get(path), found.get(path)) for path in differing] == []
