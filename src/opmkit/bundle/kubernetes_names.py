"""The spellings of names that Kubernetes knows.

Each function gives what is wrong with a text, one sentence for each thing that the API server would complain about, so
nothing if it is right. Lengths are in bytes of UTF-8. After the "Object Names and IDs" and "Labels and Selectors" pages
of the Kubernetes documentation, and RFC 1035 and 1123, to which they refer.
"""

from __future__ import annotations

import re

_DNS1123_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS1123_SUBDOMAIN = re.compile(rf"{_DNS1123_LABEL.pattern}(\.{_DNS1123_LABEL.pattern})*")
_DNS1035_LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_NAME_PART = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")

_LABEL_LENGTH = 63
_SUBDOMAIN_LENGTH = 253


def dns1123_subdomain(name: str) -> list[str]:
    """What keeps it from being a DNS subdomain, such as ``demo.example.com``: the names of most objects."""
    wanted = "lower case letters, digits, '-' and '.', with a letter or digit at both ends of each part"
    return _problems(name, _DNS1123_SUBDOMAIN, _SUBDOMAIN_LENGTH, wanted)


def dns1123_label(name: str) -> list[str]:
    """What keeps it from being a DNS label, such as ``my-name`` or ``123-abc``."""
    wanted = "lower case letters, digits and '-', with a letter or digit at both ends"
    return _problems(name, _DNS1123_LABEL, _LABEL_LENGTH, wanted)


def dns1035_label(name: str) -> list[str]:
    """What keeps it from being a DNS label that begins with a letter, such as ``v1beta1``."""
    wanted = "lower case letters, digits and '-', with a letter first and a letter or digit last"
    return _problems(name, _DNS1035_LABEL, _LABEL_LENGTH, wanted)


def label_value(value: str) -> list[str]:
    """What keeps it from being the value of a label, which may be empty."""
    wanted = "nothing, or letters, digits, '-', '_' and '.', with a letter or digit at both ends"
    return _problems(value, _NAME_PART, _LABEL_LENGTH, wanted) if value else []


def qualified_name(name: str) -> list[str]:
    """What keeps it from being the key of a label: a name, with an optional DNS subdomain and a slash before it."""
    *prefixes, last = name.split("/")
    wanted = "letters, digits, '-', '_' and '.', with a letter or digit at both ends"
    if len(prefixes) > 1:
        return [f"it has {len(prefixes)} slashes, but may have one, between a DNS subdomain and a name"]
    problems = []
    for prefix in prefixes:
        found = dns1123_subdomain(prefix) if prefix else ["it is empty"]
        problems += [f"in the prefix before the slash, {problem}" for problem in found]
    if not last:
        problems.append("its name is empty")
    return problems + _problems(last, _NAME_PART, _LABEL_LENGTH, wanted)


def _problems(name: str, pattern: re.Pattern[str], length: int, wanted: str) -> list[str]:
    problems = []
    size = len(name.encode(errors="surrogatepass"))
    if size > length:
        problems.append(f"it has {size} characters, but may have {length} at most")
    if not pattern.fullmatch(name):
        problems.append(f"it must consist of {wanted}")
    return problems
