"""Values of flags and arguments that are ready without a schema library.

typer converts every value by pydantic, which takes longer to load than most commands to run. Text, switches, paths,
choices and lists of text need none of it; whatever else there is goes typer's way.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any


class PlainValues:
    """Stands before typer's conversion of one parameter."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """The value for the command; raises typer's BadParameter."""
        wanted = param.type_descriptor.annotation
        if value is None:
            return () if param.multiple or param.nargs == -1 else None
        if isinstance(wanted, type) and isinstance(value, wanted):
            return value
        if wanted is Path and isinstance(value, str):
            return Path(value)
        if isinstance(wanted, type) and issubclass(wanted, StrEnum) and value in list(wanted):
            return wanted(value)
        if wanted == list[str] and isinstance(value, (list, tuple)):
            return list(value)
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)


def converted_plainly(parameter: Any) -> Any:
    """The parameter of typer's, made to do without pydantic where it can."""
    if getattr(parameter, "_runtime_param", None) is None:
        parameter._runtime_param = PlainValues()  # typer has no hook for it
    return parameter
