"""Failures as JSON on stdout, for commands whose output is JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from typer import Abort, Exit
from typer.core import TyperOption

from opmkit.cli.console import print_json
from opmkit.cli.errors import failure_document, to_opmkit_error
from opmkit.cli.streams import OutputError

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
    """Print an error that leaves the block to stdout as JSON, if the command line asks for JSON."""
    try:
        yield
    except (BrokenPipeError, OutputError, Abort, Exit):
        raise
    except Exception as error:
        if ctx.meta.get(_IS_JSON):
            result = {"passed": False} if ctx.info_name == "validate" else {}  # as in validation reports
            print_json({**result, **failure_document(to_opmkit_error(error))})
        raise
