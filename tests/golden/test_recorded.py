"""Replay the results of Go opm in ``fixtures/recorded``, from the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.blobs import canonical_blobs, in_fixed_order
from tests.kit.corpus import LayoutCorpus
from tests.kit.opm import run
from tests.kit.recorded import BUNDLES, RecordedCase, dump_database, recorded_cases, sorted_lines

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("case", recorded_cases(), ids=str)
def test_results_equal_those_of_go_opm(case: RecordedCase, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus, database, record = LayoutCorpus(tmp_path, BUNDLES), tmp_path / "index.db", case.record
    for step in record["steps"]:
        before = database.read_bytes() if database.exists() else None
        status = run([part.replace("{db}", str(database)) for part in corpus.fill(step["argv"])])
        assert status == step["exit"]
        if status != 0:
            assert (database.read_bytes() if database.exists() else None) == before
            return
    assert dump_database(database, corpus.prefix) == record["tables"]
    capsys.readouterr()
    for table, lines in record["lists"].items():
        assert run(["alpha", "list", table, str(database)]) == 0
        assert sorted_lines(capsys.readouterr().out, corpus.prefix) == lines
    assert run(["render", str(database)]) == 0
    assert canonical_blobs(capsys.readouterr().out, corpus.prefix) == in_fixed_order(record["blobs"])


def test_every_kind_of_case_is_recorded() -> None:
    verbs = {step["argv"][1] for case in recorded_cases() for step in case.record["steps"]}
    assert verbs == {"add", "rm", "prune", "prune-stranded", "deprecatetruncate"}
