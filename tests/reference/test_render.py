"""What is rendered and migrated is, byte for byte, what the newest reference tool renders and migrates.

``OPMKIT_REFERENCE_OPM_NEWEST`` names that tool, or else ``OPMKIT_REFERENCE_OPM`` if it is new enough.
"""

from __future__ import annotations

import os
import random
import subprocess
from functools import cache
from typing import TYPE_CHECKING

import pytest

from tests.kit.corpus import RegistryCorpus
from tests.kit.opm import Opm
from tests.kit.randomcatalogs import random_catalog, write_catalog
from tests.kit.shared import SHARED, needs_shared

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.registry import Registry

REFERENCE = os.environ.get("OPMKIT_REFERENCE_OPM_NEWEST") or os.environ.get("OPMKIT_REFERENCE_OPM", "")
CATALOGS = 20
FORMS = ((), ("-o", "yaml"), ("--migrate-level", "all"), ("--migrate-level", "all", "-o", "yaml"))
PACKAGES = ("etcd", "lbconfig-operator", "syn-apis", "syn-images", "syn-text")
"""Some packages of the corpus with many APIs, images and forms of text."""


@cache
def renders_today() -> bool:
    """Whether the tool renders as the newest release does."""
    told = subprocess.run([REFERENCE, "render", "--help"], capture_output=True, text=True, check=False)
    return "--migrate-level" in told.stdout


@pytest.fixture(autouse=True)
def _reference() -> None:
    if not REFERENCE or not renders_today():
        pytest.skip("no environment variable names the newest reference tool")


def theirs(*arguments: str) -> str | None:
    """What the reference prints, None where it fails."""
    done = subprocess.run([REFERENCE, *arguments], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def ours(opm: Opm, *arguments: str) -> str | None:
    done = opm.attempt(*arguments)
    return done.stdout if done.returncode == 0 else None


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_catalogs_made_up_at_random_are_rendered_alike(form: tuple[str, ...], tmp_path: Path) -> None:
    opm = Opm(tmp_path)
    for seed in range(CATALOGS):
        root = tmp_path / str(seed)
        root.mkdir()
        dice = random.Random(seed)
        write_catalog(dice, random_catalog(dice), root)
        assert opm.here("render", str(root), *form) == theirs("render", str(root), *form), seed


@needs_shared
@pytest.mark.parametrize("package", PACKAGES)
def test_bundles_and_their_index_are_rendered_alike(package: str, registry: Registry, tmp_path: Path) -> None:
    opm, corpus, good = Opm(tmp_path), RegistryCorpus(registry.host), []
    for version in sorted(path.name for path in (SHARED / "corpus" / "bundles" / package).iterdir()):
        (image,) = corpus.fill([f"{{registry}}/{package}:{version.replace('+', '_')}"])
        if theirs("render", "--use-http", image) is None:
            assert ours(opm, "render", "--use-http", image) is None
        else:
            good.append(image)
    assert_alike(opm, "--use-http", *good)
    opm.attempt("registry", "add", "--use-http", "--permissive", "--database", "index.db", "-b", ",".join(good))
    database = str(tmp_path / "index.db")
    assert_alike(opm, database)
    migrated = [ours(opm, "migrate", database, "ours"), theirs("migrate", database, str(tmp_path / "theirs"))]
    assert None not in migrated
    assert contents(tmp_path / "ours") == contents(tmp_path / "theirs")


def assert_alike(opm: Opm, *arguments: str) -> None:
    for form in FORMS:
        expected, found = theirs("render", *arguments, *form), ours(opm, "render", *arguments, *form)
        assert found == expected or (found and not expected and "yaml" in form)  # it can't write every text as YAML


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@needs_shared
def test_a_template_names_images_alike(tmp_path: Path) -> None:
    bundle = str(SHARED / "corpus" / "bundles" / "etcd" / "0.9.4")
    form = ("--alpha-image-ref-template", "quay.io/me/{{.Package}}:v{{ .Version }}-{{.Name}}")
    expected = theirs("render", bundle, *form)
    assert expected
    assert ours(Opm(tmp_path), "render", bundle, *form) == expected
