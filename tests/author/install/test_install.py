"""Installation, state and removal of an OLM release."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from tests.kit.olm_release import add_controllers
from tests.kit.reports import NO_REPORTS, NullReporter

from opmkit.author.install.install import PACKAGES_API, install_release, uninstall_release
from opmkit.author.install.status import find_installed_version, inspect
from opmkit.author.run.errors import AlreadyInstalled, OlmError, OlmNotInstalled, ReleaseFailed
from opmkit.author.run.session import WaitDeadline

if TYPE_CHECKING:
    from tests.kit.apiserver import ApiServer

    from opmkit.author.install.release import Release
    from opmkit.kube import Cluster


def install(cluster: Cluster, release: Release, seconds: float = 20) -> list[str]:
    """Install a release and return the states of its objects."""
    return [each.status for each in install_release(cluster, release, WaitDeadline(seconds), NO_REPORTS)]


def uninstall(cluster: Cluster, release: Release, seconds: float = 20) -> list[str]:
    """Remove a release and return the names of the removed objects."""
    return [each.name for each in uninstall_release(cluster, release, WaitDeadline(seconds), NO_REPORTS)]


def test_release_is_installed_and_removed(cluster: Cluster, server: ApiServer, release: Release) -> None:
    add_controllers(server)
    assert install(cluster, release) == ["Installed"] * 11
    applied = [request.resource for request in server.requests if request.verb == "patch"]
    assert applied == [
        *["customresourcedefinitions"] * 3,
        *("namespaces", "serviceaccounts", "clusterroles", "clusterrolebindings"),
        *("olmconfigs", "deployments", "operatorgroups", "clusterserviceversions"),
    ]
    assert find_installed_version(cluster, "olm") == release.version == "1.2.3"
    server.put({"kind": "APIService", "metadata": {"name": PACKAGES_API}})
    removed = uninstall(cluster, release)
    assert (removed[0], removed[3], removed[-1]) == ("packageserver", "olmconfigs.operators.coreos.com", "olm")
    assert len(removed) == 11
    assert {key[1:] for key in server.store.objects} == {("namespaces", "", "default")}
    with pytest.raises(OlmNotInstalled, match="none of its objects exists"):
        uninstall(cluster, release)


def test_installed_release_is_not_installed_again(cluster: Cluster, server: ApiServer, release: Release) -> None:
    add_controllers(server)
    install(cluster, release)
    written = len([request for request in server.requests if request.verb == "patch"])
    with pytest.raises(AlreadyInstalled, match=r"^OLM is already installed in the cluster https://.*: 1.2.3$"):
        install(cluster, release)
    server.remove("ClusterServiceVersion", "packageserver", "olm")
    csv = {**release.others[-1], "metadata": {**release.others[-1]["metadata"], "labels": {"olm.version": "v1.0.0"}}}
    server.put(csv)
    with pytest.raises(AlreadyInstalled, match=r"1\.0\.0$"):
        install(cluster, release)
    assert len([request for request in server.requests if request.verb == "patch"]) == written


def test_objects_of_others_are_not_taken_over(cluster: Cluster, server: ApiServer, release: Release) -> None:
    for crd in release.definitions:
        server.put(crd)
    with pytest.raises(AlreadyInstalled, match=r"existing OLM resources .*CustomResourceDefinition .*operators.coreos"):
        install(cluster, release)
    assert "patch" not in {request.verb for request in server.requests}


def test_failed_installation_lists_its_objects_and_can_be_continued(
    cluster: Cluster, server: ApiServer, release: Release
) -> None:
    add_controllers(server)
    server.fail("patch", "deployments", status=422, message="Deployment.apps is invalid")
    with pytest.raises(ReleaseFailed, match=r"Deployment olm/olm-operator: Deployment.apps is invalid") as failure:
        install(cluster, release)
    created = next(line for line in failure.value.lines if line.startswith("created objects: "))
    assert "Namespace olm, " in created
    assert created.endswith("OLMConfig cluster")
    server.fail("patch", "deployments", status=422, message="Deployment.apps is invalid")
    with pytest.raises(ReleaseFailed, match=r"Deployment.apps is invalid") as failure:
        install(cluster, release)
    assert not [line for line in failure.value.lines if line.startswith("created objects: ")], "they existed before"
    assert install(cluster, release) == ["Installed"] * 11


def test_objects_without_fields_are_not_taken_over(cluster: Cluster, server: ApiServer, release: Release) -> None:
    (account,) = [each for each in release.others if each["kind"] == "ServiceAccount"]
    server.put({**account, "metadata": {**account["metadata"]}})
    assert "managedFields" not in server.get("ServiceAccount", "olm-operator", "olm")["metadata"]
    with pytest.raises(AlreadyInstalled, match="ServiceAccount olm/olm-operator"):
        install(cluster, release)
    assert "patch" not in {request.verb for request in server.requests}


def test_timeout_reports_why(cluster: Cluster, server: ApiServer, release: Release) -> None:
    add_controllers(server)
    server.store.reactions = [each for each in server.store.reactions if each[0] != "Deployment"]
    condition = {"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable"}

    def stall(deployment: dict[str, dict[str, str]]) -> None:
        labels = {"app": "olm-operator"}
        server.set_status("Deployment", "olm-operator", {"conditions": [condition]}, "olm")
        waiting = {"reason": "ImagePullBackOff", "message": "no such image"}
        status = {"containerStatuses": [{"name": "c", "state": {"waiting": waiting}}]}
        server.put({"kind": "Pod", "metadata": {"name": "p", "namespace": "olm", "labels": labels}, "status": status})

    server.react("Deployment", stall)
    with pytest.raises(ReleaseFailed, match=r"timed out after 0.3s: waited for Deployment olm-operator: ") as failure:
        install(cluster, release, 0.3)
    assert "MinimumReplicasUnavailable" in failure.value.message
    assert "ImagePullBackOff: no such image" in failure.value.message
    assert "uninstall_olm" in str(failure.value.hint)


def test_failed_package_server_is_final(cluster: Cluster, server: ApiServer, release: Release) -> None:
    add_controllers(server)
    server.store.reactions = [each for each in server.store.reactions if each[0] != "ClusterServiceVersion"]
    status = {"phase": "Failed", "reason": "InstallComponentFailed", "message": "no permission"}
    server.react(
        "ClusterServiceVersion", lambda _: server.set_status("ClusterServiceVersion", "packageserver", status, "olm")
    )
    with pytest.raises(ReleaseFailed, match="phase Failed: InstallComponentFailed: no permission"):
        install(cluster, release)


def test_missing_permission_names_the_object(cluster: Cluster, server: ApiServer, release: Release) -> None:
    server.deny("patch", "customresourcedefinitions")
    with pytest.raises(ReleaseFailed, match='cannot patch resource "customresourcedefinitions"') as failure:
        install(cluster, release)
    assert "ClusterRoleBinding" in str(failure.value.hint)


def test_subscriptions_that_are_removed_are_reported(cluster: Cluster, server: ApiServer, release: Release) -> None:
    add_controllers(server)
    install(cluster, release)
    definition = release.definitions[0]
    names = {"kind": "Subscription", "plural": "subscriptions"}
    server.put({**definition, "metadata": {"name": "s"}, "spec": {**definition["spec"], "names": names}})
    subscription = {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "Subscription",
        "metadata": {"name": "lagoon"},
    }
    server.put(subscription)
    reports: list[str] = []

    class Reporter(NullReporter):
        def finished(self, text: str) -> None:
            reports.append(text)

    uninstall_release(cluster, release, WaitDeadline(20), Reporter())
    assert reports[0] == "Subscription default/lagoon will be deleted with its CustomResourceDefinition"


def test_stuck_objects_are_listed(cluster: Cluster, server: ApiServer, release: Release) -> None:
    add_controllers(server)
    install(cluster, release)
    metadata = {"name": "stuck", "namespace": "olm", "finalizers": ["example.com/hold"]}
    server.put({"kind": "ConfigMap", "metadata": metadata})
    with pytest.raises(ReleaseFailed, match=r"timed out after 0.5s: waited for Namespace olm to be deleted") as failure:
        uninstall(cluster, release, 0.5)
    (remaining,) = failure.value.lines[1:]
    assert remaining.startswith("  Namespace olm: still exists: Some content in the namespace has finalizers remaining")
    assert "example.com/hold" in remaining


def test_states(cluster: Cluster, server: ApiServer, release: Release) -> None:
    add_controllers(server)
    install(cluster, release)
    server.set_status("Deployment", "olm-operator", {"observedGeneration": 1, "updatedReplicas": 1}, "olm")
    server.store.reactions.clear()
    server.set_status("Deployment", "olm-operator", {"observedGeneration": 1, "updatedReplicas": 1}, "olm")
    server.set_status("ClusterServiceVersion", "packageserver", {"phase": "Installing", "reason": "Waiting"}, "olm")
    server.remove("OperatorGroup", "olm-operators", "olm")
    states = {each.name: each for each in inspect(cluster, release)}
    assert states["olm-operator"].status != "Not found"
    deployment = next(each for each in states.values() if each.kind == "Deployment")
    assert deployment.status == "Installed, 0 of 1 replicas available"
    assert states["packageserver"].status == "Installed, phase Installing: Waiting"
    assert (states["olm-operators"].status, states["olm-operators"].exists) == ("Not found", False)
    assert not any(each.ready for each in (deployment, states["packageserver"], states["olm-operators"]))


def test_versions_of_the_cluster(cluster: Cluster, server: ApiServer, release: Release) -> None:
    with pytest.raises(OlmNotInstalled, match="not installed in namespace olm"):
        find_installed_version(cluster, "olm")
    add_controllers(server)
    install(cluster, release)
    with pytest.raises(OlmNotInstalled):
        find_installed_version(cluster, "default")
    old = {**release.others[-1], "metadata": {"name": "packageserver.v0.10.1", "namespace": "default"}}
    server.put(old)
    assert find_installed_version(cluster, "default") == "0.10.1"
    server.put({**old, "metadata": {"name": "packageserver", "namespace": "default"}})
    with pytest.raises(OlmError, match="more than one version of OLM"):
        find_installed_version(cluster, "default")


def test_objects_without_a_known_kind(cluster: Cluster, server: ApiServer, release: Release) -> None:
    add_controllers(server)
    unknown = {"apiVersion": "none.example.com/v1", "kind": "Nothing", "metadata": {"name": "x"}}
    with pytest.raises(ReleaseFailed, match=r"waited for the API of Nothing x"):
        install(cluster, replace(release, others=(*release.others, unknown)), 0.3)
