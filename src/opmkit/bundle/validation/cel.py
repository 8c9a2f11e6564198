"""Compilation and evaluation of constraints in the Common Expression Language (CEL), as in OLM's resolver."""

from __future__ import annotations

import re
from functools import cache
from itertools import product
from typing import TYPE_CHECKING

from opmkit.bundle.validation.cache_key import CEL_DISTRIBUTION, distribution_version

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cel_expr_python import cel

    from opmkit.documents.json_value import JsonValue


MAX_LENGTH = 16 * 1024
"""Maximum length of a rule."""
_COMPILER_ERROR = re.compile(
    r"(?:[A-Z_]+: )*(?:<input>:(?P<location>[-\d:]+): )?(?P<problem>.*?)"
    r"(?: \(in container ''\))?(?: \[[A-Z_]+\])?(?:\n|$)"
)
"""The first error of the compiler: status, severity, location, message and source line."""


class CompilerMissing(Exception):
    """The CEL library is not installed or cannot be loaded."""


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


def rule_evaluator(rule: str) -> Callable[[Sequence[tuple[str, JsonValue]]], bool]:
    """Return a function of the types and values of properties: the result of a rule, false if it fails.

    Raises:
        CompilerMissing: The CEL library is not available.
        ValueError: The rule does not compile to a boolean expression.
    """
    if problem := compile_problem(rule):
        raise ValueError(f"invalid CEL rule: {problem}")
    program = _environment().compile(rule)

    def evaluate(properties: Sequence[tuple[str, JsonValue]]) -> bool:
        data = {"properties": [{"type": kind, "value": _as_floats(value)} for kind, value in properties]}
        try:
            return program.eval(data=data).value() is True
        except RuntimeError:
            return False

    return evaluate


def _as_floats(value: JsonValue) -> JsonValue:
    """Return a value with floats instead of integers, as Go decodes them."""
    if isinstance(value, dict):
        return {key: _as_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_floats(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _compare_versions(first: object, second: object) -> int:
    """Return -1, 0 or 1; raise ValueError for text that is no version, which makes the rule fail."""
    from opmkit.bundle.versions import tolerant_version, version_key  # slow to import: not needed to find the library

    one, other = (version_key(tolerant_version(_go_text(value))) for value in (first, second))
    return (one > other) - (one < other)


def _go_text(value: object) -> str:
    """Return a value as Go's ``fmt.Sprint`` does."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


@cache
def _environment() -> cel.Env:
    try:
        from cel_expr_python import cel
    except ImportError as error:
        cause = f"cannot be loaded: {error}" if distribution_version() else "is not installed"
        raise CompilerMissing(f"{CEL_DISTRIBUTION} {cause}") from error
    properties = cel.Type.List(cel.Type.Map(cel.Type.STRING, cel.Type.DYN))
    # the library calls no implementation of an overload whose parameters are of the dynamic type
    types = (cel.Type.STRING, cel.Type.DOUBLE, cel.Type.INT, cel.Type.UINT, cel.Type.BOOL)
    overloads = [
        cel.Overload(f"compare_{one.name()}_{other.name()}", cel.Type.INT, [one, other], impl=_compare_versions)
        for one, other in product(types, repeat=2)
    ]
    functions = [cel.FunctionDecl("semver_compare", overloads)]
    return cel.NewEnv(variables={"properties": properties}, functions=functions)


def _error_message(error: str) -> str:
    match = _COMPILER_ERROR.match(error)
    if match is None:
        return error
    location = match["location"]
    return match["problem"] + (f" (at {location})" if location and "-" not in location else "")
