"""Select optional validators, and parse their options."""

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
"""Environment variable with the path of a file of categories."""

OPTION_NAMES = {"k8s-version": "k8s_version", "index-path": "index_path", "container-tools": "container_tools"}
"""Names of the options of optional validators, and the fields of `Options`."""


class InvalidOption(BundleError):
    """An unknown or malformed option for optional validators."""


def available_validators(compat: Compat) -> tuple[OptionalValidator, ...]:
    """Return the optional validators of a compatibility mode."""
    return tuple(validator for validator in OPTIONAL if compat in validator.compat)


def select_validators(selector: str, compat: Compat) -> tuple[OptionalValidator, ...]:
    """Return the optional validators that match a label selector, such as ``suite=operatorframework``.

    Raises:
        InvalidSelector: if the selector is invalid or matches none.
    """
    parsed = Selector.parse(selector)
    available = available_validators(compat)
    selected = tuple(validator for validator in available if parsed.matches(validator.labels(compat)))
    if not selected:
        names = ", ".join(validator.name for validator in available)
        raise InvalidSelector(f"{selector!r} selects no optional validator", hint=f"select by name: {names}")
    return selected


def read_options(pairs: Iterable[str], categories_file: str = "") -> Options:
    """Parse ``NAME=VALUE,...``; of duplicate names the last one counts.

    Raises:
        InvalidOption: for a pair without ``=`` or with an unknown name.
    """
    values: dict[str, str] = {}
    for pair in (part for text in pairs for part in text.split(",")):
        name, equals, value = pair.strip().partition("=")
        if not equals or name not in OPTION_NAMES:
            message = f"unknown option {name!r} of optional validators" if equals else f"{pair!r} is not NAME=VALUE"
            raise InvalidOption(message, hint=f"choose one of {', '.join(OPTION_NAMES)}")
        values[OPTION_NAMES[name]] = value
    return Options(**values, categories_file=categories_file)
