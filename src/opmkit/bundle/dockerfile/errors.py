"""Errors in Dockerfiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.bundle.errors import InvalidDockerfile
from opmkit.core.hints import Hint

if TYPE_CHECKING:
    from pathlib import Path

ENGINE_HINT = "build the image with 'podman build' or 'docker build'"


@dataclass(frozen=True, slots=True)
class InstructionLocation:
    """The name of an instruction, its file and its first line, from 1."""

    file: Path
    line: int
    name: str

    def invalid(self, problem: str, *, hint: Hint | str = "correct the instruction") -> InvalidDockerfile:
        """Return the error for an instruction that is invalid for every builder."""
        return InvalidDockerfile(f"{self}: {problem}", hint=hint)

    def unsupported(self, feature: str, *, hint: Hint | str = "remove it") -> InvalidDockerfile:
        """Return the error for something that only a container engine can build."""
        return InvalidDockerfile(f"{self}: unsupported {feature}", hint=Hint.any_of(hint, ENGINE_HINT))

    def __str__(self) -> str:
        """Return the location as compilers write it, and the instruction."""
        return f"{self.file}:{self.line}: {self.name}"
