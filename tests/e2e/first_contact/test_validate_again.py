"""``opm bundle validate DIR`` prints the report of a bundle that passed before, and never that of another state."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

import pytest

from tests.kit.opm import LAGOON

if TYPE_CHECKING:
    from tests.kit.installed import InstalledOpm

SETTLED = 11
"""Seconds after which a directory counts as unchanged, see ``tree_state``."""


@pytest.fixture
def project(newcomer: InstalledOpm) -> InstalledOpm:
    """Return the commands, with a bundle in the working directory that was written some time ago."""
    shutil.copytree(LAGOON / "0.1.0", newcomer.directory / "bundle")
    time.sleep(SETTLED)
    return newcomer


def test_report_is_printed_again_until_the_bundle_changes(project: InstalledOpm) -> None:
    commands = (("bundle", "validate", "bundle"), ("alpha", "bundle", "validate", "bundle"))
    parsed = project.attempt("bundle", "validate", "--no-cache", "bundle")
    assert (parsed.returncode, parsed.stderr) == (0, "")
    reports = [project.attempt(*command) for _ in range(2) for command in commands]
    assert {(done.returncode, done.stdout, done.stderr) for done in reports} == {(0, parsed.stdout, "")}
    (project.directory / ".opm-validate.yaml").write_text("fail-on: warning\n")
    assert project.attempt("bundle", "validate", "bundle").returncode == 1
    (project.directory / ".opm-validate.yaml").unlink()
    (csv,) = (project.directory / "bundle/manifests").glob("*.clusterserviceversion.yaml")
    csv.write_text(csv.read_text().replace("name: lagoon-operator.v0.1.0", "name: Lagoon_Operator"))
    for command in commands:
        assert project.attempt(*command).returncode == 1


def test_damaged_store_changes_no_report(project: InstalledOpm) -> None:
    reports = []
    for damage in (None, b"", b"\xff\x00", None):
        for stored in project.home.rglob("results/*/*/*.json"):
            if damage is not None:
                stored.write_bytes(damage)
        done = project.attempt("bundle", "validate", "bundle")
        reports.append((done.returncode, done.stdout, done.stderr))
    assert len(set(reports)) == 1
    assert reports[0][0] == 0


def test_report_has_the_same_styles_on_a_terminal(project: InstalledOpm) -> None:
    user = project.with_env(TERM="xterm-256color")
    terminal = ["script", "--quiet", "--return", "--command", "opm bundle validate bundle", "/dev/null"]
    first, *again = (user.shell_out(terminal).stdout for _ in range(3))
    assert "\x1b[33m" in again[0]
    assert again[0] == again[1]
    assert first.endswith(again[0])  # after the progress
    plain = user.with_env(NO_COLOR="1").shell_out(terminal).stdout
    assert "\x1b" not in plain
    assert plain.splitlines() == project("bundle", "validate", "bundle").splitlines()
