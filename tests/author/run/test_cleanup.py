"""Removal of an operator while OLM installs it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.reports import NO_REPORTS

from opmkit.author.run import cleanup
from opmkit.author.run.cleanup import clean_up
from opmkit.author.run.session import WaitDeadline

if TYPE_CHECKING:
    from tests.kit.apiserver import ApiServer

    from opmkit.kube import Cluster


def put_install_plan(server: ApiServer, *, approved: bool = True, **status: Any) -> None:
    """Create the InstallPlan of the package ``demo``, and its Subscription."""
    spec: dict[str, Any] = {"name": "demo", "startingCSV": "demo.v1"}
    put(server, "Subscription", spec=spec, status={"currentCSV": "demo.v1"})
    spec = {"approved": approved, "clusterServiceVersionNames": ["demo.v1"]}
    put(server, "InstallPlan", spec=spec, status=status)


def put(server: ApiServer, kind: str, **content: Any) -> None:
    server.put({"kind": kind, "metadata": {"name": "demo.v1", "namespace": "ns"}, **content})


def test_objects_that_olm_creates_meanwhile_are_removed(server: ApiServer, cluster: Cluster) -> None:
    put_install_plan(server, phase="Installing")
    seen = []

    class Reporter:
        def finished(self, text: str) -> None: ...

        def waiting(self, text: str) -> None:
            seen.append(text)
            if len(seen) == 3:
                put(server, "ClusterServiceVersion")
                put_install_plan(server, phase="Complete")

    removed = clean_up(cluster, "demo", "ns", WaitDeadline(60), Reporter())
    assert seen[0] == "OLM to complete InstallPlan ns/demo.v1, so that it creates nothing later"
    assert [each.kind for each in removed] == ["Subscription", "InstallPlan", "ClusterServiceVersion"]
    assert server.objects("ClusterServiceVersion") == []


@pytest.mark.parametrize(
    ("approved", "status"),
    [
        (False, {"phase": "RequiresApproval"}),
        (True, {"phase": "Installing", "message": "retrying: risk of data loss"}),
        (True, {"phase": "Failed"}),
        (True, {"phase": "Complete"}),
    ],
)
def test_install_plan_that_is_not_executed_is_not_waited_for(
    approved: bool, status: dict[str, str], server: ApiServer, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "MAX_INSTALLATION", float("inf"))
    put_install_plan(server, approved=approved, **status)
    assert clean_up(cluster, "demo", "ns", WaitDeadline(60), NO_REPORTS)


def test_install_plan_that_makes_no_progress_is_removed(
    server: ApiServer, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "MAX_INSTALLATION", 0.05)
    put_install_plan(server, phase="Installing")
    assert [each.kind for each in clean_up(cluster, "demo", "ns", WaitDeadline(60), NO_REPORTS)] == [
        "Subscription",
        "InstallPlan",
    ]
