"""Documents of custom schemas in the cache of a file-based catalog, as messages."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import orjson

from opmkit.core.files import disk_errors
from opmkit.index.grpc_api import STRUCT, message_class
from opmkit.server.errors import InvalidQuery, QueryFailed
from opmkit.server.json_cache.layout import METAS, SCHEMA_NAME

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_STRUCT = message_class(STRUCT)
_SUFFIX = ".json"


def check_custom_schema(schema: str, package: str) -> None:
    """Raise InvalidQuery, with the messages of operator-registry, unless both are valid; a package may be empty."""
    if not schema:
        raise InvalidQuery("schema is required")
    for name, value in (("schema", schema), ("packageName", package)):
        if value and not SCHEMA_NAME.fullmatch(value):
            quoted = json.dumps(value, ensure_ascii=False)
            pattern = f"^{SCHEMA_NAME.pattern}$"
            raise InvalidQuery(f"invalid custom schema query: invalid {name} {quoted}: must match {pattern}")


def custom_schemas(content: Path) -> set[tuple[str, str]]:
    """Return the pairs of schema and package that have documents; the package is "" for those without one.

    Raises:
        DiskError: the cache cannot be read.
    """
    metas = content / METAS
    found: set[tuple[str, str]] = set()
    with disk_errors(metas):
        for schema in metas.iterdir() if metas.is_dir() else ():
            for entry in os.scandir(schema):
                found.add((schema.name, entry.name if entry.is_dir() else ""))
    return found


def custom_documents(content: Path, schema: str, package: str) -> Iterator[bytes]:
    """Yield a Struct for each document of a schema in a package, ordered as by operator-registry: by file name.

    Raises:
        QueryFailed: a document cannot be converted.
        DiskError: the cache cannot be read.
    """
    directory = content / METAS / schema / package
    with disk_errors(directory):
        paths = sorted(path for path in directory.iterdir() if path.suffix == _SUFFIX and path.is_file())
    for path in paths:
        with disk_errors(path):
            raw = path.read_bytes()
        message = _STRUCT()
        try:
            message.update(orjson.loads(raw))
        except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
            raise QueryFailed(
                f"schema {schema}: document {path.name}: not convertible to a message: {error}"
            ) from error
        serialized: bytes = message.SerializeToString(deterministic=True)
        yield serialized
