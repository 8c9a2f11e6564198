"""Command lines of the documentation: finding them, and parsing them with the commands that exist."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import yaml
from typer import TyperException
from typer.core import TyperGroup
from typer.main import get_command

from opmkit.cli.entrypoints import PROGRAMS, build_program
from opmkit.cli.output.errors import to_opmkit_error
from opmkit.core.errors import OpmkitError
from tests.kit.opm import FIXTURES, all_commands

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = FIXTURES.parent
_CONSOLE = re.compile(r"^( *)```(console|shell)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_COMMAND = r"(.*<< 'END'\n(?:.*\n)*?END|(?:.*\\\n)*.+)$"
_TYPED = {"console": re.compile(rf"^\$ {_COMMAND}", re.MULTILINE), "shell": re.compile(rf"^{_COMMAND}", re.MULTILINE)}
"""Commands of tutorials: behind prompts next to their output, or alone, to be copied."""
_QUOTED = re.compile(rf"^\$ {_COMMAND.removesuffix('$')}\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
_FENCED = re.compile(r"^( *)```(\w*)\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"(?<=\n\n)(?: {4}.*\n)+(?=\n|\Z)")
_INLINE = re.compile(r"`([^`\n]+)`")
_DOCKERFILE_RUN = re.compile(r"^RUN (.*)$", re.MULTILINE)
_OURS = re.compile(rf"(?:opm|{'|'.join(PROGRAMS)})(?= )")
_HEREDOC = re.compile(r"<< 'END'\n.*\nEND", re.DOTALL)
_QUOTED_OR_IGNORED = re.compile(r"""("[^"]*"|'[^']*')|\d?(?:>>?|<(?!\())\s*(?:&\d|[^\s;|&]+)|\s#.*""")
"""Quoted words, redirections and comments."""
_VARIABLE = re.compile(r"\$\{\{.*?\}\}|\$\{[^}]*\}|\$[A-Za-z_]\w*|\$CI_\w+")
_SUBSTITUTION = re.compile(r"\$\(([^()]*)\)")
_KEYWORDS = {"!", "do", "done", "else", "fi", "if", "then", "time", "until", "while"}


_FOREIGN = re.compile(
    r"(?:sudo|apt-get|pip|pipx|uv|python3?|pre-commit|pytest|make|tkn|just|mkdocs|git"
    r"|podman|docker|buildah|skopeo|cosign|kubectl|oc|kustomize|curl|grpcurl|jq|scripts/[a-z-]+) \S+ ."
)
"""Other programs with at least two arguments; shorter texts are names, such as that of ``podman push``."""
_PLACEHOLDER = re.compile(r"(?<![\w$-])(?!API)[A-Z][A-Z_]+(?![\w=-])|\.\.\.|…|\b[ABN]\b|\w\|\w")


@dataclass(frozen=True)
class CommandLine:
    """A command line of a page.

    ``kind`` is ``console`` for commands of tutorials, in blocks ``shell`` or behind ``$`` in blocks ``console``,
    ``block`` for those of other blocks, ``file`` for those in examples of YAML files and Dockerfiles, ``inline`` and
    ``foreign`` for those of our and of other programs in the text, which may be incomplete, and ``unmarked`` for those
    in blocks without a language, which are for output.
    """

    page: str
    number: int
    text: str
    kind: str

    def __str__(self) -> str:
        return f"{self.page}:{self.number}: {self.text}"


def pages() -> list[Path]:
    """Return the pages of the documentation."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def console_script(page: Path, *headings: str) -> str:
    """Return the commands of a page's tutorial blocks as one script, by default those of all sections."""
    return "\n".join(["set -euo pipefail", *console_commands(page, *headings)])


def console_commands(page: Path, *headings: str) -> list[str]:
    """Return the commands of a page's tutorial blocks, by default those of all sections."""
    text = page.read_text()
    sections = [text.split(f"\n## {heading}\n")[1].split("\n## ")[0] for heading in headings] or [text]
    return [command for section in sections for _, command in _console_commands(section)]


def quoted_outputs(page: Path) -> dict[str, str]:
    """Return the output below the prompts of a page by command; ``…`` in it stands for any words of a line."""
    blocks = (dedent(block[3]) for block in _CONSOLE.finditer(page.read_text()) if block[2] == "console")
    found = [example for block in blocks for example in _QUOTED.findall(block)]
    return {command: output for command, output in found if output.strip()}


def _console_commands(text: str) -> Iterator[tuple[int, str]]:
    """Yield the offset and the text of each command of a tutorial."""
    for block in _CONSOLE.finditer(text):
        for command in _TYPED[block[2]].findall(dedent(block[3])):
            yield block.start(3), command


@cache
def command_lines(page: Path) -> tuple[CommandLine, ...]:
    """Return all command lines of a page."""
    text = page.read_text()
    found = [("console", *each) for each in _console_commands(text)]
    for fence in _FENCED.finditer(text):
        found += [(kind, fence.start(3), line) for kind, line in _lines_of_fence(fence[2], dedent(fence[3]))]
    text = _FENCED.sub(_blank, text)
    for block in _INDENTED.finditer(text):
        found += [("block", block.start(), line) for line in _joined(dedent(block[0]))]
    text = _INDENTED.sub(_blank, text)
    for span in _INLINE.finditer(text):
        if _OURS.match(span[1]) or _FOREIGN.match(span[1]):
            kind = "inline" if _OURS.match(span[1]) else "foreign"
            found.append((kind, span.start(), span[1].replace("\\|", "|")))  # as in cells of tables
    name = str(page.relative_to(ROOT))
    return tuple(CommandLine(name, text.count("\n", 0, offset) + 1, line, kind) for kind, offset, line in found)


def executable_lines(page: Path) -> list[CommandLine]:
    """Return the complete command lines of a page in the order of the page."""
    return sorted(filter(_is_complete, command_lines(page)), key=lambda line: line.number)


def _is_complete(line: CommandLine) -> bool:
    """Return whether a line is not only the name of a command, or a text with placeholders."""
    if line.kind not in ("inline", "foreign"):
        return line.kind != "unmarked"
    if _PLACEHOLDER.search(line.text):
        return False
    if line.kind == "foreign":
        return True
    words = simple_commands(line.text)[0]
    _, _, rest = resolve(words)
    if set(rest) & {"--help", "--help-all"}:
        return True
    try:
        parse(line.text)
    except ValueError:
        return False
    return bool(rest)


def _blank(block: re.Match[str]) -> str:
    """Return text of the same length and with the same lines as a block."""
    return re.sub(".", "x", block[0])


def _lines_of_fence(language: str, content: str) -> Iterator[tuple[str, str]]:
    if language in ("sh", "bash"):
        yield from (("block", line) for line in _joined(content))
    elif language in ("yaml", "yml"):
        scripts = [text for document in yaml.safe_load_all(content) for text in _strings(document)]
        yield from (("file", line) for script in scripts for line in _joined(script) if _OURS.match(line))
    elif language == "dockerfile":
        yield from (("file", _shell_form(command)) for command in _DOCKERFILE_RUN.findall(content))
    elif language in ("", "text"):  # output
        yield from (("unmarked", line) for line in content.splitlines() if line.startswith("$ ") or _OURS.match(line))


def _strings(value: Any) -> Iterator[str]:
    """Yield the strings in a YAML document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for child in value.values() if isinstance(value, dict) else value:
            yield from _strings(child)


def _shell_form(command: str) -> str:
    return shlex.join(json.loads(command)) if command.startswith("[") else command


def _joined(script: str) -> list[str]:
    """Return the lines of a script, those that end in a backslash with the next one."""
    return [line for line in re.sub(r"\\\n *", "", script).splitlines() if line.strip()]


def simple_commands(line: str) -> list[list[str]]:
    """Return the words of each command in a command line, with variables replaced by ``1``."""
    line = _HEREDOC.sub("", re.sub(r"\\\n *", "", line))
    nested = [command for script in _SUBSTITUTION.findall(line) for command in simple_commands(script)]
    line = _QUOTED_OR_IGNORED.sub(lambda found: found[1] or "", _VARIABLE.sub("1", _SUBSTITUTION.sub("1", line)))
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    commands: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("();<>|&"):
            commands.append([])
        elif commands[-1] or (word not in _KEYWORDS and not re.match(r"\w+=", word)):
            commands[-1].append(word)
    return [*nested, *filter(None, commands)]


def programs(line: str) -> list[str]:
    """Return the programs that a command line runs."""
    return [Path(words[0]).name if words[0].startswith("/") else words[0] for words in simple_commands(line)]


@cache
def tree(program: str) -> Any:
    """Return the command of ``opm`` or of another installed program."""
    return all_commands() if program == "opm" else get_command(build_program(program))


def resolve(words: list[str]) -> tuple[Any, str, list[str]]:
    """Return the command that the words name, its path, and the other words; raises ValueError for an unknown one."""
    command, path, rest = tree(words[0]), words[0], words[1:]
    while isinstance(command, TyperGroup) and rest and re.fullmatch(r"[a-z][a-z0-9-]*", rest[0]):
        name = next((name for name in (" ".join(rest[:2]), rest[0]) if name in command.commands), "")
        if not name:
            raise ValueError(f'unknown command "{rest[0]}" of "{path}"')
        command, path, rest = command.commands[name], f"{path} {name}", rest[len(name.split()) :]
    return command, path, rest


def parse(line: str) -> None:
    """Parse a complete command line with the commands that it runs; raises ValueError for an invalid one."""
    for words in simple_commands(line):
        if words[0] in ("opm", *PROGRAMS):
            command, path, rest = resolve(words)
            try:
                command.make_context(path, rest)
            except (OpmkitError, TyperException) as error:
                raise ValueError(to_opmkit_error(error).message) from None


def parse_partially(line: str) -> None:
    """Check that the command and the flags in a command line exist; raises ValueError."""
    words = line.split()
    command, path, rest = resolve(words)
    known = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
    context = command.make_context(path, [], resilient_parsing=True)
    known |= {flag for parameter in command.get_params(context) for flag in parameter.opts}
    for word in rest:
        flag = re.match(r"--?[A-Za-z][\w-]*", word)
        if flag and flag[0] not in known:
            raise ValueError(f'unknown flag {flag[0]} of "{path}"')
