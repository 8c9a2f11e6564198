"""The recorded databases of the reference, replayed on the functions: every case made of adds in replaces mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from index.replay import REGISTRY, replaces_steps
from kit.shared import Case, assert_equal_index, cases, needs_shared

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = needs_shared

GROUPS = ("add-replaces", "add-replaces-one-by-one", "add-multi", "add-scenarios", "add-errors", "add-substitutes")
CASES = [case for case in cases(*GROUPS) if replaces_steps(case.record)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_database_equals_the_record(case: Case, tmp_path: Path) -> None:
    database = tmp_path / "index.db"
    failed = False
    for step, recorded in zip(replaces_steps(case.record) or [], case.record["steps"], strict=True):
        before = database.read_bytes() if database.exists() else None
        status = step.run(database)
        if not failed:
            allowed = {exits[len(case.record["steps"]) - 1] for exits in case.record.get("exits_seen", [])}
            assert status in (allowed or {recorded["exit"]}), recorded["error"]
        if status != 0:
            assert (database.read_bytes() if database.exists() else None) == before, "a failed add left a change"
        # What follows a failure builds on rows that the reference left behind and we don't: it tells nothing.
        failed = failed or recorded["exit"] != 0 or status != 0
        assert {path.name for path in tmp_path.iterdir()} <= {"index.db"}
    if not failed:
        assert_equal_index(case.record, database, REGISTRY)
