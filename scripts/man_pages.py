"""Write manual pages of the commands and programs, one per command: ``opm index add`` is ``opm-index-add(1)``.

Equal commands result in equal pages, without a date.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.main import get_command

from opmkit.cli.entrypoints import PROGRAMS, build_program
from opmkit.cli.help.content import OPTIONS_PANEL, HelpContent, HelpEntry, canonical_path, describe_command
from opmkit.cli.main import build_app, run_app
from opmkit.cli.output.console import print_line
from opmkit.cli.parser.registration import add_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@dataclass(frozen=True)
class Page:
    """The page of one command, whose ``path`` consists of the words to type."""

    path: tuple[str, ...]
    command: Any
    version: str

    @property
    def name(self) -> str:
        """The name of the page, without its section."""
        return "-".join(self.path).replace(" ", "-")

    @cached_property
    def content(self) -> HelpContent:
        """The help of the command."""
        context = typer.Context(self.command, info_name=" ".join(self.path), **self.command.context_settings)
        return describe_command(context)

    def text(self) -> str:
        """Return the page in the man macros of roff."""
        content = self.content
        lines = [
            f'.TH {escape(self.name.upper())} 1 "" "opmkit {escape(self.version)}" "opmkit"',
            *section("Name", f"{escape(self.name)} \\- {escape(content.summary)}"),
            *section("Synopsis", *self._synopsis()),
            *section("Description", *prose(content.description)),
            *section("Arguments", *definitions(content.arguments)),
            *section("Options", *self._options()),
            *section("Commands", *self._commands()),
            *section("Examples", *literal(content.examples)),
            *section("See also", *self._related()),
        ]
        return "\n".join(lines) + "\n"

    def _synopsis(self) -> Iterator[str]:
        yield f".B {escape(self.content.path)}"
        yield escape(self.content.usage.removeprefix(f"{self.content.path} "))

    def _options(self) -> Iterator[str]:
        for panel, flags in self.content.panels.items():
            if panel != OPTIONS_PANEL:
                yield f'.SS "{escape(panel)}"'
            yield from definitions(flags)

    def _commands(self) -> Iterator[str]:
        for child in self.content.commands:
            yield from (".TP", reference(f"{self.name}-{child.name}"), escape(child.text))

    def _related(self) -> Iterator[str]:
        is_root = len(self.path) == 1 and self.content.commands
        names = ["-".join(self.path[:-1])] if len(self.path) > 1 else [name for name in PROGRAMS if is_root]
        for name in names:
            yield reference(name, "" if name is names[-1] else ",")


def pages(version: str) -> Iterator[Page]:
    """Yield the pages of all commands and programs that are not hidden."""

    def walk(command: Any, path: tuple[str, ...]) -> Iterator[Page]:
        page = Page(path, command, version)
        yield page
        for name, child in getattr(command, "commands", {}).items():
            if not child.hidden:
                yield from walk(child, (*path, name))

    yield from walk(build_app(), ("opm",))
    for name in PROGRAMS:
        yield Page((name,), get_command(build_program(name)), version)


def contents(version: str) -> dict[str, str]:
    """Return the pages by file name; those of aliases only refer to another page."""
    return {f"{page.name}.1": alias(page) or page.text() for page in pages(version)}


def alias(page: Page) -> str:
    """Return a reference to the page of the same command with another path, an empty string if there is none."""
    path = " ".join(page.path)
    other = canonical_path(path)
    name = f'.\\" {path}'  # otherwise, pages would be equal, which is an error in a wheel
    return "" if other == path else f".so man1/{other.replace(' ', '-')}.1\n{name}\n"


def section(title: str, *lines: str) -> list[str]:
    """Return a section, nothing if it is empty; its heading already begins a paragraph."""
    content = lines[1:] if lines[:1] == (".PP",) else lines
    return [f'.SH "{title.upper()}"', *content] if content else []


def definitions(entries: Sequence[HelpEntry]) -> Iterator[str]:
    """Yield a list of flags or arguments and their meanings."""
    for entry in entries:
        if entry.name.startswith("-"):
            names = f"\\fB{escape(names_of(entry))}\\fR"
            yield from (".TP", f"{names} \\fI{escape(entry.value)}\\fR" if entry.value else names)
        else:
            yield from (".TP", f"\\fI{escape(entry.name)}\\fR")
        yield escape(meaning(entry))


def names_of(entry: HelpEntry) -> str:
    """Return all names of a flag."""
    return f"{entry.short}, {entry.name}".removeprefix(", ").removesuffix(", ")


def meaning(entry: HelpEntry) -> str:
    """Return the description of a flag or an argument with its default."""
    return f"{entry.text} [default: {entry.default}]" if entry.default else entry.text


def prose(text: str) -> Iterator[str]:
    """Yield text with paragraphs, and indented lines as they are."""
    for paragraph in re.split(r"\n\s*\n", text.strip("\n")):
        yield from [".PP"] if paragraph.strip() else []
        for indented, group in groupby(paragraph.split("\n"), key=lambda line: line.startswith(" ")):
            lines = [line for line in group if line]
            yield from literal(lines) if indented else map(escape, lines)


def literal(lines: Sequence[str]) -> list[str]:
    """Return lines that are printed as they are, without empty ones."""
    present = [escape(line.strip()) for line in lines if line.strip()]
    return [".PP", ".nf", ".RS 2", *present, ".RE", ".fi"] if present else []


def reference(name: str, punctuation: str = "") -> str:
    """Return a reference to another page."""
    return f".BR {escape(name)} (1){punctuation}"


def escape(text: str) -> str:
    """Return text for a line of roff, in which backslashes, hyphens, and leading dots and quotes have no effect."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq")
    return f"\\&{escaped}" if escaped.startswith((".", "'")) else escaped


def write(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory to write the pages to")],
    version: Annotated[str, typer.Option("--version", metavar="VERSION", help="Version to print in the pages")] = "",
) -> None:
    """Write manual pages of all commands

    [bold]Example:[/] scripts/man_pages.py man
    """
    from opmkit import __version__

    directory.mkdir(parents=True, exist_ok=True)
    for outdated in directory.glob("*.1"):
        outdated.unlink()
    written = contents(version or __version__)
    for name, text in written.items():
        (directory / name).write_text(text, encoding="utf-8")
    print_line(f"{directory}: {len(written)} pages")


if __name__ == "__main__":
    app = typer.Typer(add_completion=False)
    add_command(app, "man_pages.py", write)
    sys.exit(run_app(app, "scripts/man_pages.py", sys.argv[1:]))
