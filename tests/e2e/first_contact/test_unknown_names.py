"""Misspelled packages and channels: reported, and never a published index that lacks everything."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.kit.installed import InstalledOpm
from tests.kit.opm import LAGOON

if TYPE_CHECKING:
    from pathlib import Path

NAME = "lagoon-operator"
BUNDLE = "oci:images/lagoon:{0}=quay.io/me/lagoon:{0}"


@pytest.fixture(scope="module")
def prepared(installed_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with two bundles, a database and a file-based catalog of the first one."""
    opm = InstalledOpm(installed_bin, tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("prepared"))
    for version in ("0.1.0", "0.2.0"):
        manifests = str(LAGOON / version / "manifests")
        package = ("-p", NAME, "-c", "alpha,stable", "-e", "stable")
        opm("bundle", "build", "-d", manifests, "-u", version, *package, "-t", f"oci:images/lagoon:{version}")
    opm("registry", "add", "-d", "index.db", "-b", BUNDLE.format("0.1.0"))
    (opm.directory / "catalog").mkdir()
    opm("index", "add", "-b", BUNDLE.format("0.1.0"), "-f", "catalog")
    return opm.directory


@pytest.fixture
def user(newcomer: InstalledOpm, prepared: Path) -> InstalledOpm:
    """Return the commands in a copy of the prepared directory."""
    shutil.copytree(prepared, newcomer.directory, dirs_exist_ok=True)
    return newcomer


def packages(opm: InstalledOpm, index: str) -> list[str]:
    return [package["name"] for package in json.loads(opm("alpha", "list", "packages", index, "-o", "json"))]


@pytest.mark.parametrize(
    ("argv", "index"),
    [
        (("index", "prune", "-f", "index.db", "-p", "lagoon-oprator"), "index.db"),
        (("index", "prune", "-f", "catalog", "-p", "lagoon-oprator"), "catalog"),
        (("registry", "prune", "-d", "index.db", "-p", "lagoon-oprator"), "index.db"),
        (("index", "update", "-f", "catalog", "--prune-to", "lagoon-oprator"), "catalog"),
        (("index", "filter", "-f", "catalog", "lagoon-oprator"), "catalog"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, tuple) else value,
)
def test_an_unknown_package_is_an_error_that_suggests_the_right_one(
    user: InstalledOpm, argv: tuple[str, ...], index: str
) -> None:
    done = user.attempt(*argv)
    assert done.returncode == 1
    assert 'Error: package "lagoon-oprator" not found' in done.stderr
    assert f"did you mean {NAME}?" in done.stderr.lower()
    assert packages(user, index) == [NAME]


@pytest.mark.parametrize("index", ["index.db", "catalog"])
def test_permissive_prune_ignores_an_unknown_package(user: InstalledOpm, index: str) -> None:
    done = user.attempt("index", "prune", "-f", index, "-p", f"{NAME},other", "--permissive")
    assert done.returncode == 0, done.stderr
    assert 'package "other" not found' in done.stderr
    assert packages(user, index) == [NAME]


def test_permissive_filter_ignores_unknown_names_if_something_is_left(user: InstalledOpm) -> None:
    done = user.attempt("index", "filter", "-f", "catalog", f"{NAME}:stable,beta", "other", "--permissive")
    assert done.returncode == 0, done.stderr
    assert 'Warning: package "other" not found; ignored' in done.stderr
    assert f'Warning: channel "beta" of package "{NAME}" not found; ignored' in done.stderr
    done = user.attempt("index", "filter", "-f", "catalog", "other", "--permissive")
    assert done.returncode == 1
    assert packages(user, "catalog") == [NAME]


def test_a_new_channel_is_reported_with_the_one_that_was_probably_meant(user: InstalledOpm) -> None:
    add = ("index", "add", "-b", BUNDLE.format("0.2.0"), "-f", "catalog")
    done = user.attempt(*add, "--channel", "stabel", "--replaces", "", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert f'Warning: channel "stabel" of package "{NAME}" is new; did you mean stable?' in done.stderr
    done = user.attempt(*add, "--channel", "stable")
    assert done.returncode == 0, done.stderr
    assert "is new" not in done.stderr
