"""Groups of flags that several commands share, as frozen dataclasses.

A command takes a group as one parameter; ``expand_flag_groups`` replaces it by one flag per field.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Any, Protocol, get_type_hints, runtime_checkable


@runtime_checkable
class CheckedFlags(Protocol):
    """A group that is checked before the command runs."""

    def check(self) -> None:
        """Raise OpmkitError for invalid flags."""
        ...


def expand_flag_groups(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``function`` with a keyword parameter for each field of its parameters that are dataclasses."""
    hints = get_type_hints(function, include_extras=True)
    signature = inspect.signature(function)
    groups: dict[str, Any] = {name: hint for name, hint in hints.items() if dataclasses.is_dataclass(hint)}
    parameters: list[inspect.Parameter] = []
    for parameter in signature.parameters.values():
        group = groups.get(parameter.name)
        if group is None:
            parameters.append(parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY))
        else:
            parameters += _field_parameters(group)

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


def _field_parameters(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in dataclasses.fields(group)
    ]
