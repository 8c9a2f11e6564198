"""Hypothesis strategies for mutated bundles and other input files."""

from __future__ import annotations

import json
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any

import yaml
from hypothesis import strategies as st

from tests.kit.broken import BASE, files_below
from tests.kit.shared import SHARED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from hypothesis.strategies import DrawFn

    Path = tuple[str | int, ...]
    Mutate = Callable[[DrawFn, dict[str, bytes], str], bytes | None]

_MAX_SIZE = 60_000
"""Maximum size of a bundle of the corpus in bytes, as many small mutants find more than a few large ones."""

_MAX_ALIASES = 45
"""Maximum number of YAML aliases in a file that is written as JSON, which expands them."""

TEXTS = [
    *("x", "1", "1.2.3", "-1", "0x1F", "1e999", "1_0", "~", "null", "true", ".nan", "-.inf", "2020-01-01", "''", "' '"),
    *("[]", "{}", "[[]]", "[null]", "{a: }", "{a: {b: [1]}}", "[{}, {}]", "? x", "- ", "|", ">-", "%", "@", "`", "\t"),
    *('"\\0"', '"\\x1b[2J"', '"\\ud800"', '"\\n::error::x"', '"\\u202e"', "&a [*a]", "*none", "&a x", "!!binary x"),
    *("!!int x", "!!set {x}", "!x y", "<<: 1", "{<<: [1]}", "{x: 1, x: 2}", "{[]: 1}", "{1: 2, null: 3}", "'" * 3),
    *("x" * 70_000, "a." * 300, "[" * 3000, "{a: " * 300, "9" * 5000, "(" * 200, "!!float 0o7", "||", "^1", ">=1.0 <"),
]
"""Replacements of values in YAML files."""

VALUES: list[Any] = [
    *(None, True, 0, -1, 1.5, 2**63, 2**200, float("inf"), [], {}, [[]], [None], [{}], {"": None}, {"a": {"b": []}}),
    *("", " ", "x", "1.2.3", "\0", "\x1b[2J", "\n::error::x", "\ud800", "\ufeff", "\ufdd0", "true", "1e5", ["x"] * 50),
    *("é" * 300, "x" * 70_000, "a/b/c", "../../x", "https://[x", "a@b@c", "*", "(", "[a-", "(?!x)", "data:,x", "v1"),
    *(">=1.0.0 || <", "[[]]", '[{"apiVersion": 1}]', '[{"apiVersion": "a/b", "kind": "\\ud800"}]', '{"a": ' * 5000),
    *({"cel": {"rule": "(" * 200}}, {"all": {"constraints": [{"not": {"constraints": [{}]}}]}}, {"$ref": "#"}),
]
"""Replacements of values in JSON files."""

_ENCODINGS = ("utf-16", "utf-16-be", "utf-32", "latin-1", "utf-8-sig", "utf-7", "cp037")
_NAMES = ("manifests/a b.yaml", "manifests/.yaml", "manifests/\n.yaml", "metadata/x.yaml", "y")
_SECTIONS = ("manifests/x/y/z.yaml", "manifests/annotations.yaml", "metadata/annotations.yml", "tests/x.yaml", "x.yaml")
_BOMBS = ("&{0} [{1}]", "{{&{0} a: {{b: [{1}]}}}}", "&{0} {{a: [{1}]}}")


@st.composite
def mutants(draw: DrawFn) -> dict[str, bytes]:
    """Return the files of a bundle with one to four mutations."""
    return draw(mutated(draw(st.sampled_from(_bundles()))))


@st.composite
def mutated(draw: DrawFn, originals: Mapping[str, bytes]) -> dict[str, bytes]:
    """Return files, by relative path, with one to four mutations."""
    files = dict(originals)
    for _ in range(draw(st.integers(1, 4))):
        if files:
            path = draw(st.sampled_from(sorted(files)))
            raw = draw(st.sampled_from(_MUTATIONS))(draw, files, path)
            if raw is None:
                del files[path]
            else:
                files[path] = raw
    return files


@cache
def _bundles() -> list[dict[str, bytes]]:
    """Return the valid bundle of the fixtures and one bundle of each package of the corpus."""
    packages = sorted((SHARED / "corpus" / "bundles").glob("*/"))
    found = (files_below(min(package.glob("*/"))) for package in packages)
    return [BASE, *(files for files in found if sum(map(len, files.values())) < _MAX_SIZE)]


def _position(draw: DrawFn, values: list[Any]) -> int:
    return draw(st.integers(0, max(len(values) - 1, 0)))


def _block(lines: list[bytes], number: int) -> slice:
    """Return a line and the more indented lines below it: the value of a key, or an item."""
    indent = _indent(lines[number])
    end = number + 1
    while end < len(lines) and _indent(lines[end]) > indent:
        end += 1
    return slice(number, end)


def _indent(line: bytes) -> int:
    return len(line) - len(line.lstrip(b" "))


def _drop(draw: DrawFn, files: dict[str, bytes], path: str) -> bytes:
    lines = files[path].split(b"\n")
    del lines[_block(lines, _position(draw, lines))]
    return b"\n".join(lines)


def _repeat(draw: DrawFn, files: dict[str, bytes], path: str) -> bytes:
    lines = files[path].split(b"\n")
    block = _block(lines, _position(draw, lines))
    lines[block] = lines[block] * draw(st.sampled_from((2, 3, 200)))
    return b"\n".join(lines)


def _reorder(draw: DrawFn, files: dict[str, bytes], path: str) -> bytes:
    lines = files[path].split(b"\n")
    block = _block(lines, _position(draw, lines))
    moved = lines[block]
    del lines[block]
    place = _position(draw, lines)
    lines[place:place] = moved
    return b"\n".join(lines)


def _retype(draw: DrawFn, files: dict[str, bytes], path: str) -> bytes:
    """Replace the value of a key or an item."""
    lines = files[path].split(b"\n")
    block = _block(lines, _position(draw, lines))
    first = lines[block][0]
    key, colon, _ = first.partition(b": ") if b": " in first else first.partition(b":")
    lines[block] = [key + (colon and b": ") + draw(st.sampled_from(TEXTS)).encode()]
    return b"\n".join(lines)


def _deepen(draw: DrawFn, files: dict[str, bytes], path: str) -> bytes:
    """Nest a value in lists or mappings."""
    lines = files[path].split(b"\n")
    number = _position(draw, lines)
    key, colon, value = lines[number].partition(b": ")
    begin, end = draw(st.sampled_from(((b"[", b"]"), (b"{a: ", b"}"))))
    depth = draw(st.sampled_from((1, 10, 150, 250, 3000)))
    lines[number] = key + colon + begin * depth + value + end * depth
    return b"\n".join(lines)


def _alias(draw: DrawFn, files: dict[str, bytes], path: str) -> bytes:
    """Replace a value with an alias of another, or with an alias bomb."""
    lines = files[path].split(b"\n")
    number = _position(draw, lines)
    key, colon, value = lines[number].partition(b": ")
    if draw(st.booleans()):
        bomb = draw(st.sampled_from(_BOMBS))
        width, depth = draw(st.sampled_from(((2, 8), (10, 4), (10, 9))))
        names = [f"z{level}" for level in range(depth)]
        levels = [
            bomb.format(name, ", ".join([f"*z{level - 1}" if level else "x"] * width))
            for level, name in enumerate(names)
        ]
        lines[number] = key + colon + f"[{', '.join(levels)}]".encode()
    else:
        lines[number] = key + colon + b"&same " + value
        other = _position(draw, lines)
        lines[other] = lines[other].partition(b": ")[0] + b": *same"
    return b"\n".join(lines)


def _corrupt(draw: DrawFn, files: dict[str, bytes], path: str) -> bytes:
    """Replace some bytes, or everything after a position."""
    raw = files[path]
    begin = draw(st.integers(0, len(raw)))
    end = draw(st.sampled_from((begin, begin + 1, begin + 30, len(raw))))
    return raw[:begin] + draw(st.binary(max_size=8)) + raw[end:]


def _encode(draw: DrawFn, files: dict[str, bytes], path: str) -> bytes:
    return files[path].decode(errors="replace").encode(draw(st.sampled_from(_ENCODINGS)), errors="replace")


def _swap(draw: DrawFn, files: dict[str, bytes], path: str) -> bytes:
    other = draw(st.sampled_from(sorted(files)))
    files[path], raw = files[other], files[path]
    files[other] = raw
    return files[path]


def _copy(draw: DrawFn, files: dict[str, bytes], path: str) -> bytes:
    files[draw(st.sampled_from(_NAMES + _SECTIONS))] = files[path]
    return files[path]


def _delete(_draw: DrawFn, _files: dict[str, bytes], _path: str) -> None:
    return None


def _fill(draw: DrawFn, _files: dict[str, bytes], _path: str) -> bytes:
    """Replace the whole file."""
    text = draw(st.sampled_from(TEXTS)).encode(errors="surrogatepass")
    return draw(st.sampled_from((b"", b"\0" * 5000, b"\xff\xfe", b"\x1f\x8b\x08", b"---\n" * 500, text)))


def _as_json(draw: DrawFn, files: dict[str, bytes], path: str) -> bytes:
    """Write the file as JSON with one value replaced."""
    value, paths = _read(files[path])
    if not paths:
        return files[path]
    new = draw(st.sampled_from(VALUES)) if draw(st.booleans()) else _member(value, paths[_position(draw, paths)])
    changed = _replaced(value, paths[_position(draw, paths)], new)
    return json.dumps(changed, ensure_ascii=draw(st.booleans())).encode(errors="surrogatepass")


@lru_cache(maxsize=256)
def _read(raw: bytes) -> tuple[Any, list[Path]]:
    """Return the content of a file if it is a mapping, and the paths of all values in it."""
    if raw.count(b"*") > _MAX_ALIASES:
        return None, []
    try:
        value = json.loads(json.dumps(yaml.load(raw, yaml.CSafeLoader), default=str, skipkeys=True))
    except (yaml.YAMLError, ValueError, RecursionError, TypeError):
        return None, []
    return value, list(_paths(value, ())) if isinstance(value, dict) and len(raw) < 2 * _MAX_SIZE else []


def _paths(value: Any, base: Path) -> list[Path]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, part in parts for found in ((*base, key), *_paths(part, (*base, key)))]


def _member(value: Any, path: Path) -> Any:
    for step in path:
        value = value[step]
    return value


def _replaced(value: Any, path: Path, new: Any) -> Any:
    """Return the value with a new value at a path."""
    if not path:
        return new
    copy = value.copy()
    copy[path[0]] = _replaced(value[path[0]], path[1:], new)
    return copy


_MUTATIONS: tuple[Mutate, ...] = (
    *(_drop, _retype, _retype, _repeat, _reorder, _deepen, _alias, _corrupt, _encode, _swap, _copy, _delete, _fill),
    *(_as_json, _as_json, _as_json),
)
