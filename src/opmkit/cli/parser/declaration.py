"""Declaration of the flags and arguments of commands, and of groups of flags that several commands share."""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, Protocol, TypeVar, get_type_hints, runtime_checkable

import typer

T = TypeVar("T")


def flag(default: T, text: str, *names: str, panel: str | None = None, **settings: Any) -> T:
    """Declare a flag: the default of a parameter of a command, or of a field of a dataclass that is a group of flags.

    Args:
        default: value if the flag is not given.
        text: help; hidden flags have none.
        names: names such as ``-t``; without a long one, the name of the parameter is added, as ``--dry-run``
        panel: group of flags in the help; by default the attribute ``panel`` of the dataclass.
        settings: other settings of ``typer.Option``, such as ``metavar``.
    """
    return _declare(typer.Option, default, text, names, {"rich_help_panel": panel, **settings})


def argument(default: T, text: str, **settings: Any) -> T:
    """Declare an argument that may be omitted; ``settings`` are settings of ``typer.Argument``, such as ``metavar``."""
    return _declare(typer.Argument, default, text, (), settings)


def _declare(kind: Callable[..., Any], default: T, text: str, names: tuple[str, ...], settings: dict[str, Any]) -> T:
    """Return a field, as dataclasses expect it, which also declares a parameter of a function."""
    settings = {"help": text or None, "hidden": not text, **settings}
    return dataclasses.field(default=default, metadata={"kind": kind, "names": names, "settings": settings})


@runtime_checkable
class CheckedFlags(Protocol):
    """A group that is checked before the command runs."""

    def check(self) -> None:
        """Raise OpmkitError for invalid flags."""
        ...


def expand_flag_groups(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` with parameters for typer: one for each field of its parameters that are dataclasses."""
    hints = get_type_hints(function, include_extras=True)
    signature = inspect.signature(function)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for name, declared in signature.parameters.items():
        if group := groups.get(name):
            fields = get_type_hints(group, include_extras=True)
            panel = getattr(group, "panel", None)
            parameters += [
                _parameter(field.name, fields[field.name], field, panel) for field in dataclasses.fields(group)
            ]
        else:
            parameters.append(_parameter(name, hints[name], declared.default))

    @functools.wraps(function)
    def expanded(**values: Any) -> Any:
        arguments = {
            name: group(**{field.name: values.pop(field.name) for field in dataclasses.fields(group)})
            for name, group in groups.items()
        }
        for flags in arguments.values():
            if isinstance(flags, CheckedFlags):
                flags.check()
        return function(**values, **arguments)

    expanded.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return expanded


def _parameter(name: str, hint: Any, default: Any, panel: str | None = None) -> inspect.Parameter:
    """Return a parameter as typer expects it; ``default`` may be a field, with a declaration or just a default."""
    if isinstance(default, dataclasses.Field):
        if declared := default.metadata:
            names, settings = declared["names"], dict(declared["settings"])
            if declared["kind"] is typer.Option:
                if not any(long.startswith("--") for long in names):
                    names = (f"--{name.replace('_', '-')}", *names)
                if settings["rich_help_panel"] is None:
                    settings["rich_help_panel"] = panel
            hint = Annotated[hint, declared["kind"](*names, **settings)]
        default = default.default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)
