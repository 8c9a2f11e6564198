"""Commands and groups of typer with the flags and the errors of commands built with Go's cobra."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from copy import copy
from enum import StrEnum
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from msgspec import Struct
from typer import Abort, Exit
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from opmkit.cli.help.panels import is_long
from opmkit.cli.hints import set_command_flags
from opmkit.cli.output.console import print_json_line
from opmkit.cli.output.errors import UsageError, failure_document, similar_names, to_opmkit_error
from opmkit.cli.output.streams import OutputError

GLOBAL_FLAGS = {
    "--skip-tls": False,
    "--skip-tls-verify": False,
    "--use-http": False,
    "--debug": False,
    "--verbose": False,  # operator-sdk's name for it
    "--ca-file": True,
    "--cert-dir": True,
    "--authfile": True,
    "--signature-policy": True,
    "--insecure-policy": False,
    "--progress": True,
}
"""Flags that are valid anywhere on the command line, and whether each takes a value."""
NEVER_EMPTY = frozenset(
    {"--require-signature", "--signature-policy", "--signed-repository", "--annotations", "--key", "--trusted-root"}
    | {"--certificate-identity", "--certificate-oidc-issuer", "--ca-file", "--cert-dir", "--authfile"}
    | {"--against", "--allowed-registries", "--alpha-select-external", "--fail-on", "--from", "--openshift-version"}
    | {"--profile", "--index"}
)
"""Flags that restrict what is accepted: an empty value, perhaps of an unset variable, must not lift the restriction.

Those that name an index likewise: it would be the working directory.
"""
MAY_BE_EMPTY = frozenset({"PACKAGE", "[PACKAGE]"})
"""Arguments that Go accepts without text; any other one would name the working directory or standard input."""
_NAMED = "[NAME=]"
"""Start of how the help writes an argument that may have a name."""
_MAX_SUGGESTIONS = 3
_GIVEN = "opmkit.given"
"""Key in ``Context.meta``: the long names of the flags on the command line."""


class GoCommand(TyperCommand):
    """A command whose flags follow Go's rules."""

    _help_all: Any = None

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, including ``--help`` and ``--help-all``."""
        parameters = super().get_params(ctx)
        if self._help_all is None:
            self._help_all = create_help_all(self.get_help_option(ctx), hidden=not is_long(parameters))
        if not any("--help-all" in parameter.opts for parameter in parameters):  # as a flag of 'opm help'
            parameters = [*parameters, self._help_all]
        return [convert_without_pydantic(parameter) for parameter in parameters]

    def get_help(self, ctx: Any) -> str:
        """Return the help for the terminal."""
        from opmkit.cli.help.page import current_help

        return current_help(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse ``args`` as pflag does; raises UsageError."""
        if ctx.resilient_parsing:  # shell completion passes incomplete command lines
            return super().parse_args(ctx, args)
        params = self.get_params(ctx)
        options = options_by_name(params)
        set_command_flags(visible_flags(options.values()))
        detect_json_output(ctx, args, options)
        with print_failures_as_json(ctx):
            return self._parse(ctx, args, CommandLine(options, ctx.command_path, _metavars(params)))

    def invoke(self, ctx: Any) -> Any:
        """Run the command; if the output is JSON, a failure is also printed to stderr as JSON."""
        with print_failures_as_json(ctx):
            return super().invoke(ctx)

    def _parse(self, ctx: Any, args: list[str], line: CommandLine) -> list[str]:
        line.parse(args)
        given = frozenset(long_name(option).removeprefix("--") for option in line.given)
        if "skip-tls" in given and given & {"skip-tls-verify", "use-http"}:  # as in Go, even if they are false
            raise UsageError("--skip-tls cannot be combined with --skip-tls-verify or --use-http", ctx.command_path)
        ctx.meta[_GIVEN] = given
        return super().parse_args(ctx, line.for_typer())


class GoGroup(TyperGroup):
    """A group of commands that also accepts the flags of its commands before their names."""

    _help_all: Any = None

    def __init__(self, **settings: Any) -> None:
        """Create a group with the ``settings`` of a group of typer."""
        super().__init__(**settings)
        self._lazy: dict[str, Callable[[], Any]] = {}

    def add_lazy(self, listed: Any, load: Callable[[], Any]) -> None:
        """Add a command or group that ``load`` returns; until it is looked up, ``listed`` has its name and help."""
        self.add_command(listed)
        self._lazy[listed.name] = load

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command, loaded if necessary; None if there is none of this name."""
        if load := self._lazy.pop(cmd_name, None):
            self.add_command(load())
        return super().get_command(ctx, cmd_name)

    def find_paths(self, name: str, path: str) -> list[str]:
        """Return the commands of this name in the groups below this one, which is called ``path``."""
        found = [f"{path} {name}"] if name in self.commands and not self.commands[name].hidden else []
        for group in [entry for entry, command in self.commands.items() if isinstance(command, GoGroup)]:
            command = self.get_command(None, group)
            if not command.hidden:
                found += command.find_paths(name, f"{path} {group}")
        return found

    def load_all(self) -> None:
        """Load all commands of this group and of the groups in it."""
        for name in self.commands:
            command = self.get_command(None, name)
            if isinstance(command, GoGroup):
                command.load_all()

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, including ``--help`` and ``--help-all``."""
        if self._help_all is None:
            is_nested = any(isinstance(command, TyperGroup) for command in self.commands.values())
            text = "Show this help with the commands of all groups"
            self._help_all = create_help_all(self.get_help_option(ctx), hidden=not is_nested, text=text)
        return [convert_without_pydantic(parameter) for parameter in (*super().get_params(ctx), self._help_all)]

    def get_help(self, ctx: Any) -> str:
        """Return the help for the terminal."""
        from opmkit.cli.help.page import current_help

        return current_help(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move leading flags behind the name of the command."""
        if not ctx.resilient_parsing:
            args = move_leading_flags(args, self.commands, options_by_name(self.get_params(ctx)))
            self._check_flags(ctx, args)
        return super().parse_args(ctx, args)

    def _check_flags(self, ctx: Any, args: Sequence[str]) -> None:
        """Raise UsageError for an unknown flag before the name of a command; groups have only switches."""
        params = self.get_params(ctx)
        options = options_by_name(params)
        for arg in takewhile(lambda arg: arg.startswith("-") and arg not in ("-", "--"), args):
            name = arg.partition("=")[0] if arg.startswith("--") else arg[:2]
            if name not in options:
                raise unknown_flag(name, arg, options, ctx.command_path)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, which may have a name of two words; raise UsageError for an unknown one."""
        if (name := " ".join(args[:2])) in self.commands and len(args) > 1:
            return name, self.get_command(ctx, name), args[2:]
        if args and not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None and args[0][:1] != "-":
            known = [name for name, command in self.commands.items() if not command.hidden]
            similar = [f"{ctx.command_path} {name}" for name in similar_names(args[0], known)]
            root = ctx.find_root()
            if not similar and isinstance(root.command, GoGroup):
                similar = root.command.find_paths(args[0], root.command_path)[:_MAX_SUGGESTIONS]
            raise UsageError(
                f'unknown command "{args[0]}" for "{ctx.command_path}"',
                ctx.command_path,
                similar=[f"'{path}'" for path in similar],
            )
        return super().resolve_command(ctx, args)


def runs_as_operator_sdk(ctx: Any) -> bool:
    """Return whether the program that runs the command is operator-sdk, not opm."""
    return bool(ctx.find_root().info_name == "operator-sdk")


def given_flags(ctx: Any) -> frozenset[str]:
    """Return the long names, without dashes, of the flags on the command line, even if set to their default."""
    names: frozenset[str] = ctx.meta.get(_GIVEN, frozenset())
    return names


def require_flags(ctx: Any, *names: str, hint: str = "") -> None:
    """Raise UsageError unless all these flags are on the command line; their values may be empty."""
    missing = [f'"{name}"' for name in names if name not in given_flags(ctx)]
    if missing:
        raise UsageError(f"required flag(s) {', '.join(missing)} not set", ctx.command_path, hint=hint)


_PLAIN_NUMBER = {int: re.compile(r"[0-9]{1,9}"), float: re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?")}


class PlainConverter:
    """Replacement for the converter of one parameter of typer."""

    def __init__(self, parameter: Any) -> None:
        """Remember how typer converts the values of ``parameter``."""
        self._annotation = parameter.type_descriptor.annotation
        self._typer_converter = parameter.get_runtime_param

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value for the command; raises typer's BadParameter."""
        annotation = self._annotation
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if isinstance(annotation, type) and isinstance(value, annotation):
            return value
        if annotation is Path and isinstance(value, str):
            return Path(value)
        if isinstance(annotation, type) and issubclass(annotation, StrEnum) and value in list(annotation):
            return annotation(value)
        if annotation == list[str] and isinstance(value, (list, tuple)):
            return list(value)
        if annotation in (int, float) and _PLAIN_NUMBER[annotation].fullmatch(str(value)):
            number = annotation(value)
            if (param.min is None or number >= param.min) and (param.max is None or number <= param.max):
                return number
        return self._typer_converter().coerce(value, param=param, ctx=ctx)


def convert_without_pydantic(parameter: Any) -> Any:
    """Return a parameter of typer with a converter that imports pydantic only if it has to."""
    if "get_runtime_param" not in vars(parameter):
        converter = PlainConverter(parameter)
        parameter.get_runtime_param = lambda: converter
    return parameter


_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_REPEATED_FLAGS = frozenset({"--build-arg", "--label"})
"""Flags with one value each time, as StringArray of pflag; other flags that can be repeated take lists."""


class CommandLine(Struct):
    """The arguments of one command.

    Attributes:
        options: the command's options by each of their names.
        command: path of the command, for errors.
        arguments: how the help writes the arguments of the command, for errors.
        given: options on the command line.
        values: options with values, as ``--name=value``.
        switches: options without values, and whether each is on; the last one on the command line counts.
        positionals: the other arguments.
    """

    options: Mapping[str, TyperOption]
    command: str
    arguments: Sequence[str] = ()
    given: list[TyperOption] = []
    values: list[str] = []
    switches: dict[str, tuple[TyperOption, bool]] = {}
    positionals: list[str] = []

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
        self._check_positionals()

    def _check_positionals(self) -> None:
        """Raise UsageError for an argument without text, or nothing after ``NAME=``, perhaps of an unset variable."""
        for number, text in enumerate(self.positionals):
            metavar = self.arguments[min(number, len(self.arguments) - 1)] if self.arguments else ""
            is_empty = not text or (metavar.startswith(_NAMED) and text.endswith("="))
            if is_empty and metavar not in MAY_BE_EMPTY:
                message = f"empty argument {_plain(metavar).removesuffix('...')}".rstrip()
                raise UsageError(message, self.command, hint="check whether a variable is unset")

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
        if long_name(option) in NEVER_EMPTY and not (items and all(items)):
            hint = f"pass a value, or leave out {name}; check whether a variable is unset"
            raise UsageError(f"empty value of {name}", self.command, hint=hint)
        self.values += [f"{long_name(option)}={item}" for item in items]

    def _skip_global_flag(self, name: str, arg: str, value: str | None, rest: Iterator[str]) -> None:
        """Skip a global flag that this command does not have; raises UsageError for any other flag."""
        if name not in GLOBAL_FLAGS:
            raise unknown_flag(name, arg, self.options, self.command, self.arguments)
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


def _metavars(params: Iterable[object]) -> list[str]:
    return [param.metavar for param in params if isinstance(param, TyperArgument) and param.metavar]


def _plain(argument: str) -> str:
    """Return how the help writes an argument without the signs of one that may be omitted or repeated."""
    return re.sub(r"^\[(.*)\](\.\.\.)?$", r"\1", argument)


def unknown_flag(
    name: str, arg: str, options: Mapping[str, TyperOption], command: str, arguments: Sequence[str] = ()
) -> UsageError:
    """Return pflag's error for the flag ``name``, spelled ``arg``; it may be the name of an argument."""
    if not name.startswith("--"):
        return UsageError(f"unknown shorthand flag: '{name[1:]}' in {arg}", command)
    known = {flag[2:] for flag, option in options.items() if not option.hidden and flag.startswith("--")}
    for argument in arguments:
        word = re.split("[^a-z]", argument.lower().lstrip("["))[0]
        if word in (name[2:], name[2:].removesuffix("s")):
            hint = f"pass {_plain(argument)} without a flag; run '{command} --help' for examples"
            return UsageError(f"unknown flag: {name}", command, hint=hint)
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


def visible_flags(params: Iterable[Any]) -> Iterator[str]:
    """Yield the names of the flags among ``params`` that help lists."""
    options = options_by_name([*params])
    return (name for name, option in options.items() if not option.hidden)


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
    end = count + (2 if " ".join(args[count : count + 2]) in commands else 1)
    return [*args[count:end], *args[:count], *args[end:]]


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


_IS_JSON = "opmkit.json"
"""Key in ``Context.meta``: whether the command line asks for JSON."""
_FORMAT_PARAMETERS = ("output", "optional_validators")
"""Parameters for the output format; the second is ``-o`` of ``bundle validate``, which Go opm uses for validators."""


def detect_json_output(ctx: Any, args: Sequence[str], options: Mapping[str, TyperOption]) -> None:
    """Store whether a command line, even an invalid one, asks for JSON."""
    flags = {name for name in ("-o", "--output") if name in options and _takes_format(options[name])}
    spellings = {f"{name}{sign}json" for name in flags for sign in ("=", *([""] if name == "-o" else []))}
    words = args[: args.index("--")] if "--" in args else args
    separate = any(name in flags and value == "json" for name, value in pairwise(words))
    ctx.meta[_IS_JSON] = separate or not spellings.isdisjoint(words)


def _takes_format(option: TyperOption) -> bool:
    return option.name in _FORMAT_PARAMETERS and option.type_descriptor.annotation is not Path  # a file of initializer


@contextmanager
def print_failures_as_json(ctx: Any) -> Iterator[None]:
    """Print an error that leaves the block to stderr as a line of JSON, if the command line asks for JSON.

    Scripts redirect stdout to a file, and test whether that is empty.
    """
    try:
        yield
    except (BrokenPipeError, OutputError, Abort, Exit):
        raise
    except Exception as error:
        if ctx.meta.get(_IS_JSON):
            result = {"passed": False} if ctx.info_name == "validate" else {}  # as in validation reports
            with redirect_stdout(sys.stderr):
                print_json_line({**result, **failure_document(to_opmkit_error(error))})
        raise


def create_help_all(option: Any, *, hidden: bool, text: str = "Show this help with all flags") -> Any:
    """Return the flag ``--help-all`` of a command, and describe its flag ``--help``, which is ``option``."""

    def show(ctx: Any, _: Any, value: bool) -> None:
        if value and not ctx.resilient_parsing:
            from opmkit.cli.help.page import print_help

            print_help(ctx, full=True)
            ctx.exit()

    option.help = "Show this help"
    created = copy(option)
    created.name, created.opts, created.hidden = "help_all", ["--help-all"], hidden
    created.help, created.callback = text, show
    return created
