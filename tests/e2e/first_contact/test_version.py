"""The version that callers read."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.kit.installed import InstalledOpm

GO_RELEASE = re.compile(r'OpmVersion:"v([\d.]+)"')
"""How IIB reads the version."""
LINE = re.compile(
    r'Version: version\.Version\{OpmVersion:"[^"]*", GitCommit:"[^"]*", BuildDate:"[^"]*", GoOs:"linux", GoArch:"\w+"'
)
"""How the line begins, whoever prints it."""
ROOT = Path(__file__).parents[3]


def test_the_version_is_that_of_the_go_release(newcomer: InstalledOpm) -> None:
    line = newcomer("version")
    found = GO_RELEASE.search(line)
    assert found
    assert tuple(map(int, found[1].split("."))) >= (1, 46)
    assert found[1] == "1.73.0"
    assert LINE.match(line)
    (version,), (commit,) = (re.findall(rf'{name}:"v?([^"]*)"', line) for name in ("OpmkitVersion", "GitCommit"))
    assert newcomer("--version") == f"opmkit {version}{f' (commit {commit})' if commit else ''}\n"


def test_go_opm_prints_the_same_fields(newcomer: InstalledOpm) -> None:
    newest = os.environ.get("OPMKIT_REFERENCE_OPM_NEWEST")
    if not newest:
        pytest.skip("OPMKIT_REFERENCE_OPM_NEWEST is not set")
    done = subprocess.run([newest, "version"], capture_output=True, text=True, check=True)
    assert LINE.match(done.stdout)
    assert LINE.match(newcomer("version"))


def test_the_build_records_the_commit(newcomer: InstalledOpm) -> None:
    done = subprocess.run(["git", "log", "-1", "--format=%H"], cwd=ROOT, capture_output=True, text=True, check=False)
    line = newcomer("version")
    commit, date = re.findall(r'(?:GitCommit|BuildDate):"([^"]*)"', line)
    if done.returncode:
        assert commit == ""
    else:
        assert done.stdout.startswith(commit)
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", date)


def test_the_reported_release_can_be_chosen(newcomer: InstalledOpm) -> None:
    assert 'OpmVersion:"v1.26.5",' in newcomer.with_env(OPM_COMPAT_VERSION="v1.26.5")("version")
    assert 'OpmVersion:"v1.43.1",' in newcomer.with_env(OPM_COMPAT="1.43")("version")
    assert 'OpmVersion:"v1.26.5",' in newcomer.with_env(OPM_COMPAT="1.43", OPM_COMPAT_VERSION="v1.26.5")("version")
    done = newcomer.with_env(OPM_COMPAT_VERSION="1.26").attempt("version")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        'Error: OPM_COMPAT_VERSION: invalid version "1.26"',
        "  hint: set it to a release of operator-registry, such as v1.73.0",
    ]


def test_a_failed_write_is_reported(newcomer: InstalledOpm) -> None:
    with Path("/dev/full").open("w") as full:
        process = newcomer.start("version", stdout=full)
        _, messages = process.communicate(timeout=60)
    assert process.returncode == 1
    assert messages.startswith("Error: standard output: write failed: No space left on device\n  hint: ")
