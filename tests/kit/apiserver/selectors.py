"""Label and field selectors."""

from __future__ import annotations

import re
from typing import Any

from tests.kit.apiserver.errors import bad_request

_SET = re.compile(r"(\S+)\s+(in|notin)\s+\(([^)]*)\)")
_REQUIREMENT = re.compile(r"\s*([^,()]+(?:\([^)]*\))?)\s*(?:,|$)")


def matches(obj: dict[str, Any], label_selector: str, field_selector: str) -> bool:
    """Return whether an object matches both selectors; raise ApiError if one is invalid."""
    labels = obj["metadata"].get("labels") or {}
    return all(_label(labels, each) for each in _split(label_selector)) and all(
        _field(obj, each) for each in _split(field_selector)
    )


def _split(selector: str) -> list[str]:
    return [each.strip() for each in _REQUIREMENT.findall(selector)] if selector.strip() else []


def _label(labels: dict[str, str], requirement: str) -> bool:
    if match := _SET.fullmatch(requirement):
        values = [value.strip() for value in match[3].split(",")]
        return (labels.get(match[1]) in values) == (match[2] == "in")
    for operator in ("!=", "==", "="):
        key, found, value = requirement.partition(operator)
        if found:
            return (labels.get(key.strip()) == value.strip()) == (operator != "!=")
    return requirement.removeprefix("!") in labels if requirement[0] != "!" else requirement[1:] not in labels


def _field(obj: dict[str, Any], requirement: str) -> bool:
    for operator in ("!=", "==", "="):
        path, found, wanted = requirement.partition(operator)
        if found:
            value: Any = obj
            for key in path.strip().split("."):
                value = value.get(key) if isinstance(value, dict) else None
            return (str(value or "") == wanted.strip()) == (operator != "!=")
    raise bad_request(f'invalid field selector: "{requirement}"')
