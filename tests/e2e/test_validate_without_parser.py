"""``opm bundle validate`` without other flags, which runs without the parser, equals the full command."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.kit.opm import LAGOON, PROGRAM

if TYPE_CHECKING:
    from pathlib import Path

NEUTRAL = "--progress=auto"
"""A flag with its default, with which the command line is parsed."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a working directory with bundles, a bundle image and files that are none."""
    site = tmp_path_factory.mktemp("site")
    shutil.copytree(LAGOON, site / "lagoon")
    shutil.copytree(LAGOON / "0.1.0", site / "broken")
    (csv,) = (site / "broken" / "manifests").glob("*.clusterserviceversion.yaml")
    csv.write_text(csv.read_text().replace("name: lagoon-operator.v0.1.0", "name: Lagoon_Operator"))
    shutil.copytree(LAGOON / "0.1.0", site / "policy" / "bundle")
    (site / "policy" / ".opm-validate.yaml").write_text("fail-on: warning\n")
    (site / "empty").mkdir()
    (site / "list").write_text("lagoon/0.1.0 # first\nempty\n")
    build = [str(PROGRAM), "bundle", "build", "--directory", "lagoon/0.1.0/manifests", "--tag", "oci:images:lagoon"]
    subprocess.run(build, cwd=site, check=True, capture_output=True)
    return site


def run(directory: Path, *arguments: str) -> tuple[int, str, str]:
    env = {**os.environ, "OPM_STORE": str(directory / "store")}
    done = subprocess.run([PROGRAM, *arguments], cwd=directory, env=env, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, re.sub(r'time="[^"]*"', "", done.stderr)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ("lagoon/0.1.0", 0),
        ("lagoon/0.1.0 lagoon/0.2.0", 1),
        ("broken", 1),
        ("empty lagoon/0.1.0", 1),
        ("lagoon", 1),
        ("list", 1),
        ("@list", 1),
        ("@gone", 1),
        ("gone/0.1.0", 1),
        ("localhost:1/lagoon:0.1.0", 1),
        ("--tag oci:images:lagoon", 0),
        ("-t oci:images:lagoon --image-builder none", 0),
        ("-t oci:images:gone -b none", 1),
        ("-t oci:images:lagoon -b gone", 1),
        ("broken --tag oci:images:lagoon", 1),
        ("--tag", 1),
        ("", 1),
        ("lagoon/0.1.0 --gone", 1),
    ],
)
def test_results_equal_those_of_the_full_command(arguments: str, code: int, site: Path) -> None:
    short = run(site, "bundle", "validate", *arguments.split())
    assert short == run(site, "bundle", "validate", NEUTRAL, *arguments.split())
    assert short[0] == code
    code, stdout, stderr = run(site, "alpha", "bundle", "validate", *arguments.split())
    assert (code, stdout, stderr.replace("opm alpha bundle", "opm bundle")) == short


def test_the_policy_file_of_the_working_directory_applies(site: Path) -> None:
    code, stdout, _ = run(site / "policy", "bundle", "validate", "bundle")
    assert code == 1
    assert "0 errors" in stdout


@pytest.mark.parametrize("arguments", ["lagoon/0.1.0", "empty", "@gone", "--tag oci:images:lagoon"])
def test_only_errors_import_the_parser(arguments: str, site: Path) -> None:
    program = (
        "import atexit, os, sys; os._exit = lambda _: None; from opmkit.cli.entry import opm; "
        "atexit.register(lambda: print('typer' in sys.modules)); opm()"
    )
    command = [sys.executable, "-c", program, "bundle", "validate", *arguments.split()]
    done = subprocess.run(command, cwd=site, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1] == str(done.returncode == 1)
