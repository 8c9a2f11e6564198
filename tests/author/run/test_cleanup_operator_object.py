"""The Operator object of OLM is removed when nothing creates it again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kit.reports import NO_REPORTS

from opmkit.author.run import cleanup
from opmkit.author.run.cleanup import remove_operator_object
from opmkit.author.run.session import WaitDeadline

if TYPE_CHECKING:
    from tests.kit.apiserver import ApiServer

    from opmkit.kube import Cluster


def put_operator(server: ApiServer, *components: str) -> None:
    refs = [{"kind": "CustomResourceDefinition", "name": name} for name in components]
    server.put({"kind": "Operator", "metadata": {"name": "demo.ns"}, "status": {"components": {"refs": refs}}})


def remove(cluster: Cluster, *retained: str) -> str:
    return remove_operator_object(cluster, "demo", "ns", retained, WaitDeadline(60), NO_REPORTS)


def test_object_is_deleted_after_its_components(server: ApiServer, cluster: Cluster) -> None:
    put_operator(server, "demos.example.com")
    requests = 0

    class Reporter:
        def finished(self, text: str) -> None: ...

        def waiting(self, text: str) -> None:
            nonlocal requests
            assert text.endswith("are gone: CustomResourceDefinition demos.example.com")
            requests += 1
            if requests == 3:
                put_operator(server)

    assert remove_operator_object(cluster, "demo", "ns", (), WaitDeadline(60), Reporter()) == "demo.ns"
    assert server.objects("Operator") == []
    assert remove(cluster) == ""


def test_object_of_retained_components_is_not_deleted(server: ApiServer, cluster: Cluster) -> None:
    put_operator(server, "demos.example.com")
    assert remove(cluster, "demos.example.com") == ""
    assert server.objects("Operator")


def test_outdated_list_of_components_does_not_prevent_the_deletion(
    server: ApiServer, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleanup, "MAX_WAIT", 0.05)
    put_operator(server, "demos.example.com")
    assert remove(cluster) == "demo.ns"


@pytest.mark.parametrize("verb", ["get", "delete"])
def test_missing_permission_is_ignored(verb: str, server: ApiServer, cluster: Cluster) -> None:
    put_operator(server)
    server.deny(verb, "operators")
    assert remove(cluster) == ""
