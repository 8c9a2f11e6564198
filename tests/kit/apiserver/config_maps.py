"""Validation of ConfigMaps."""

from __future__ import annotations

import base64
import re
from typing import Any

from tests.kit.apiserver.errors import bad_request, invalid

ConfigMap = dict[str, Any]

MAX_DATA = 1 << 20
MAX_ANNOTATIONS = 256 << 10
_KEY = re.compile(r"[-._a-zA-Z0-9]+")
_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    f"or 'key-name', regex used for validation is '{_KEY.pattern}')"
)


def check_types(value: ConfigMap) -> None:
    """Raise ApiError if the values are not of the types of a ConfigMap."""
    try:
        if not all(isinstance(text, str) for text in (value.get("data") or {}).values()):
            raise ValueError("cannot unmarshal number into Go struct field ConfigMap.data of type string")
        for text in (value.get("binaryData") or {}).values():
            base64.b64decode(text, validate=True)
    except ValueError as error:
        raise bad_request(f'ConfigMap in version "v1" cannot be handled as a ConfigMap: {error}') from error


def check_immutable(current: ConfigMap, given: ConfigMap, name: str) -> None:
    for field in ("immutable", "data", "binaryData") if current.get("immutable") else ():
        if (current.get(field) or None) != (given.get(field) or None):
            raise _invalid(name, field, "Forbidden", "Forbidden: field is immutable when `immutable` is set")


def _invalid(name: str, field: str, reason: str, problem: str) -> Exception:
    return invalid("ConfigMap", name, field, reason, problem)


def check_config_map(config_map: ConfigMap, name: str) -> None:
    """Raise ApiError if the API server rejects the ConfigMap."""
    data: dict[str, str] = config_map.get("data") or {}
    binary = {key: base64.b64decode(value) for key, value in (config_map.get("binaryData") or {}).items()}
    for section, keys in (("data", data), ("binaryData", binary)):
        for key in keys:
            if problem := _key_error(key):
                raise _invalid(name, f"{section}[{key}]", "Invalid", f'Invalid value: "{key}": {problem}')
    for key in sorted(data.keys() & binary.keys()):
        problem = f'Invalid value: "{key}": duplicate of key present in binaryData'
        raise _invalid(name, f"data[{key}]", "Invalid", problem)
    annotations = config_map["metadata"].get("annotations") or {}
    if sum(len((key + text).encode()) for key, text in annotations.items()) > MAX_ANNOTATIONS:
        problem = f"Too long: must have at most {MAX_ANNOTATIONS} bytes"
        raise _invalid(name, "metadata.annotations", "TooLong", problem)
    if sum(len(value.encode()) for value in data.values()) + sum(map(len, binary.values())) > MAX_DATA:
        raise _invalid(name, "[]", "TooLong", f"Too long: must have at most {MAX_DATA} bytes")


def _key_error(key: str) -> str:
    """Return the error of a key in ``data``, "" if it is valid."""
    if len(key) > 253:
        return "must be no more than 253 characters"
    if not _KEY.fullmatch(key):
        return _KEY_RULE
    if key in (".", "..") or key.startswith(".."):
        return f"must not be '{key}'" if len(key) < 3 else "must not start with '..'"
    return ""
