"""Command lines as Go's pflag parses them.

Callers of Go opm write ``--flag=true``, ``-x=value``, clusters of short switches, and lists as CSV records. Each
command line is rewritten to the form that typer parses. Errors have pflag's messages, which callers match.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from typer.core import TyperOption

from opmkit.cli.errors import UsageError, similar_names
from opmkit.cli.global_flags import GLOBAL_FLAGS

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_REPEATED_FLAGS = frozenset({"--build-arg", "--label"})
"""Flags with one value each time, as StringArray of pflag; other flags that can be repeated take lists."""


@dataclass(slots=True)
class CommandLine:
    """The arguments of one command.

    Attributes:
        options: the command's options by each of their names.
        command: path of the command, for errors.
        given: options on the command line.
        values: options with values, as ``--name=value``.
        switches: options without values, and whether each is on; the last one on the command line counts.
        positionals: the other arguments.
    """

    options: Mapping[str, TyperOption]
    command: str
    given: list[TyperOption] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    switches: dict[str, tuple[TyperOption, bool]] = field(default_factory=dict)
    positionals: list[str] = field(default_factory=list)

    def parse(self, args: Sequence[str]) -> None:
        """Parse ``args``; raises UsageError."""
        rest = iter(args)
        for arg in rest:
            if arg == "--":
                self.positionals.extend(rest)
            elif arg.startswith("--"):
                name, equals, value = arg.partition("=")
                self._parse_flag(name, arg, value if equals else None, rest)
            elif arg.startswith("-") and arg != "-":
                self._parse_cluster(arg, rest)
            else:
                self.positionals.append(arg)

    def _parse_cluster(self, arg: str, rest: Iterator[str]) -> None:
        """Parse ``-abc``, ``-xvalue``, ``-x=value`` or ``-x value``."""
        letters = arg[1:]
        while letters:
            name, letters = "-" + letters[0], letters[1:]
            option = self.options.get(name)
            if letters.startswith("="):
                self._parse_flag(name, arg, letters[1:], rest)
                return
            if option is None or not option.is_flag:
                self._parse_flag(name, arg, letters or None, rest)
                return
            self._parse_flag(name, arg, None, rest)

    def _parse_flag(self, name: str, arg: str, value: str | None, rest: Iterator[str]) -> None:
        """Parse the flag ``name``, spelled ``arg``, whose value is ``value`` or the next argument."""
        option = self.options.get(name)
        if option is None:
            self._skip_global_flag(name, arg, value, rest)
            return
        self.given.append(option)
        if option.is_flag:
            is_negated = name in option.secondary_opts
            self.switches[option.name or name] = (option, self._parse_bool(value, name) != is_negated)
            return
        if value is None:
            value = next(rest, None)
        if value is None:
            raise UsageError(f"flag needs an argument: {arg}", self.command)
        items = parse_csv_record(value) if option.multiple and name not in _REPEATED_FLAGS else [value]
        self.values += [f"{long_name(option)}={item}" for item in items]

    def _skip_global_flag(self, name: str, arg: str, value: str | None, rest: Iterator[str]) -> None:
        """Skip a global flag that this command does not have; raises UsageError for any other flag."""
        if name not in GLOBAL_FLAGS:
            raise unknown_flag(name, arg, self.options, self.command)
        if GLOBAL_FLAGS[name] and value is None:
            next(rest, None)

    def _parse_bool(self, value: str | None, name: str) -> bool:
        if value is None or value in _TRUE:
            return True
        if value in _FALSE:
            return False
        raise UsageError(f'invalid argument "{value}" for "{name}" flag: must be true or false', self.command)

    def for_typer(self) -> list[str]:
        """Return the arguments in the form that typer parses."""
        switches: list[str] = []
        for option, on in self.switches.values():
            switches += [long_name(option)] if on else option.secondary_opts[:1]
        return [*switches, *self.values, "--", *self.positionals]


def unknown_flag(name: str, arg: str, options: Mapping[str, TyperOption], command: str) -> UsageError:
    """Return pflag's error for the flag ``name``, spelled ``arg``."""
    if not name.startswith("--"):
        return UsageError(f"unknown shorthand flag: '{name[1:]}' in {arg}", command)
    known = {flag[2:] for flag, option in options.items() if not option.hidden and flag.startswith("--")}
    similar = [f"--{flag}" for flag in similar_names(name[2:], known)]
    return UsageError(f"unknown flag: {name}", command, similar=similar)


def parse_csv_record(value: str) -> list[str]:
    """Split the value of a list flag as one CSV record; "" and two double quotes are the empty list.

    Raises:
        UsageError: there is a line break outside quotes.
    """
    if value in ("", '""'):
        return []
    import csv  # slow to import: few command lines have lists

    try:
        return next(csv.reader([value]))
    except csv.Error as error:
        raise UsageError(f"{value!r}: invalid comma-separated list: {error}") from error


def options_by_name(params: Sequence[Any]) -> dict[str, TyperOption]:
    """Return the options among ``params`` by each of their names."""
    return {
        name: param
        for param in params
        if isinstance(param, TyperOption)
        for name in (*param.opts, *param.secondary_opts)
    }


def long_name(option: TyperOption) -> str:
    """Return the name of an option that starts with two dashes."""
    return next(name for name in option.opts if name.startswith("--"))


def move_leading_flags(args: list[str], commands: Container[str], own: Container[str]) -> list[str]:
    """Move flags behind the name of the command that follows them, as cobra does.

    A flag that is neither global nor one of the group's ``own`` has a value, unless it is a cluster of short flags.
    Such flags are only moved behind one of ``commands``, so that others are reported.
    """
    count = _count_leading(args, lambda name: name in GLOBAL_FLAGS)
    guessed = _count_leading(args, lambda name: name.startswith("-") and name not in ("-", "--") and name not in own)
    if args[guessed : guessed + 1] and args[guessed] in commands:
        count = guessed
    return [*args[count : count + 1], *args[:count], *args[count + 1 :]]


def _count_leading(args: Sequence[str], is_moved: Callable[[str], bool]) -> int:
    """Return the number of leading arguments that are flags to move, or their values."""
    count = 0
    while count < len(args):
        name, equals, _ = args[count].partition("=")
        if not is_moved(name):
            break
        has_value = GLOBAL_FLAGS.get(name, name.startswith("--") or len(name) == len("-x"))
        count += 2 if has_value and not equals else 1
    return count
