"""Label selectors with the syntax of Kubernetes: ``name=a,suite in (b,c),!d,e!=f``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.bundle.errors import BundleError
from opmkit.bundle.kubernetes_names import label_value, qualified_name

if TYPE_CHECKING:
    from collections.abc import Mapping

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


@dataclass(frozen=True, slots=True)
class Requirement:
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


@dataclass(frozen=True, slots=True)
class Selector:
    """A list of requirements, all of which must be met."""

    requirements: tuple[Requirement, ...]

    @classmethod
    def parse(cls, text: str) -> Selector:
        """Parse a selector.

        Raises:
            InvalidSelector: with the location, for an invalid selector.
        """
        requirements: list[Requirement] = []
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


def _requirement(match: re.Match[str], text: str) -> Requirement:
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
    return Requirement(
        key, values, bool(match["absent"]) or match["operator"] == "!=" or match["set"] == "notin", bound
    )


def _invalid(text: str, where: str) -> InvalidSelector:
    return InvalidSelector(
        f"invalid label selector {text!r} {where}",
        hint="Write name=NAME, suite=operatorframework, or 'name in (NAME, NAME)', with commas between requirements.",
    )
