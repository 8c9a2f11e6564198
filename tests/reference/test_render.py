"""Rendered and migrated catalogs equal those of the newest Go opm byte for byte.

``OPMKIT_REFERENCE_OPM_NEWEST`` is its path, or ``OPMKIT_REFERENCE_OPM`` if that is new enough.
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
def is_new_enough() -> bool:
    """Return whether Go opm renders as the newest release does."""
    done = subprocess.run([REFERENCE, "render", "--help"], capture_output=True, text=True, check=False)
    return "--migrate-level" in done.stdout


@pytest.fixture(autouse=True)
def _reference() -> None:
    if not REFERENCE or not is_new_enough():
        pytest.skip("set OPMKIT_REFERENCE_OPM_NEWEST to the path of the newest Go opm")


def theirs(*arguments: str) -> str | None:
    """Return the output of Go opm, None if it fails."""
    done = subprocess.run([REFERENCE, *arguments], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def ours(opm: Opm, *arguments: str) -> str | None:
    done = opm.attempt(*arguments)
    return done.stdout if done.returncode == 0 else None


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_rendered_random_catalogs_equal_those_of_go_opm(form: tuple[str, ...], tmp_path: Path) -> None:
    opm = Opm(tmp_path)
    for seed in range(CATALOGS):
        root = tmp_path / str(seed)
        root.mkdir()
        rng = random.Random(seed)
        write_catalog(rng, random_catalog(rng), root)
        assert opm.here("render", str(root), *form) == theirs("render", str(root), *form), seed


@needs_shared
@pytest.mark.parametrize("package", PACKAGES)
def test_rendered_bundles_and_index_equal_those_of_go_opm(package: str, registry: Registry, tmp_path: Path) -> None:
    opm, corpus, renderable = Opm(tmp_path), RegistryCorpus(registry.host), []
    for version in sorted(path.name for path in (SHARED / "corpus" / "bundles" / package).iterdir()):
        (image,) = corpus.fill([f"{{registry}}/{package}:{version.replace('+', '_')}"])
        if theirs("render", "--use-http", image) is None:
            assert ours(opm, "render", "--use-http", image) is None
        else:
            renderable.append(image)
    assert_equal_renderings(opm, "--use-http", *renderable)
    opm.attempt("registry", "add", "--use-http", "--permissive", "--database", "index.db", "-b", ",".join(renderable))
    database = str(tmp_path / "index.db")
    assert_equal_renderings(opm, database)
    migrated = [ours(opm, "migrate", database, "ours"), theirs("migrate", database, str(tmp_path / "theirs"))]
    assert None not in migrated
    assert contents(tmp_path / "ours") == contents(tmp_path / "theirs")


def assert_equal_renderings(opm: Opm, *arguments: str) -> None:
    for form in FORMS:
        expected, actual = theirs("render", *arguments, *form), ours(opm, "render", *arguments, *form)
        assert actual == expected or (
            actual and not expected and "yaml" in form
        )  # Go opm cannot write all texts as YAML


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@needs_shared
def test_image_reference_template_equals_that_of_go_opm(tmp_path: Path) -> None:
    bundle = str(SHARED / "corpus" / "bundles" / "etcd" / "0.9.4")
    form = ("--alpha-image-ref-template", "quay.io/me/{{.Package}}:v{{ .Version }}-{{.Name}}")
    expected = theirs("render", bundle, *form)
    assert expected
    assert ours(Opm(tmp_path), "render", bundle, *form) == expected
