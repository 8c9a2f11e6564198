"""The code that cached results depend on."""

from __future__ import annotations

import sys
from importlib.metadata import distributions
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.validation import cache_key
from opmkit.bundle.validation.cache import ValidationCache
from opmkit.bundle.validation.cache_key import extension_digests

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with a distribution: a package with rules, and a module that the package could import."""
    metadata = tmp_path / "acme_rules-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-rules\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[opmkit.rules]\nacme = acme_rules.olm.checks\n")
    (tmp_path / "acme_rules" / "olm").mkdir(parents=True)
    for name in ("acme_rules/__init__.py", "acme_rules/olm/__init__.py", "acme_rules/olm/checks.py", "acme_names.py"):
        (tmp_path / name).write_text("")
    (metadata / "RECORD").write_text("acme_rules/__init__.py,,\nacme_names.py,,\nacme_gone.py,,\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    (distribution,) = distributions(path=[str(tmp_path)])
    monkeypatch.setattr(cache_key, "extensions", lambda: tuple(distribution.entry_points))
    return tmp_path


@pytest.mark.parametrize(
    "change",
    [
        lambda site: (site / "acme_rules" / "olm" / "checks.py").write_text("RULES = 1"),
        lambda site: (site / "acme_rules" / "names.json").write_text("{}"),
        lambda site: (site / "acme_names.py").write_text("NAMES = 1"),
        lambda site: (site / "acme_gone.py").write_text(""),
    ],
    ids=["module", "data", "module at the top", "recorded module that was missing"],
)
def test_rules_count_by_the_files_of_their_distribution(site: Path, change: Callable[[Path], object]) -> None:
    before = extension_digests()
    assert before
    assert before == extension_digests()
    change(site)
    assert extension_digests() != before


def test_bytecode_does_not_count(site: Path) -> None:
    before = extension_digests()
    (site / "acme_rules" / "__pycache__").mkdir()
    (site / "acme_rules" / "__pycache__" / "a.pyc").write_bytes(b"")
    assert extension_digests() == before


def test_results_of_rules_in_unknown_files_are_not_cached(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry != str(site)])
    assert extension_digests() is None
    assert ValidationCache.open(site / "store", []) is None
