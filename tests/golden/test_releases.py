"""Results with ``--compat`` equal those recorded of the releases of Go opm, byte for byte."""

from __future__ import annotations

import contextlib
import io
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.kit.opm import run
from tests.kit.releases import CASES, ReleaseCase, Samples, recorded_results, with_compat

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.registry import Registry


@pytest.fixture(scope="module")
def samples(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Samples:
    return Samples(tmp_path_factory.mktemp("samples"), registry.host)


def run_here(argv: list[str], directory: Path) -> subprocess.CompletedProcess[bytes]:
    """Run opmkit in this process, which is quicker."""
    with (
        contextlib.chdir(directory),
        io.TextIOWrapper(io.BytesIO(), write_through=True) as output,
        contextlib.redirect_stdout(output),
    ):
        status = run(argv)
        return subprocess.CompletedProcess(argv, status, output.buffer.getvalue())


@pytest.mark.parametrize("case", CASES, ids=str)
def test_results_equal_those_of_the_release(case: ReleaseCase, samples: Samples) -> None:
    for recorded in recorded_results()[case.name]:
        releases = recorded["releases"]
        for version in dict.fromkeys((releases[0], releases[-1])):
            result = samples.run(case, with_compat(run_here, version))
            assert result == {name: value for name, value in recorded.items() if name != "releases"}, version


def test_all_cases_and_releases_are_recorded() -> None:
    assert list(recorded_results()) == [case.name for case in CASES]
    versions = {
        version for results in recorded_results().values() for result in results for version in result["releases"]
    }
    assert versions == {"1.26.5", "1.39.0", "1.47.0", "1.55.0", "1.60.0", "1.66.0", "1.73.0"}
