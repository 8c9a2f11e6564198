"""Bases of ClusterServiceVersions: the manually written part, and the names in generated ones."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from opmkit.author.project.project_file import LocatedValue
from opmkit.bundle.api_types.decode import CSV
from opmkit.bundle.api_types.encode import encode_struct
from opmkit.bundle.errors import InvalidProject
from opmkit.bundle.kinds import CSV_KIND
from opmkit.core.files import disk_errors
from opmkit.documents import MAX_BYTES
from opmkit.documents.document_stream import read_documents
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.yaml_writer import dump_yaml

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.documents.json_value import JsonValue


_NOT_A_NEWLINE = re.compile(rb"[^\n]")
_START = re.compile(rb"\s*---[^\n]*")
_INSTALL_MODES = {"OwnNamespace": False, "SingleNamespace": False, "MultiNamespace": False, "AllNamespaces": True}


@dataclass(frozen=True, slots=True)
class Maintainer:
    """A maintainer of an operator."""

    name: str
    email: str


@dataclass(frozen=True, slots=True)
class UserInterfaceMetadata:
    """Fields for user interfaces, which cannot be inferred from a project."""

    display_name: str
    description: str
    provider_name: str
    provider_url: str
    keywords: tuple[str, ...]
    maintainers: tuple[Maintainer, ...]


def new_base(name: str) -> dict[str, Any]:
    """Return the base of a new operator, with placeholders for the fields to fill in."""
    title = display_name(name)
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": CSV_KIND,
        "metadata": {
            "annotations": {"alm-examples": "[]", "capabilities": "Basic Install"},
            "name": f"{name}.v0.0.0",
            "namespace": "placeholder",
        },
        "spec": {
            "description": f"{title} description. TODO.",  # the placeholder of operator-sdk, for authors to replace
            "displayName": title,
            "icon": [{"base64data": "", "mediatype": ""}],
            "installModes": [{"supported": supported, "type": mode} for mode, supported in _INSTALL_MODES.items()],
            "keywords": [name],
            "links": [{"name": title, "url": f"https://{name}.domain"}],
            "maintainers": [{"email": "your@email.com", "name": "Maintainer Name"}],
            "maturity": "alpha",
            "provider": {"name": "Provider Name", "url": "https://your.domain"},
        },
    }


def read_base(file: Path) -> dict[str, Any]:
    """Return the ClusterServiceVersion in a file, as `parse_base` does. Raises DiskError if it cannot be read."""
    return parse_base(file, read_file(file))


def read_file(file: Path) -> bytes:
    """Return the content of a file.

    Raises:
        InvalidProject: It is too large.
        DiskError: It cannot be read.
    """
    with disk_errors(file), file.open("rb") as stream:
        raw = stream.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise InvalidProject(f"{file}: exceeds the limit of {MAX_BYTES} bytes per file")
    return raw


def parse_base(file: Path, raw: bytes) -> dict[str, Any]:
    """Return the ClusterServiceVersion in the bytes of a file; required fields that it lacks are added.

    Raises:
        InvalidProject: The file does not exist, or has fields of the wrong type; the message contains the line.
    """
    root = _find_csv(file, raw)
    encoded = encode_struct(root.value, CSV)
    for field in encoded.mismatches:
        location = LocatedValue(file, root.content, None, field.path)
        raise location.error(field.problem, hint=field.hint or "correct the value")
    return encoded.value


def replace_placeholder(csv: dict[str, Any], operator: str) -> None:
    """Replace the name ``OPERATOR.vX.Y.Z`` of old bases, which is not valid, by one with the version."""
    if csv["metadata"].get("name") == f"{operator}.vX.Y.Z":
        csv["metadata"]["name"] = f"{operator}.v{csv['spec'].get('version') or '0.0.0'}"


def apply_metadata(csv: dict[str, Any], metadata: UserInterfaceMetadata) -> None:
    """Replace the fields for user interfaces."""
    provider = {"name": metadata.provider_name, "url": metadata.provider_url}
    csv["spec"] |= {
        "displayName": metadata.display_name,
        "description": metadata.description,
        "provider": {name: value for name, value in provider.items() if value},
        "keywords": list(metadata.keywords),
        "maintainers": [{"email": person.email, "name": person.name} for person in metadata.maintainers],
    }


def owned_crds(csv: dict[str, Any]) -> list[JsonValue]:
    """Return the owned CRDs of a ClusterServiceVersion."""
    definitions = csv["spec"].get("customresourcedefinitions") or {}
    return list(definitions.get("owned") or ())


def set_owned_crds(csv: dict[str, Any], owned: list[JsonValue]) -> None:
    """Replace the owned CRDs."""
    csv["spec"]["customresourcedefinitions"] = {**(csv["spec"].get("customresourcedefinitions") or {}), "owned": owned}


def encode_base(csv: dict[str, Any]) -> bytes:
    """Return the ClusterServiceVersion as operator-sdk writes it: without status, with all required fields."""
    value = encode_struct(csv, CSV).value
    value.pop("status", None)
    value["metadata"].pop("creationTimestamp", None)
    if value["spec"].get("cleanup") == {"enabled": False}:
        del value["spec"]["cleanup"]
    return dump_yaml(value)


def update_base(raw: bytes, csv: dict[str, Any]) -> bytes:
    """Return a file with the ClusterServiceVersion in place of its previous one.

    If at most the owned CRDs differ, comments and formatting are retained, unless those are operator-sdk's.
    """
    encoded = encode_base(csv)
    if _encode(raw) == raw:
        return encoded
    edited = replace_owned_crds(raw, owned_crds(csv))
    return next((text for text in (raw, edited) if text and _encode(text) == encoded), encoded)


def _encode(raw: bytes) -> bytes:
    """Return the encoded ClusterServiceVersion in a file, b"" if there is none."""
    try:
        return encode_base(parse_base(Path(), raw))
    except InvalidProject:
        return b""


def _find_csv(file: Path, raw: bytes) -> LocatedValue:
    """Return the first ClusterServiceVersion in a file."""
    for document in read_documents(raw):
        if isinstance(document, InvalidDocument):
            raise InvalidProject(document.located(str(file)), hint="correct the YAML")
        if isinstance(document.value, dict) and document.value.get("kind") == CSV_KIND:
            start = document.start
            if match := _START.match(raw, start):
                start = match.end()
            before = _NOT_A_NEWLINE.sub(b"", raw[:start])  # retains the line numbers
            return LocatedValue.parse(file, before + raw[start : document.end])
    raise InvalidProject(f"{file}: no {CSV_KIND} found", hint="correct the file, or remove it to generate a new one")


_SECTION = "customresourcedefinitions"
_OWNED = "owned"


def replace_owned_crds(raw: bytes, owned: Sequence[JsonValue]) -> bytes | None:
    """Return the bytes of a file with other owned CRDs, or None if its syntax does not permit it.

    The result can be wrong for unusual files, such as those with aliases: compare its value with the intended one.
    """
    try:
        text = raw.decode()
        root = yaml.compose(text, yaml.CSafeLoader)
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError):
        return None
    _, spec = _member(root, "spec")
    if spec is None or not _is_block(spec):
        return None
    key, section = _member(spec, _SECTION)
    if key is None or section is None:
        first = spec.value[0][0]
        return _replace(text, first.start_mark.line, first.start_mark.line, first, {_SECTION: {_OWNED: list(owned)}})
    if not _is_block(section):
        return _replace(text, key.start_mark.line, _last_line(section), key, {_SECTION: {_OWNED: list(owned)}})
    owned_key, value = _member(section, _OWNED)
    if owned_key is None or value is None:
        first = section.value[0][0]
        return _replace(text, first.start_mark.line, first.start_mark.line, first, {_OWNED: list(owned)})
    return _replace(text, owned_key.start_mark.line, _last_line(value), owned_key, {_OWNED: list(owned)})


def _is_block(node: yaml.Node) -> bool:
    return isinstance(node, yaml.MappingNode) and not node.flow_style and bool(node.value)


def _member(node: yaml.Node | None, name: str) -> tuple[yaml.Node | None, yaml.Node | None]:
    """Return the key and value of a member of a mapping, None if it does not exist."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value == name:
                return key, value
    return None, None


def _last_line(node: yaml.Node) -> int:
    """Return the number of the line after a value, without the comments and blank lines that follow it."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        last = node.value[-1]
        node = last[1] if isinstance(last, tuple) else last
    mark = node.end_mark
    return mark.line if mark.column == 0 else mark.line + 1


def _replace(text: str, start: int, end: int, key: yaml.Node, members: dict[str, JsonValue]) -> bytes:
    """Replace the lines from ``start`` to ``end`` by the members, indented like ``key``."""
    lines = text.splitlines(keepends=True)
    indent = " " * key.start_mark.column
    new = [
        f"{indent}{line}" if line.strip() else line for line in dump_yaml(members).decode().splitlines(keepends=True)
    ]
    return "".join([*lines[:start], *new, *lines[end:]]).encode()


_SEPARATORS = re.compile(r"[.\-_\s]+")
_FIRST_LETTER = re.compile(r"[^\W\d_]")

_UNCOUNTABLE = frozenset(
    ("equipment", "information", "rice", "money", "species", "series", "fish", "sheep", "jeans", "police")
)
_IRREGULAR = {"ox": "oxen", "oxen": "oxen", "quiz": "quizzes"}
_ENDINGS = tuple(
    (re.compile(rf"(?:{ending})$"), plural)
    for ending, plural in (
        ("humans?", "humans"),
        ("campus(?:es)?", "campuses"),
        ("status(?:es)?", "statuses"),
        ("zombies?", "zombies"),
        ("moves?", "moves"),
        ("sex(?:es)?", "sexes"),
        ("child(?:ren)?", "children"),
        ("m[ae]n", "men"),
        ("people|person", "people"),
        ("ress", "resses"),
        ("lice|louse", "lice"),
        ("mice|mouse", "mice"),
        ("indix|index", "indices"),
        ("vertix|vertex", "vertices"),
        ("matrix|matrex", "matrices"),
        ("(sh|ss|ch|x)", r"\1es"),
        ("([b-df-hj-np-tv-xz])y", r"\1ies"),
        ("quy", "quies"),
        ("hive", "hives"),
        ("([a-eg-z])fe", r"\1ves"),
        ("([rl])f", r"\1ves"),
        ("sis", "ses"),
        ("(ia|ta)", r"\1"),
        ("(i|t)um", r"\1a"),
        ("(tomato|buffalo|bus|alias)", r"\1es"),
        ("(vir|octop)(?:i|us)", r"\1i"),
        ("(ax|test)is", r"\1es"),
        ("s", "s"),
    )
)
"""Endings and their plurals, in the order of precedence; other words get an s."""


def display_name(name: str) -> str:
    """Return the words of an identifier in title case.

    >>> display_name("my-op_v2.fooBar"), display_name("ETCDCluster")
    ('My Op V2 Foo Bar', 'ETCDCluster')
    """
    words = []
    for word in filter(None, _SEPARATORS.split(name)):
        spaced = "".join(
            f" {letter}" if letter.isupper() and number and not word[number - 1].isupper() else letter
            for number, letter in enumerate(word)
        )
        words += spaced.split()
    return " ".join(_FIRST_LETTER.sub(lambda match: match.group().upper(), word, count=1) for word in words)


def plural(word: str) -> str:
    """Return the plural of a word in lower case, as operator-sdk forms it for the names of CRDs.

    >>> plural("policy"), plural("memcached"), plural("nodehealthcheck"), plural("ingress"), plural("kafka")
    ('policies', 'memcacheds', 'nodehealthchecks', 'ingresses', 'kafkas')
    """
    if word in _UNCOUNTABLE:
        return word
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    for ending, replacement in _ENDINGS:
        if ending.search(word):
            return ending.sub(replacement, word)
    return f"{word}s"
