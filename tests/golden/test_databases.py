"""The recorded databases of the reference, replayed through the command line, from a registry and from OCI layouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.shared import Case, assert_equal_index, cases, needs_shared
from opmkit.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

    from kit.corpus import Corpus

pytestmark = needs_shared

GROUPS = ("add-replaces", "add-replaces-one-by-one")


@pytest.mark.parametrize("case", cases(*GROUPS), ids=str)
@pytest.mark.parametrize("corpus", ["registry", "layouts"], indirect=True)
def test_database_equals_the_record(
    case: Case, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, database = tmp_path / "work", tmp_path / "index.db"
    work.mkdir()
    monkeypatch.chdir(work)
    failed = False
    for step in case.record["steps"]:
        argv = [part.replace("{db}", str(database)) for part in corpus.fill(step["argv"])]
        before = database.read_bytes() if database.exists() else None
        status = run(argv)
        assert status == step["exit"] or failed, f"{argv}: {step['error']}"
        if status != 0:
            assert (database.read_bytes() if database.exists() else None) == before, "a failed command left a change"
        # What follows a failure builds on rows that the reference left behind and we don't: it tells nothing.
        failed = failed or step["exit"] != 0
        assert list(work.iterdir()) == []
    if not failed:
        assert_equal_index(case.record, database, corpus.prefix)
