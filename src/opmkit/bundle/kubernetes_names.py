"""Validation of Kubernetes names.

Each function returns the problems of a name, one sentence per error of the API server, and an empty list for a valid
name. Lengths are in bytes of UTF-8. The rules are those of the pages "Object Names and IDs" and "Labels and Selectors"
of the Kubernetes documentation, and of RFC 1035 and RFC 1123.
"""

from __future__ import annotations

import re

DNS1123_LABEL_PATTERN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
"""Regular expression of DNS labels, without their maximum length."""

_DNS1123_LABEL = re.compile(DNS1123_LABEL_PATTERN)
_DNS1123_SUBDOMAIN = re.compile(rf"{_DNS1123_LABEL.pattern}(\.{_DNS1123_LABEL.pattern})*")
_DNS1035_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_NAME_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")

_MAX_LABEL_LENGTH = 63
_MAX_SUBDOMAIN_LENGTH = 253


def dns1123_subdomain(name: str) -> list[str]:
    """Validate a DNS subdomain such as ``demo.example.com``, the form of the names of most objects."""
    allowed = "lower case letters, digits, '-' and '.', with a letter or digit at both ends of each part"
    return _problems(name, _DNS1123_SUBDOMAIN, _MAX_SUBDOMAIN_LENGTH, allowed)


def dns1123_label(name: str) -> list[str]:
    """Validate a DNS label such as ``my-name`` or ``123-abc``."""
    allowed = "lower case letters, digits and '-', with a letter or digit at both ends"
    return _problems(name, _DNS1123_LABEL, _MAX_LABEL_LENGTH, allowed)


def dns1035_label(name: str) -> list[str]:
    """Validate a DNS label that starts with a letter, such as ``v1beta1``."""
    allowed = "lower case letters, digits and '-', with a letter first and a letter or digit last"
    return _problems(name, _DNS1035_LABEL, _MAX_LABEL_LENGTH, allowed)


def label_value(value: str) -> list[str]:
    """Validate the value of a label, which may be empty."""
    allowed = "letters, digits, '-', '_' and '.', with a letter or digit at both ends"
    return _problems(value, _NAME_PART, _MAX_LABEL_LENGTH, allowed) if value else []


def qualified_name(name: str) -> list[str]:
    """Validate the key of a label or annotation: a name with an optional prefix, ``example.com/name``."""
    *prefixes, last = name.split("/")
    allowed = "letters, digits, '-', '_' and '.', with a letter or digit at both ends"
    if len(prefixes) > 1:
        return [f"it has {len(prefixes)} slashes; only one is allowed, between a DNS subdomain and a name"]
    problems = []
    for prefix in prefixes:
        prefix_problems = dns1123_subdomain(prefix) if prefix else ["it is empty"]
        problems += [f"in the prefix before the slash, {problem}" for problem in prefix_problems]
    if not last:
        problems.append("its name is empty")
    return problems + _problems(last, _NAME_PART, _MAX_LABEL_LENGTH, allowed)


def _problems(name: str, pattern: re.Pattern[str], max_length: int, allowed: str) -> list[str]:
    problems = []
    size = len(name.encode(errors="surrogatepass"))
    if size > max_length:
        problems.append(f"it has {size} bytes, more than {max_length}")
    if not pattern.fullmatch(name):
        problems.append(f"it must consist of {allowed}")
    return problems
