"""Cache of validation results, keyed by the digest of the bundle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from opmkit.bundle.cache import ResultCache, code_digest
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.cel import compiler_version
from opmkit.bundle.validation.cross_bundle import BundleSummary
from opmkit.bundle.validation.extensions import extension_versions
from opmkit.bundle.validation.result import ValidationResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class ValidationCache:
    """On-disk cache of validation results."""

    results: ResultCache

    @classmethod
    def open(cls, directory: Path, options: Iterable[str]) -> ValidationCache:
        """Return a cache for the rules of this installation and for ``options``: profile, mode, optional validators."""
        code = [code_digest("opmkit.bundle"), compiler_version(), *extension_versions()]
        return cls(ResultCache.open(directory, [*code, "", *options]))

    def get(self, content: str, target: str) -> ValidationResult | None:
        """Return the result for the bundle with this digest, under the name ``target``, or None."""
        try:
            value = orjson.loads(self.results.get(content) or b"")
            findings = tuple(map(_finding, value["findings"]))
            summary = value["summary"] and _summary(value["summary"], target)
            return ValidationResult(target, findings, value["name"], package=value["package"], summary=summary)
        except (ValueError, TypeError, KeyError):
            return None

    def put(self, content: str, result: ValidationResult) -> None:
        """Store a result, unless it is an error."""
        if result.error:
            return
        value: dict[str, Any] = {"name": result.name, "package": result.package}
        value |= {"findings": result.findings, "summary": result.summary}
        self.results.put(content, orjson.dumps(value))


def _summary(value: Mapping[str, Any], target: str) -> BundleSummary:
    fields: dict[str, Any] = {
        name: tuple(member) if isinstance(member, list) else member for name, member in value.items()
    }
    return BundleSummary(**{**fields, "target": target})


def _finding(value: Mapping[str, Any]) -> Finding:
    return Finding(**{**value, "path": tuple(value["path"]), "severity": Severity(value["severity"])})
