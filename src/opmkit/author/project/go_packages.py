"""Load the Go packages of a directory tree, as the go command selects their files."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.author.project.go_source import parse_go
from opmkit.author.project.markers import GROUP_MARKER, SKIP_MARKER, VERSION_MARKER
from opmkit.bundle.errors import InvalidProject
from opmkit.core.files import disk_errors, read_limited
from opmkit.documents.document import MAX_BYTES
from opmkit.documents.errors import InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.author.project.go_source import GoFile, GoType, TypeName


_MODULE = re.compile(rb'^module[ \t]+"?([^\s"]+)', re.MULTILINE)
_OTHER_FILE = re.compile(
    r".+_(?:test|android|darwin|freebsd|js|netbsd|openbsd|windows|386|arm|arm64|ppc64le|s390x|wasm)"
)
"""Tests, and files for another platform than linux/amd64."""
_IGNORED = ("testdata", "vendor")


@dataclass(frozen=True)
class GoPackage:
    """A package: its import path, group and version of its API ("" for other packages), and its files by path."""

    path: str
    name: str
    files: dict[Path, GoFile]
    types: dict[str, tuple[Path, GoType]] = field(default_factory=dict)
    group: str = ""
    version: str = ""

    def import_path(self, file: Path, name: TypeName, packages: Mapping[str, GoPackage]) -> str:
        """Return the import path of the package of a type in ``file``, or "" if it is unknown.

        As in operator-sdk, imports of another file of the package are considered if they are unambiguous.
        """
        if not name.package:
            return self.path
        imports = [
            (importer, path)
            for importer, content in self.files.items()
            for alias, path in content.imports
            if (alias or (packages[path].name if path in packages else "")) == name.package
        ]
        if len(imports) == 1:
            return imports[0][1]
        return next((path for importer, path in imports if importer == file), "")


def load_packages(root: Path) -> dict[str, GoPackage]:
    """Return the packages in a directory and below by import path.

    Raises:
        InvalidProject: A file is not valid Go, or has an invalid marker; the message contains the line.
        DiskError: A file cannot be read.
    """
    packages: dict[str, GoPackage] = {}
    with disk_errors(root):
        for directory, names, file_names in os.walk(root):
            names[:] = sorted(name for name in names if not name.startswith((".", "_")) and name not in _IGNORED)
            sources = [Path(directory) / name for name in sorted(file_names) if _is_source(name)]
            paths = [path for path in sources if path.is_file()]  # not a pipe
            files = {path: file for path in paths if (file := _read(path)) and is_satisfied(file.constraint)}
            if files:
                package = _package(_import_path(Path(directory)), files)
                packages[package.path] = package
    return packages


def _is_source(name: str) -> bool:
    stem, dot, extension = name.rpartition(".")
    return dot + extension == ".go" and not name.startswith((".", "_")) and not _OTHER_FILE.fullmatch(stem)


def _read(path: Path) -> GoFile:
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise InvalidProject(f"{path}: exceeds the limit of {MAX_BYTES} bytes per file")
    try:
        return parse_go(content)
    except InvalidDocument as error:
        raise InvalidProject(
            error.located(str(path)),
            hint="correct the file; put values of markers with a comma, colon or brace in quotes",
        ) from error


def _package(path: str, files: dict[Path, GoFile]) -> GoPackage:
    markers = [marker for file in files.values() for marker in file.markers]
    values = {marker.name: marker.values.get("", "") for marker in reversed(markers)}
    name = next(iter(files.values())).package
    if SKIP_MARKER in values:
        return GoPackage(path, name, files)
    types = {declared.name: (source, declared) for source, file in files.items() for declared in file.types}
    group = values.get(GROUP_MARKER, "")
    return GoPackage(path, name, files, types, group, values.get(VERSION_MARKER, name) if group else "")


def _import_path(directory: Path) -> str:
    """Return the import path of a directory by the nearest go.mod, or its path if there is none."""
    resolved = directory.resolve()
    for parent in (resolved, *resolved.parents):
        module = parent / "go.mod"
        if module.is_file():
            match = _MODULE.search(read_limited(module))
            name = match.group(1).decode(errors="replace") if match else ""
            return "/".join(filter(None, (name, *resolved.relative_to(parent).parts)))
    return resolved.as_posix()


_SATISFIED = re.compile(r"linux|amd64|unix|gc|cgo|go1(?:\.\d+)?")
_TOKEN = re.compile(r"&&|\|\||[!()]|[\w.]+|\S")
_MAX_TOKENS = 200
_END = ""


def is_satisfied(constraint: str) -> bool:
    """Return whether a build constraint is satisfied on linux/amd64 without further tags; invalid ones are not.

    >>> is_satisfied("!ignore_autogenerated && (linux || darwin)"), is_satisfied("ignore")
    (True, False)
    """
    tokens = _TOKEN.findall(constraint)
    if not tokens or len(tokens) > _MAX_TOKENS:
        return not tokens
    expression = _Expression([*tokens, _END])
    try:
        return expression.disjunction() and expression.is_complete
    except ValueError:
        return False


class _Expression:
    """Recursive-descent evaluation of the tokens of an expression; ValueError if it is invalid."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens[::-1]

    @property
    def is_complete(self) -> bool:
        return self._tokens == [_END]

    def disjunction(self) -> bool:
        value = self._conjunction()
        while self._accept("||"):
            value = self._conjunction() or value
        return value

    def _conjunction(self) -> bool:
        value = self._negation()
        while self._accept("&&"):
            value = self._negation() and value
        return value

    def _negation(self) -> bool:
        if self._accept("!"):
            return not self._negation()
        if self._accept("("):
            value = self.disjunction()
            if not self._accept(")"):
                raise ValueError("missing parenthesis")
            return value
        tag = self._tokens.pop()
        if not tag or not (tag[0].isalnum() or tag[0] == "_"):
            raise ValueError("missing tag")
        return bool(_SATISFIED.fullmatch(tag))

    def _accept(self, token: str) -> bool:
        if self._tokens[-1:] != [token]:
            return False
        self._tokens.pop()
        return True
