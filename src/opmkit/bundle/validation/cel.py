"""Compilation of constraints in the Common Expression Language (CEL), as in OLM's resolver."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cel_expr_python import cel


DISTRIBUTION = "cel-expr-python"
"""Optional dependency that compiles CEL, in the extra ``cel``: larger than all others, without wheels for musl."""
_MODULE = "cel_expr_python"
MAX_LENGTH = 16 * 1024
"""Maximum length of a rule."""
_COMPILER_ERROR = re.compile(
    r"(?:[A-Z_]+: )*(?:<input>:(?P<location>[-\d:]+): )?(?P<problem>.*?)"
    r"(?: \(in container ''\))?(?: \[[A-Z_]+\])?(?:\n|$)"
)
"""The first error of the compiler: status, severity, location, message and source line."""


class CompilerMissing(Exception):
    """The CEL library is not installed or cannot be loaded."""


def compiler_version() -> str:
    """Return the version of the CEL library, or "" if it is not installed."""
    return _distribution_version() if find_spec(_MODULE) else ""


def _distribution_version() -> str:
    from importlib import metadata  # slow to import: email

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return ""


def compile_problem(rule: str) -> str:
    """Return why a rule does not compile to a boolean expression, or "" if it does.

    In addition to the standard library, a rule can use the variable ``properties``, a list of maps with string keys,
    and the function ``semver_compare(a, b)``, which returns an integer.

    Raises:
        CompilerMissing: The CEL library is not available.
    """
    if len(rule) > MAX_LENGTH:
        return f"{len(rule)} characters exceed the limit of {MAX_LENGTH}"
    try:
        rule.encode()
        kind = _environment().compile(rule).return_type().name()
    except UnicodeEncodeError:
        return "lone surrogate in the text"
    except RuntimeError as error:
        return _error_message(str(error))
    return "" if kind == "BOOL" else f"the result has the type {kind}, not BOOL"


@cache
def _environment() -> cel.Env:
    try:
        from cel_expr_python import cel
    except ImportError as error:
        cause = f"cannot be loaded: {error}" if _distribution_version() else "is not installed"
        raise CompilerMissing(f"{DISTRIBUTION} {cause}") from error
    properties = cel.Type.List(cel.Type.Map(cel.Type.STRING, cel.Type.DYN))
    compare = cel.Overload("semver_compare", return_type=cel.Type.INT, parameters=[cel.Type.DYN, cel.Type.DYN])
    functions = [cel.FunctionDecl("semver_compare", [compare])]
    return cel.NewEnv(variables={"properties": properties}, functions=functions)


def _error_message(error: str) -> str:
    match = _COMPILER_ERROR.match(error)
    if match is None:
        return error
    location = match["location"]
    return match["problem"] + (f" (at {location})" if location and "-" not in location else "")
