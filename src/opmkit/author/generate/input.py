"""Read the Kubernetes objects in files, directories and streams, with their locations for error messages."""

from __future__ import annotations

import math
from typing import IO, TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.bundle.directory import MAX_TOTAL_BYTES
from opmkit.bundle.errors import InvalidBundle
from opmkit.core.files import disk_errors
from opmkit.documents.content import Content
from opmkit.documents.document_stream import BOM, read_documents
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.fields import format_path
from opmkit.documents.go_yaml import MAX_DEPTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from opmkit.documents.document_stream import Document
    from opmkit.documents.fields import FieldPath
    from opmkit.documents.json_value import JsonValue

STDIN = "standard input"
SUFFIXES = (".yaml", ".yml", ".json")
"""Extensions of manifests in directories; other files are skipped."""
_LIST = "List"
_MAX_LISTS = 10


class InputDocument(Struct, frozen=True):
    """A document of a file or stream.

    Attributes:
        name: Path of the file, or the name of the stream.
        number: Position in the file, from 1.
        line: The line of its first separator or content, from 1.
        raw: The text of the document.
    """

    name: str
    number: int
    line: int
    raw: bytes

    def locate(self, path: FieldPath) -> str:
        """Return ``NAME:LINE:COLUMN`` of the value at a path."""
        line, column = Content.read(self.raw).locate(path)
        return f"{self.name}:{line + self.line - 1}:{column}" if line else f"{self.name}:{self.line}"


class InputObject(Struct, frozen=True):
    """A Kubernetes object of the input.

    Attributes:
        value: The object.
        document: The document that contains it.
        path: The path to it in the document; not empty in a ``List``.
    """

    value: dict[str, Any]
    document: InputDocument
    path: FieldPath = ()

    @property
    def kind(self) -> str:
        """The kind of the object."""
        return str(self.value["kind"])

    @property
    def group(self) -> str:
        """The API group of the object, or "" for the core group."""
        return self._api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """The version of the API."""
        return self._api_version.rpartition("/")[2]

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata, empty if there are none."""
        metadata = self.value.get("metadata")
        return metadata if isinstance(metadata, dict) else {}

    @property
    def name(self) -> str:
        """The name of the object, or "" if it has none."""
        return str(self.metadata.get("name") or "")

    @property
    def _api_version(self) -> str:
        return str(self.value.get("apiVersion") or "")

    def __str__(self) -> str:
        """Return kind and name."""
        return f"{self.kind} {self.name}".rstrip()

    def location(self, path: FieldPath = ()) -> str:
        """Return the file and the line of the object, or of the value at a path in it."""
        return self.document.locate((*self.path, *path))

    def error(self, problem: str, path: FieldPath = (), *, hint: str = "") -> InvalidBundle:
        """Return the error about the value at a path; ``problem`` is a predicate such as "is not a valid name"."""
        subject = f"{self}: {format_path(path)}" if path else str(self)
        return InvalidBundle(f"{self.location(path)}: {subject} {problem}", hint=hint)


def read_path(path: Path) -> Iterator[InputObject]:
    """Yield the objects in a file, or in the YAML and JSON files below a directory in the order of their paths.

    Raises:
        InvalidBundle: A file is invalid YAML or JSON, or the files are too large.
        DiskError: A file cannot be read.
    """
    if not path.is_dir():
        with disk_errors(path), path.open("rb") as stream:
            yield from read_stream(stream, str(path))
        return
    remaining = MAX_TOTAL_BYTES
    with disk_errors(path):
        files = sorted(file for file in path.rglob("*") if file.suffix in SUFFIXES and file.is_file())
    for file in files:
        with disk_errors(file), file.open("rb") as stream:
            raw = _read(stream, str(path), remaining)
        remaining -= len(raw)
        yield from _read_objects(raw, str(file), lenient=True)


def read_stream(stream: IO[bytes], name: str = STDIN) -> Iterator[InputObject]:
    """Yield the objects in a stream, which is called ``name`` in errors.

    Raises:
        InvalidBundle: A document is invalid YAML or JSON or not a Kubernetes object, or the stream is too large.
    """
    yield from _read_objects(_read(stream, name, MAX_TOTAL_BYTES), name)


def _read(stream: IO[bytes], name: str, limit: int) -> bytes:
    raw = stream.read(limit + 1)
    if len(raw) > limit:
        raise InvalidBundle(
            f"{name}: more than {MAX_TOTAL_BYTES} bytes", hint="pass only the manifests of the operator"
        )
    return raw


def _read_objects(raw: bytes, name: str, *, lenient: bool = False) -> Iterator[InputObject]:
    """Yield the objects in a file; if it is ``lenient``, skip documents without a kind, such as kustomizations."""
    raw = raw.removeprefix(BOM)
    for number, document in enumerate(read_documents(raw), 1):
        if isinstance(document, InvalidDocument):
            error = InvalidDocument(
                f"document {number}: {document.problem}", line=document.line, column=document.column
            )
            raise InvalidBundle(error.located(name), hint="correct the syntax of the document")
        source = _source(raw, name, number, document)
        value = document.value
        if isinstance(value, dict) and _is_object(value):
            item = InputObject(value, source)
            if path := _unsupported(value):
                problem = "is nested too deeply" if len(path) > MAX_DEPTH else "is not a finite number"
                raise item.error(problem, path[:1] if len(path) > MAX_DEPTH else path, hint="correct the object")
            yield from _expand(item)
        elif not lenient or (isinstance(value, dict) and "kind" in value):
            problem = "not a Kubernetes object: kind or apiVersion is missing or not a string"
            raise InvalidBundle(
                f"{name}:{document.line}: document {number}: {problem}", hint="pass only Kubernetes manifests"
            )


def _source(raw: bytes, name: str, number: int, document: Document) -> InputDocument:
    return InputDocument(name, number, raw.count(b"\n", 0, document.start) + 1, raw[document.start : document.end])


def _is_object(value: dict[str, Any]) -> bool:
    kind, api_version = value.get("kind"), value.get("apiVersion")
    return isinstance(kind, str) and isinstance(api_version, str) and bool(kind and api_version)


def _unsupported(value: JsonValue) -> FieldPath:
    """Return the path to an infinite number, to NaN, or to a value that is nested too deeply, () if there is none."""
    pending: list[tuple[FieldPath, JsonValue]] = [((), value)]
    while pending:
        path, item = pending.pop()
        if len(path) > MAX_DEPTH or (isinstance(item, float) and not math.isfinite(item)):
            return path
        if isinstance(item, dict | list):
            members: Iterable[tuple[str | int, JsonValue]] = item.items() if isinstance(item, dict) else enumerate(item)
            pending += [((*path, step), member) for step, member in members if isinstance(member, dict | list | float)]
    return ()


def _expand(item: InputObject, depth: int = 0) -> Iterator[InputObject]:
    """Yield the items of a ``List``, as kubectl prints it, or the object itself."""
    if item.kind != _LIST or item.group or depth == _MAX_LISTS:
        yield item
        return
    items = item.value.get("items")
    for number, value in enumerate(items if isinstance(items, list) else ()):
        path = (*item.path, "items", number)
        if not isinstance(value, dict) or not _is_object(value):
            raise item.error(
                "is not a Kubernetes object", path[len(item.path) :], hint="pass only Kubernetes manifests"
            )
        yield from _expand(InputObject(value, item.document, path), depth + 1)
