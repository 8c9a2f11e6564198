"""The broken bundles in fixtures/: the sound one that they are made of, laid under the files in which each differs."""

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
    """The files below a directory, by their paths from there."""
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


BASE = files_below(BROKEN / "base")


@dataclass(frozen=True)
class Broken:
    """A broken bundle, by the name of its directory."""

    name: str

    @cached_property
    def expected(self) -> Mapping[str, Any]:
        """What is to be found, and how it is looked for."""
        told: dict[str, Any] = yaml.safe_load((BROKEN / self.name / _EXPECTED).read_text())
        return told

    @cached_property
    def own(self) -> dict[str, bytes]:
        """The files that differ from those of the sound bundle, and the marks of those that are not there."""
        return {path: raw for path, raw in files_below(BROKEN / self.name).items() if path != _EXPECTED}

    @cached_property
    def files(self) -> dict[str, bytes]:
        """All of its files."""
        files = {**BASE, **self.own}
        return {
            path: raw for path, raw in files.items() if not path.endswith(_DELETED) and path + _DELETED not in files
        }

    def findings(self) -> list[Finding]:
        """What the profile ``all`` finds, or the validator that is asked for."""
        bundle = view(self.files, image_labels=self.expected.get("labels"))
        if "validator" in self.expected:
            return list(run_rules(bundle, validators()[self.expected["validator"]]))
        return run_profile(bundle, profile_named("all"))

    def write(self, root: Path) -> None:
        """Write its files below a directory."""
        for path, raw in self.files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(raw)

    def __str__(self) -> str:
        return self.name


def broken_bundles() -> list[Broken]:
    """All of them."""
    return [Broken(path.parent.name) for path in sorted(BROKEN.glob(f"*/{_EXPECTED}"))]
