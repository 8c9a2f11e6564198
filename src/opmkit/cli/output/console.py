"""Output to stdout: tables for people, JSON and YAML for programs."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from typing import Any

from opmkit.core.escape import escape_controls, escape_json, escape_line, escape_lines
from opmkit.core.json_types import field_values, has_fields


class OutputFormat(StrEnum):
    """Output formats of most commands."""

    TEXT = "text"
    JSON = "json"


class TableFormat(StrEnum):
    """Output formats of commands whose result is a table with less important columns."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"


class ListFormat(StrEnum):
    """Output formats of commands that list large values in such a table."""

    TEXT = "text"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class ValueFormat(StrEnum):
    """Output formats of commands whose result is a large value."""

    TEXT = "text"
    JSON = "json"
    YAML = "yaml"


def print_value(value: Any, output_format: ValueFormat | ListFormat) -> None:
    """Print ``value`` (plain JSON types, dataclasses or structs) as JSON, or else as YAML."""
    if output_format == ValueFormat.JSON:
        print_json(value)
    else:
        print_yaml([value])


def print_listing(
    values: Sequence[Any],
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    output_format: ValueFormat | ListFormat,
    *,
    optional: Collection[str] = (),
) -> None:
    """Print ``values`` (plain JSON types or dataclasses) as JSON or YAML, or else ``rows`` as a table."""
    if output_format in (ListFormat.TEXT.value, ListFormat.WIDE.value):
        print_table(header, list(rows), optional=optional, wide=output_format is ListFormat.WIDE)
    else:
        print_value(values, output_format)


def print_yaml(documents: Sequence[Any]) -> None:
    """Print values (plain JSON types or dataclasses) as YAML documents."""
    import orjson

    from opmkit.documents.yaml_writer import dump_documents

    plain = orjson.loads(_encode_json(list(documents)))
    print(dump_documents(plain, explicit_start=len(plain) > 1), end="")


def print_line(text: str = "", *, hanging: int | None = None) -> None:
    """Print one line for people, which is wrapped between words if it is wider than the terminal.

    Unprintable characters in it, including line breaks, are escaped, see `escape_line`. The lines below the first one
    have the indentation ``hanging``.
    """
    from opmkit.cli.output.terminal import fit_line

    print(fit_line(escape_line(text), sys.stdout, hanging))


def print_prompt(text: str) -> None:
    """Print a question of this program without a line break at its end."""
    print(text, end="", flush=True)


def print_text(text: str) -> None:
    """Print lines as they are, such as those of a document; the caller has escaped the values from outside in it."""
    print(escape_lines(text))


def print_commands(lines: Iterable[str]) -> None:
    """Print workflow commands of GitHub Actions, in which the caller has escaped the values from outside."""
    for line in lines:
        print(escape_controls(line))


def print_report(text: str) -> None:
    """Print several lines for people, see `print_line`; the caller has escaped the values from outside in it."""
    for line in text.split("\n"):
        print_line(line)


def print_prose(text: str) -> None:
    """Print paragraphs with empty lines between them, which fill the lines of a terminal."""
    from opmkit.cli.output.terminal import terminal_width

    for number, paragraph in enumerate(text.split("\n\n")):
        if number:
            print_line()
        lines = paragraph.split("\n")
        for line in [" ".join(lines)] if terminal_width(sys.stdout) else lines:
            print_line(line, hanging=0)


def print_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, optional: Collection[str] = (), wide: bool = False
) -> None:
    """Print columns separated by two spaces; as in Go's tables, the last column is not padded.

    Unless it is ``wide``, a table fits the terminal: texts are wrapped, and the columns in ``optional``, which only
    commands with ``--output wide`` have, are omitted and named on stderr.
    """
    from opmkit.cli.output.terminal import terminal_width

    table: list[Sequence[str]] = [header, *(tuple(map(escape_controls, row)) for row in rows)]
    if not wide and (width := terminal_width(sys.stdout)):
        from opmkit.cli.output.tables import fit_table

        lines, omitted = fit_table(table, width, optional)
        print_text("\n".join(lines))
        if omitted:
            from opmkit.cli.output.errors import print_to_stderr

            sys.stdout.flush()
            print_to_stderr(f"not shown: {', '.join(omitted)}; '--output wide' shows all columns")
        return
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    for row in table:
        *cells, last = row
        print_text("  ".join([*map(str.ljust, cells, widths), last]))


def print_json(value: Any) -> None:
    """Print ``value`` (plain JSON types, dataclasses or structs) as one indented JSON document.

    Characters that terminals interpret are written as JSON escapes, so values are unchanged.
    """
    import orjson

    text = _encode_json(value, orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    print_bytes([escape_json(text)])


def print_json_line(value: Any) -> None:
    """Print ``value`` as one line of JSON, with the escapes of `print_json`."""
    print(escape_json(_encode_json(value)).decode())


def _encode_json(value: Any, option: int = 0) -> bytes:
    r"""Encode JSON types, dataclasses or structs; bytes of paths that are not UTF-8 become text such as ``\udcff``."""
    import orjson

    try:
        return orjson.dumps(value, option=option, default=_fields_or_text)
    except orjson.JSONEncodeError:
        return orjson.dumps(
            _escape_surrogates(value), option=option, default=lambda other: _escape_surrogates(str(other))
        )


def _fields_or_text(value: object) -> dict[str, Any] | str:
    """Return a value that orjson does not encode in other types: a struct by field, others such as paths as text."""
    return field_values(value) if has_fields(value) else str(value)


def _escape_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if has_fields(value):
        return _escape_surrogates(field_values(value))
    if isinstance(value, dict):
        return {_escape_surrogates(key): _escape_surrogates(member) for key, member in value.items()}
    return [_escape_surrogates(item) for item in value] if isinstance(value, list | tuple) else value


def print_bytes(chunks: Iterable[bytes]) -> None:
    """Print encoded output after everything printed before."""
    sys.stdout.flush()
    sys.stdout.buffer.writelines(chunks)
    sys.stdout.buffer.flush()


def format_count(count: int, noun: str) -> str:
    """Return a count with the noun in singular or plural."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def format_size(count: float) -> str:
    """Return a number of bytes with a decimal unit, such as ``1.5 MB``."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000 or unit == "GB":
            break
        count /= 1000
    return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
