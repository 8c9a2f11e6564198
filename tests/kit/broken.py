"""The bundles in fixtures/broken-bundles: a valid one, and directories with the files that differ from it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from opmkit.bundle.validation.profiles import profile_named
from opmkit.bundle.validation.rule_registry import validators
from opmkit.bundle.validation.run import run_profile, run_rules
from tests.kit.validation import view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.bundle.finding import Finding

BROKEN = Path(__file__).parents[2] / "fixtures" / "broken-bundles"
_DELETED = ".deleted"
_EXPECTED = "expected.yaml"


def files_below(root: Path) -> dict[str, bytes]:
    """Return the files below a directory by relative path."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


BASE = files_below(BROKEN / "base")


@dataclass(frozen=True)
class Broken:
    """A broken bundle; ``name`` is that of its directory."""

    name: str

    @cached_property
    def expected(self) -> Mapping[str, Any]:
        """The expected findings, and how to run validation."""
        expected: dict[str, Any] = yaml.safe_load((BROKEN / self.name / _EXPECTED).read_text())
        return expected

    @cached_property
    def own(self) -> dict[str, bytes]:
        """The files that differ from the valid bundle, with the markers of deleted files."""
        return {path: raw for path, raw in files_below(BROKEN / self.name).items() if path != _EXPECTED}

    @cached_property
    def files(self) -> dict[str, bytes]:
        """All files of the bundle."""
        files = {**BASE, **self.own}
        return {
            path: raw for path, raw in files.items() if not path.endswith(_DELETED) and path + _DELETED not in files
        }

    def findings(self) -> list[Finding]:
        """Run the profile ``all``, or the validator in ``expected``."""
        bundle = view(self.files, image_labels=self.expected.get("labels"))
        if "validator" in self.expected:
            return list(run_rules(bundle, validators()[self.expected["validator"]]))
        return run_profile(bundle, profile_named("all"))

    def write(self, root: Path) -> None:
        """Write the files below a directory."""
        for path, raw in self.files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(raw)

    def __str__(self) -> str:
        return self.name


def broken_bundles() -> list[Broken]:
    """Return all broken bundles."""
    return [Broken(path.parent.name) for path in sorted(BROKEN.glob(f"*/{_EXPECTED}"))]
