"""Verdicts kept by what they are on, so that nothing is judged twice by the same rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from opmkit.bundle.cache import Kept, code_digest
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.cel import compiler_version
from opmkit.bundle.validation.cross_bundle import Summary
from opmkit.bundle.validation.extensions import extension_versions
from opmkit.bundle.validation.result import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class VerdictCache:
    """Verdicts by the digests of the bundles that they are on."""

    kept: Kept

    @classmethod
    def open(cls, directory: Path, choices: Iterable[str]) -> VerdictCache:
        """The verdicts by the rules of this program under the given choices of profile, dialect and options."""
        code = [code_digest("opmkit.bundle"), compiler_version(), *extension_versions()]
        return cls(Kept.open(directory, [*code, "", *choices]))

    def get(self, content: str, target: str) -> Verdict | None:
        """The verdict on the bundle of that digest, named as it is now; None if there is none."""
        try:
            value = orjson.loads(self.kept.get(content) or b"")
            findings = tuple(map(_finding, value["findings"]))
            summary = value["summary"] and _summary(value["summary"], target)
            return Verdict(target, findings, value["name"], value["package"], summary)
        except (ValueError, TypeError, KeyError):
            return None

    def put(self, content: str, verdict: Verdict) -> None:
        """Keep a verdict; a bundle that could not be read has none."""
        if verdict.error:
            return
        value: dict[str, Any] = {"name": verdict.name, "package": verdict.package}
        value |= {"findings": verdict.findings, "summary": verdict.summary}
        self.kept.put(content, orjson.dumps(value))


def _summary(value: Mapping[str, Any], target: str) -> Summary:
    fields: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in value.items()}
    return Summary(**{**fields, "target": target})


def _finding(value: Mapping[str, Any]) -> Finding:
    return Finding(**{**value, "path": tuple(value["path"]), "severity": Severity(value["severity"])})
