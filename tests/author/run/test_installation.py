"""Waiting for OLM, with its controllers scripted on an API server in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kit.reports import NO_REPORTS

from opmkit.author.run import installation
from opmkit.author.run.errors import InstallationFailed
from opmkit.author.run.installation import Rollout
from opmkit.author.run.package_manifests import OperatorVersion
from opmkit.author.run.session import OperatorSession, Pending, TimedOut, WaitDeadline, list_subscriptions, wait_until
from opmkit.kube import Cluster, ClusterError
from opmkit.kube.api import SUBSCRIPTION

if TYPE_CHECKING:
    from tests.kit.apiserver import ApiServer

OPERATOR = OperatorVersion("demo", "demo.v1", "1.0.0", "quay.io/me/demo:1")


class Recorder:
    """A reporter that records everything."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def finished(self, text: str) -> None:
        self.lines.append(text)

    def waiting(self, text: str) -> None:
        self.lines.append(f"waiting for {text}")


def test_state_is_awaited_until_the_deadline(cluster: Cluster) -> None:
    states: list[bool | Pending] = [Pending("rain", "dry"), Pending("rain"), True]
    recorder = Recorder()
    assert wait_until(lambda: states.pop(0), WaitDeadline(60), recorder)
    assert recorder.lines == ["waiting for rain: dry", "waiting for rain"]
    with pytest.raises(TimedOut, match=r"timed out after 0\.05s: waited for rain$"):
        wait_until(lambda: Pending("rain", "dry"), WaitDeadline(0.05), NO_REPORTS)


def test_overloaded_server_is_asked_again_until_the_deadline(server: ApiServer, cluster: Cluster) -> None:
    server.fail("list", "subscriptions", times=2, status=503)
    assert wait_until(lambda: list_subscriptions(cluster, "ns", "demo") or True, WaitDeadline(60), NO_REPORTS)
    server.deny("list", "subscriptions")
    with pytest.raises(ClusterError, match="cannot list resource"):
        wait_until(lambda: list_subscriptions(cluster, "ns", "demo"), WaitDeadline(60), NO_REPORTS)


def make_rollout(cluster: Cluster, seconds: float = 60) -> Rollout:
    session = OperatorSession(cluster, "ns", "demo", WaitDeadline(seconds), NO_REPORTS)
    return Rollout(session, OPERATOR, "sub", "ns", "old")


def put_subscription(server: ApiServer, *conditions: dict[str, str], plan: str = "old") -> None:
    status = {"conditions": list(conditions), "installPlanRef": {"name": plan}}
    metadata = {"name": "sub", "namespace": "ns"}
    server.put({"kind": "Subscription", "metadata": metadata, "spec": {"name": "demo"}, "status": status})


def test_unsatisfiable_resolution_is_final_after_a_grace_period(
    server: ApiServer, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "RESOLUTION_GRACE", 0.05)
    unsatisfiable = {"type": "ResolutionFailed", "status": "True", "reason": "ConstraintsNotSatisfiable"}
    put_subscription(server, unsatisfiable)
    with pytest.raises(InstallationFailed, match="cannot resolve the dependencies") as caught:
        make_rollout(cluster).run()
    assert "index_image" in str(caught.value.hint)
    put_subscription(server, {**unsatisfiable, "reason": "ErrorPreventedResolution", "message": "no connection"})
    with pytest.raises(TimedOut, match="OLM to resolve the Subscription"):
        make_rollout(cluster, 0.2).run()


def test_install_plan_of_another_version_is_not_approved(server: ApiServer, cluster: Cluster) -> None:
    put_subscription(server, plan="other")
    spec = {"clusterServiceVersionNames": ["demo.v0"], "approved": False}
    server.put({"kind": "InstallPlan", "metadata": {"name": "other", "namespace": "ns"}, "spec": spec})
    with pytest.raises(TimedOut, match=r"OLM to create the InstallPlan of demo\.v1"):
        make_rollout(cluster, 0.1).run()
    assert server.get("InstallPlan", "other", "ns")["spec"]["approved"] is False


def test_deleted_subscription_ends_the_wait(cluster: Cluster) -> None:
    assert cluster.find(SUBSCRIPTION, "sub") is None
    with pytest.raises(InstallationFailed, match="Subscription ns/sub: deleted"):
        make_rollout(cluster).run()
