"""Servers that send too much, too little or something else."""

from __future__ import annotations

import gzip
import json
import time
from typing import TYPE_CHECKING

import pytest

from opmkit.kube import Cluster, ClusterError, cluster, transport
from opmkit.kube.api import CONFIG_MAP
from tests.kit.forwardproxy import ForwardProxy
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.apiserver import ApiServer

JSON = {"Content-Type": "application/json"}
EMPTY_LIST = b'{"items": [], "metadata": {"resourceVersion": "1"}}'


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "BACKOFF", 0.001)
    monkeypatch.setattr(cluster, "PAUSE", 0.01)


def handler(reply: Callable[[QuietHandler], None]) -> type[QuietHandler]:
    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 (http.server names it)
            reply(self)

    return Handler


def connect(web: WebServer, tmp_path: Path) -> Cluster:
    path = tmp_path / "config"
    cluster = {"name": "c", "cluster": {"server": f"http://{web.host}"}}
    content = {"clusters": [cluster], "contexts": [{"name": "c", "context": {"cluster": "c"}}], "current-context": "c"}
    path.write_text(json.dumps(content))
    return Cluster.connect(str(path))


def test_large_responses_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_MAX_OBJECT", 1000)
    sent: list[int] = []

    def flood(request: QuietHandler) -> None:
        request.send_response(200)
        request.end_headers()
        request.close_connection = True
        sent.extend(request.wfile.write(b" " * 100_000) for _ in range(10_000))

    with WebServer(handler(flood)) as web, pytest.raises(ClusterError, match="larger than 1000 bytes"):
        connect(web, tmp_path).get(CONFIG_MAP, "a")
    assert sum(sent) < 100_000_000


def test_large_errors_are_cut(tmp_path: Path) -> None:
    body = json.dumps({"kind": "Status", "message": "x" * 2_000_000, "details": {"name": "a"}}).encode()
    with (
        WebServer(handler(lambda request: request.answer(404, body, JSON))) as web,
        pytest.raises(ClusterError, match="does not have the resource") as failure,
    ):
        connect(web, tmp_path).get(CONFIG_MAP, "a")
    assert len(failure.value.message) < 5000


def test_compressed_responses_are_refused(tmp_path: Path) -> None:
    headers = {**JSON, "Content-Encoding": "gzip"}
    with (
        WebServer(handler(lambda request: request.answer(200, gzip.compress(bytes(10_000)), headers))) as web,
        pytest.raises(ClusterError, match="unexpected content encoding"),
    ):
        connect(web, tmp_path).get(CONFIG_MAP, "a")


def test_endless_events_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_MAX_OBJECT", 1000)

    def flood(request: QuietHandler) -> None:
        if "watch=true" not in request.path:
            request.answer(200, EMPTY_LIST, JSON)
            return
        request.send_response(200)
        request.end_headers()
        request.close_connection = True
        request.wfile.write(b"x" * 5000)

    with WebServer(handler(flood)) as web:
        cluster = connect(web, tmp_path)
        assert list(cluster.watch(CONFIG_MAP, deadline=time.monotonic() + 0.2)) == []


@pytest.mark.parametrize(
    "event", [b"{}", b"[]", b"x", b'{"type": "ADDED", "object": 1}', b'{"type": "ERROR", "object": {"code": "x"}}']
)
def test_invalid_events_end_the_watch_at_its_deadline(event: bytes, tmp_path: Path) -> None:
    def reply(request: QuietHandler) -> None:
        request.answer(200, event + b"\n" if "watch=true" in request.path else EMPTY_LIST, JSON)

    with WebServer(handler(reply)) as web:
        assert list(connect(web, tmp_path).watch(CONFIG_MAP, deadline=time.monotonic() + 0.1)) == []


def test_credentials_are_not_sent_without_tls(server: ApiServer, tmp_path: Path) -> None:
    seen: list[str | None] = []

    def reply(request: QuietHandler) -> None:
        seen.append(request.headers.get("Authorization"))
        request.answer(401)

    with WebServer(handler(reply)) as web:
        path = server.kubeconfig(tmp_path / "config", server=f"http://{web.host}")
        with pytest.raises(ClusterError, match="responded 401"):
            Cluster.connect(str(path)).get(CONFIG_MAP, "a")
    assert seen == [None]


@pytest.mark.parametrize("status", [301, 302, 307])
def test_redirects_are_not_followed(status: int, tmp_path: Path) -> None:
    with (
        WebServer(handler(lambda request: request.answer(status, headers={"Location": "http://127.0.0.1:1/"}))) as web,
        pytest.raises(ClusterError, match=f"the API server responded {status}"),
    ):
        connect(web, tmp_path).get(CONFIG_MAP, "a")


@pytest.mark.parametrize(
    "body",
    [
        *(b"[]", b"{}", b'{"items": 1}', b'{"items": [1]}', b'{"items": [{"metadata": 1}]}'),
        b'{"items": [], "metadata": 1}',
    ],
)
def test_lists_with_other_content(body: bytes, tmp_path: Path) -> None:
    with (
        WebServer(handler(lambda request: request.answer(200, body, JSON))) as web,
        pytest.raises(ClusterError, match="invalid response"),
    ):
        connect(web, tmp_path).list(CONFIG_MAP)


def proxied(proxy: ForwardProxy) -> list[str]:
    return [host for _, host in proxy.seen]


def test_proxy_of_the_kubeconfig_and_of_the_environment(
    server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.put_config_map("olm", "a")
    with ForwardProxy() as proxy:
        named = server.kubeconfig(tmp_path / "named", **{"proxy-url": f"http://{proxy.host}"})
        assert Cluster.connect(str(named)).get(CONFIG_MAP, "a", "olm")
        plain = server.kubeconfig(tmp_path / "plain")
        assert proxied(proxy) == [server.host]
        monkeypatch.setenv("HTTPS_PROXY", f"http://{proxy.host}")
        assert Cluster.connect(str(plain)).get(CONFIG_MAP, "a", "olm")
        assert proxied(proxy) == [server.host] * 2
        monkeypatch.setenv("NO_PROXY", "127.0.0.0/8")
        assert Cluster.connect(str(plain)).get(CONFIG_MAP, "a", "olm")
        assert proxied(proxy) == [server.host] * 2
    monkeypatch.delenv("NO_PROXY")
    with pytest.raises(ClusterError, match=r"through the proxy http://127.0.0.1:\d+: ") as failure:
        Cluster.connect(str(plain)).get(CONFIG_MAP, "a", "olm")
    assert "proxy" in str(failure.value.hint)
    unsupported = server.kubeconfig(tmp_path / "socks", **{"proxy-url": "socks5://127.0.0.1:1"})
    with pytest.raises(ClusterError, match="unsupported or invalid URL"):
        Cluster.connect(str(unsupported)).get(CONFIG_MAP, "a", "olm")


def test_name_in_the_certificate(server: ApiServer, tmp_path: Path) -> None:
    server.put_config_map("olm", "a")
    named = server.kubeconfig(tmp_path / "named", **{"tls-server-name": "registry.test"})
    assert Cluster.connect(str(named)).get(CONFIG_MAP, "a", "olm")
    other = server.kubeconfig(tmp_path / "other", **{"tls-server-name": "other.test"})
    with pytest.raises(ClusterError, match="certificate verify failed") as failure:
        Cluster.connect(str(other)).get(CONFIG_MAP, "a", "olm")
    assert "certificate" in str(failure.value.hint)
