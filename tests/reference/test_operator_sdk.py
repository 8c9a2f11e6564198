"""``opm bundle validate --profile operator-sdk --compat newest`` compared with operator-sdk.

``OPMKIT_REFERENCE_OPERATOR_SDK`` is its path, v1.42.3; ``OPMKIT_BUNDLES`` is the number of bundles of the corpus.
"""

from __future__ import annotations

import json
import os
import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from tests.kit.operator_sdk import (
    DIFFERENCES,
    SELECTIONS,
    Outcome,
    outcome_of,
    recorded,
    run_operator_sdk,
    write_bundle,
)
from tests.kit.shared import SHARED, needs_shared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.kit.opm import Opm

REFERENCE = os.environ.get("OPMKIT_REFERENCE_OPERATOR_SDK", "")
COUNT = int(os.environ.get("OPMKIT_BUNDLES", "200"))
NEWER_RULES = ("BUNDLE-RELATED-IMAGE-", "BUNDLE-RELEASE-")
"""Rules that are newer than operator-sdk 1.42.3."""

pytestmark = [
    pytest.mark.skipif(not REFERENCE, reason="set OPMKIT_REFERENCE_OPERATOR_SDK to the path of operator-sdk 1.42.3"),
    pytest.mark.timeout(0),
]


def run_all(directories: Sequence[Path], flags: tuple[str, ...]) -> Mapping[Path, Outcome]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        outcomes = pool.map(lambda directory: run_operator_sdk(REFERENCE, directory, flags), directories)
        return dict(zip(directories, outcomes, strict=True))


@pytest.mark.parametrize("selection", SELECTIONS)
def test_recorded_results_are_those_of_operator_sdk(selection: str, tmp_path: Path) -> None:
    expected = {name: outcomes[selection] for name, outcomes in recorded().items()}
    paths = [write_bundle(name, tmp_path) for name in expected]
    assert {path.name: one for path, one in run_all(paths, SELECTIONS[selection]).items()} == expected


@needs_shared
@pytest.mark.parametrize("selection", SELECTIONS)
def test_results_equal_those_of_operator_sdk(selection: str, opm: Opm, tmp_path: Path) -> None:
    corpus = sorted(path for path in (SHARED / "corpus" / "bundles").glob("*/*") if path.is_dir())
    bundles = random.Random(0).sample(corpus, min(COUNT, len(corpus)))
    bundles += [write_bundle(name, tmp_path) for name in recorded() if name not in DIFFERENCES]
    theirs = run_all(bundles, SELECTIONS[selection])
    flags = ("--profile", "operator-sdk", "--compat", "newest", "--no-cache", "--output", "json")
    report = opm.attempt("bundle", "validate", *map(str, bundles), *flags, *SELECTIONS[selection])
    different = []
    for path, result in zip(bundles, json.loads(report.stdout)["bundles"], strict=True):
        findings = [finding for finding in result["findings"] if not finding["rule"].startswith(NEWER_RULES)]
        ours = outcome_of(findings)
        errors_differ = theirs[path].loaded and ours.errors != theirs[path].errors
        if ours.exit != theirs[path].exit or errors_differ:  # DEPAPI-1.25 has more warnings in operator-sdk 1.42.3
            different.append((path.name, ours, theirs[path]))
    assert different == []
