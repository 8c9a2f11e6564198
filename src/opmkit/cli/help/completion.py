"""Shell completion with cobra's protocol: scripts that run ``opm __complete``."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntFlag
from importlib.resources import files
from itertools import chain, islice, repeat
from typing import Any

from msgspec import Struct
from typer.core import TyperArgument, TyperGroup, TyperOption

from opmkit.cli.output.console import print_bytes, print_line
from opmkit.cli.output.errors import print_to_stderr
from opmkit.cli.parser.go_commands import GLOBAL_FLAGS, options_by_name
from opmkit.core.escape import escape_controls

COMPLETE, COMPLETE_PLAIN = "__complete", "__completeNoDesc"
"""Hidden commands of the scripts, with and without descriptions."""

SCRIPTS = {"bash": "opm.bash", "zsh": "opm.zsh", "fish": "opm.fish", "powershell": "opm.ps1", "pwsh": "opm.ps1"}
CHOICES = {
    "TOOL": ("none", "docker", "podman", "buildah"),
    "MODE": ("replaces", "semver", "semver-skippatch"),
    "LEVEL": ("none", "bundle-object-to-csv-metadata", "all"),
    "FORM": ("text", "json", "sarif", "junit", "github", "markdown", "json-alpha1", "preflight"),
    "SEVERITY": ("error", "warning"),
    "[TYPE]": ("basic", "semver", "substitutes", "composite"),
    "[SHELL]": ("bash", "zsh", "fish", "powershell"),
}
"""Choices of text parameters by metavar."""

_NOT_PATHS = frozenset(
    (
        *(
            "ADDRESS",
            "BUNDLE",
            "BYTES",
            "CHANNEL",
            "CONTEXT",
            "DURATION",
            "HOST:PORT",
            "HOURS",
            "KEY=VALUE",
            "N",
            "NAME",
        ),
        *(
            "NAMESPACE",
            "OS/ARCH[/VARIANT]",
            "PACKAGE",
            "PACKAGE=CHANNEL",
            "PACKAGE[:CHANNEL",
            "PORT",
            "PREFIX",
            "RANGE",
        ),
        *("RULE", "SECONDS", "SELECTOR", "TEXT", "VERSION"),
    )
)
"""Metavars of values that are not paths, up to the first comma and without enclosing brackets."""


class Directive(IntFlag):
    """Instructions to the shell (cobra's ShellCompDirective)."""

    DEFAULT = 0
    NO_SPACE = 2
    NO_FILES = 4
    DIRECTORIES = 16


class Candidate(Struct, frozen=True):
    """A possible completion of a word."""

    value: str
    description: str = ""


class Completion(Struct, frozen=True):
    """Candidates for the last word of a command line; without candidates, the shell may complete paths."""

    candidates: tuple[Candidate, ...] = ()
    directive: Directive = Directive.NO_FILES


def completion_script(shell: str, *, descriptions: bool = True) -> str:
    """Return the completion script of ``shell``, a key of SCRIPTS."""
    text = (files("opmkit.cli") / "completions" / SCRIPTS[shell]).read_text("utf-8")
    return text.replace("@COMPLETE@", COMPLETE if descriptions else COMPLETE_PLAIN)


def print_completion(completion: Completion, *, descriptions: bool) -> None:
    """Print candidates, one per line, and the directive, in cobra's format."""
    for candidate in completion.candidates:
        described = descriptions and candidate.description
        texts = [candidate.value, candidate.description] if described else [candidate.value]
        print_bytes(["\t".join(map(escape_controls, texts)).encode() + b"\n"])
    print_line(f":{completion.directive:d}")
    print_to_stderr(f"Completion ended with directive: {completion.directive:d}")


def complete(root: TyperGroup, words: Sequence[str]) -> Completion:
    """Complete the last of ``words``, a command line of the program ``root``."""
    *before, current = words or [""]
    line = _CommandLine(root.make_context("opm", [], resilient_parsing=True))
    for word in before:
        line.read(word)
    if isinstance(line.pending, TyperOption):
        return _complete_value(line.pending, line, current)
    if line.pending or line.unknown_command:
        return Completion(directive=Directive.DEFAULT if line.pending else Directive.NO_FILES)
    if current.startswith("-") and not line.only_arguments:
        return _complete_flag(line, current)
    if isinstance(line.command, TyperGroup):
        return _complete_command(line, current)
    below = [name for name in line.commands_below() if current and name.startswith(current)]
    if below:
        return Completion(tuple(Candidate(name, _first_line(line.commands_below()[name].help)) for name in below))
    argument = _current_argument(line)
    if argument is None:
        return Completion()
    if argument.metavar == "[COMMAND]...":  # opm help
        return complete(root, [*line.arguments, current]) if not current.startswith("-") else Completion()
    return _complete_value(argument, line, current)


class _CommandLine:
    """The words before the cursor: the command that they name, and the state of its flags and arguments."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.arguments: list[str] = []
        self.given: set[str] = set()
        self.pending: TyperOption | str | None = None
        """The flag whose value is the next word; its name if this command does not have it."""
        self.only_arguments = False
        self.unknown_command = False
        self.options = self._options()

    @property
    def command(self) -> Any:
        return self.context.command

    def read(self, word: str) -> None:
        if self.pending:
            self.pending = None
        elif word == "--":
            self.only_arguments = True
        elif word.startswith("-") and len(word) > 1 and not self.only_arguments:
            self._read_flag(word)
        elif isinstance(self.command, TyperGroup):
            self._enter(word)
        elif word in self.commands_below():
            name, self.context = f"{self.context.info_name} {word}", self.context.parent
            self._enter(name)
        else:
            self.arguments.append(word)

    def commands_below(self) -> dict[str, Any]:
        """Return the commands that are named by another word after the one of this command, before its arguments."""
        group, start = self.context.parent, f"{self.context.info_name} "
        if self.arguments or group is None:
            return {}
        commands = group.command.commands.items()
        return {name.removeprefix(start): command for name, command in commands if name.startswith(start)}

    def _read_flag(self, word: str) -> None:
        name, equals, _ = word.partition("=")
        if equals:
            self.given.add(name)
            return
        for letter in [name] if name.startswith("--") else [f"-{letter}" for letter in name[1:]]:
            option = self.options.get(letter)
            self.given.add(letter)
            takes_value = GLOBAL_FLAGS.get(letter, False) if option is None else not option.is_flag
            if takes_value:
                self.pending = (option or letter) if name.endswith(letter.lstrip("-")) else None
                return

    def _enter(self, word: str) -> None:
        command = self.command.get_command(self.context, word)
        if command is None:
            self.unknown_command = True
            return
        self.context = command.make_context(word, [], parent=self.context, resilient_parsing=True)
        self.options = self._options()

    def _options(self) -> dict[str, TyperOption]:
        return options_by_name([param for param in self.command.get_params(self.context) if not param.hidden])


def _complete_command(line: _CommandLine, current: str) -> Completion:
    candidates = [
        Candidate(name, _first_line(command.help))
        for name, command in line.command.commands.items()
        if name.startswith(current) and " " not in name and not command.hidden
    ]
    return Completion(tuple(candidates))


def _complete_flag(line: _CommandLine, current: str) -> Completion:
    name, equals, value = current.partition("=")
    if equals and (option := line.options.get(name)):
        completion = _complete_value(option, line, value)
        candidates = [
            Candidate(f"{name}={candidate.value}", candidate.description) for candidate in completion.candidates
        ]
        return Completion(tuple(candidates), completion.directive)
    used = {id(option) for name in line.given if (option := line.options.get(name)) and not option.multiple}
    return Completion(
        tuple(
            Candidate(name, _first_line(option.help))
            for name, option in line.options.items()
            if name.startswith(current) and id(option) not in used
        )
    )


def _current_argument(line: _CommandLine) -> TyperArgument | None:
    """Return the argument that the current word is for."""
    arguments = (param for param in line.command.get_params(line.context) if isinstance(param, TyperArgument))
    slots = chain.from_iterable(
        repeat(param) if param.nargs < 0 else repeat(param, param.nargs) for param in arguments if not param.hidden
    )
    return next(islice(slots, len(line.arguments), None), None)


def _complete_value(param: TyperOption | TyperArgument, line: _CommandLine, current: str) -> Completion:
    from opmkit.cli.help.completion_names import known_names  # reads catalogs

    metavar = param.metavar or ""
    names = known_names(line.context.command_path, param, line.arguments)
    if names:
        start, comma, last = current.rpartition(",") if metavar.endswith(",...") else ("", "", current)
        found = [Candidate(f"{start}{comma}{name}") for name in names if name.startswith(last)]
        return Completion(tuple(found))
    choices = CHOICES.get(metavar) or [item.value for item in param.shell_complete(line.context, "") if item.value]
    if choices:
        return Completion(tuple(Candidate(choice) for choice in choices if choice.startswith(current)))
    kind = metavar.partition(",")[0].removesuffix("...")
    kind = kind[1:-1] if kind.startswith("[") else kind
    if kind == "DIR":
        return Completion(directive=Directive.DIRECTORIES)
    return Completion(directive=Directive.NO_FILES if kind in _NOT_PATHS else Directive.DEFAULT)


def _first_line(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
