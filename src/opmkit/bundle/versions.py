"""Versions and version ranges, as OLM's resolver parses them.

Versions are those of semantic versioning 2.0.0, with numbers of 64 bits. The grammar of ranges is that of the Go
library blang/semver v4, including its tokenizer: tokens of one character are dropped, an ``x`` makes a token a
wildcard, and the operator of a token is everything before the first digit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from semver import Version

if TYPE_CHECKING:
    from collections.abc import Callable

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

_OPERATORS: dict[str, Callable[[int], bool]] = {
    "=": lambda order: order == 0,
    "!": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}
_SYNONYMS = {"": "=", "==": "=", "!=": "!"}


def strict_version(text: str) -> Version:
    """Parse ``MAJOR.MINOR.PATCH[-PRERELEASE][+BUILD]``.

    Raises:
        ValueError: with the reason, for an invalid version.
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
        ValueError: with the reason, for an invalid version.
    """
    parts = [_LEADING_ZEROS.sub("", part) for part in text.strip(_WHITESPACE).removeprefix("v").split(".", 2)]
    if len(parts) < 3 and ("-" in parts[-1] or "+" in parts[-1]):
        raise ValueError(f"{text!r} has a prerelease or build, but not major, minor and patch")
    try:
        return strict_version(".".join(parts + ["0"] * (3 - len(parts))))
    except ValueError as error:
        raise ValueError(f"{text!r} is not a version such as 1.2.3, 1.2 or v1.2") from error


@dataclass(frozen=True, slots=True)
class VersionRange:
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
            ValueError: with the reason, for an invalid range.
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
        return any(
            terms and all(_OPERATORS[operator](version.compare(bound)) for operator, bound in terms)
            for terms in self.alternatives
        )


def _is_used(token: str) -> bool:
    return len(token.encode(errors="surrogatepass")) > 1


def _parse_term(token: str) -> Term:
    operator, version = _split(token)
    operator = _SYNONYMS.get(operator, operator)
    if operator not in _OPERATORS:
        raise ValueError(f"{operator!r} in {token!r} is not an operator (= == != ! < <= > >=)")
    return operator, strict_version(version)


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
    operator, wildcard = _split(token)
    floor = wildcard.replace(".x.x", ".x", 1).replace(".x", ".0", 1)
    if floor.count(".") == 1:
        floor += ".0"
    match operator:
        case "" | "=" | "==":
            return [f">={floor}", f"<{_next(wildcard, floor, token)}"]
        case "!" | "!=":  # no version matches both; blang/semver does the same
            return [f"<{floor}", f">={_next(wildcard, floor, token)}"]
        case "<=":
            return [f"<{_next(wildcard, floor, token)}"]
        case ">":
            return [f">={_next(wildcard, floor, token)}"]
        case "<" | ">=":
            return [f"{operator}{floor}"]
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
