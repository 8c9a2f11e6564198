"""Run histories of an index database with opmkit and with Go opm, and compare the results."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

from opmkit.cli.main import run
from opmkit.index.graph import precedence
from tests.kit.shared import dump_index

if TYPE_CHECKING:
    from tests.reference.samples import Publisher, Sample

REFERENCE = os.environ.get("OPMKIT_REFERENCE_OPM", "")
needs_reference = pytest.mark.skipif(not REFERENCE, reason="set OPMKIT_REFERENCE_OPM to the path of Go opm")

RUNS, TRIES = 6, 3
"""Number of runs of a history by Go opm, and of tries of each step in two orders, to reach the result of opmkit.

Results of Go opm can depend on the random iteration order of its maps, and on the order of rows that follows from it.
"""

Rows: TypeAlias = Mapping[str, Sequence[object]]
Reader: TypeAlias = Callable[[Path, str, bool], Rows]
"""Returns the comparable content of a database, given its path, the image prefix, and whether order matters."""
Player: TypeAlias = Callable[[list[str]], int]
"""Runs a command line of ``opm`` and returns its exit status."""


@dataclass(frozen=True)
class Step:
    """A command of ``opm registry`` with its flags, bundles and packages."""

    command: str
    flags: tuple[str, ...] = ()
    bundles: tuple[Sample, ...] = ()
    packages: tuple[str, ...] = ()

    @property
    def ordered(self) -> bool:
        """True if Go opm stores everything in a fixed order."""
        return not {"--enable-alpha", "semver", "semver-skippatch"}.intersection(self.flags)

    @property
    def sorted(self) -> Step:
        """The same step with its bundles in the order in which opmkit adds them."""
        ordered = sorted(self.bundles, key=lambda sample: (precedence(sample.version), sample.name))
        return replace(self, bundles=tuple(ordered)) if self.command == "add" else self

    def argv(self, database: Path, publisher: Publisher) -> list[str]:
        argv = ["registry", self.command, "--database", str(database), *self.flags]
        if self.bundles:
            argv += ["--bundle-images", ",".join(map(publisher.publish, self.bundles))]
        if self.packages:
            argv += ["--packages", ",".join(self.packages)]
        return argv


@dataclass(frozen=True)
class StepResult:
    """The exit status of a step and, if it is 0, the comparable content of the database."""

    status: int
    rows: Rows | None


@dataclass(frozen=True)
class Difference:
    """The results of the last of ``steps``, which differ between opmkit and Go opm."""

    steps: tuple[Step, ...]
    ours: StepResult
    theirs: StepResult

    def __str__(self) -> str:
        lines = [f"step {len(self.steps)}: exit status of opmkit {self.ours.status}, of Go opm {self.theirs.status}"]
        ours, theirs = self.ours.rows or {}, self.theirs.rows or {}
        for table in ours.keys() & theirs.keys():
            lines += [f"{table}: only opmkit: {row}" for row in ours[table] if row not in theirs[table]]
            lines += [f"{table}: only Go opm: {row}" for row in theirs[table] if row not in ours[table]]
            if len(ours[table]) != len(theirs[table]):
                lines.append(f"{table}: {len(ours[table])} rows of opmkit, {len(theirs[table])} of Go opm")
        return "\n".join(lines)


def reference(argv: list[str]) -> int:
    """Run Go opm and return its exit status."""
    return run_reference(*argv).returncode


def run_reference(*argv: str) -> subprocess.CompletedProcess[str]:
    """Run Go opm in an empty directory and return its result."""
    with tempfile.TemporaryDirectory(prefix="opmkit-reference-") as directory:
        return subprocess.run([REFERENCE, *argv], cwd=directory, capture_output=True, text=True, check=False)


def tables(database: Path, prefix: str, exact: bool) -> Rows:
    """Return the tables of a database."""
    rows: Rows = dump_index(database, prefix, loose=not exact)["tables"]
    return rows


@dataclass(frozen=True)
class Comparison:
    """A comparison of opmkit with ``players``, which run the steps in turn; ``read`` returns the content to compare."""

    publisher: Publisher
    players: tuple[Player, ...] = (reference,)
    read: Reader = tables

    def difference(self, steps: Sequence[Step]) -> Difference | None:
        """Run a history up to a step that fails; return None if the players can reach the same result in each step."""
        with tempfile.TemporaryDirectory(prefix="opmkit-histories-") as directory:
            ours = list(self._ours(steps, Path(directory, "index.db")))
            missed: list[tuple[int, StepResult]] = []
            for number in range(RUNS):
                miss = self._first_miss(steps, ours, Path(directory, f"reference-{number}.db"))
                if miss is None:
                    return None
                missed.append(miss)
        position, theirs = max(missed, key=lambda miss: miss[0])
        return Difference(tuple(steps[: position + 1]), ours[position], theirs)

    def _ours(self, steps: Sequence[Step], database: Path) -> Iterator[StepResult]:
        """Run the steps with opmkit up to one that fails, which must not change the database."""
        exact = True
        for step in steps:
            exact = exact and step.ordered
            before = _content(database)
            result = self._run(step, run, database, exact)
            yield result
            if result.status != 0:
                assert _content(database) == before, f"a failed command changed the database: {step}"
                return

    def _first_miss(
        self, steps: Sequence[Step], ours: Sequence[StepResult], database: Path
    ) -> tuple[int, StepResult] | None:
        """Return the position of the first step whose result differs, and that result."""
        exact = True
        for position, (step, result, player) in enumerate(zip(steps, ours, cycle(self.players), strict=False)):
            exact = exact and step.ordered
            before = _content(database)
            for variant in (step, step.sorted) * TRIES:
                _restore(database, before)
                theirs = self._run(variant, player, database, exact)
                if theirs == result:
                    break
            else:
                return position, theirs
        return None

    def _run(self, step: Step, player: Player, database: Path, exact: bool) -> StepResult:
        status = player(step.argv(database, self.publisher))
        return StepResult(status, self.read(database, self.publisher.prefix, exact) if status == 0 else None)


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _restore(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(content)
