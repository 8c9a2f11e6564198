"""The optional validators: which a selector chooses, and what the values that are given for them say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.errors import BundleError
from opmkit.bundle.validation.bundle_view import Options
from opmkit.bundle.validation.profiles import OPTIONAL, OptionalValidator
from opmkit.bundle.validation.selectors import InvalidSelector, Selector

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.bundle.validation.compat import Compat

CATEGORIES_VARIABLE = "OPERATOR_BUNDLE_CATEGORIES"
"""The environment variable that names a file of categories."""

OPTION_NAMES = {"k8s-version": "k8s_version", "index-path": "index_path", "container-tools": "container_tools"}
"""The names of the values that optional validators take, and the fields of `Options` that hold them."""


class InvalidOption(BundleError):
    """A value for optional validators that none of them takes."""


def available(compat: Compat) -> tuple[OptionalValidator, ...]:
    """The optional validators of a dialect."""
    return tuple(one for one in OPTIONAL if compat in one.compat)


def selected(selector: str, compat: Compat) -> tuple[OptionalValidator, ...]:
    """Those that a label selector chooses, such as ``name=operatorhub`` or ``suite=operatorframework``.

    Raises:
        InvalidSelector: if it is no selector, or chooses none.
    """
    parsed = Selector.parse(selector)
    chosen = tuple(one for one in available(compat) if parsed.matches(one.labels(compat)))
    if not chosen:
        names = ", ".join(one.name for one in available(compat))
        raise InvalidSelector(
            f"{selector!r} selects no optional validator", hint=f"Select by name, which is one of {names}."
        )
    return chosen


def read_options(pairs: Iterable[str], categories_file: str = "") -> Options:
    """Read ``NAME=VALUE`` pairs, several in one text with commas between; of a name given twice, the last counts.

    Raises:
        InvalidOption: for a text without =, or a name that no validator takes.
    """
    values: dict[str, str] = {}
    for pair in (part for text in pairs for part in text.split(",")):
        name, equals, value = pair.strip().partition("=")
        if not equals or name not in OPTION_NAMES:
            told = f"{name!r} is no option of an optional validator" if equals else f"{pair!r} is not NAME=VALUE"
            raise InvalidOption(told, hint=f"The options are {', '.join(OPTION_NAMES)}.")
        values[OPTION_NAMES[name]] = value
    return Options(**values, categories_file=categories_file)
