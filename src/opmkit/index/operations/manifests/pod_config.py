"""Settings of the pod that OLM creates for the image of a CatalogSource."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opmkit.bundle.api_types.decode import DecodeMode, decode_struct
from opmkit.bundle.api_types.encode import canonical_quantity
from opmkit.bundle.kubernetes_names import dns1123_subdomain, label_value, qualified_name
from opmkit.core.files import disk_errors, read_limited
from opmkit.documents.content import Content
from opmkit.documents.fields import format_path
from opmkit.index.errors import CatalogError
from opmkit.index.operations.manifests.names import check_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from opmkit.documents.fields import FieldPath
    from opmkit.documents.json_value import JsonValue

_FIELD = "grpcPodConfig"
_SECURITY_CONTEXTS = ("legacy", "restricted")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_BYTES = re.compile(r"(\d+)(|[kMGT]|[KMGT]i)", re.ASCII)


@dataclass(frozen=True, slots=True)
class PodConfig:
    """The pod of a catalog; empty values leave a setting to OLM.

    Creating an instance raises CatalogError for values that the cluster would reject, or the pod would fail with.

    Attributes:
        security_context: ``legacy`` or ``restricted``.
        memory_target: Memory that the server should use at most, as a quantity such as ``512Mi``.
        catalog_directory: Directory of the file-based catalog in the image, to be served by OLM's own opm.
        cache_directory: Directory of the cache in the image, only with a catalog directory.
        node_selector: Labels of the nodes.
        tolerations: ``KEY[=VALUE][:EFFECT]`` texts.
        priority_class: Name of the PriorityClass.
        fields: Further fields of ``grpcPodConfig``, which the other attributes override.
    """

    security_context: str = ""
    memory_target: str = ""
    catalog_directory: str = ""
    cache_directory: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict, hash=False)
    tolerations: tuple[str, ...] = ()
    priority_class: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Validate the settings."""
        _check(self.manifest())

    def manifest(self) -> dict[str, Any]:
        """Return the value of ``grpcPodConfig``, empty if nothing is set."""
        directories = {"catalogDir": self.catalog_directory, "cacheDir": self.cache_directory}
        settings = {
            "nodeSelector": dict(self.node_selector),
            "tolerations": [_parse_toleration(text) for text in self.tolerations],
            "priorityClassName": self.priority_class,
            "securityContextConfig": self.security_context,
            "memoryTarget": self.memory_target,
            "extractContent": {key: value for key, value in directories.items() if value},
        }
        return {**self.fields, **{key: value for key, value in settings.items() if value}}

    @staticmethod
    def read_fields(path: Path) -> dict[str, Any]:
        """Read further fields of ``grpcPodConfig`` from a YAML or JSON file.

        Raises:
            CatalogError: The file is invalid, or a field does not exist or has an invalid value.
            DiskError: The file cannot be read.
        """
        with disk_errors(path):
            content = Content.read(read_limited(path))
        if content.error is not None:
            raise CatalogError(content.error.located(str(path)), hint="correct the file")
        if not isinstance(content.value, dict):
            raise CatalogError(f"{path}: not a mapping of fields of {_FIELD}", hint="write fields such as 'affinity:'")
        for problem in _type_problems(content.value):
            line, column = content.locate(problem.path)
            raise CatalogError(f"{path}:{line}:{column}: {problem.text}", hint=problem.hint)
        try:
            _check_values(content.value)
        except CatalogError as error:
            raise CatalogError(f"{path}: {error.message}", hint=error.hint) from error
        return content.value


@dataclass(frozen=True, slots=True)
class _TypeProblem:
    path: FieldPath
    text: str
    hint: str


def _type_problems(value: JsonValue) -> Iterator[_TypeProblem]:
    """Yield the fields that do not exist, and those with the wrong type."""
    decoded = decode_struct(value, "GrpcPodConfig", DecodeMode.JSON)
    for unknown in decoded.unknown:
        hint = f"write {unknown.nearest}" if unknown.nearest else f"use one of: {', '.join(unknown.known)}"
        yield _TypeProblem(unknown.path, f"{_FIELD}.{format_path(unknown.path)}: unknown field", hint)
    for mismatch in decoded.mismatches:
        text = f"{_FIELD}.{format_path(mismatch.path)} {mismatch.problem}"
        yield _TypeProblem(mismatch.path, text, mismatch.hint or "correct the value")


def _check(manifest: dict[str, Any]) -> None:
    """Raise CatalogError for a field that does not exist or has the wrong type, and for invalid values."""
    for problem in _type_problems(manifest):
        raise CatalogError(problem.text, hint=problem.hint)
    _check_values(manifest)


def _check_values(manifest: Mapping[str, Any]) -> None:
    """Raise CatalogError for values that the cluster would reject, or the pod would fail with."""
    context = manifest.get("securityContextConfig")
    if context is not None and context not in _SECURITY_CONTEXTS:
        raise CatalogError(f"invalid security context {context!r}", hint=f"use {' or '.join(_SECURITY_CONTEXTS)}")
    for key, value in (manifest.get("nodeSelector") or {}).items():
        check_name("key of the node selector", key, qualified_name)
        check_name("value of the node selector", value, label_value)
    if priority_class := manifest.get("priorityClassName"):
        check_name("priority class", priority_class, dns1123_subdomain)
    for toleration in manifest.get("tolerations") or ():
        _check_toleration(toleration)
    if (target := manifest.get("memoryTarget")) is not None:
        _check_memory_target(str(target))
    directories = manifest.get("extractContent") or {}
    if directories and not directories.get("catalogDir"):
        raise CatalogError("cache directory without a catalog directory", hint="set both")
    for name, directory in directories.items():
        if not directory.startswith("/"):
            raise CatalogError(f"{name} {directory!r}: not an absolute path", hint=f"write '/{directory}'")


def _check_memory_target(target: str) -> None:
    """Check that Go accepts the quantity with the unit bytes as GOMEMLIMIT, which OLM sets to its binary form."""
    written = _BYTES.fullmatch(canonical_quantity(target))
    if written is None or not int(written[1]):
        raise CatalogError(
            f"invalid memory target {target!r}: not a number of bytes from 1 to 1023Ti", hint="write a size: 512Mi, 2Gi"
        )


def _parse_toleration(text: str) -> dict[str, str]:
    """Parse a toleration in the notation of taints; without a value it tolerates every value."""
    taint, _, effect = text.partition(":")
    key, has_value, value = taint.partition("=")
    operator = {"operator": "Equal", "value": value} if has_value else {"operator": "Exists"}
    return {"key": key, **operator, **({"effect": effect} if effect else {})}


def _check_toleration(toleration: Mapping[str, Any]) -> None:
    effect, operator = toleration.get("effect") or "", toleration.get("operator") or "Equal"
    if effect and effect not in _EFFECTS:
        raise CatalogError(f"toleration: invalid effect {effect!r}", hint=f"use one of: {', '.join(_EFFECTS)}")
    if operator not in {"Equal", "Exists", "Lt", "Gt"}:
        raise CatalogError(f"toleration: invalid operator {operator!r}", hint="use Equal or Exists")
    key = toleration.get("key") or ""
    if key or operator != "Exists":
        check_name("key of the toleration", key, qualified_name)
    check_name("value of the toleration", toleration.get("value") or "", label_value)
