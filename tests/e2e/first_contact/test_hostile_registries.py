"""Registries that send endless responses, or report success without storing content."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.opm import LAGOON
from tests.kit.rawserver import RawServer, endless
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from tests.kit.installed import InstalledOpm

BUILD = ("bundle", "build", "-d", str(LAGOON / "0.1.0" / "manifests"), "-p", "lagoon-operator", "-c", "alpha", "--push")


class Forgetful(QuietHandler):
    """A registry that reports every blob as present and accepts every manifest, but stores none."""

    def do_HEAD(self) -> None:  # noqa: N802 (http.server names it)
        self.answer(200 if "/blobs/" in self.path else 404)

    def do_PUT(self) -> None:  # noqa: N802
        self.request_body()
        self.answer(201)


@pytest.mark.parametrize(
    ("piece", "start"),
    [(b"HTTP/1.1 100 Continue\r\n\r\n", b""), (b"X: %s\r\n" % (b"a" * 60_000), b"HTTP/1.1 200 OK\r\n")],
    ids=["continue", "header"],
)
def test_endless_response_is_an_error(newcomer: InstalledOpm, piece: bytes, start: bytes) -> None:
    with RawServer(lambda _: endless(piece, start)) as server:
        done = newcomer.attempt("image", "inspect", f"{server.host}/team/app:1", "--use-http")
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {server.host}/team/app:1: invalid response from {server.host}: ")
    assert "hint: " in done.stderr


def test_header_beyond_the_limit_is_an_error_though_it_ends(newcomer: InstalledOpm) -> None:
    header = b"HTTP/1.1 200 OK\r\nX: %s\r\nContent-Length: 0\r\n\r\n" % (b"a" * 300_000)
    with RawServer(lambda _: [header]) as server:
        done = newcomer.attempt("image", "inspect", f"{server.host}/team/app:1", "--use-http")
    assert done.returncode == 1
    assert "the response header exceeds 262144 bytes" in done.stderr


def test_push_that_the_registry_does_not_store_is_an_error(newcomer: InstalledOpm) -> None:
    with WebServer(Forgetful) as server:
        done = newcomer.attempt(*BUILD, "--tag", f"{server.host}/team/app:1", "--use-http")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "the registry accepted the manifest sha256:" in done.stderr
    assert "but did not store it" in done.stderr
