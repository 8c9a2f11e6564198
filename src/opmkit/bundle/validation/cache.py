"""Verdicts kept by what they are on, so that nothing is judged twice by the same rules."""

from __future__ import annotations

import hashlib
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from opmkit.bundle.validation.across import Summary
from opmkit.bundle.validation.extensions import extension_versions
from opmkit.bundle.validation.finding import Finding, Severity
from opmkit.bundle.validation.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


@dataclass(frozen=True, slots=True)
class VerdictCache:
    """Files below a directory, one a verdict, named by the digest of all that it depends on.

    It only ever saves time: what can't be read or written is not there.
    """

    directory: Path
    rules: str

    @classmethod
    def open(cls, directory: Path, choices: Iterable[str]) -> VerdictCache:
        """The verdicts by the rules of this program under the given choices of profile, dialect and options."""
        digest = hashlib.sha256(_program().encode())
        for choice in choices:
            digest.update(choice.encode() + b"\0")
        return cls(directory, digest.hexdigest())

    def get(self, content: str, target: str) -> Verdict | None:
        """The verdict on the bundle of that digest, named as it is now; None if there is none."""
        try:
            value = orjson.loads(self._path(content).read_bytes())
            findings = tuple(Finding(**{**one, "severity": Severity(one["severity"])}) for one in value["findings"])
            summary = value["summary"] and _summary(value["summary"], target)
            return Verdict(target, findings, value["name"], value["package"], summary)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def put(self, content: str, verdict: Verdict) -> None:
        """Keep a verdict; a bundle that could not be read has none."""
        if verdict.error:
            return
        value: dict[str, Any] = {"name": verdict.name, "package": verdict.package}
        value |= {"findings": verdict.findings, "summary": verdict.summary}
        path = self._path(content)
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
                file.write(orjson.dumps(value))
            Path(file.name).replace(path)

    def _path(self, content: str) -> Path:
        digest = hashlib.sha256(f"{self.rules}\0{content}".encode()).hexdigest()
        return self.directory / digest[:2] / f"{digest[2:]}.json"


def _summary(value: Mapping[str, Any], target: str) -> Summary:
    fields: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in value.items()}
    return Summary(**{**fields, "target": target})


def digest_of_files(contents: Mapping[str, bytes]) -> str:
    """What a directory's files are known by."""
    digest = hashlib.sha256()
    for path, content in sorted(contents.items()):
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return f"files:{digest.hexdigest()}"


def _program() -> str:
    """What the rules are known by: the digest of the code that holds them and of other distributions with rules."""
    digest = hashlib.sha256()
    pending = [files("opmkit.bundle")]
    while pending:
        for entry in sorted(pending.pop().iterdir(), key=lambda entry: entry.name):
            if entry.is_dir() and entry.name != "__pycache__":
                pending.append(entry)
            elif entry.name.endswith(".py"):
                digest.update(entry.read_bytes())
    return "\0".join([digest.hexdigest(), *extension_versions()])
