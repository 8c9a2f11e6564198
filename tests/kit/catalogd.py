"""Requests of the web API of catalogd, and the programs that build it without a cluster and record its responses.

``python -m tests.kit.catalogd build PROGRAM`` builds ``gocatalogd`` in a copy of the module operator-controller, which
takes a few minutes. ``python -m tests.kit.catalogd record PROGRAM`` writes ``fixtures/recorded/catalogd.json`` with it.
"""

from __future__ import annotations

import itertools
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import zlib
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate, parsedate_to_datetime
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.kit.opm import FIXTURES
from tests.kit.server import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MODULE = "github.com/operator-framework/operator-controller@v1.2.0"
SOURCES = Path(__file__).with_name("gocatalogd")
RECORD = FIXTURES / "recorded" / "catalogd.json"
CATALOG = "pools"
ALL, METAS = (f"/catalogs/{CATALOG}/api/v1/{endpoint}" for endpoint in ("all", "metas"))
DOCUMENTS: list[dict[str, Any]] = [
    {"schema": "olm.package", "name": "lagoon", "defaultChannel": "stable", "description": "pools <&> " * 400},
    {"schema": "olm.channel", "package": "lagoon", "name": "stable", "entries": [{"name": "lagoon.v1"}]},
    {
        "schema": "olm.bundle",
        "package": "lagoon",
        "name": "lagoon.v1",
        "image": "example.com/lagoon:1",
        "properties": [{"type": "olm.package", "value": {"packageName": "lagoon", "version": "1.0.0"}}],
    },
    {
        "schema": "acme.note",
        "z": [1, 1.50, 1e21, 1e-7, -0.0, True, None, {}],
        "a": "\u2028 \u00e9 \U0001f600",
        "name": "lagoon",
    },
]


class Call(NamedTuple):
    """A request; ``{modified}``, ``{before}`` and ``{after}`` in headers stand for times relative to Last-Modified."""

    method: str
    target: str
    headers: tuple[str, ...] = ()


_ENCODINGS = ("gzip", "gzip;q=0", "*", "GZIP", "br, gzip;q=0.5", "identity")
_TAGS = ("*", '"x"', 'W/"x", *', "junk", "junk, *", '"a b", *', ", *")
_DATES = (
    *("{modified}", "{before}", "{after}", "Sunday, 06-Nov-94 08:49:37 GMT", "Sunday, 06-Nov-44 08:49:37 GMT"),
    "Sun Nov  6 08:49:37 1994",
)
_RANGES = (
    *("bytes=0-9", "bytes=-5", "bytes=9-", "bytes=-0", "bytes=99999999-", "bytes=9-8", "bytes=0-99999999"),
    *("bytes= 1 - 2 ", "bytes=1-2,", "bytes=", "bytes=a-b", "bytes=1", "bytes=--5", "bytes=0-0,99999999-"),
    *("junk", "items=0-9"),
)
_CONDITIONS: tuple[tuple[str, ...], ...] = (
    (),
    *((f"Accept-Encoding: {value}",) for value in _ENCODINGS),
    *((f"If-None-Match: {value}",) for value in _TAGS),
    *((f"If-Match: {value}",) for value in ("*", '"x"', "junk, *", '"x", *', "")),
    *((f"If-Modified-Since: {value}",) for value in _DATES),
    *((f"If-Unmodified-Since: {value}",) for value in (*_DATES, "junk")),
    ('If-None-Match: "x"', "If-Modified-Since: {modified}"),
    ("If-Match: *", "If-Unmodified-Since: {before}"),
    *((f"Range: {value}",) for value in _RANGES),
    *(("Range: bytes=0-9", f"If-Range: {value}") for value in ("{modified}", "{before}", '"x"')),
    ("Range: bytes=0-9", "Accept-Encoding: gzip"),
    ("Range: bytes=0-9", "If-None-Match: *"),
    ("Accept-Encoding: gzip", "If-Modified-Since: {modified}"),
    ("Accept: text/html",),
)
_VERSION = f"/catalogs/{CATALOG}/api/v1"
_PATHS = (
    *("/", "/catalogs", "/catalogs/", f"/catalogs/{CATALOG}", f"{ALL}/", f"{METAS}/", "/catalogs//api/v1/all"),
    *(f"/{ALL}", "/catalogs/none/api/v1/all", "/catalogs/none/api/v1/metas", f"{_VERSION}/graphql"),
    *(f"/catalogs/{CATALOG}/api/v2/all", f"/catalogs/..{ALL}", f"/catalogs/./{CATALOG}/api?a=b&c", f"/none/..{ALL}/./"),
    *("/catalogs/po%6fls/api/v1/all", f"{_VERSION}/%61ll", f"{ALL}?x=1", f"{ALL}?%zz"),
)
_QUERIES = (
    *("x=1", "schema=olm.bundle&x=1", "Schema=olm.bundle", "schema", "schema=", "schema=&package=lagoon", "=", "=x"),
    *("x", "schema=olm.bundle&schema=olm.channel", "schema=none", "schema=olm.bundle&package=none", "package=lagoon"),
    *("name=lagoon", "name=stable", "package=", "schema=olm%2Ebundle", "schema=olm.bundle%zz", "%zz=1", "a%zz"),
    *("schema=olm+bundle", "schema=a;b", "schema=olm.bundle;name=x", "&&", "&schema=olm.bundle&", "schema=="),
    *("a%3Bb=1", "schema=%00", "name=lagoon&schema=olm.package", "package=lagoon&schema=olm.package"),
    *("schema=olm.bundle#f", "schema=%E2%82%AC", "schema=acme.note&name=lagoon", "%73chema=olm.bundle"),
)
_METHODS = ("POST", "PUT", "DELETE", "OPTIONS", "TRACE", "get")
CALLS = (
    *itertools.starmap(Call, product(("GET", "HEAD"), (ALL, METAS, f"{METAS}?schema=olm.bundle"), _CONDITIONS)),
    *itertools.starmap(Call, product(_METHODS, (ALL, METAS, "/"))),
    *itertools.starmap(Call, product(("GET", "HEAD"), _PATHS)),
    *(Call("GET", f"{METAS}?{query}") for query in _QUERIES),
)
"""Requests whose responses are those of catalogd."""
DIFFERENT = {
    Call("GET", ALL, ("Range: bytes=0-3,5-7",)): ("206 Partial Content", "200 OK"),
    Call("GET", METAS, ("If-Modified-Since: junk",)): ("500 Internal Server Error", "200 OK"),
    Call("GET", "/catalogs/Pools/api/v1/all"): ("404 Not Found", "400 Bad Request"),
    Call("GET", f"/catalogs/{CATALOG}%2f/api/v1/all"): ("200 OK", "404 Not Found"),
}
"""Requests with other responses than those of catalogd: its status, and ours."""
_IGNORED = frozenset({"Date", "Connection", "Content-Length", "Transfer-Encoding", "Etag", "Allow"})
"""Headers that depend on the time or on how a response is transferred, and those that only opmkit sends."""


def write_catalog(root: Path) -> Path:
    """Write the catalog to a new directory."""
    root.mkdir()
    (root / "catalog.json").write_text("\n".join(map(json.dumps, DOCUMENTS)))
    return root


@contextmanager
def serve_go(program: str, catalog: Path) -> Iterator[int]:
    """Run catalogd; return its port."""
    with subprocess.Popen([program, CATALOG, str(catalog)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            yield int(process.stdout.readline())
        finally:
            process.terminate()


@dataclass(frozen=True)
class Exchange:
    """The status, headers and decoded content of a response."""

    status: str
    headers: dict[str, list[str]]
    content: bytes


def exchange(port: int, call: Call) -> Exchange:
    """Send a request over a new connection, and read the response."""
    lines = [f"{call.method} {call.target} HTTP/1.1", "Host: localhost", "Connection: close", *call.headers]
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as connection:
        connection.sendall("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n")
        received = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    head, _, content = received.partition(b"\r\n\r\n")
    status, *fields = head.decode("latin-1").split("\r\n")
    headers: dict[str, list[str]] = {}
    for field in fields:
        name, _, value = field.partition(": ")
        headers.setdefault(name.title(), []).append(value)
    if headers.get("Transfer-Encoding") == ["chunked"]:
        content = _unchunk(content)
    elif "Content-Length" in headers and call.method != "HEAD":
        assert headers["Content-Length"] == [str(len(content))]
    if headers.get("Content-Encoding") == ["gzip"] and content:
        content = zlib.decompress(content, 16 + zlib.MAX_WBITS)
    return Exchange(status.partition(" ")[2], headers, content)


def _unchunk(content: bytes) -> bytes:
    pieces = []
    while content:
        size, _, content = content.partition(b"\r\n")
        pieces.append(content[: int(size, 16)])
        content = content[int(size, 16) + 2 :]
    return b"".join(pieces)


def responses(port: int, calls: Sequence[Call] = CALLS) -> list[dict[str, Any]]:
    """Return the comparable parts of the responses to all requests."""
    modified = exchange(port, Call("HEAD", ALL)).headers["Last-Modified"][0]
    seconds = parsedate_to_datetime(modified).timestamp()
    before, after = (formatdate(seconds + shift, usegmt=True) for shift in (-3600, 3600))
    times = {"{modified}": modified, "{before}": before, "{after}": after}
    found = []
    for call in calls:
        headers = tuple(_replace(header, times) for header in call.headers)
        response = exchange(port, call._replace(headers=headers))
        found.append({"request": [call.method, call.target, *call.headers], **_comparable(response, modified)})
    return found


def _replace(text: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def _comparable(response: Exchange, modified: str) -> dict[str, Any]:
    ignored = _IGNORED | ({"Content-Type"} if response.status.startswith("412") else set())
    headers = {
        name: ["{modified}" if value == modified else value for value in values]
        for name, values in sorted(response.headers.items())
        if name not in ignored
    }
    text = response.content.decode()
    content = text if len(text) < 200 else f"sha256:{sha256(response.content).hexdigest()}"
    return {"status": response.status, "headers": headers, "content": content}


def build(program: str) -> None:
    """Build the program in a copy of the module, whose packages are internal."""
    subprocess.run(["go", "mod", "download", MODULE], check=True, cwd=SOURCES.parent / "goclient")
    cache = subprocess.run(["go", "env", "GOMODCACHE"], check=True, capture_output=True, text=True).stdout.strip()
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory, "module")
        shutil.copytree(Path(cache, MODULE), copy, copy_function=shutil.copyfile)
        for path in (copy, *copy.rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        (copy / "cmd" / "reference").mkdir()
        shutil.copyfile(SOURCES / "main.go", copy / "cmd" / "reference" / "main.go")
        shutil.copyfile(SOURCES / "handler.go", copy / "internal" / "catalogd" / "serverutil" / "handler.go")
        subprocess.run(["go", "build", "-o", str(Path(program).resolve()), "./cmd/reference"], check=True, cwd=copy)


def record(program: str) -> None:
    """Record the responses of catalogd."""
    with tempfile.TemporaryDirectory() as directory, serve_go(program, write_catalog(Path(directory, "c"))) as port:
        recorded = responses(port)
    RECORD.write_text("[\n" + ",\n".join(json.dumps(each, sort_keys=True) for each in recorded) + "\n]\n")


if __name__ == "__main__":
    {"build": build, "record": record}[sys.argv[1]](sys.argv[2])
