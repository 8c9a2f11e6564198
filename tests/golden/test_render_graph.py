"""Results of ``opm alpha render-graph`` for catalogs and databases equal the recorded ones of Go opm."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.opm import run
from tests.kit.shared import Case, cases, needs_shared

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.corpus import Corpus

pytestmark = needs_shared

DATABASES = ("syn-graph", "syn-dep-deprecated", "opreg")
"""Cases that are small enough to build their databases."""


@pytest.mark.parametrize("case", cases("render-graph"), ids=str)
def test_graphs_of_catalogs(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    catalog = tmp_path / "catalog"
    catalog.mkdir()
    migrated = Case("migrate", case.name).record["blobs"]
    (catalog / "catalog.json").write_text("\n".join(map(json.dumps, migrated)))
    assert_graphs_equal(case.record["outputs"], str(catalog), capsys)


@pytest.mark.parametrize("case", [case for case in cases("render-graph") if case.name in DATABASES], ids=str)
@pytest.mark.parametrize("corpus", ["layouts"], indirect=True)
def test_graphs_of_databases(case: Case, corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database = str(tmp_path / "index.db")
    for step in case.record["steps"]:
        assert run([part.replace("{db}", database) for part in corpus.fill(step["argv"])]) == step["exit"]
    capsys.readouterr()
    assert_graphs_equal(case.record["outputs"], database, capsys)


def assert_graphs_equal(outputs: list[dict[str, Any]], catalog: str, capsys: pytest.CaptureFixture[str]) -> None:
    for output in outputs:
        assert output["stable_text"]
        argv = [part.replace("{fbc}", catalog) for part in output["argv"]]
        assert run([*argv, "--compat", "opm-1.26"]) == output["exit"]
        assert sort_skips(capsys.readouterr().out.splitlines()) == sort_skips(output["lines"])


def sort_skips(lines: list[str]) -> list[str]:
    """Sort adjacent skip edges, which are sorted in the recorded catalogs."""
    result: list[str] = []
    for is_skip, group in groupby(lines, key=lambda line: "-- skip -->" in line):
        adjacent = list(group)
        result += sorted(adjacent) if is_skip else adjacent
    return result
