"""Catalogs that ``opm template render`` writes equal those of ``opm alpha render-template`` of the newest Go opm."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.kit.corpus import RegistryCorpus
from tests.kit.opm import Opm
from tests.kit.shared import SHARED, needs_shared
from tests.kit.template_repository import basic_template, mapped, semver_template, write_operator

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.registry import Registry

REFERENCE = os.environ.get("OPMKIT_REFERENCE_OPM_NEWEST", "")
PACKAGES = {"cert-utils-operator": 5, "lbconfig-operator": 4, "yaks": 7}
"""Packages of the corpus, with the number of bundles to render."""
CATALOGS = {
    "none": ("v4.12", "v4.16"),
    "bundle-object-to-csv-metadata": ("v4.17", "v4.20"),
}
"""Catalogs by the migration level of their OpenShift version."""


@pytest.fixture(autouse=True)
def _reference() -> None:
    if not REFERENCE:
        pytest.skip("set OPMKIT_REFERENCE_OPM_NEWEST to the path of the newest Go opm")


def theirs(*arguments: str) -> bytes | None:
    """Return the output of Go opm, None if it fails."""
    done = subprocess.run([REFERENCE, *arguments], capture_output=True, check=False)
    return done.stdout if done.returncode == 0 else None


@cache
def renders(image: str) -> bool:
    return theirs("render", "--use-http", image) is not None


@needs_shared
@pytest.mark.parametrize("file_format", ["yaml", "json"])
def test_catalogs_of_real_bundles_equal_those_of_go_opm(file_format: str, registry: Registry, tmp_path: Path) -> None:
    corpus = RegistryCorpus(registry.host)
    expected: dict[str, bytes] = {}
    for package, count in PACKAGES.items():
        versions = sorted(path.name for path in (SHARED / "corpus" / "bundles" / package).iterdir())[:count]
        named = (f"{{registry}}/{package}:{version.replace('+', '_')}" for version in versions)
        images = [image for image in corpus.fill(list(named)) if renders(image)]
        assert len(images) > 2
        templates = {
            "basic.yaml": basic_template({str(number): image for number, image in enumerate(images)}, package),
            "semver.yaml": semver_template(images),
        }
        directory = write_operator(tmp_path / "operators" / package, templates, None)
        for template, type_ in (("basic.yaml", "basic"), ("semver.yaml", "semver")):
            rendered = {
                f"{name}-{type_}": content
                for level, names in CATALOGS.items()
                for content in [their_catalog(directory / "catalog-templates" / template, type_, level, file_format)]
                for name in names
            }
            if None in rendered.values():  # versions of equal precedence, for example
                assert type_ == "semver"
                continue
            entries = yaml.safe_load((directory / "ci.yaml").read_text()) if (directory / "ci.yaml").exists() else {}
            schema = "olm.template.basic" if type_ == "basic" else "olm.semver"
            entries.setdefault("fbc", {}).setdefault("catalog_mapping", []).append(
                mapped(template, *rendered, schema=schema)
            )
            (directory / "ci.yaml").write_text(yaml.safe_dump(entries))
            for name, content in rendered.items():
                expected[f"{name}/{package}/catalog.{file_format}"] = content or b""
    Opm(tmp_path)("template", "render", "operators", "--use-http", "--no-validate", "--format", file_format)
    catalogs = tmp_path / "catalogs"
    written = {path.relative_to(catalogs).as_posix(): path.read_bytes() for path in catalogs.rglob("catalog.*")}
    assert sorted(written) == sorted(expected)
    assert [name for name, content in expected.items() if written[name] != content] == []
    assert any("semver" in name for name in expected)


def their_catalog(path: Path, type_: str, level: str, file_format: str) -> bytes | None:
    form = ("--use-http", "-o", file_format, "--migrate-level", level)
    return theirs("alpha", "render-template", type_, str(path), *form)
