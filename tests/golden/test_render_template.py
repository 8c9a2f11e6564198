"""Results of ``opm alpha render-template`` equal the recorded ones of Go opm."""

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

# The recorded release chooses one of two default channels at random; later releases choose that of the minor version.
RANDOM_DEFAULT_CHANNELS = {"semver-prerelease-only": ("candidate-v2", "candidate-v2.0")}


@pytest.mark.parametrize("case", cases("render-template"), ids=str)
def test_rendered_templates(case: Case, corpus: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
        recorded, expected_default = RANDOM_DEFAULT_CHANNELS.get(case.name, ("", ""))
        expected = [
            {**blob, "defaultChannel": expected_default} if blob.get("defaultChannel") == recorded else blob
            for blob in record["blobs"]
        ]
        assert canonical_blobs(printed.out, corpus.prefix) == in_fixed_order(expected)
