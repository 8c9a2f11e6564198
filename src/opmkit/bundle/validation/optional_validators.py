"""Select optional validators, and parse their options."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.bundle.errors import BundleError
from opmkit.bundle.kubernetes_names import label_value, qualified_name
from opmkit.bundle.validation.compat import OptionFile, Options
from opmkit.bundle.validation.profiles import OPTIONAL, OptionalValidator

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from opmkit.bundle.validation.compat import Compat


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
        InvalidSelector: The selector is invalid or matches none.
    """
    parsed = Selector.parse(selector)
    available = available_validators(compat)
    selected = tuple(validator for validator in available if parsed.matches(validator.labels(compat)))
    if not selected:
        names = ", ".join(validator.name for validator in available)
        raise InvalidSelector(f"{selector!r} selects no optional validator", hint=f"select by name: {names}")
    return selected


def read_options(pairs: Iterable[str], categories_file: str = "") -> Options:
    """Parse ``NAME=VALUE,...``, and read the files that options name; of duplicate names the last one counts.

    Raises:
        InvalidOption: For a pair without ``=`` or with an unknown name.
    """
    values: dict[str, Any] = {}
    for pair in (part for text in pairs for part in text.split(",")):
        name, equals, value = pair.strip().partition("=")
        if not equals or name not in OPTION_NAMES:
            message = f"unknown option {name!r} of optional validators" if equals else f"{pair!r} is not NAME=VALUE"
            raise InvalidOption(message, hint=f"choose one of {', '.join(OPTION_NAMES)}")
        values[OPTION_NAMES[name]] = value
    paths = filter(None, (values.get("index_path"), categories_file))
    return Options(**values, categories_file=categories_file, files=tuple(map(_read_file, paths)))


_KEY = r"[^\s,=!()<>]+"
_REQUIREMENT = re.compile(
    rf"""\s*(?:
        (?P<absent>!)\s*(?P<absent_key>{_KEY})
      | (?P<key>{_KEY})\s*(?:
            (?P<operator>==|!=|=)\s*(?P<value>[^\s,=!()<>]*)
          | (?P<order>[<>])\s*(?P<bound>[0-9]+)
          | (?<=\s)(?P<set>in|notin)\s*\((?P<values>[^()]*)\)
        )?
    )\s*(?:,|$)""",
    re.VERBOSE,
)


class InvalidSelector(BundleError):
    """The label selector is invalid or selects nothing."""


class SelectorRequirement(Struct, frozen=True):
    """A requirement on one label.

    Attributes:
        key: Name of the label.
        values: Values of which the label must have one; None for any value.
        negated: The label must be absent or have none of the values.
        bound: ``>`` or ``<``, and the number to which the value is compared.
    """

    key: str
    values: frozenset[str] | None = None
    negated: bool = False
    bound: tuple[str, int] | None = None

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet the requirement."""
        value = labels.get(self.key)
        if value is None:
            return self.negated
        if self.bound is not None:
            order, number = self.bound
            return value.isdecimal() and (int(value) > number if order == ">" else int(value) < number)
        return (self.values is None or value in self.values) is not self.negated


class Selector(Struct, frozen=True):
    """A list of requirements, all of which must be met."""

    requirements: tuple[SelectorRequirement, ...]

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Parse a selector.

        Raises:
            InvalidSelector: With the location, for an invalid selector.
        """
        requirements: list[SelectorRequirement] = []
        position, more = 0, bool(text.strip())
        while more:
            match = _REQUIREMENT.match(text, position)
            if match is None:
                rest = text[position:].strip()
                raise _invalid(text, f"at {rest!r}" if rest else "after the last comma")
            requirements.append(_requirement(match, text))
            position, more = match.end(), match.group().endswith(",")
        return cls(tuple(requirements))

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Return whether labels meet all requirements."""
        return all(requirement.matches(labels) for requirement in self.requirements)


def _requirement(match: re.Match[str], text: str) -> SelectorRequirement:
    key = match["key"] or match["absent_key"]
    if match["operator"] is not None:
        values = frozenset({match["value"]})
    elif match["set"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
    else:
        values = None
    problems = qualified_name(key) + [problem for value in values or () for problem in label_value(value)]
    if problems:
        raise _invalid(text, f"for {problems[0]}")
    bound = (match["order"], int(match["bound"])) if match["order"] else None
    return SelectorRequirement(
        key, values, bool(match["absent"]) or match["operator"] == "!=" or match["set"] == "notin", bound
    )


def _invalid(text: str, where: str) -> InvalidSelector:
    return InvalidSelector(
        f"invalid label selector {text!r} {where}",
        hint="Write name=NAME, suite=operatorframework, or 'name in (NAME, NAME)', with commas between requirements.",
    )


MAX_BYTES = 1024 * 1024
"""Maximum size of such a file."""


def read_option_file(options: Options, path: str) -> bytes:
    """Return the content of a file that an option names.

    Raises:
        OSError: The file cannot be read, is not a regular file or is larger than `MAX_BYTES`.
    """
    for file in options.files:
        if file.path == path:
            if file.error:
                raise OSError(*file.error)
            return file.content
    return _read_content(path)


def _read_file(path: str) -> OptionFile:
    try:
        return OptionFile(path, _read_content(path))
    except OSError as error:
        known = error.errno is not None
        return OptionFile(path, error=(error.errno, error.strerror, error.filename) if known else error.args)


def _read_content(path: str) -> bytes:
    with Path(path).open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise OSError(f"larger than {MAX_BYTES} bytes")
    return content
