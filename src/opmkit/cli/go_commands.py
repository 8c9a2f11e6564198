"""Command lines as Go's pflag and cobra read them, on top of typer.

Callers of the Go tool write ``--flag=true``, ``-x=value``, clusters of short switches, lists as CSV records, and put
global flags before the command. Each command line is rewritten here to the plain form that typer parses, and what is
wrong with it is told in cobra's words, which callers match.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from typer import TyperException
from typer.core import TyperCommand, TyperGroup, TyperOption

from opmkit.cli.console import print_json, print_text
from opmkit.cli.errors import UsageProblem, as_advised, failure_document, print_error, similar_names
from opmkit.cli.hints import set_command_flags
from opmkit.cli.registry_flags import GLOBAL_FLAGS
from opmkit.cli.streams import OutputError
from opmkit.cli.typer_adapter import converted_plainly
from opmkit.imagetools.errors import OpmkitError

GIVEN = "opmkit.given"
"""Key in ``Context.meta``: the names of the flags that stood on the command line, whatever their value."""

_JSON = "opmkit.json"
"""Key in ``Context.meta``: whether the command line asks for JSON."""
_FORMS = ("output", "optional_validators")
"""Parameters that take the form of the result; the second as ``bundle validate -o``, which is Go's ``-o`` as well."""

_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})


class GoCommand(TyperCommand):
    """A command whose flags follow Go's rules."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, ``--help`` among them."""
        return [converted_plainly(parameter) for parameter in super().get_params(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Rewrite ``args`` for typer; raises UsageProblem in cobra's words."""
        if ctx.resilient_parsing:  # shell completion hands in unfinished lines
            return super().parse_args(ctx, args)
        options = _options(self.get_params(ctx))
        set_command_flags(name for name, option in options.items() if not option.hidden)
        ctx.meta[_JSON] = _asks_for_json(args, options)
        with _failures_as_json(ctx):
            return self._parse(ctx, args, _Line(options, ctx.command_path))

    def invoke(self, ctx: Any) -> Any:
        """Run the command; where JSON is asked for, a failure is written to stdout as JSON, too."""
        with _failures_as_json(ctx):
            return super().invoke(ctx)

    def _parse(self, ctx: Any, args: list[str], line: _Line) -> list[str]:
        line.read(args)
        given = frozenset(_long(option).removeprefix("--") for option in line.given)
        if "skip-tls" in given and given & {"skip-tls-verify", "use-http"}:  # even where they are false, as in Go
            raise UsageProblem("--skip-tls cannot be combined with --skip-tls-verify or --use-http", ctx.command_path)
        ctx.meta[GIVEN] = given
        return super().parse_args(ctx, line.plain())


class GoGroup(TyperGroup):
    """A group of commands that takes the global flags of its commands before their name, too."""

    lenient = False

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters, ``--help`` among them."""
        return [converted_plainly(parameter) for parameter in super().get_params(ctx)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move leading global flags behind the name of the command that they belong to."""
        if not ctx.resilient_parsing:
            args = _behind_name(args)
            self._refuse_unknown_flags(ctx, args)
        return super().parse_args(ctx, args)

    def _refuse_unknown_flags(self, ctx: Any, args: Sequence[str]) -> None:
        """Raise UsageProblem in cobra's words for a flag before the name of a command; groups have switches alone."""
        options = _options(self.get_params(ctx))
        for arg in takewhile(lambda arg: arg.startswith("-") and arg not in ("-", "--"), args):
            name = arg.partition("=")[0] if arg.startswith("--") else arg[:2]
            if name not in options:
                raise _unknown_flag(name, arg, options, ctx.command_path)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; an unknown one is an error, or the group's help where the Go tool is lenient."""
        if args and not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None and args[0][:1] != "-":
            known = [name for name, command in self.commands.items() if not command.hidden]
            problem = UsageProblem(
                f'unknown command "{args[0]}" for "{ctx.command_path}"',
                ctx.command_path,
                similar=[f"'{ctx.command_path} {name}'" for name in similar_names(args[0], known)],
            )
            if not self.lenient:
                raise problem
            print_error(problem)  # scripts rely on the exit status 0 that the Go tool gives here
            print_text(ctx.get_help())
            ctx.exit(0)
        return super().resolve_command(ctx, args)


class LenientGoGroup(GoGroup):
    """A group that answers an unknown command with its help and success, as the Go tool's inner groups do."""

    lenient = True


@dataclass(slots=True)
class _Line:
    """One command line being read."""

    options: dict[str, TyperOption]
    command: str
    given: list[TyperOption] = field(default_factory=list)
    values: list[str] = field(default_factory=list)
    switches: dict[str, tuple[TyperOption, bool]] = field(default_factory=dict)
    positionals: list[str] = field(default_factory=list)

    def read(self, args: Sequence[str]) -> None:
        rest = iter(args)
        for arg in rest:
            if arg == "--":
                self.positionals.extend(rest)
            elif arg.startswith("--"):
                name, equals, value = arg.partition("=")
                self._flag(name, arg, value if equals else None, rest)
            elif arg.startswith("-") and arg != "-":
                self._cluster(arg, rest)
            else:
                self.positionals.append(arg)

    def _cluster(self, arg: str, rest: Iterator[str]) -> None:
        """Read ``-abc``, ``-xvalue``, ``-x=value`` or ``-x value``."""
        letters = arg[1:]
        while letters:
            name, letters = "-" + letters[0], letters[1:]
            option = self.options.get(name)
            if letters.startswith("="):
                self._flag(name, arg, letters[1:], rest)
                return
            if option is None or not option.is_flag:
                self._flag(name, arg, letters or None, rest)
                return
            self._flag(name, arg, None, rest)

    def _flag(self, name: str, arg: str, value: str | None, rest: Iterator[str]) -> None:
        """Read the flag ``name``, spelled ``arg``, with the ``value`` attached to it or else the next argument."""
        option = self.options.get(name)
        if option is None:
            return self._foreign(name, arg, value, rest)
        self.given.append(option)
        if option.is_flag:
            self.switches[option.name or name] = (option, self._truth(value, name))
            return None
        if value is None:
            value = next(rest, None)
        if value is None:
            raise UsageProblem(f"flag needs an argument: {arg}", self.command)
        self.values += [f"{_long(option)}={item}" for item in (csv_record(value) if option.multiple else [value])]
        return None

    def _foreign(self, name: str, arg: str, value: str | None, rest: Iterator[str]) -> None:
        """Pass over a global flag that this command has no use for; refuse any other."""
        if name not in GLOBAL_FLAGS:
            raise _unknown_flag(name, arg, self.options, self.command)
        if GLOBAL_FLAGS[name] and value is None:
            next(rest, None)

    def _truth(self, value: str | None, name: str) -> bool:
        if value is None or value in _TRUE:
            return True
        if value in _FALSE:
            return False
        raise UsageProblem(f'invalid argument "{value}" for "{name}" flag: must be true or false', self.command)

    def plain(self) -> list[str]:
        """The line as typer reads it."""
        switches: list[str] = []
        for option, on in self.switches.values():
            switches += [_long(option)] if on else option.secondary_opts[:1]
        return [*switches, *self.values, "--", *self.positionals]


def _unknown_flag(name: str, arg: str, options: Mapping[str, TyperOption], command: str) -> UsageProblem:
    """Return the error for the flag ``name``, spelled ``arg``, in cobra's words."""
    if not name.startswith("--"):
        return UsageProblem(f"unknown shorthand flag: '{name[1:]}' in {arg}", command)
    known = {flag[2:] for flag, option in options.items() if not option.hidden and flag.startswith("--")}
    similar = [f"--{flag}" for flag in similar_names(name[2:], known)]
    return UsageProblem(f"unknown flag: {name}", command, similar=similar)


def csv_record(value: str) -> list[str]:
    """Split a list flag's value as one CSV record; empty, or two double quotes, is the empty list.

    Raises UsageProblem for a line break that is not in quotes.
    """
    if value in ("", '""'):
        return []
    try:
        return next(csv.reader([value]))
    except csv.Error as error:
        raise UsageProblem(f"{value!r} is no comma-separated list: {error}") from error


def given_flags(ctx: Any) -> frozenset[str]:
    """The long names of the flags on the command line of ``ctx``, also of those set to their default."""
    names: frozenset[str] = ctx.meta.get(GIVEN, frozenset())
    return names


def require_flags(ctx: Any, *names: str) -> None:
    """Demand that flags were given, if only with an empty value; raises UsageProblem."""
    missing = [f'"{name}"' for name in names if name not in given_flags(ctx)]
    if missing:
        raise UsageProblem(f"required flag(s) {', '.join(missing)} not set", ctx.command_path)


@contextmanager
def _failures_as_json(ctx: Any) -> Iterator[None]:
    """Write an error that leaves the command to stdout as JSON, where JSON is asked for."""
    try:
        yield
    except (BrokenPipeError, OutputError):
        raise
    except (OpmkitError, TyperException, OSError) as error:
        if ctx.meta.get(_JSON):
            passed = {"passed": False} if ctx.info_name == "validate" else {}  # as reports of validation begin
            print_json({**passed, **failure_document(as_advised(error))})
        raise


def _asks_for_json(args: Sequence[str], options: Mapping[str, TyperOption]) -> bool:
    """Return whether a command line, which may have errors, asks for its result as JSON."""
    flags = {name for name in ("-o", "--output") if name in options and _takes_form(options[name])}
    spelled = {f"{name}{sign}json" for name in flags for sign in ("=", *([""] if name == "-o" else []))}
    words = args[: args.index("--")] if "--" in args else args
    apart = any(name in flags and value == "json" for name, value in pairwise(words))
    return apart or not spelled.isdisjoint(words)


def _takes_form(option: TyperOption) -> bool:
    return option.name in _FORMS and option.type_descriptor.annotation is not Path  # a companion's --output is a file


def _options(params: Sequence[Any]) -> dict[str, TyperOption]:
    """Every option by every spelling of it."""
    return {
        name: param
        for param in params
        if isinstance(param, TyperOption)
        for name in (*param.opts, *param.secondary_opts)
    }


def _long(option: TyperOption) -> str:
    return next(name for name in option.opts if name.startswith("--"))


def _behind_name(args: list[str]) -> list[str]:
    """Put global flags that stand before the first word behind it."""
    count = 0
    while count < len(args):
        name, equals, _ = args[count].partition("=")
        if name not in GLOBAL_FLAGS:
            break
        count += 2 if GLOBAL_FLAGS[name] and not equals else 1
    return [*args[count : count + 1], *args[:count], *args[count + 1 :]]
