"""Checks that a file contains a Kubernetes object."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from opmkit.bundle.finding import Finding
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.gvk import Gvk
from opmkit.documents import yaml_decoder
from opmkit.documents.content import Content
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.fields import describe

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.validation.bundle_view import ManifestView
    from opmkit.documents.json_value import JsonValue

_INF_OR_NAN = re.compile(rb"\.(?:[iI][nN][fF]|[nN][aA][nN])")  # five times as fast as with IGNORECASE
_NOT_EMPTY = re.compile(rb"^(?!---\s*$).", re.MULTILINE | re.DOTALL)


def decode_finding(manifest: ManifestView) -> Finding | None:
    """Return a finding if the file does not contain an object.

    A document that is null or has only comments counts as an object without a kind.
    """
    if (finding := read_finding(manifest)) or manifest.content.value is None:
        return finding
    memo = manifest.content.memo
    if _problem not in memo:
        memo[_problem] = _problem(manifest)
    problem = memo[_problem]
    return Finding(f"the file {problem}", manifest.path) if problem else None


def read_finding(manifest: ManifestView) -> Finding | None:
    """Return a finding if the file contains neither a mapping nor null."""
    content = manifest.content
    if content.error is not None:
        error = content.error
        message = f"invalid YAML or JSON: {error.problem}"
        return Finding(message, manifest.path, line=error.line, column=error.column)
    if content.value is None and not _NOT_EMPTY.search(content.raw):
        return Finding("the file is empty", manifest.path)
    if not isinstance(content.value, dict | None):
        return Finding(f"the file is {describe(content.value)}, not an object", manifest.path)
    return None


def _problem(manifest: ManifestView) -> str:
    if not manifest.kind:
        return "has no kind"
    if _INF_OR_NAN.search(manifest.content.raw) and not all(map(math.isfinite, _floats(manifest.content.value))):
        return "has a number that is infinite or NaN"
    if Gvk.parse(manifest.api_version, manifest.kind) is None:
        return f"has the apiVersion {manifest.api_version!r}, which has more than one slash"
    return ""


def _floats(value: JsonValue) -> Iterator[float]:
    if isinstance(value, float):
        yield value
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from _floats(member)


def decode_as_go(manifest: ManifestView, compat: Compat) -> ManifestView:
    """Return the file as the Go loader decodes it; that of the newest release decodes JSON as YAML."""
    content = manifest.content
    if compat is not Compat.NEWEST or content.error is None or not content.raw.lstrip().startswith(b"{"):
        return manifest
    if "as_yaml" not in content.memo:
        content.memo["as_yaml"] = _as_yaml(content)
    as_yaml = content.memo["as_yaml"]
    return replace(manifest, content=as_yaml) if isinstance(as_yaml, Content) else manifest


def _as_yaml(content: Content) -> Content:
    try:
        return Content(content.raw, yaml_decoder.load(content.raw))
    except (InvalidDocument, RecursionError):
        return content
