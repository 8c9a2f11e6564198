"""Version constraints in the syntax of Masterminds/semver, with which ClusterExtensions select versions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from msgspec import Struct

from opmkit.bundle.versions import VersionKey, strict_version, version_key

_IDENTIFIERS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_NUMBER = r"(?:[0-9]+|[xX*])"
_TERM = re.compile(
    rf"(?P<operator>!=|>=|=>|<=|=<|~>|=|>|<|~|\^)?\s*"
    rf"v?(?P<numbers>{_NUMBER}(?:\.{_NUMBER}){{0,2}})(?:-(?P<pre>{_IDENTIFIERS}))?(?:\+{_IDENTIFIERS})?",
    re.ASCII,
)
_SEPARATOR = re.compile(r"\s*,\s*|\s+")
_SYNONYMS = {"": "=", "=>": ">=", "=<": "<=", "~>": "~"}


class _Term(Struct, frozen=True):
    """An operator and a version, of which only ``count`` numbers are given; the others are zero."""

    operator: str
    key: VersionKey
    count: int
    has_prerelease: bool

    def matches(self, version: VersionKey) -> bool:
        return _OPERATORS[self.operator](version, self)


class VersionConstraint(Struct, frozen=True):
    """Alternatives, each with terms that a version must all match."""

    alternatives: tuple[tuple[_Term, ...], ...]

    @classmethod
    def parse(cls, text: str) -> VersionConstraint:
        """Parse a constraint such as ``>=1.2, <2 || ~3.1``.

        Raises:
            ValueError: It is invalid.
        """
        return cls(tuple(_parse_terms(alternative) for alternative in text.split("||")))

    def matches(self, version: VersionKey) -> bool:
        """Return whether a version matches; prereleases only match alternatives that name one."""
        return any(
            all(term.matches(version) for term in terms)
            for terms in self.alternatives
            if not _is_prerelease(version) or any(term.has_prerelease for term in terms)
        )


def _parse_terms(text: str) -> tuple[_Term, ...]:
    terms: list[_Term] = []
    position, text = 0, text.strip()
    while True:
        match = _TERM.match(text, position)
        if match is None:
            raise ValueError(f"syntax error in {text[position:]!r}")
        terms.append(_parse_term(match))
        if match.end() == len(text):
            return tuple(terms)
        separator = _SEPARATOR.match(text, match.end())
        if separator is None:
            raise ValueError(f"syntax error in {text[match.end() :]!r}")
        position = separator.end()


def _parse_term(match: re.Match[str]) -> _Term:
    numbers: list[str] = []
    for number in match["numbers"].split("."):
        if not number.isdigit():
            break
        numbers.append(number)
    zeros = ["0"] * (3 - len(numbers))
    prerelease = f"-{match['pre']}" if match["pre"] else ""
    key = version_key(strict_version(".".join(numbers + zeros) + prerelease))
    operator = match["operator"] or ""
    return _Term(_SYNONYMS.get(operator, operator), key, len(numbers), bool(prerelease))


def _is_prerelease(version: VersionKey) -> bool:
    return version < version[:3] + _RELEASE


def _equal(version: VersionKey, term: _Term) -> bool:
    return version == term.key if term.count == 3 else _tilde(version, term)


def _not_equal(version: VersionKey, term: _Term) -> bool:
    if term.count in {0, 3}:
        return version != term.key
    if version[: term.count] != term.key[: term.count]:
        return True
    # the library compares prereleases of versions such as 1.2.3-rc and 1.2.x-rc, but not of 1.2.3-rc and 1.x-rc
    return term.count == 2 and version[3:] != term.key[3:]


def _greater(version: VersionKey, term: _Term) -> bool:
    if term.count in {0, 3}:
        return version > term.key
    return version[: term.count] > term.key[: term.count]


def _less_or_equal(version: VersionKey, term: _Term) -> bool:
    if term.count == 3:
        return version <= term.key
    count = 1 if term.count == 1 else 2
    return version[:count] <= term.key[:count]


def _tilde(version: VersionKey, term: _Term) -> bool:
    if version < term.key:
        return False
    if term.key[:3] == (0, 0, 0) and term.count in {0, 3}:
        return True
    count = 1 if term.count == 1 else 2
    return version[:count] == term.key[:count]


def _caret(version: VersionKey, term: _Term) -> bool:
    if version < term.key:
        return False
    if term.key[0] or term.count == 1:
        return version[0] == term.key[0]
    count = 2 if term.key[1] or term.count == 2 else 3
    return version[:count] == term.key[:count]


_Operator: TypeAlias = Callable[[VersionKey, _Term], bool]
_OPERATORS: dict[str, _Operator] = {
    "=": _equal,
    "!=": _not_equal,
    ">": _greater,
    ">=": lambda version, term: version >= term.key,
    "<": lambda version, term: version < term.key,
    "<=": _less_or_equal,
    "~": _tilde,
    "^": _caret,
}
_RELEASE = version_key(strict_version("0.0.0"))[3:]
