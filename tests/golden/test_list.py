"""The recorded tables of ``opm alpha list``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kit.shared import Case, cases, needs_shared
from opmkit.cli.main import run

if TYPE_CHECKING:
    from pathlib import Path

    from kit.corpus import Corpus

pytestmark = needs_shared


@pytest.mark.parametrize("case", cases("list"), ids=str)
@pytest.mark.parametrize("corpus", ["registry", "layouts"], indirect=True)
def test_tables_equal_the_record(
    case: Case, corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = str(tmp_path / "index.db")
    for step in case.record["steps"]:
        status = run([part.replace("{db}", database) for part in corpus.fill(step["argv"])])
        assert status == step["exit"]
        if status != 0:
            # The reference keeps what it had done before it failed, and lists that; a permissive add comes to the same.
            assert run([part.replace("{db}", database) for part in corpus.fill([*step["argv"], "--permissive"])]) == 0
    capsys.readouterr()
    for output in case.record["outputs"]:
        status = run([part.replace("{db}", database) for part in output["argv"]])
        printed = capsys.readouterr()
        assert status == output["exit"], printed.err
        lines = [" ".join(line.split()) for line in printed.out.splitlines()]
        assert lines == [line.replace("{registry}", corpus.prefix) for line in output["stdout"]]
        if status != 0:
            assert printed.err.startswith("Error: ")
