"""Calls of the experimental service for custom schemas, and the program that records the responses of Go opm.

``python -m tests.kit.customschemas OPM`` writes ``fixtures/recorded/custom-schemas.json`` with Go opm 1.73.0.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.json_format import MessageToDict

from opmkit.index.grpc_api import (
    CUSTOM_SCHEMAS,
    EXPERIMENTAL_METHODS,
    EXPERIMENTAL_SERVICE,
    request_class,
    response_class,
)
from tests.kit.catalogs import free_port
from tests.kit.opm import FIXTURES
from tests.kit.server import Server, channel

if TYPE_CHECKING:
    from collections.abc import Sequence

RECORD = FIXTURES / "recorded" / "custom-schemas.json"
ACKNOWLEDGED = ("x-acknowledge-experimental", "true")
PATH = EXPERIMENTAL_METHODS[CUSTOM_SCHEMAS].path

_NOTE = {
    "schema": "acme.note",
    "package": "reef",
    "name": "types",
    "integer": 1,
    "large": 12345678901234567890,
    "fraction": 1.5,
    "tiny": 1e-9,
    "empty": {},
    "none": [],
    "nothing": None,
    "yes": True,
    "text": "<&> \u2028 \u00e9 \x01",
    "nested": {"list": [1, "2", None, {}, [[]], {"a": False}]},
}
DOCUMENTS: list[dict[str, Any]] = [
    {"schema": "olm.package", "name": "reef", "defaultChannel": "stable"},
    {"schema": "olm.channel", "package": "reef", "name": "stable", "entries": [{"name": "reef.v1"}]},
    {
        "schema": "olm.bundle",
        "package": "reef",
        "name": "reef.v1",
        "image": "quay.io/me/reef:1",
        "properties": [{"type": "olm.package", "value": {"packageName": "reef", "version": "1.0.0"}}],
    },
    {
        "schema": "olm.deprecations",
        "package": "reef",
        "entries": [{"reference": {"schema": "olm.package"}, "message": "Old."}],
    },
    _NOTE,
    {"schema": "acme.note", "package": "reef", "name": "second"},
    {"schema": "acme.note", "package": "tide", "name": "of a package without other documents"},
    {"schema": "acme.note", "name": "without a package"},
    {"schema": "acme-Global_1", "name": "g"},
]
"""A catalog with custom schemas; all names are those that operator-registry accepts."""


def write_catalog(root: Path, more: Sequence[dict[str, Any]] = ()) -> Path:
    """Write the sample catalog with further documents to a new directory."""
    root.mkdir()
    (root / "catalog.json").write_text("\n".join(map(json.dumps, [*DOCUMENTS, *more])))
    return root


CALLS: list[tuple[dict[str, str], list[tuple[str, str]]]] = [
    *(
        ({"schema": schema, "packageName": package}, [ACKNOWLEDGED])
        for schema in ("acme.note", "acme-Global_1", "acme.none", "olm.bundle", "olm.package", "olm.deprecations")
        for package in ("", "reef", "tide", "none")
    ),
    *(
        ({"schema": schema, "packageName": package}, [ACKNOWLEDGED])
        for schema, package in (
            ("", ""),
            ("", "reef"),
            ("acme/note", ""),
            ("..", ""),
            (".hidden", "reef"),
            ("acme note", ""),
            ("acme.note", "../.."),
            ("acme.note", "reef/"),
            ("acme.note\n", ""),
            ("-x", "-y"),
            ("\u00e9", ""),
        )
    ),
    *(
        ({"schema": "acme.note", "packageName": "reef"}, metadata)
        for metadata in (
            [],
            [(ACKNOWLEDGED[0], "True")],
            [(ACKNOWLEDGED[0], "")],
            [(ACKNOWLEDGED[0], "false"), ACKNOWLEDGED],
            [ACKNOWLEDGED, (ACKNOWLEDGED[0], "false")],
            [("x-other", "true")],
        )
    ),
    ({"schema": ""}, []),
]
"""Requests with the metadata of the call."""


def call(connection: grpc.Channel, request: dict[str, str], metadata: Sequence[tuple[str, str]]) -> Any:
    """Return the documents in the response, in a fixed order, or the status code and the message of the error."""
    method = connection.unary_stream(
        PATH,
        request_serializer=request_class(CUSTOM_SCHEMAS).SerializeToString,
        response_deserializer=response_class(CUSTOM_SCHEMAS).FromString,
    )
    try:
        messages = list(method(request_class(CUSTOM_SCHEMAS)(**request), metadata=tuple(metadata), timeout=60))
    except grpc.RpcError as error:
        return [error.code().name, error.details()]
    return sorted((MessageToDict(message) for message in messages), key=lambda each: json.dumps(each, sort_keys=True))


def call_raw(connection: grpc.Channel, path: str, request: bytes = b"") -> Any:
    """Return the number of messages in the response to any bytes, or the status code and the message of the error."""
    method = connection.unary_stream(path, request_serializer=bytes, response_deserializer=bytes)
    try:
        return len(list(method(request, metadata=(ACKNOWLEDGED,), timeout=60)))
    except grpc.RpcError as error:
        return [error.code().name, error.details()]


RAW = (
    (PATH, b"\xff"),
    (f"/{EXPERIMENTAL_SERVICE}/None", b""),
    ("/api.Registry/ExperimentalListPackageCustomSchemas", b""),
)
"""Paths with the bytes of a request."""


def responses(connection: grpc.Channel) -> list[dict[str, Any]]:
    """Return all calls with their responses."""
    return [
        {
            "request": request,
            "metadata": [list(pair) for pair in metadata],
            "response": call(connection, request, metadata),
        }
        for request, metadata in CALLS
    ]


def serve_go(opm: str, catalog: Path, *flags: str) -> Server:
    """Return a server of Go opm for a catalog."""
    argv = ("sh", "-c", 'exec "$@" 2>&1', "sh", opm, "serve", str(catalog), "--pprof-addr=", *flags)
    return Server(program=argv, port=free_port())


def main() -> None:
    """Record the responses of Go opm."""
    with tempfile.TemporaryDirectory() as directory:
        catalog = write_catalog(Path(directory, "catalog"))
        with serve_go(sys.argv[1], catalog) as server, channel(server.address) as connection:
            recorded = responses(connection)
    RECORD.write_text(json.dumps(recorded, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
