"""Histories of an index database, played by opmkit and by the reference tool, and what they came to."""

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
needs_reference = pytest.mark.skipif(not REFERENCE, reason="OPMKIT_REFERENCE_OPM does not name the reference tool")

RUNS, TRIES = 6, 3
"""How often the reference may play a history, and try each of its steps in two orders, to come to what we come to.

What it comes to can depend on the order of its maps, which is random, though mostly that of the command line;
and on the order of rows that such a map left behind.
"""

Rows: TypeAlias = Mapping[str, Sequence[object]]
Reader: TypeAlias = Callable[[Path, str, bool], Rows]
"""Gives what to compare of a database: its path, the prefix of its images, and False where order is left to chance."""
Player: TypeAlias = Callable[[list[str]], int]
"""Runs a command line of ``opm`` and gives its exit status."""


@dataclass(frozen=True)
class Step:
    """A command of ``opm registry`` with its flags, the bundles it names by image, and the packages."""

    command: str
    flags: tuple[str, ...] = ()
    bundles: tuple[Sample, ...] = ()
    packages: tuple[str, ...] = ()

    @property
    def ordered(self) -> bool:
        """Whether nothing that it stores is in an order that the reference leaves to chance."""
        return not {"--enable-alpha", "semver", "semver-skippatch"}.intersection(self.flags)

    @property
    def sorted(self) -> Step:
        """The same with its bundles in the order in which we add them, whatever the order on the command line."""
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
class Outcome:
    """The exit status of a step and, if that is 0, what was read of the database."""

    status: int
    rows: Rows | None


@dataclass(frozen=True)
class Difference:
    """What the last of ``steps`` came to here, and in a run of the reference."""

    steps: tuple[Step, ...]
    ours: Outcome
    theirs: Outcome

    def __str__(self) -> str:
        told = [
            f"step {len(self.steps)}: opmkit leaves with {self.ours.status}, the reference with {self.theirs.status}"
        ]
        ours, theirs = self.ours.rows or {}, self.theirs.rows or {}
        for table in ours.keys() & theirs.keys():
            told += [f"{table}: only here: {row}" for row in ours[table] if row not in theirs[table]]
            told += [f"{table}: only there: {row}" for row in theirs[table] if row not in ours[table]]
            if len(ours[table]) != len(theirs[table]):
                told.append(f"{table}: {len(ours[table])} rows here, {len(theirs[table])} there")
        return "\n".join(told)


def reference(argv: list[str]) -> int:
    """The reference tool as a player."""
    return run_reference(*argv).returncode


def run_reference(*argv: str) -> subprocess.CompletedProcess[str]:
    """Run the reference tool to the end, whatever it is."""
    with tempfile.TemporaryDirectory(prefix="opmkit-reference-") as directory:
        return subprocess.run([REFERENCE, *argv], cwd=directory, capture_output=True, text=True, check=False)


def tables(database: Path, prefix: str, exact: bool) -> Rows:
    """Every table of a database."""
    rows: Rows = dump_index(database, prefix, loose=not exact)["tables"]
    return rows


@dataclass(frozen=True)
class Comparison:
    """Plays histories here, and lets ``players`` take their steps by turns; ``read`` tells what is compared."""

    publisher: Publisher
    players: tuple[Player, ...] = (reference,)
    read: Reader = tables

    def difference(self, steps: Sequence[Step]) -> Difference | None:
        """Play a history up to a step that fails; None where the players can come to what we come to, step by step."""
        with tempfile.TemporaryDirectory(prefix="opmkit-histories-") as directory:
            ours = list(self._ours(steps, Path(directory, "index.db")))
            missed: list[tuple[int, Outcome]] = []
            for number in range(RUNS):
                miss = self._first_miss(steps, ours, Path(directory, f"reference-{number}.db"))
                if miss is None:
                    return None
                missed.append(miss)
        position, theirs = max(missed, key=lambda miss: miss[0])
        return Difference(tuple(steps[: position + 1]), ours[position], theirs)

    def _ours(self, steps: Sequence[Step], database: Path) -> Iterator[Outcome]:
        """Take the steps here, up to one that fails, which must change nothing."""
        exact = True
        for step in steps:
            exact = exact and step.ordered
            before = _content(database)
            outcome = self._take(step, run, database, exact)
            yield outcome
            if outcome.status != 0:
                assert _content(database) == before, f"a failed command changed the database: {step}"
                return

    def _first_miss(self, steps: Sequence[Step], ours: Sequence[Outcome], database: Path) -> tuple[int, Outcome] | None:
        """The position of the first step that the players do not come out of as we do, and what it came to last."""
        exact = True
        for position, (step, outcome, player) in enumerate(zip(steps, ours, cycle(self.players), strict=False)):
            exact = exact and step.ordered
            before = _content(database)
            for retold in (step, step.sorted) * TRIES:
                _restore(database, before)
                theirs = self._take(retold, player, database, exact)
                if theirs == outcome:
                    break
            else:
                return position, theirs
        return None

    def _take(self, step: Step, player: Player, database: Path, exact: bool) -> Outcome:
        status = player(step.argv(database, self.publisher))
        return Outcome(status, self.read(database, self.publisher.prefix, exact) if status == 0 else None)


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _restore(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(content)
