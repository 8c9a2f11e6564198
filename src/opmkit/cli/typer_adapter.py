"""Conversion of command line values without pydantic.

typer converts each value with a pydantic adapter, and importing pydantic takes longer than most commands run. Strings,
switches, paths, choices and lists of strings do not need it; other values are converted by typer.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any


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
        return self._typer_converter().coerce(value, param=param, ctx=ctx)


def convert_without_pydantic(parameter: Any) -> Any:
    """Return a parameter of typer with a converter that imports pydantic only if it has to."""
    if "get_runtime_param" not in vars(parameter):
        converter = PlainConverter(parameter)
        parameter.get_runtime_param = lambda: converter
    return parameter
