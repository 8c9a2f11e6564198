"""Results with ``--compat`` equal those of releases of Go opm, byte for byte.

``OPMKIT_REFERENCE_OPM_DIR`` is a directory with their programs, ``opm-VERSION``. ``OPMKIT_RELEASES_BUNDLES`` is the
number of bundles of the corpus that each renders (30).
"""

from __future__ import annotations

import os
import random
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from opmkit.index.fbc.check.result import validate
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.load import load_directory
from tests.golden.test_releases import run_here
from tests.kit.brokencatalogs import break_catalog
from tests.kit.corpus import SHARED_BUNDLES, RegistryCorpus
from tests.kit.randomcatalogs import random_catalog, write_catalog
from tests.kit.releases import CASES, Samples, go_runner, programs, with_compat
from tests.kit.shared import needs_shared

if TYPE_CHECKING:
    from tests.kit.registry import Registry

DIRECTORY = os.environ.get("OPMKIT_REFERENCE_OPM_DIR", "")
BUNDLES = int(os.environ.get("OPMKIT_RELEASES_BUNDLES", "30"))
CATALOGS = 30
PROGRAMS = programs(Path(DIRECTORY)) if DIRECTORY else {}
KNOWN_DIFFERENCES = frozenset({"syn-props:1.0.0", "syn-props:1.4.0", "syn-files:1.8.0"})
"""Bundles whose properties have HTML characters or unsorted keys, which opmkit writes plain and sorted, or no name."""

pytestmark = [
    pytest.mark.timeout(0),
    pytest.mark.skipif(not PROGRAMS, reason="set OPMKIT_REFERENCE_OPM_DIR to a directory with opm-VERSION"),
]
versions = pytest.mark.parametrize("version", PROGRAMS)


@pytest.fixture(scope="module")
def samples(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Samples:
    return Samples(tmp_path_factory.mktemp("samples"), registry.host)


@versions
def test_results_on_the_samples_equal_those_of_the_release(version: str, samples: Samples) -> None:
    for case in CASES:
        if case.applies(version):
            expected = samples.run(case, go_runner(PROGRAMS[version]))
            assert samples.run(case, with_compat(run_here, version)) == expected, case


@needs_shared
@versions
def test_rendered_bundles_equal_those_of_the_release(version: str, registry: Registry, tmp_path: Path) -> None:
    corpus = RegistryCorpus(registry.host)
    names = [f"{path.parent.name}:{path.name.replace('+', '_')}" for path in sorted(SHARED_BUNDLES.glob("*/*"))]
    for name in random.Random(version).sample(names, min(BUNDLES, len(names))):
        (image,) = corpus.fill([f"{{registry}}/{name}"])
        argv = ["render", "--use-http", image]
        expected = go_runner(PROGRAMS[version])(argv, tmp_path)
        actual = with_compat(run_here, version)(argv, tmp_path)
        assert (actual.returncode == 0) is (expected.returncode == 0), name
        if expected.returncode == 0 and name not in KNOWN_DIFFERENCES:
            assert actual.stdout == expected.stdout, name


@versions
def test_random_catalogs_are_accepted_and_rendered_as_by_the_release(version: str, tmp_path: Path) -> None:
    for seed in range(CATALOGS):
        root = tmp_path / str(seed)
        root.mkdir()
        rng = random.Random(seed)
        catalog = random_catalog(rng)
        broken = [break_catalog(rng, catalog)] if seed % 3 else []
        write_catalog(rng, catalog, root)
        if CatalogCompat.parse(version) < CatalogCompat(28) and "duplicate_field" in broken:
            continue  # documents are parsed as by the newest release
        theirs = subprocess.run([PROGRAMS[version], "validate", root], capture_output=True, check=False)
        passed = validate(load_directory(root), CatalogCompat.parse(version)).passed
        assert passed is (theirs.returncode == 0), (seed, broken, theirs.stderr)
        is_ambiguous = CatalogCompat.parse(version) < CatalogCompat(28) and any(
            "deprecations" in item["schema"] for item in catalog
        )
        if not broken and not is_ambiguous:  # the order of their keys depends on the format of the file
            argv = ["alpha", "render-graph", str(root)] if seed % 2 else ["render", str(root)]
            expected = go_runner(PROGRAMS[version])(argv, tmp_path)
            assert with_compat(run_here, version)(argv, tmp_path).stdout == expected.stdout, seed
