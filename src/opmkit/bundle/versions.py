"""Versions and ranges of versions, as the resolver of operators reads them.

That is semantic versioning 2.0.0 with numbers of 64 bits, and the range grammar of the Go library blang/semver v4,
whose tokens decide what is accepted: one of one character is dropped, any ``x`` in one makes it a wildcard, and its
operator is all that stands before the first digit.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from semver import Version

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_LENGTH = 1000
"""Characters that a version may have."""

_LARGEST = 2**64 - 1
_LARGEST_SIGNED = 2**63 - 1
_SPACES = "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(map(chr, range(0x2000, 0x200B)))
_ZEROS = re.compile(r"^0+(?=[0-9])")
_TOKEN = re.compile(r"(?:[<>=] *|[^ <>=])+")
_SIGNED = re.compile(r"[+-]?[0-9]+")

Term: TypeAlias = tuple[str, Version]
"""An operator and the version to its right."""

_COMPARES: dict[str, Callable[[int], bool]] = {
    "=": lambda order: order == 0,
    "!": lambda order: order != 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
}
_SYNONYMS = {"": "=", "==": "=", "!=": "!"}


def strict_version(text: str) -> Version:
    """Read ``MAJOR.MINOR.PATCH[-PRERELEASE][+BUILD]``; ValueError, with the reason, if it is none."""
    if len(text) > MAX_LENGTH:
        raise ValueError(f"{text[:20]!r} and so on, {len(text)} characters in all, is no version")
    if not text.isascii() or "\n" in text:
        raise ValueError(f"{text!r} has characters that no version may have")
    try:
        version = Version.parse(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not of the form MAJOR.MINOR.PATCH, such as 1.0.0 or 1.0.0-rc.1") from error
    numbers = [int(part) for part in (version.prerelease or "").split(".") if part.isdigit()]
    if max(version.major, version.minor, version.patch, *numbers) > _LARGEST:
        raise ValueError(f"{text!r} has a number that does not fit in 64 bits")
    return version


def tolerant_version(text: str) -> Version:
    """Read a version that may have spaces around it, a ``v`` before it, zeros before numbers, or lack minor and patch.

    Raises:
        ValueError: with the reason, if it is none.
    """
    parts = [_ZEROS.sub("", part) for part in text.strip(_SPACES).removeprefix("v").split(".", 2)]
    if len(parts) < 3 and ("-" in parts[-1] or "+" in parts[-1]):
        raise ValueError(f"{text!r} needs major, minor and patch before a prerelease or build")
    try:
        return strict_version(".".join(parts + ["0"] * (3 - len(parts))))
    except ValueError as error:
        raise ValueError(f"{text!r} is no version, such as 1.2.3, 1.2 or v1.2") from error


@dataclass(frozen=True, slots=True)
class VersionRange:
    """A range such as ``>=1.0.0 <2.0.0 || 3.x``: alternatives, of which one must hold, of terms that must all hold.

    An alternative may lack terms (``1.0.0 || || 2.0.0``): no version is in it. The resolver breaks down on it, which
    `is_complete` tells. ``dropped`` are the tokens that count for nothing, such as the ``-`` of ``1.0.0 - 2.0.0``.
    """

    alternatives: tuple[tuple[Term, ...], ...]
    dropped: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> VersionRange:
        """Read a range; ValueError, with the reason, if it is none."""
        tokens = _TOKEN.findall(text)
        kept = [token.replace(" ", "") for token in tokens if _counts(token)]
        if not kept:
            raise ValueError("it names no version")
        if "||" in (kept[0], kept[-1]):
            raise ValueError("|| must stand between two versions")
        alternatives: list[list[Term]] = [[]]
        for token in kept:
            if token == "||":  # noqa: S105 (no password)
                alternatives.append([])
            else:
                alternatives[-1] += [_term(expanded) for expanded in _expanded(token)]
        return cls(tuple(map(tuple, alternatives)), tuple(token for token in tokens if not _counts(token)))

    @property
    def is_complete(self) -> bool:
        """Whether each alternative has a term."""
        return all(self.alternatives)

    def __contains__(self, version: Version) -> bool:
        """Whether a version is in it; build metadata does not count."""
        return any(
            terms and all(_COMPARES[operator](version.compare(bound)) for operator, bound in terms)
            for terms in self.alternatives
        )


def _counts(token: str) -> bool:
    return len(token.encode(errors="surrogatepass")) > 1


def _term(token: str) -> Term:
    operator, version = _split(token)
    operator = _SYNONYMS.get(operator, operator)
    if operator not in _COMPARES:
        raise ValueError(f"{operator!r} in {token!r} is none of = == != ! < <= > >=")
    return operator, strict_version(version)


def _split(token: str) -> tuple[str, str]:
    """The operator and the version: all before the first digit, and the rest."""
    start = next((index for index, character in enumerate(token) if character.isdecimal()), None)
    if start is None:
        raise ValueError(f"{token!r} has no version in it")
    return token[:start].strip(_SPACES), token[start:]


def _expanded(token: str) -> list[str]:
    """The terms without a wildcard that a term stands for: 1.2.x is >=1.2.0 and <1.3.0."""
    if "x" not in token:
        return [token]
    operator, wildcard = _split(token)
    floor = wildcard.replace(".x.x", ".x", 1).replace(".x", ".0", 1)
    if floor.count(".") == 1:
        floor += ".0"
    match operator:
        case "" | "=" | "==":
            return [f">={floor}", f"<{_next(wildcard, floor, token)}"]
        case "!" | "!=":  # no version is in both, but so it is read
            return [f"<{floor}", f">={_next(wildcard, floor, token)}"]
        case "<=":
            return [f"<{_next(wildcard, floor, token)}"]
        case ">":
            return [f">={_next(wildcard, floor, token)}"]
        case "<" | ">=":
            return [f"{operator}{floor}"]
    return [floor]  # whatever else stands there is passed over


def _next(wildcard: str, floor: str, token: str) -> str:
    """The lowest version above all that a wildcard stands for."""
    parts = wildcard.split(".")
    position = {2: 0, 3: 1}.get(len(parts)) if parts[-1] == "x" else None
    numbers = floor.split(".")
    if position is None or not _SIGNED.fullmatch(numbers[position]) or int(numbers[position]) >= _LARGEST_SIGNED:
        raise ValueError(f"the x in {token!r} makes it a wildcard, which must be of the form 1.x or 1.2.x")
    numbers[position] = str(int(numbers[position]) + 1)
    return ".".join(numbers)
