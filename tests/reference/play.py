"""Histories of an index database, played by opmkit and by the reference tool, and what they came to."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kit.shared import dump_index
from opmkit.cli.main import run

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from reference.samples import Publisher, Sample

REFERENCE = os.environ.get("OPMKIT_REFERENCE_OPM", "")
needs_reference = pytest.mark.skipif(not REFERENCE, reason="OPMKIT_REFERENCE_OPM does not name the reference tool")

RUNS, TRIES = 6, 6
"""How often the reference may play a history, and try each of its steps, to come to what we come to.

What it comes to can depend on the random order of its maps, and on the order of rows that such a map left behind.
"""


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

    def argv(self, database: Path, publisher: Publisher) -> list[str]:
        argv = ["registry", self.command, "--database", str(database), *self.flags]
        if self.bundles:
            argv += ["--bundle-images", ",".join(map(publisher.publish, self.bundles))]
        if self.packages:
            argv += ["--packages", ",".join(self.packages)]
        return argv


@dataclass(frozen=True)
class Outcome:
    """The exit status of a step and, if that is 0, the tables of the database."""

    status: int
    tables: dict[str, Any] | None = None


@dataclass(frozen=True)
class Difference:
    """What the last of ``steps`` came to here, and in a run of the reference."""

    steps: tuple[Step, ...]
    ours: Outcome
    theirs: Outcome

    def __str__(self) -> str:
        told = f"step {len(self.steps)}: opmkit leaves with {self.ours.status}, the reference with {self.theirs.status}"
        if self.ours.tables is None or self.theirs.tables is None:
            return told
        return "\n".join([told, *_differing_rows(self.ours.tables, self.theirs.tables)])


def difference(steps: Sequence[Step], publisher: Publisher) -> Difference | None:
    """Play a history with both, up to a step that fails; None where the reference can come to what we come to."""
    with tempfile.TemporaryDirectory(prefix="opmkit-histories-") as directory:
        ours = list(play(steps, publisher, Path(directory, "index.db")))
        missed: list[tuple[int, Outcome]] = []
        for number in range(RUNS):
            miss = _first_miss(steps, ours, publisher, Path(directory, f"reference-{number}.db"))
            if miss is None:
                return None
            missed.append(miss)
    position, theirs = max(missed, key=lambda miss: miss[0])
    return Difference(tuple(steps[: position + 1]), ours[position], theirs)


def play(steps: Sequence[Step], publisher: Publisher, database: Path) -> Iterator[Outcome]:
    """Run the steps here, up to one that fails, which must change nothing."""
    ordered = True
    for step in steps:
        ordered = ordered and step.ordered
        before = _content(database)
        status = run(step.argv(database, publisher))
        yield _outcome(status, database, publisher, ordered)
        if status != 0:
            assert _content(database) == before, f"a failed command changed the database: {step}"
            return


def _first_miss(
    steps: Sequence[Step], ours: Sequence[Outcome], publisher: Publisher, database: Path
) -> tuple[int, Outcome] | None:
    """The position of the first step that the reference does not come out of as we do, and what it came to last."""
    ordered = True
    for position, (step, outcome) in enumerate(zip(steps, ours, strict=False)):
        ordered = ordered and step.ordered
        before = _content(database)
        for _ in range(TRIES):
            _restore(database, before)
            theirs = _outcome(reference(*step.argv(database, publisher)), database, publisher, ordered)
            if theirs == outcome:
                break
        else:
            return position, theirs
    return None


def reference(*argv: str) -> int:
    """Run the reference tool; its exit status."""
    with tempfile.TemporaryDirectory(prefix="opmkit-reference-") as directory:
        return subprocess.run([REFERENCE, *argv], cwd=directory, capture_output=True, check=False).returncode


def _outcome(status: int, database: Path, publisher: Publisher, ordered: bool) -> Outcome:
    if status != 0:
        return Outcome(status)
    return Outcome(status, dump_index(database, publisher.prefix, loose=not ordered)["tables"])


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


def _restore(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        path.write_bytes(content)


def _differing_rows(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    lines = []
    for table, rows in ours.items():
        lines += [f"  {table}: only here: {row}" for row in rows if row not in theirs[table]]
        lines += [f"  {table}: only there: {row}" for row in theirs[table] if row not in rows]
        if rows != theirs[table] and not lines:
            lines.append(f"  {table}: {len(rows)} rows here, {len(theirs[table])} there")
    return lines
