"""What goes to stdout: tables for people, JSON and YAML for programs. Progress goes to stderr, on a terminal only."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from opmkit.imagetools.escape import escape_controls

if TYPE_CHECKING:
    from opmkit.imagetools.progress import Progress


_CONTROLS = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xd8\x9c|\xe2(?:\x80[\x8e\x8f\xa8-\xae]|\x81[\xa6-\xa9])")
"""DEL, C1 and controls of the writing direction in UTF-8; JSON has escapes of its own for all other controls."""


class OutputFormat(StrEnum):
    """The forms of a result."""

    TEXT = "text"
    JSON = "json"


Output = Annotated[OutputFormat, typer.Option("--output", "-o", help="Form of the result: text or json.")]
"""The flag of every command that has a result."""


class ValueFormat(StrEnum):
    """The forms of a result that may be YAML as well."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


ValueOutput = Annotated[ValueFormat, typer.Option("--output", "-o", help="Form of the result: text, json or yaml.")]
"""The flag of commands whose result is a value with much in it."""


def print_value(value: Any, form: ValueFormat) -> None:
    """Print ``value`` (of plain JSON types or dataclasses) as JSON, or else as YAML."""
    if form is ValueFormat.JSON:
        print_json(value)
    else:
        print_yaml([value])


def print_yaml(documents: Sequence[Any]) -> None:
    """Print values (of plain JSON types or dataclasses) as YAML documents."""
    import orjson
    import yaml

    plain = orjson.loads(orjson.dumps(list(documents), default=str))
    yaml.dump_all(
        plain, sys.stdout, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, explicit_start=len(plain) > 1
    )


def print_line(text: str = "") -> None:
    """Print one line of text; unprintable characters in it, line breaks among them, become visible escapes."""
    print(escape_controls(text))


def print_text(text: str) -> None:
    """Print text of several lines; values from outside that it contains are escaped already."""
    for line in text.split("\n"):
        print_line(line)


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print columns two blanks apart, each as wide as its widest cell; the last is not filled up, as in Go's tables."""
    table = [header, *(tuple(map(escape_controls, row)) for row in rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    for row in table:
        *cells, last = row
        print("  ".join([*map(str.ljust, cells, widths), last]))


def print_json(value: Any) -> None:
    """Print ``value`` (of plain JSON types or dataclasses) as one indented JSON document.

    Characters that terminals act on are written as JSON escapes, which leaves the values as they are.
    """
    import orjson

    text = orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE, default=str)
    print_bytes([_CONTROLS.sub(lambda match: b"\\u%04x" % ord(match[0].decode()), text)])


def print_bytes(chunks: Iterable[bytes]) -> None:
    """Print what is encoded already, behind all that was printed before."""
    sys.stdout.flush()
    sys.stdout.buffer.writelines(chunks)
    sys.stdout.buffer.flush()


@contextmanager
def progress() -> Iterator[Progress]:
    """Progress bars on stderr where that is a terminal; silence elsewhere."""
    from opmkit.imagetools.progress import NO_PROGRESS

    if not sys.stderr.isatty():
        yield NO_PROGRESS
        return
    from opmkit.cli.progress_bars import Bars

    with Bars() as bars:
        yield bars
