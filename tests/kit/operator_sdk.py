"""Results of ``operator-sdk bundle validate``.

As a program, record those of the bundles in fixtures/broken-bundles: ``python -m tests.kit.operator_sdk OPERATOR_SDK``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kit.broken import Broken, broken_bundles
from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

RECORDED = FIXTURES / "recorded" / "operator-sdk-validate.json"
SELECTIONS: Mapping[str, tuple[str, ...]] = {
    "default": (),
    "suite": ("--select-optional", "suite=operatorframework", "--optional-values", "k8s-version=1.25"),
}
"""Names of recorded command lines, and their flags."""

_UNLOADABLE = ("FMT-NO-ANNOTATIONS", "FMT-NO-METADATA-DIR")
"""Rules of the validator format whose problems prevent operator-sdk from loading the bundle."""

DIFFERENCES = {
    "bundle-related-image-empty": "the rule is newer than operator-sdk 1.42.3",
    "bundle-related-image-invalid": "the rule is newer than operator-sdk 1.42.3",
    "bundle-release-name": "spec.release is newer than operator-sdk 1.42.3",
    "bundle-release-substitutes": "spec.release is newer than operator-sdk 1.42.3",
    "file-encoding": "operator-sdk cannot decode UTF-16",
    "hub-icon-count": "operator-sdk crashes",
}
"""Broken bundles for which opmkit intentionally has another result."""


@dataclass(frozen=True)
class Outcome:
    """Exit code, whether the bundle could be loaded, and the numbers of errors and warnings.

    operator-sdk reports all problems of the format as one error.
    """

    exit: int
    loaded: bool
    errors: int = 0
    warnings: int = 0


def run_operator_sdk(program: str, directory: Path, flags: Iterable[str] = ()) -> Outcome:
    """Return the outcome of operator-sdk for a bundle directory."""
    argv = [program, "bundle", "validate", str(directory), "--output", "json-alpha1", *flags]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if not done.stdout.startswith("{"):
        return Outcome(done.returncode, loaded=False)
    counts = Counter(output["type"] for output in json.loads(done.stdout)["outputs"] or ())
    return Outcome(done.returncode, loaded=True, errors=counts["error"], warnings=counts["warning"])


def outcome_of(findings: Iterable[Mapping[str, Any]]) -> Outcome:
    """Return the outcome for findings of opmkit: mappings with rule, validator and severity."""
    findings = list(findings)
    if any(finding["rule"] in _UNLOADABLE for finding in findings):
        return Outcome(1, loaded=False)
    counts = Counter((finding["validator"], str(finding["severity"])) for finding in findings)
    if counts["load", "error"]:
        return Outcome(1, loaded=False)
    errors = sum(
        min(count, 1) if validator == "format" else count
        for (validator, severity), count in counts.items()
        if severity == "error"
    )
    warnings = sum(count for (_, severity), count in counts.items() if severity == "warning")
    return Outcome(int(errors > 0), loaded=True, errors=errors, warnings=warnings)


def recorded() -> dict[str, dict[str, Outcome]]:
    """Return the recorded outcomes by bundle and selection."""
    values = json.loads(RECORDED.read_text())
    return {name: {key: Outcome(**value) for key, value in one.items()} for name, one in values.items()}


def write_bundle(name: str, directory: Path) -> Path:
    """Write a bundle of fixtures/broken-bundles to a subdirectory and return its path."""
    Broken(name).write(directory / name)
    return directory / name


def _record(program: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        paths = {str(broken): write_bundle(broken.name, Path(directory)) for broken in broken_bundles()}
        values = {
            name: {key: asdict(run_operator_sdk(program, path, flags)) for key, flags in SELECTIONS.items()}
            for name, path in paths.items()
        }
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in sorted(values.items()))
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    _record(sys.argv[1])
