"""The recorded catalogs of ``opm alpha render-template``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.blobs import canonical_blobs, in_fixed_order
from tests.kit.opm import run
from tests.kit.shared import SHARED, Case, cases, needs_shared

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.corpus import Corpus

pytestmark = needs_shared

# Which of two channels is the default, the recorded release leaves to chance; later ones take the minor version's.
LEFT_TO_CHANCE = {"semver-prerelease-only": ("candidate-v2", "candidate-v2.0")}


@pytest.mark.parametrize("case", cases("render-template"), ids=str)
def test_rendered_templates_equal_the_record(
    case: Case, corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record = case.record
    template = tmp_path / "t.yaml"
    template.write_text(corpus.fill([(SHARED / record["template"]).read_text()])[0])
    argv = [part.replace("{template}", str(template)) for part in record["argv"]]
    status = run([*argv, "--compat", "opm-1.26"])
    printed = capsys.readouterr()
    assert status == record["exit"], printed.err
    if status != 0:
        assert printed.out == ""
        assert printed.err.startswith("Error: ")
    elif "lines" in record:
        assert sorted(printed.out.splitlines()) == record["lines"]
    else:
        recorded, chosen = LEFT_TO_CHANCE.get(case.name, ("", ""))
        expected = [
            {**blob, "defaultChannel": chosen} if blob.get("defaultChannel") == recorded else blob
            for blob in record["blobs"]
        ]
        assert canonical_blobs(printed.out, corpus.prefix) == in_fixed_order(expected)
