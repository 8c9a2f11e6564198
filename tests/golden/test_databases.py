"""The recorded databases of the reference, replayed through the command line, from a registry and from OCI layouts."""

from __future__ import annotations

import shutil
import tempfile
from typing import TYPE_CHECKING

import pytest

from kit.shared import INCOMPLETE, SHARED, Case, assert_equal_index, cases, defective, needs_shared
from opmkit.cli.companions import run_initializer
from opmkit.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

    from kit.corpus import Corpus

pytestmark = needs_shared

GROUPS = (
    *("add-errors", "add-multi", "add-overwrite", "add-replaces", "add-replaces-one-by-one", "add-scenarios"),
    *("add-semver", "add-semver-one-by-one", "add-skippatch", "add-skippatch-one-by-one", "add-substitutes"),
    *("deprecatetruncate", "initializer", "prune", "prune-stranded", "rm"),
)
TAKE_AWAY = ("deprecatetruncate", "prune", "prune-stranded", "rm")
IN_LAYOUTS = ("add-replaces",)  # where images come from matters to no other step, nor to one at a time
RUNS = [
    (place, case)
    for place, groups in (("registry", GROUPS), ("layouts", IN_LAYOUTS))
    for case in cases(*groups)
    if str(case) not in INCOMPLETE
]


def run_step(argv: list[str]) -> int:
    return run_initializer(argv[1:]) if argv[0] == "initializer" else run(argv)


@pytest.fixture
def manifests(case: Case, tmp_path: Path) -> Path:
    """The package directories that some cases read, side by side."""
    directory = tmp_path / "manifests"
    directory.mkdir()
    for source in case.record.get("manifests_dirs", ()):
        shutil.copytree(SHARED / source, directory / source.rpartition("/")[2])
    return directory


@pytest.mark.parametrize(("corpus", "case"), RUNS, ids=str, indirect=["corpus"])
def test_database_equals_the_record(
    case: Case, corpus: Corpus, manifests: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, scratch, database = tmp_path / "work", tmp_path / "scratch", tmp_path / "index.db"
    work.mkdir()
    scratch.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    steps = case.record["steps"]
    seen = case.record.get("exits_seen") or [[step["exit"] for step in steps]]
    comparable = True
    for position, step in enumerate(steps):
        argv = corpus.fill(step["argv"])
        before = database.read_bytes() if database.exists() else None
        status = run_step([part.replace("{db}", str(database)).replace("{manifests}", str(manifests)) for part in argv])
        if before is None and step["argv"][1] in TAKE_AWAY:
            assert (status, database.exists()) == (1, False)  # wanted: the reference makes an empty database
            return
        if comparable:
            allowed = {0} if defective(step) else {exits[position] for exits in seen}
            assert status in allowed, f"{argv}: {step['error']}"
        if status != 0:
            assert (database.read_bytes() if database.exists() else None) == before, "a failed command left a change"
        assert [*work.iterdir(), *scratch.iterdir()] == []
        # What follows a failure builds on rows that the reference left behind and we don't: it tells nothing.
        comparable = comparable and step["exit"] == status == 0
    if comparable:
        assert_equal_index(case.record, database, corpus.prefix)
