"""Results of ``opm alpha list`` equal the recorded ones of Go opm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from opmkit.index.convert.database_blobs import database_to_blobs
from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.write import to_yaml, write_catalog
from opmkit.index.sqlite import open_database
from tests.kit.opm import run
from tests.kit.shared import Case, cases, needs_shared

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.corpus import Corpus

pytestmark = needs_shared


@pytest.mark.parametrize("case", cases("list"), ids=str)
@pytest.mark.parametrize("corpus", ["layouts"], indirect=True)
def test_tables_equal_the_record(
    case: Case, corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database = tmp_path / "index.db"
    for step in case.record["steps"]:
        status = run([part.replace("{db}", str(database)) for part in corpus.fill(step["argv"])])
        assert status == step["exit"]
        if status != 0:
            # Go opm retains and lists the bundles that it added before it failed, as a permissive add does.
            argv = corpus.fill([*step["argv"], "--permissive"])
            assert run([part.replace("{db}", str(database)) for part in argv]) == 0
    capsys.readouterr()
    for output in case.record["outputs"]:
        assert_listed(output, str(database), corpus, capsys)
    directory = tmp_path / "catalog"
    if migrated(database, directory):
        for output in case.record["outputs"]:
            # the rules of the recorded release
            assert_listed({**output, "argv": [*output["argv"], "--compat", "opm-1.26"]}, str(directory), corpus, capsys)


def migrated(database: Path, directory: Path) -> bool:
    """Convert the database to a file-based catalog; return False if it is invalid."""
    with open_database(database) as opened:
        try:
            blobs = database_to_blobs(opened)
        except InvalidCatalog:
            return False
    write_catalog(blobs, directory, "yaml", to_yaml)
    return True


def assert_listed(output: dict[str, Any], catalog: str, corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    status = run([part.replace("{db}", catalog) for part in output["argv"]])
    printed = capsys.readouterr()
    assert status == output["exit"], printed.err
    lines = [" ".join(line.split()) for line in printed.out.splitlines()]
    assert lines == [line.replace("{registry}", corpus.prefix) for line in output["stdout"]]
    if status != 0:
        assert printed.err.startswith("Error: ")
