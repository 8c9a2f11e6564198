"""Versions and version ranges, as OLM's resolver parses them.

Versions are those of semantic versioning 2.0.0, with numbers of 64 bits. The grammar of ranges is that of the Go
library blang/semver v4, including its tokenizer: tokens of one character are dropped, an ``x`` makes a token a
wildcard, and the operator of a token is everything before the first digit.
"""

from __future__ import annotations

import operator
import re
from bisect import bisect_left, bisect_right
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from semver import Version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

MAX_LENGTH = 1000
"""Maximum length of a version."""

_MAX_NUMBER = 2**64 - 1
_MAX_SIGNED = 2**63 - 1
_WHITESPACE = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_LEADING_ZEROS = re.compile(r"^0+(?=[0-9])")
_TOKEN = re.compile(r"(?:[<>=] *|[^ <>=])+")
_SIGNED = re.compile(r"[+-]?[0-9]+")

Term: TypeAlias = tuple[str, Version]
"""An operator and a version."""

Identifiers: TypeAlias = tuple[tuple[int, int, str], ...]
"""Sort key of dot-separated identifiers."""

VersionKey: TypeAlias = tuple[int, int, int, tuple[bool, Identifiers]]
"""Sort key of a version."""

_OPERATORS: dict[str, Callable[[VersionKey, VersionKey], bool]] = {
    "=": operator.eq,
    "!": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SYNONYMS = {"": "=", "==": "=", "!=": "!"}


def strict_version(text: str) -> Version:
    """Parse ``MAJOR.MINOR.PATCH[-PRERELEASE][+BUILD]``.

    Raises:
        ValueError: With the reason, for an invalid version.
    """
    if len(text) > MAX_LENGTH:
        raise ValueError(f"{text[:20]!r}... is longer than {MAX_LENGTH} characters")
    if not text.isascii() or "\n" in text:
        raise ValueError(f"{text!r} has invalid characters")
    try:
        version = Version.parse(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not of the form MAJOR.MINOR.PATCH, such as 1.0.0 or 1.0.0-rc.1") from error
    numbers = [int(part) for part in (version.prerelease or "").split(".") if part.isdigit()]
    if max(version.major, version.minor, version.patch, *numbers) > _MAX_NUMBER:
        raise ValueError(f"{text!r} has a number that does not fit in 64 bits")
    return version


def tolerant_version(text: str) -> Version:
    """Parse a version that may have surrounding whitespace, a ``v``, leading zeros, and no minor or patch version.

    Raises:
        ValueError: With the reason, for an invalid version.
    """
    parts = [_LEADING_ZEROS.sub("", part) for part in text.strip(_WHITESPACE).removeprefix("v").split(".", 2)]
    if len(parts) < 3 and ("-" in parts[-1] or "+" in parts[-1]):
        raise ValueError(f"{text!r} has a prerelease or build, but not major, minor and patch")
    try:
        return strict_version(".".join(parts + ["0"] * (3 - len(parts))))
    except ValueError as error:
        raise ValueError(f"{text!r} is not a version such as 1.2.3, 1.2 or v1.2") from error


def version_key(version: Version) -> VersionKey:
    """Return a key that sorts versions by their precedence, which ignores build metadata.

    See https://semver.org/#spec-item-11.
    """
    prerelease = identifiers_key(version.prerelease)
    return version.major, version.minor, version.patch, (not version.prerelease, prerelease)


def identifiers_key(text: str | None) -> Identifiers:
    """Return a key that sorts dot-separated identifiers: numbers before words, prefixes before longer lists."""
    parts = text.split(".") if text else []
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)


class VersionRange(Struct, frozen=True, dict=True):
    """A version range such as ``>=1.0.0 <2.0.0 || 3.x``.

    Attributes:
        alternatives: A version is in the range if all terms of one alternative match. No version matches an alternative
            without terms, as in ``1.0.0 || || 2.0.0``.
        dropped: Tokens that are ignored, such as the ``-`` of ``1.0.0 - 2.0.0``.
    """

    alternatives: tuple[tuple[Term, ...], ...]
    dropped: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Parse a range.

        Raises:
            ValueError: With the reason, for an invalid range.
        """
        tokens = _TOKEN.findall(text)
        used = [token.replace(" ", "") for token in tokens if _is_used(token)]
        if not used:
            raise ValueError("it has no version")
        if "||" in (used[0], used[-1]):
            raise ValueError("|| must stand between two versions")
        alternatives: list[list[Term]] = [[]]
        for token in used:
            if token == "||":  # noqa: S105 - not a password
                alternatives.append([])
            else:
                alternatives[-1] += [_parse_term(term) for term in _expand_wildcard(token)]
        return cls(tuple(map(tuple, alternatives)), tuple(token for token in tokens if not _is_used(token)))

    @property
    def is_complete(self) -> bool:
        """Whether each alternative has a term; OLM's resolver panics on other ranges."""
        return all(self.alternatives)

    def __contains__(self, version: Version) -> bool:
        """Return whether a version is in the range; build metadata is ignored."""
        return self.contains_key(version_key(version))

    def contains_key(self, key: VersionKey) -> bool:
        """Return whether the version with this key is in the range."""
        return any(
            terms and all(_OPERATORS[sign](key, bound) for sign, bound in terms) for terms in self._key_alternatives
        )

    def spans(self, keys: Sequence[VersionKey]) -> list[tuple[int, int]]:
        """Return the half-open index spans of a sorted list of keys that are in the range."""
        spans = [span for terms in self._key_alternatives if terms for span in _spans(terms, keys)]
        merged: list[tuple[int, int]] = []
        for start, end in sorted(spans):
            if merged and start <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return merged

    @cached_property
    def _key_alternatives(self) -> tuple[tuple[tuple[str, VersionKey], ...], ...]:
        return tuple(tuple((sign, version_key(bound)) for sign, bound in terms) for terms in self.alternatives)


def _spans(terms: Iterable[tuple[str, VersionKey]], keys: Sequence[VersionKey]) -> list[tuple[int, int]]:
    """Return the spans in which all terms hold."""
    spans = [(0, len(keys))]
    for sign, bound in terms:
        first, last = bisect_left(keys, bound), bisect_right(keys, bound)
        parts = {
            "=": [(first, last)],
            "!": [(0, first), (last, len(keys))],
            "<": [(0, first)],
            "<=": [(0, last)],
            ">": [(last, len(keys))],
            ">=": [(first, len(keys))],
        }[sign]
        overlaps = [(max(start, low), min(end, high)) for start, end in spans for low, high in parts]
        spans = [(start, end) for start, end in overlaps if start < end]
    return spans


def _is_used(token: str) -> bool:
    return len(token.encode(errors="surrogatepass")) > 1


def _parse_term(token: str) -> Term:
    sign, version = _split(token)
    sign = _SYNONYMS.get(sign, sign)
    if sign not in _OPERATORS:
        raise ValueError(f"{sign!r} in {token!r} is not an operator (= == != ! < <= > >=)")
    return sign, strict_version(version)


def _split(token: str) -> tuple[str, str]:
    """Split a token into the operator, which is everything before the first digit, and the version."""
    start = next((index for index, character in enumerate(token) if character.isdecimal()), None)
    if start is None:
        raise ValueError(f"{token!r} has no version")
    return token[:start].strip(_WHITESPACE), token[start:]


def _expand_wildcard(token: str) -> list[str]:
    """Return the equivalent terms without a wildcard: for ``1.2.x``, ``>=1.2.0`` and ``<1.3.0``."""
    if "x" not in token:
        return [token]
    sign, wildcard = _split(token)
    floor = wildcard.replace(".x.x", ".x", 1).replace(".x", ".0", 1)
    if floor.count(".") == 1:
        floor += ".0"
    match sign:
        case "" | "=" | "==":
            return [f">={floor}", f"<{_next(wildcard, floor, token)}"]
        case "!" | "!=":  # no version matches both; blang/semver does the same
            return [f"<{floor}", f">={_next(wildcard, floor, token)}"]
        case "<=":
            return [f"<{_next(wildcard, floor, token)}"]
        case ">":
            return [f">={_next(wildcard, floor, token)}"]
        case "<" | ">=":
            return [f"{sign}{floor}"]
    return [floor]  # other operators are ignored


def _next(wildcard: str, floor: str, token: str) -> str:
    """Return the lowest version above all versions that a wildcard matches."""
    parts = wildcard.split(".")
    position = {2: 0, 3: 1}.get(len(parts)) if parts[-1] == "x" else None
    numbers = floor.split(".")
    if position is None or not _SIGNED.fullmatch(numbers[position]) or int(numbers[position]) >= _MAX_SIGNED:
        raise ValueError(f"the x in {token!r} makes it a wildcard, which must have the form 1.x or 1.2.x")
    numbers[position] = str(int(numbers[position]) + 1)
    return ".".join(numbers)
