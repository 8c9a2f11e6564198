"""Rules in the Common Expression Language, as the resolver of operators compiles them."""

from __future__ import annotations

import re
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cel_expr_python import cel

DISTRIBUTION = "cel-expr-python"
"""The distribution that compiles rules. It has no wheels for some platforms, such as Linux with musl."""
MAX_LENGTH = 16 * 1024
"""Characters that a rule may have."""

_COMPLAINT = re.compile(
    r"(?:[A-Z_]+: )*(?:<input>:(?P<place>[-\d:]+): )?(?P<problem>.*?)(?: \(in container ''\))?(?: \[[A-Z_]+\])?(?:\n|$)"
)
"""The first complaint of the compiler: status and severity, place, what is wrong, and the line that shows it."""


class CompilerMissing(Exception):
    """The library that compiles rules is not installed, or cannot be loaded; the text is the cause."""


def compiler_version() -> str:
    """Return the version of the library that compiles rules, "" if it is not installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return ""


def compile_problem(rule: str) -> str:
    """What keeps a rule from being one that yields true or false, "" if nothing does.

    It may use the variable ``properties``, a list of maps from texts to anything; the function
    ``semver_compare(a, b)``, which gives an integer; and the functions and macros of the language.

    Raises:
        CompilerMissing: if rules can't be compiled here.
    """
    if len(rule) > MAX_LENGTH:
        return f"it has {len(rule)} characters, but may have {MAX_LENGTH} at most"
    try:
        rule.encode()
        kind = _environment().compile(rule).return_type().name()
    except UnicodeEncodeError:
        return "it has half of a surrogate pair"
    except RuntimeError as error:
        return _told(str(error))
    return "" if kind == "BOOL" else f"it yields a value of type {kind}, not true or false"


@cache
def _environment() -> cel.Env:
    try:
        from cel_expr_python import cel
    except ImportError as error:
        cause = f"cannot be loaded: {error}" if compiler_version() else "is not installed"
        raise CompilerMissing(f"{DISTRIBUTION} {cause}") from error
    properties = cel.Type.List(cel.Type.Map(cel.Type.STRING, cel.Type.DYN))
    compare = cel.Overload("semver_compare", return_type=cel.Type.INT, parameters=[cel.Type.DYN, cel.Type.DYN])
    functions = [cel.FunctionDecl("semver_compare", [compare])]
    return cel.NewEnv(variables={"properties": properties}, functions=functions)


def _told(error: str) -> str:
    complaint = _COMPLAINT.match(error)
    if complaint is None:
        return error
    place = complaint["place"]
    return complaint["problem"] + (f" (at {place})" if place and "-" not in place else "")
