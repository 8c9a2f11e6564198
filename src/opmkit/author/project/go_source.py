"""Load and parse the Go packages of a project: types with their documentation and markers."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.author.project.markers import (
    FIELD_MARKERS,
    GROUP_MARKER,
    PACKAGE_MARKERS,
    SKIP_MARKER,
    TYPE_MARKERS,
    VERSION_MARKER,
    Marker,
    parse_marker,
)
from opmkit.bundle.errors import InvalidProject
from opmkit.core.files import disk_errors, read_limited
from opmkit.documents import MAX_BYTES
from opmkit.documents.errors import InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from tree_sitter import Node, Parser

    from opmkit.author.project.markers import Definition


_TAG = re.compile(r'\s*([^\s":]+):"((?:\\.|[^"\\])*)"')
_CONSTRAINT = "//go:build "
_OLD_CONSTRAINT = "// +build "
"""Constraint before Go 1.17: the options of a line are alternatives, and commas separate the terms of an option."""
_UNUSED = ("function_declaration", "method_declaration", "var_declaration", "const_declaration")
_REFERENCES = ("type_identifier", "qualified_type")


class TypeName(Struct, frozen=True):
    """A reference to a type; ``package`` is the local name of an import, or "" for a type of the same package."""

    name: str
    package: str = ""


class GoField(Struct, frozen=True):
    """A field of a struct.

    Attributes:
        name: Its name, or "" if it is embedded.
        doc: Its documentation.
        markers: Its markers.
        tags: The struct tag by key, such as ``json``.
        references: Types in the type of the field.
        is_list: Whether the type is a slice or an array.
    """

    name: str
    doc: str
    markers: tuple[Marker, ...]
    tags: dict[str, str]
    references: tuple[TypeName, ...]
    is_list: bool


class GoType(Struct, frozen=True):
    """A type declaration; only structs have fields."""

    name: str
    doc: str
    markers: tuple[Marker, ...]
    fields: tuple[GoField, ...]


class GoFile(Struct, frozen=True):
    """The declarations of a file.

    Attributes:
        package: Name in the package clause.
        imports: Local names and paths of its imports; the name is "" if it is that of the imported package.
        types: Type declarations at the top level.
        markers: Markers of the package.
        constraint: The build constraint in the syntax of ``//go:build``; "" if there is none.
    """

    package: str
    imports: tuple[tuple[str, str], ...]
    types: tuple[GoType, ...]
    markers: tuple[Marker, ...]
    constraint: str = ""


def parse_go(source: bytes) -> GoFile:
    """Parse a Go file.

    Raises:
        InvalidDocument: A marker or a type is invalid; the error names the line.
    """
    root = _parser().parse(source).root_node
    _raise_syntax_error(root)
    package = ""
    imports: list[tuple[str, str]] = []
    types: list[GoType] = []
    free: list[CommentGroup] = []
    constraint = ""
    for node, groups, doc in _with_comments(root, source):
        belongs_to_package = not doc or node is None or node.type == "package_clause"
        free += groups if belongs_to_package else groups[:-1]
        if node is None:
            continue
        if node.type == "package_clause":
            package = _text(node.named_children[0])
            constraint = _constraint(groups)
        elif node.type == "import_declaration":
            imports += _imports(node)
        elif node.type == "type_declaration":
            types += _types(node, groups, doc, source)
    return GoFile(package, tuple(imports), tuple(types), _markers(free, PACKAGE_MARKERS), constraint)


@cache
def _parser() -> Parser:
    import tree_sitter_go
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_go.language()))


def _raise_syntax_error(root: Node) -> None:
    """Raise an error for invalid syntax, except in declarations that are not used: the parser may lack new syntax."""
    pending = [root]
    while pending:
        node = pending.pop()
        if node.is_error or node.is_missing:
            raise InvalidDocument(
                "invalid Go syntax", line=node.start_point.row + 1, column=node.start_point.column + 1
            )
        pending += [child for child in reversed(node.children) if child.has_error and child.type not in _UNUSED]


def _with_comments(parent: Node, source: bytes) -> Iterator[tuple[Node | None, list[CommentGroup], CommentGroup]]:
    """Yield each named child, the groups of comments before it, and its doc comment; last None and the comments left.

    The doc comment is the last group, if the child is in the line below it. Comments in the line of the previous child
    are omitted.
    """
    comments: list[Comment] = []
    for child in parent.children:
        if child.type == "comment":
            comments.append(_comment(child, source))
        elif child.is_named:
            groups = [group for group in group_comments(comments) if not group[0].trails]
            follows = bool(groups) and groups[-1][-1].last_line == child.start_point.row
            yield child, groups, groups[-1] if follows else ()
            comments = []
    yield None, [group for group in group_comments(comments) if not group[0].trails], ()


def _comment(node: Node, source: bytes) -> Comment:
    start, end = node.start_point, node.end_point
    before = source[node.start_byte - start.column : node.start_byte]
    text = _text(node).replace("\r", "")
    return Comment(text, start.row + 1, end.row + 1, trails=bool(before.strip()))


def _constraint(groups: Iterable[CommentGroup]) -> str:
    lines = [comment.text for group in groups for comment in group]
    found = [line.removeprefix(_CONSTRAINT).strip() for line in lines if line.startswith(_CONSTRAINT)]
    old = [line.removeprefix(_OLD_CONSTRAINT).split() for line in lines if line.startswith(_OLD_CONSTRAINT)]
    alternatives = [" || ".join(f"({option.replace(',', ' && ')})" for option in options) for options in old]
    return next(iter(found), " && ".join(f"({line})" for line in alternatives if line))


def _markers(groups: Iterable[CommentGroup], definitions: Mapping[str, Definition]) -> tuple[Marker, ...]:
    comments = [comment for group in groups for comment in group if comment.is_marker]
    markers = []
    for comment in comments:
        try:
            markers.append(parse_marker(comment.marker_text, definitions))
        except InvalidDocument as error:
            name = comment.marker_text.partition("=")[0]
            raise InvalidDocument(f"invalid marker {name}: {error.problem}", line=comment.line) from error
    return tuple(marker for marker in markers if marker)


def _own_markers(
    groups: Sequence[CommentGroup], doc: CommentGroup, definitions: Mapping[str, Definition]
) -> tuple[Marker, ...]:
    """Return the markers in the doc comment and in the nearest other group before a declaration."""
    return _markers(groups[-2:] if doc else groups[-1:], definitions)


def _imports(declaration: Node) -> Iterator[tuple[str, str]]:
    for spec in _descendants(declaration, ("import_spec",)):
        path = spec.child_by_field_name("path")
        name = spec.child_by_field_name("name")
        if path is not None:
            yield _text(name) if name else "", _text(path)[1:-1]


def _types(declaration: Node, groups: Sequence[CommentGroup], doc: CommentGroup, source: bytes) -> Iterator[GoType]:
    is_list = any(child.type == "(" for child in declaration.children)
    for spec, own_groups, own_doc in _with_comments(declaration, source):
        if spec is None or spec.type not in ("type_spec", "type_alias"):
            continue
        name = spec.child_by_field_name("name")
        kind = spec.child_by_field_name("type")
        if name is None or kind is None:
            continue
        if not is_list:
            own_groups, own_doc = list(groups), doc
        fields = tuple(_fields(kind, source)) if kind.type == "struct_type" else ()
        yield GoType(_text(name), documentation(own_doc), _own_markers(own_groups, own_doc, TYPE_MARKERS), fields)


def _fields(struct: Node, source: bytes) -> Iterator[GoField]:
    for members in struct.named_children:
        for declaration, groups, doc in _with_comments(members, source):
            if declaration is None or declaration.type != "field_declaration":
                continue
            tag = declaration.child_by_field_name("tag")
            kind = declaration.child_by_field_name("type")
            names = [_text(name) for name in declaration.children_by_field_name("name")]
            for name in names or [""]:
                yield GoField(
                    name,
                    documentation(doc),
                    _own_markers(groups, doc, FIELD_MARKERS),
                    _tags(tag),
                    tuple(_references(declaration)),
                    is_list=kind is not None and kind.type in ("slice_type", "array_type"),
                )


def _tags(tag: Node | None) -> dict[str, str]:
    if tag is None:
        return {}
    text = _text(tag)
    content = text[1:-1] if text.startswith("`") else re.sub(r"\\(.)", r"\1", text[1:-1])
    return dict(reversed(_TAG.findall(content)))


def _references(declaration: Node) -> Iterator[TypeName]:
    for node in _descendants(declaration, _REFERENCES):
        if node.type == "type_identifier":
            yield TypeName(_text(node))
        else:
            package, name = node.child_by_field_name("package"), node.child_by_field_name("name")
            if package is not None and name is not None:
                yield TypeName(_text(name), _text(package))


def _descendants(node: Node, kinds: Sequence[str]) -> Iterator[Node]:
    """Yield the outermost descendants of these kinds, in the order of the source."""
    pending = [node]
    while pending:
        current = pending.pop()
        if current.type in kinds:
            yield current
        else:
            pending += reversed(current.named_children)


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


_DIRECTIVE = re.compile(r"line |extern |export |[a-z0-9]+:[a-z0-9]")
_FENCES = ("```", "~~~")


class Comment(Struct, frozen=True):
    """One comment, with its delimiters.

    Attributes:
        text: The text, with the delimiters.
        line: Line of its start, from 1.
        last_line: Line of its end.
        trails: Whether code precedes it in its line.
    """

    text: str
    line: int
    last_line: int
    trails: bool = False

    @property
    def is_marker(self) -> bool:
        """Whether the comment is a marker: a line comment that begins with a plus sign."""
        return self.text.startswith("//") and self.marker_text.startswith("+")

    @property
    def marker_text(self) -> str:
        """The text without delimiters and surrounding spaces."""
        return self.text[2:].strip()


CommentGroup = tuple[Comment, ...]
"""Comments in consecutive lines."""


def group_comments(comments: Iterable[Comment]) -> list[CommentGroup]:
    """Group comments without code between them, as Go's parser does: comments after code start a new group."""
    groups: list[list[Comment]] = []
    for comment in comments:
        previous = groups[-1][-1] if groups else None
        gap = 0 if previous and groups[-1][0].trails else 1
        if previous and not comment.trails and comment.line <= previous.last_line + gap:
            groups[-1].append(comment)
        else:
            groups.append([comment])
    return [tuple(group) for group in groups]


def documentation(group: Sequence[Comment]) -> str:
    """Return the text of a doc comment, as it becomes a description: without markers, TODOs, and lines after ``---``.

    The rules are those of controller-tools, https://book.kubebuilder.io/reference/markers.
    """
    comments = [comment for comment in group if not comment.is_marker]
    strips = any(comment.text.startswith("/*") for comment in comments)
    lines = []
    in_code_block = False
    for line in _lines(comments):
        text = line.strip() if strips else line
        if text.startswith(_FENCES):
            in_code_block = not in_code_block
        if not in_code_block:
            if text.startswith("TODO"):
                continue
            if text.startswith("---"):
                break
        lines.append(text)
    return "\n".join(lines)


def _lines(comments: Iterable[Comment]) -> list[str]:
    """Return the lines of comments without delimiters and directives; consecutive empty lines are joined."""
    lines: list[str] = []
    for comment in comments:
        body = comment.text[2:-2] if comment.text.startswith("/*") else comment.text[2:]
        if comment.text.startswith("//"):
            if body and not body.startswith(" ") and _DIRECTIVE.match(body):
                continue
            body = body.removeprefix(" ")
        for line in body.split("\n"):
            text = line.rstrip(" \t\r\n")
            if text or (lines and lines[-1]):
                lines.append(text)
    return lines[:-1] if lines and not lines[-1] else lines


_MODULE = re.compile(rb'^module[ \t]+"?([^\s"]+)', re.MULTILINE)
_OTHER_FILE = re.compile(
    r".+_(?:test|android|darwin|freebsd|js|netbsd|openbsd|windows|386|arm|arm64|ppc64le|s390x|wasm)"
)
"""Tests, and files for another platform than linux/amd64."""
_IGNORED = ("testdata", "vendor")


class GoPackage(Struct, frozen=True):
    """A package: its import path, group and version of its API ("" for other packages), and its files by path."""

    path: str
    name: str
    files: dict[Path, GoFile]
    types: dict[str, tuple[Path, GoType]] = {}
    group: str = ""
    version: str = ""

    def import_path(self, file: Path, name: TypeName, packages: Mapping[str, GoPackage]) -> str:
        """Return the import path of the package of a type in ``file``, or "" if it is unknown.

        As in operator-sdk, imports of another file of the package are considered if they are unambiguous.
        """
        if not name.package:
            return self.path
        imports = self.imports(name, packages)
        if len(imports) == 1:
            return imports[0][1]
        return next((path for importer, path in imports if importer == file), "")

    def has_marker(self, name: str) -> bool:
        """Return whether a field of a type has a marker."""
        fields = (field for _, declared in self.types.values() for field in declared.fields)
        return any(marker.name == name for field in fields for marker in field.markers)

    def imports(self, name: TypeName, packages: Mapping[str, GoPackage]) -> list[tuple[Path, str]]:
        """Return the imports of the package that can contain a type, each with the file that it is in."""
        return [
            (importer, path)
            for importer, content in self.files.items()
            for alias, path in content.imports
            if (alias or (packages[path].name if path in packages else "")) == name.package
        ]


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


_SATISFIED = re.compile(r"linux|amd64|unix|gc|cgo|go1(?:\.\d+)?|ignore_autogenerated")
"""Tags of linux/amd64, and the one with which controller-tools leaves out what it generated."""
_TOKEN = re.compile(r"&&|\|\||[!()]|[\w.]+|\S")
_MAX_TOKENS = 200
_END = ""


def is_satisfied(constraint: str) -> bool:
    """Return whether a build constraint is satisfied on linux/amd64 for controller-tools; invalid ones are not.

    >>> is_satisfied("!custom && (linux || darwin)"), is_satisfied("!ignore_autogenerated")
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
