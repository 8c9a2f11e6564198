"""API servers that never end a list, and the passwords in the URLs of a kubeconfig."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING

import pytest

from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.installed import InstalledOpm

PLAN = ("index", "plan", "new=./catalog", "--kubeconfig", "config")


def configure(newcomer: InstalledOpm, **cluster: str) -> None:
    """Write a kubeconfig with a cluster."""
    content = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "current-context": "c",
    }
    (newcomer.directory / "config").write_text(json.dumps(content))


class Endless(QuietHandler):
    """An API server with empty pages of a list without an end, each with another token, or all with the same one."""

    tokens: Iterator[str]
    requests: int

    def do_GET(self) -> None:  # noqa: N802 (http.server names it)
        type(self).requests += 1
        metadata = {"resourceVersion": "1", "continue": next(self.tokens)}
        self.answer(200, json.dumps({"items": [], "metadata": metadata}).encode())


@pytest.mark.parametrize(
    ("tokens", "problem", "requests"),
    [
        (map(str, itertools.count()), "has more than 4000 pages", 4000),
        (itertools.repeat("a"), "continues with an earlier page", 2),
        (itertools.cycle("ab"), "continues with an earlier page", 3),
    ],
    ids=["other tokens", "same token", "two tokens"],
)
def test_endless_list_is_an_error(newcomer: InstalledOpm, tokens: Iterator[str], problem: str, requests: int) -> None:
    server_class = type("Server", (Endless,), {"tokens": tokens, "requests": 0})
    with WebServer(server_class) as server:
        configure(newcomer, server=f"http://{server.host}")
        done = newcomer.attempt(*PLAN)
    assert done.returncode == 1
    assert f"invalid response from the API server http://{server.host}: list of " in done.stderr
    assert problem in done.stderr
    assert server_class.requests == requests  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ({"items": [1], "metadata": {}}, "with an item that is not an object"),
        ({"items": "a", "metadata": {}}, "with an item that is not an object"),
        ({"items": []}, "without metadata"),
        ({"items": None, "metadata": {"resourceVersion": "1"}}, ""),
    ],
)
def test_invalid_lists(newcomer: InstalledOpm, page: dict[str, object], problem: str) -> None:
    class Server(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 (http.server names it)
            self.answer(200, json.dumps(page).encode())

    with WebServer(Server) as server:
        configure(newcomer, server=f"http://{server.host}")
        done = newcomer.attempt(*PLAN)
    assert ("invalid response from the API server" in done.stderr) == bool(problem)
    assert problem in done.stderr


@pytest.mark.parametrize(
    "cluster",
    [
        {"server": "http:/bob:hunter2@127.0.0.1:1"},
        {"server": "http://bob:hunter2@127.0.0.1:1"},
        {"server": "https://hunter2@127.0.0.1:1/path"},
        {"server": "http://bob:hun@ter2@127.0.0.1:1"},
        {"server": "http://127.0.0.1:1", "proxy-url": "http://bob:hunter2@127.0.0.1:1"},
        {"server": "http://127.0.0.1:1", "proxy-url": "socks5://bob:hunter2@127.0.0.1:1"},
    ],
    ids=["one slash", "password", "token", "two signs", "proxy", "unsupported proxy"],
)
def test_passwords_in_urls_are_not_printed(newcomer: InstalledOpm, cluster: dict[str, str]) -> None:
    configure(newcomer, **cluster)
    for flags in ((), ("--debug",), ("--output", "json")):
        done = newcomer.attempt(*PLAN, *flags)
        assert done.returncode == 1
        assert "127.0.0.1:1" in done.stdout + done.stderr
        assert "ter2" not in done.stdout + done.stderr
        assert "bob" not in done.stdout + done.stderr


def test_password_of_a_web_url_is_not_printed(newcomer: InstalledOpm) -> None:
    url = "http://bob:hunter2@127.0.0.1:1/catalogs.yaml"
    done = newcomer.attempt("alpha", "render-template", "composite", "-f", url, "-c", "/dev/null")
    assert done.returncode == 1
    assert "http://127.0.0.1:1/catalogs.yaml" in done.stderr
    assert "bob" not in done.stderr
