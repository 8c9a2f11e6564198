"""Servers that send too much, too little or something else."""

from __future__ import annotations

import gzip
import json
import ssl
import threading
import time
from typing import TYPE_CHECKING

import pytest

from opmkit.kube import Cluster, ClusterError, api, cluster, transport
from opmkit.kube.api import CONFIG_MAP
from opmkit.kube.connection import ClusterConnection, Server, User
from tests.kit.certificates import certificate_authority, server_certificate
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


@pytest.mark.parametrize("pages", [1, 3])
def test_list_with_many_small_values_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pages: int) -> None:
    """Values that take much more memory than bytes, in one page or in several."""
    monkeypatch.setattr(api, "_MAX_VALUES", 1000)
    requests: list[str] = []

    def page(request: QuietHandler) -> None:
        requests.append(request.path)
        more = {"continue": str(len(requests))} if len(requests) < pages else {}
        items = [{"metadata": {"name": "a"}, "data": {str(n): "" for n in range(1200 // pages)}}]
        request.answer(200, json.dumps({"metadata": more, "items": items}).encode(), JSON)

    with WebServer(handler(page)) as web, pytest.raises(ClusterError, match="more than 1000 values"):
        connect(web, tmp_path).list(CONFIG_MAP)
    assert len(requests) == pages


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


def test_slow_responses_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_RESPONSE_DEADLINE", 0.2)

    def drip(request: QuietHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "1000")
        request.end_headers()
        for _ in range(1000):
            request.wfile.write(b" ")
            time.sleep(0.01)

    with WebServer(handler(drip)) as web, pytest.raises(ClusterError, match=r"invalid response .*: incomplete after"):
        connect(web, tmp_path).get(CONFIG_MAP, "a")


def test_broken_responses_are_requested_again(tmp_path: Path) -> None:
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    seen: list[str] = []

    def reply(request: QuietHandler) -> None:
        seen.append(request.path)
        request.close_connection = True
        if len(seen) == 2:
            request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{")
        elif len(seen) == 3:
            request.wfile.write(b"hello\r\n\r\n")
        elif len(seen) == 4:
            request.answer(200, json.dumps(config_map).encode(), JSON)

    with WebServer(handler(reply)) as web:
        assert connect(web, tmp_path).get(CONFIG_MAP, "a") == config_map
        assert len(seen) == 4
        seen[:] = []
        web_down = connect(web, tmp_path)
    with pytest.raises(ClusterError, match=r"cannot reach the API server http://127.0.0.1:\d+: .*refused"):
        web_down.get(CONFIG_MAP, "a")
    assert seen == []


def watched(events: Callable[[QuietHandler], object]) -> type[QuietHandler]:
    """Return a handler whose lists are empty, and whose watches are responses without a length."""

    def reply(request: QuietHandler) -> None:
        if "watch=true" not in request.path:
            request.answer(200, EMPTY_LIST, JSON)
            return
        request.send_response(200)
        request.end_headers()
        request.close_connection = True
        events(request)

    return handler(reply)


def test_watch_that_the_server_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_WATCH_GRACE", 1.0)
    is_closed = threading.Event()

    def send_bookmarks(request: QuietHandler) -> None:
        try:
            for _ in range(1000):
                request.wfile.write(b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1"}}}\n')
                time.sleep(0.01)
        except ConnectionError:
            is_closed.set()

    with WebServer(watched(send_bookmarks)) as web:
        sender = transport.ClusterTransport(ClusterConnection(Server(f"http://{web.host}"), User()))
        assert list(sender.watch("/api/v1/configmaps", {"watch": "true"}, 0))
        assert is_closed.wait(10)


def test_endless_events_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "_MAX_OBJECT", 1000)
    with WebServer(watched(lambda request: request.wfile.write(b"x" * 5000))) as web:
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
        # This machine is never reached through the proxy of the environment, such as a cluster of kind
        assert Cluster.connect(str(plain)).get(CONFIG_MAP, "a", "olm")
        assert proxied(proxy) == [server.host]
        proxy.routes["api.test:443"] = server.host
        remote = server.kubeconfig(tmp_path / "remote", server="https://api.test", **{"tls-server-name": "127.0.0.1"})
        assert Cluster.connect(str(remote)).get(CONFIG_MAP, "a", "olm")
        assert proxied(proxy) == [server.host, "api.test:443"]
    with pytest.raises(ClusterError, match=r"through the proxy http://127.0.0.1:\d+ \(HTTPS_PROXY\): ") as failure:
        Cluster.connect(str(remote)).get(CONFIG_MAP, "a", "olm")
    assert "HTTPS_PROXY" in str(failure.value.hint)
    unsupported = server.kubeconfig(tmp_path / "socks", **{"proxy-url": "socks5://127.0.0.1:1"})
    with pytest.raises(ClusterError, match=r"proxy socks5://127.0.0.1:1 \(proxy-url .*unsupported kind of proxy"):
        Cluster.connect(str(unsupported)).get(CONFIG_MAP, "a", "olm")


def test_proxy_with_tls_and_a_password(server: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server.put_config_map("olm", "a")
    authority = certificate_authority(tmp_path)
    certificate = server_certificate(tmp_path, authority)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate.certificate, certificate.key)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.certificate))
    with ForwardProxy(login="ann:secret", context=context) as proxy:
        through = server.kubeconfig(tmp_path / "through", **{"proxy-url": f"https://ann:secret@{proxy.host}"})
        assert Cluster.connect(str(through)).get(CONFIG_MAP, "a", "olm")
        assert proxied(proxy) == [server.host]
        refused = server.kubeconfig(tmp_path / "refused", **{"proxy-url": f"https://ann:wrong@{proxy.host}"})
        with pytest.raises(ClusterError, match=r"through the proxy https://127.0.0.1:\d+ .* 407") as failure:
            Cluster.connect(str(refused)).get(CONFIG_MAP, "a", "olm")
        assert "wrong" not in failure.value.message


def test_name_in_the_certificate(server: ApiServer, tmp_path: Path) -> None:
    server.put_config_map("olm", "a")
    named = server.kubeconfig(tmp_path / "named", **{"tls-server-name": "registry.test"})
    assert Cluster.connect(str(named)).get(CONFIG_MAP, "a", "olm")
    other = server.kubeconfig(tmp_path / "other", **{"tls-server-name": "other.test"})
    with pytest.raises(ClusterError, match="certificate verify failed") as failure:
        Cluster.connect(str(other)).get(CONFIG_MAP, "a", "olm")
    assert "certificate" in str(failure.value.hint)
