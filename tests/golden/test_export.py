"""Recorded exports of Go opm, replayed on the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.opm import run
from tests.kit.shared import Case, cases, found_files, needs_shared

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.corpus import Corpus

pytestmark = needs_shared


@pytest.mark.parametrize("case", cases("export"), ids=str)
@pytest.mark.parametrize("corpus", ["registry", "layouts"], indirect=True)
def test_files_equal_recorded_results(
    case: Case, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database, work = str(tmp_path / "index.db"), tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    for step in case.record["steps"]:
        argv = [part.replace("{db}", database).replace("{index}", database) for part in corpus.fill(step["argv"])]
        assert run([*argv, "--use-http"]) == step["exit"]
    assert sorted(path.name for path in work.iterdir()) == case.record["directories"]
    assert found_files(work) == case.record["files"]
