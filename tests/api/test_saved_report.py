"""Reports of directories that are printed again."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING

import pytest

from opmkit.api.saved_report import SavedReport
from tests.kit.opm import LAGOON

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LINES = [("bundle: no findings", "green"), ("a\x1b[31m\tb", ""), ("é", "")]
STORED = [("bundle: no findings", "green"), ("a\\x1b[31m\\tb", ""), ("é", "")]


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory, with a bundle that was written an hour ago, and with an empty store."""
    shutil.copytree(LAGOON / "0.1.0", tmp_path / "bundle")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPM_STORE", str(tmp_path / "store"))
    now = time.time_ns
    monkeypatch.setattr("opmkit.core.cache.time.time_ns", lambda: now() + 3600 * 10**9)
    return tmp_path


def find(target: str) -> list[tuple[str, str]]:
    """Return the lines of the stored report, none without one."""
    report = SavedReport.find(target)
    return report.read() if report else []


def save(target: str) -> None:
    report = SavedReport.find(target)
    assert report
    report.write(LINES)


@pytest.mark.usefixtures("site")
def test_lines_are_stored_escaped() -> None:
    assert find("bundle") == []
    save("bundle")
    assert find("bundle") == STORED


def _version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opmkit.api.saved_report.code_versions", lambda: ["2.0.0"])


def _extension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("opmkit.api.saved_report.extension_versions", lambda: ["acme-rules 1.0"])


@pytest.mark.parametrize("change", [_version, _extension], ids=["release", "rules of another distribution"])
@pytest.mark.usefixtures("site")
def test_reports_depend_on_the_installed_code(
    change: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    save("bundle")
    change(monkeypatch)
    assert find("bundle") == []


@pytest.mark.usefixtures("site")
def test_reports_depend_on_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    save("bundle")
    monkeypatch.setenv("OPERATOR_BUNDLE_CATEGORIES", "categories.json")
    assert SavedReport.find("bundle") is None


CHANGES: dict[str, Callable[[Path], object]] = {
    "manifest": lambda site: (site / "bundle/manifests/new.yaml").write_text("a: 1\n"),
    "metadata": lambda site: (site / "bundle/metadata/annotations.yaml").write_text("annotations: {}\n"),
    "configuration of the operator": lambda site: (site / "ci.yaml").write_text("a: 1\n"),
    "directory": lambda site: (
        shutil.move(site / "bundle", site / "old"),
        shutil.copytree(site / "old", site / "bundle"),
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_reports_depend_on_files(change: str, site: Path) -> None:
    save("bundle")
    assert find("bundle")
    CHANGES[change](site)
    assert find("bundle") == []


@pytest.mark.usefixtures("site")
def test_reports_have_the_name_of_the_command_line() -> None:
    save("bundle")
    assert find("./bundle") == []


@pytest.mark.parametrize("target", ["@bundle", "gone", ".", "", "localhost/lagoon:0.1.0"])
@pytest.mark.usefixtures("site")
def test_other_targets_have_no_saved_report(target: str) -> None:
    assert SavedReport.find(target) is None


@pytest.mark.parametrize("damage", [b"", b"\n", b"\xff", b"text", b"0" * 64 + b"\ngreen\tbundle: no findings"])
def test_damaged_reports_are_ignored(damage: bytes, site: Path) -> None:
    save("bundle")
    (stored,) = (site / "store").rglob("*.json")
    stored.write_bytes(damage)
    assert find("bundle") == []


def test_a_report_cut_off_is_ignored(site: Path) -> None:
    save("bundle")
    (stored,) = (site / "store").rglob("*.json")
    stored.write_bytes(stored.read_bytes()[:-1])
    assert find("bundle") == []


def test_a_store_that_is_not_usable_is_ignored(site: Path) -> None:
    (site / "store").write_text("a file")
    report = SavedReport.find("bundle")
    if report:
        report.write(LINES)
    assert find("bundle") == []
