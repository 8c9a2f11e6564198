"""Results of ``opm render`` and ``opm migrate`` equal the recorded ones of Go opm."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import TYPE_CHECKING

import pytest

from tests.kit.blobs import canonical_blobs, in_fixed_order, read_stream
from tests.kit.opm import run
from tests.kit.shared import Case, cases, needs_shared

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.corpus import Corpus

pytestmark = needs_shared

# The record is of an earlier syn-text:1.3.0, which replaced 1.1.0. In the corpus and in add-scenarios/text-1.3.0 it
# replaces 1.0.0, and Go opm v1.26.5 renders it with the second hash.
EARLIER = "ecc3239a6953f83e46c847297b6b207f18084cc19cbe628bf4e51d29cc615557"
LATER = "0f223ef732f600765123dbb2c60dca2768973467a55875376650d6922aa3bf40"


@pytest.mark.parametrize("corpus", ["layouts"], indirect=True)
@pytest.mark.parametrize("case", cases("render-bundle"), ids=str)
def test_rendered_bundles(case: Case, corpus: Corpus, capsys: pytest.CaptureFixture[str]) -> None:
    for output in case.record["outputs"]:
        status = run(corpus.fill(output["argv"]))
        printed = capsys.readouterr()
        assert status == output["exit"], printed.err
        if status == 0:
            recorded = json.loads(json.dumps(output["blobs"]).replace(EARLIER, LATER))
            assert canonical_blobs(printed.out, corpus.prefix) == in_fixed_order(recorded)
        else:
            assert printed.err.startswith("Error: ")
            assert corpus.fill(output["argv"])[-1] in printed.err
            assert printed.out == ""


@pytest.mark.parametrize("corpus", ["layouts"], indirect=True)
@pytest.mark.parametrize("case", cases("migrate"), ids=str)
def test_migrated_databases(case: Case, corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    database, directory = str(tmp_path / "index.db"), tmp_path / "catalog"
    record = case.record
    for step in record["steps"]:
        argv = [part.replace("{db}", database).replace("{out}", str(directory)) for part in corpus.fill(step["argv"])]
        status = run(argv)
        assert status == step["exit"], capsys.readouterr().err
        if status != 0 and step["argv"][0] == "registry":
            # Go opm keeps the bundles that it added before it failed, as a permissive add does.
            assert run([*argv, "--permissive"]) == 0
    texts = {path.relative_to(directory).as_posix(): path.read_text() for path in sorted(directory.rglob("*.*"))}
    documents = {path: read_stream(text) for path, text in texts.items()}
    assert {path: len(blobs) for path, blobs in documents.items()} == record["files"]
    for path, blobs in documents.items():
        order = [[file, schema, name] for file, schema, name in record["order"] if file == path]
        assert [[path, blob["schema"], blob["name"]] for blob in blobs] == order
    rendered = canonical_blobs("".join(texts.values()), corpus.prefix)
    recorded = in_fixed_order(deepcopy(record["blobs"]))  # records are shared between tests
    if case.name == "syn-patch-skippatch":
        # In that mode, a skipped patch version must not be the start of an edge; Go opm violates this rule.
        alpha = next(blob for blob in recorded if blob["schema"] == "olm.channel" and blob["name"] == "alpha")
        alpha["entries"][1] = {"name": "syn-patch.v1.0.1", "skips": ["syn-patch.v1.0.0"]}
        recorded = in_fixed_order(recorded)
    assert rendered == recorded
    capsys.readouterr()
    assert run(["render", database]) == record["steps"][-1]["exit"]
    assert capsys.readouterr().out == "".join(texts.values())
