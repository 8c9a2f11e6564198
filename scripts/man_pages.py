"""Write manual pages of the commands and programs, one per command: ``opm index add`` is ``opm-index-add(1)``.

Equal commands result in equal pages, without a date.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text
from typer.main import get_command

from opmkit.cli.console import print_line
from opmkit.cli.entrypoints import PROGRAMS, build_program
from opmkit.cli.help_content import OPTIONS_PANEL, group_by_panel
from opmkit.cli.main import build_app, run_app
from opmkit.cli.registration import add_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

EXAMPLES = re.compile(r"^Examples?:(.*)", re.DOTALL | re.MULTILINE)
FLAGS = re.compile(r"^((?:-[\w-]+(?:, )?)+) ?(.*)$")
"""The names of a flag and of its value in the help of typer."""
ALIAS_PREFIXES = {
    "opm alpha bundle": "opm bundle",
    "opm image cp": "opm image copy",
    "opm run pm": "opm run packagemanifests",
}
"""Commands with a second path, whose page refers to that of the first."""


@dataclass(frozen=True)
class Page:
    """The page of one command, whose ``path`` consists of the words to type."""

    path: tuple[str, ...]
    command: Any
    version: str

    @property
    def name(self) -> str:
        """The name of the page, without its section."""
        return "-".join(self.path)

    def text(self) -> str:
        """Return the page in the man macros of roff."""
        summary, _, description = Text.from_markup(self.command.help or "").plain.strip().partition("\n")
        found = EXAMPLES.search(description)
        examples = found[1] if found else ""
        lines = [
            f'.TH {escape(self.name.upper())} 1 "" "opmkit {escape(self.version)}" "opmkit"',
            *section("Name", f"{escape(self.name)} \\- {escape(summary)}"),
            *section("Synopsis", *self._synopsis()),
            *section("Description", *prose(description[: found.start()] if found else description)),
            *section("Arguments", *definitions(self._parameters("argument"), self._context)),
            *section("Options", *self._options()),
            *section("Commands", *self._commands()),
            *section("Examples", *literal(examples.split("\n"))),
            *section("See also", *self._related()),
        ]
        return "\n".join(lines) + "\n"

    @property
    def _context(self) -> typer.Context:
        return typer.Context(self.command, info_name=" ".join(self.path), **self.command.context_settings)

    @property
    def _children(self) -> dict[str, Any]:
        commands: dict[str, Any] = getattr(self.command, "commands", {})
        return {name: child for name, child in commands.items() if not child.hidden}

    def _parameters(self, kind: str) -> list[Any]:
        parameters = self.command.get_params(self._context)
        return [each for each in parameters if each.param_type_name == kind and not each.hidden]

    def _synopsis(self) -> Iterator[str]:
        words = [usage(argument) for argument in self._parameters("argument")]
        words = ["COMMAND"] if self._children else words
        yield f".B {escape(' '.join(self.path))}"
        yield escape(" ".join(["[OPTIONS]", *words]))

    def _options(self) -> Iterator[str]:
        for panel, members in group_by_panel(self._parameters("option")).items():
            if panel != OPTIONS_PANEL:
                yield f'.SS "{escape(panel)}"'
            yield from definitions(members, self._context)

    def _commands(self) -> Iterator[str]:
        for name, child in self._children.items():
            summary = Text.from_markup(child.help or "").plain.strip().partition("\n")[0]
            yield from (".TP", reference(f"{self.name}-{name}"), escape(summary))

    def _related(self) -> Iterator[str]:
        names = ["-".join(self.path[:-1])] if len(self.path) > 1 else [name for name in PROGRAMS if self._children]
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

    yield from walk(get_command(build_app()), ("opm",))
    for name in PROGRAMS:
        yield Page((name,), get_command(build_program(name)), version)


def contents(version: str) -> dict[str, str]:
    """Return the pages by file name; those of aliases only refer to another page."""
    return {f"{page.name}.1": alias(page) or page.text() for page in pages(version)}


def alias(page: Page) -> str:
    """Return a reference to the page of the same command with another path, an empty string if there is none."""
    path = " ".join(page.path)
    for prefix, first in ALIAS_PREFIXES.items():
        if path == prefix or path.startswith(f"{prefix} "):
            return f".so man1/{(first + path.removeprefix(prefix)).replace(' ', '-')}.1\n"
    return ""


def section(title: str, *lines: str) -> list[str]:
    """Return a section, nothing if it is empty; its heading already begins a paragraph."""
    content = lines[1:] if lines[:1] == (".PP",) else lines
    return [f'.SH "{title.upper()}"', *content] if content else []


def definitions(parameters: Sequence[Any], context: typer.Context) -> Iterator[str]:
    """Yield a list of flags or arguments and their meanings."""
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            yield from (".TP", f"\\fI{escape(usage(parameter))}\\fR", escape(parameter.help or ""))
        else:
            flags, meaning = parameter.get_help_record(context)
            names, value = FLAGS.findall(flags)[0]
            term = f"\\fB{escape(names)}\\fR \\fI{escape(value)}\\fR" if value else f"\\fB{escape(names)}\\fR"
            yield from (".TP", term, escape(meaning))


def usage(argument: Any) -> str:
    """Return an argument as in a synopsis."""
    name = argument.metavar or (argument.name or "").upper()
    repeated = "..." if argument.nargs == -1 and "..." not in name else ""
    return f"{name}{repeated}" if argument.required or name.startswith("[") else f"[{name}]{repeated}"


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
