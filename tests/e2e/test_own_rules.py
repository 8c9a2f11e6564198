"""Rules of another distribution, written as the documentation describes."""

from __future__ import annotations

import json
import os
import re
import shutil
import tomllib
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm

DOCUMENT = FIXTURES.parent / "docs" / "validation.md"
BASE = FIXTURES / "broken-bundles" / "base"


def block(language: str) -> str:
    """Return the only code block of the document in a language."""
    (found,) = re.findall(rf"```{language}\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    return str(found)


def install(site: Path, opm: Opm) -> Opm:
    """Install a distribution with the module and the entry point of the document.

    Return the command in a new interpreter, which loads it, in another directory: a checkout is not searched.
    """
    (opm.directory / "work").mkdir()
    entries = tomllib.loads(block("toml"))["project"]["entry-points"]["opmkit.rules"]
    (name,) = set(entries.values())
    metadata = site / "acme-1.0.dist-info"
    metadata.mkdir(parents=True)
    (site / f"{name}.py").write_text(block("python"))
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    listed = "\n".join(f"{key} = {value}" for key, value in entries.items())
    (metadata / "entry_points.txt").write_text(f"[opmkit.rules]\n{listed}\n")
    return replace(opm, directory=opm.directory / "work", env={**opm.env, "PYTHONPATH": str(site)}, forkserver=None)


def test_rules_of_other_distributions_run_and_are_explained(opm: Opm, tmp_path: Path) -> None:
    opm = install(tmp_path / "site", opm)
    report = json.loads(opm("bundle", "validate", str(BASE), "--output", "json"))
    (finding,) = report["bundles"][0]["findings"]
    csv = BASE / finding["file"]
    assert (finding["rule"], finding["validator"]) == ("ACME-DISPLAY-NAME", "acme")
    assert "displayName" in csv.read_text().splitlines()[finding["line"] - 1]
    assert "searched by the company's name" in opm("bundle", "rules", "ACME-DISPLAY-NAME")
    ignored = opm("bundle", "validate", str(BASE), "--fail-on", "warning", "--ignore", "ACME-DISPLAY-NAME")
    assert "0 warnings" in ignored


def test_cached_results_are_not_used_for_new_rules(opm: Opm, tmp_path: Path) -> None:
    opm.env["OPM_STORE"] = str(tmp_path / "store")
    assert "no findings" in opm("bundle", "validate", str(BASE))
    opm = install(tmp_path / "site", opm)
    assert "ACME-DISPLAY-NAME" in opm("bundle", "validate", str(BASE))


def test_cached_results_are_not_used_for_changed_rules(opm: Opm, tmp_path: Path) -> None:
    """The version of the distribution and the time of the file stay the same."""
    opm.env["OPM_STORE"] = str(tmp_path / "store")
    opm = install(tmp_path / "site", opm)
    assert "ACME-DISPLAY-NAME" in opm("bundle", "validate", str(BASE))
    (module,) = (tmp_path / "site").glob("*.py")
    before = module.stat()
    module.write_text(module.read_text().replace("ACME-DISPLAY-NAME", "ACME-PUBLIC-NAMES"))
    os.utime(module, ns=(before.st_atime_ns, before.st_mtime_ns))
    shutil.rmtree(module.parent / "__pycache__", ignore_errors=True)
    assert "ACME-PUBLIC-NAMES" in opm("bundle", "validate", str(BASE))


def test_cached_results_are_not_used_for_changed_requirements(opm: Opm, tmp_path: Path) -> None:
    """A distribution that rules require, through another one, changes without a new version."""
    opm.env["OPM_STORE"] = str(tmp_path / "store")
    opm = install(tmp_path / "site", opm)
    site = tmp_path / "site"
    requirements = {"acme": "Acme.Base >= 1 ; python_version > '3'", "acme-base": "acme_names", "acme-names": "missing"}
    for name, required in requirements.items():
        metadata = site / f"{name.replace('-', '_')}-1.0.dist-info"
        metadata.mkdir(exist_ok=True)
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: {required}\n"
        (metadata / "METADATA").write_text(text)
    (site / "acme_names-1.0.dist-info" / "RECORD").write_text("names.py,,\n")
    (site / "names.py").write_text("PREFIX = 'ACME'\n")
    (module,) = site.glob("acme_*.py")
    module.write_text(module.read_text().replace('"ACME"', "PREFIX") + "\n\nfrom names import PREFIX\n")
    assert "ACME-DISPLAY-NAME" in opm("bundle", "validate", str(BASE))
    assert "ACME-DISPLAY-NAME" in opm("bundle", "validate", str(BASE))
    (site / "names.py").write_text("PREFIX = ''\n")
    shutil.rmtree(site / "__pycache__", ignore_errors=True)
    assert "no findings" in opm("bundle", "validate", str(BASE))


def test_documented_policy_is_valid(opm: Opm) -> None:
    (opm.directory / ".opm-validate.yaml").write_text(block("yaml"))
    (opm.directory / "known.json").write_text('{"version": 1, "findings": []}')
    assert "no findings" in opm("bundle", "validate", str(BASE))
