"""The text in which Kubernetes writes a quantity, by the rules of ``k8s.io/apimachinery/pkg/api/resource``."""

from __future__ import annotations

import re
from fractions import Fraction
from math import ceil
from typing import Final

_PARTS = re.compile(r"(?P<sign>[+-]?)0*(?P<whole>\d*)(?:\.(?P<decimals>\d*))?(?P<suffix>[a-zA-Z].*)?", re.ASCII)
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = {"": 0, "Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_NANO = 10**9
_MAX = 2**63 - 1
_MAX_DIGITS = 18
_MAX_BINARY_DIGITS = 14


def canonical_quantity(text: str) -> str:
    """Return the text of a valid quantity after decoding and encoding.

    >>> [canonical_quantity(text) for text in ("0.5", "1000m", "2048Mi", "0.5Gi", "1000", "100m")]
    ['500m', '1', '2Gi', '512Mi', '1k', '100m']

    Raises:
        ValueError: if the quantity is invalid.
    """
    match = _PARTS.fullmatch(text.strip())
    if not match:
        raise ValueError(f"{text!r} is not a valid quantity")
    sign, whole, decimals, suffix = (match[name] or "" for name in ("sign", "whole", "decimals", "suffix"))
    digits = (whole or "0") + decimals
    is_binary = suffix.endswith("i")
    exponent = _BINARY[suffix] if is_binary else _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
    if _is_written_as_read(digits, decimals, exponent, is_binary=is_binary):
        return text.strip()
    value = int(digits) * (Fraction(1024) if is_binary else Fraction(10)) ** exponent / 10 ** len(decimals)
    value = Fraction(ceil(value * _NANO), _NANO)
    if not value:
        return "0"
    prefix = "-" if sign == "-" else ""
    if is_binary:
        value = min(value, Fraction(_MAX))
        if value >= 1024 and value.denominator == 1:
            return prefix + _binary(int(value))
    return prefix + _decimal(value, has_exponent=suffix not in _DECIMAL and not is_binary)


def _is_written_as_read(digits: str, decimals: str, exponent: int, *, is_binary: bool) -> bool:
    """Return whether a short quantity seems to be canonical; Kubernetes does not change those."""
    if is_binary:
        fits = not decimals and len(digits) + 3 * exponent <= _MAX_BINARY_DIGITS
        return fits and int(digits) % 8 != 0
    scale = exponent - len(decimals)
    fits = len(digits) <= _MAX_DIGITS and scale >= -9
    return fits and scale % 3 == 0 and not digits.endswith("000") and not digits.startswith("0")


def _binary(value: int) -> str:
    power = 0
    while value % 1024 == 0:
        value, power = value // 1024, power + 1
    return f"{value}{list(_BINARY)[power]}" if power < len(_BINARY) else str(value)


def _decimal(value: Fraction, *, has_exponent: bool) -> str:
    number, exponent = value * _NANO, -9
    while number % 1000 == 0:
        number, exponent = number / 1000, exponent + 3
    if has_exponent:
        return f"{number}e{exponent}" if exponent else str(number)
    suffixes = {power: suffix for suffix, power in _DECIMAL.items()}
    return f"{number}{suffixes.get(exponent, '')}"
