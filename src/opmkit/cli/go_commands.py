"""Commands and groups of typer with the flags and the errors of commands built with Go's cobra."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import takewhile
from typing import Any

from typer.core import TyperCommand, TyperGroup

from opmkit.cli.errors import UsageError, similar_names
from opmkit.cli.help_flags import create_help_all, describe_help, is_long
from opmkit.cli.hints import set_command_flags
from opmkit.cli.json_failures import detect_json_output, print_failures_as_json
from opmkit.cli.pflag import CommandLine, long_name, move_leading_flags, options_by_name, unknown_flag
from opmkit.cli.typer_adapter import convert_without_pydantic

_MAX_SUGGESTIONS = 3
_GIVEN = "opmkit.given"
"""Key in ``Context.meta``: the long names of the flags on the command line."""


class GoCommand(TyperCommand):
    """A command whose flags follow Go's rules."""

    _help_all: Any = None

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, including ``--help`` and ``--help-all``."""
        parameters = super().get_params(ctx)
        if not any("--help-all" in parameter.opts for parameter in parameters):
            if self._help_all is None:
                self._help_all = create_help_all(self.get_help_option(ctx), hidden=not is_long(parameters))
            parameters = [*parameters, self._help_all]
        return [convert_without_pydantic(parameter) for parameter in parameters]

    def get_help_option(self, ctx: Any) -> Any:
        """Return the flag ``--help``."""
        return describe_help(super().get_help_option(ctx))

    def get_help(self, ctx: Any) -> str:
        """Return the help for the terminal."""
        from opmkit.cli.help_page import current_help

        return current_help(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse ``args`` as pflag does; raises UsageError."""
        if ctx.resilient_parsing:  # shell completion passes incomplete command lines
            return super().parse_args(ctx, args)
        options = options_by_name(self.get_params(ctx))
        set_command_flags(name for name, option in options.items() if not option.hidden)
        detect_json_output(ctx, args, options)
        with print_failures_as_json(ctx):
            return self._parse(ctx, args, CommandLine(options, ctx.command_path))

    def invoke(self, ctx: Any) -> Any:
        """Run the command; if the output is JSON, a failure is also printed to stdout as JSON."""
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
        """Create a group; ``settings`` are those of typer's groups."""
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
        """Load all commands, and those of the groups in this group."""
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

    def get_help_option(self, ctx: Any) -> Any:
        """Return the flag ``--help``."""
        return describe_help(super().get_help_option(ctx))

    def get_help(self, ctx: Any) -> str:
        """Return the help for the terminal."""
        from opmkit.cli.help_page import current_help

        return current_help(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move leading flags behind the name of the command."""
        if not ctx.resilient_parsing:
            args = move_leading_flags(args, self.commands, options_by_name(self.get_params(ctx)))
            self._check_flags(ctx, args)
        return super().parse_args(ctx, args)

    def _check_flags(self, ctx: Any, args: Sequence[str]) -> None:
        """Raise UsageError for an unknown flag before the name of a command; groups have only switches."""
        options = options_by_name(self.get_params(ctx))
        for arg in takewhile(lambda arg: arg.startswith("-") and arg not in ("-", "--"), args):
            name = arg.partition("=")[0] if arg.startswith("--") else arg[:2]
            if name not in options:
                raise unknown_flag(name, arg, options, ctx.command_path)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command; raise UsageError for an unknown one."""
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
