"""Warnings about installed versions that a change cuts off from updates, and bundles that are not loaded."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.kit.opm import FIXTURES
from tests.kit.plans import long_channel

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.installed import InstalledOpm

NAME = "lagoon-operator.v"
PUBLISHED = {"1.8.9": "", "1.9.0": "1.8.9", "1.9.1": "1.9.0", "1.9.2": "1.9.1"}


@pytest.fixture
def published(newcomer: InstalledOpm) -> InstalledOpm:
    """Return the command next to a database and a catalog directory with four bundles that replace each other."""
    for version, replaces in PUBLISHED.items():
        add_bundle(newcomer.directory, version, replaces)
    newcomer("registry", "add", "-d", "index.db", "-b", ",".join(f"./b{version}" for version in PUBLISHED))
    newcomer("migrate", "index.db", "catalog")
    return newcomer


def add_bundle(directory: Path, version: str, replaces: str = "") -> str:
    bundle = directory / f"b{version}"
    shutil.copytree(FIXTURES / "lagoon-operator" / "0.1.0", bundle)
    csv = bundle / "manifests" / "lagoon-operator.clusterserviceversion.yaml"
    text = csv.read_text().replace(f"{NAME}0.1.0", f"{NAME}{version}")
    edge = f"\n  replaces: {NAME}{replaces}" if replaces else ""
    csv.write_text(text.replace("\n  version: 0.1.0", f"\n  version: {version}{edge}"))
    return f"./b{version}"


@pytest.mark.parametrize(
    ("replaces", "lost"), [("", ["1.8.9", "1.9.0", "1.9.1", "1.9.2"]), ("1.9.0", ["1.9.1", "1.9.2"])]
)
def test_add_says_which_versions_it_strands(published: InstalledOpm, replaces: str, lost: list[str]) -> None:
    bundle = add_bundle(published.directory, "2.0.0", replaces)
    names = ", ".join(f"{NAME}{version}" for version in lost)
    database = published.directory / "index.db"
    before = database.read_bytes()
    subject = 'package "lagoon-operator", channel "alpha":'
    lines = [
        f"{subject} {len(lost)} bundles leave the channel: {names}",
        f"{subject} installed {names} are no longer updated to {NAME}2.0.0: let {NAME}2.0.0, or an entry below it, "
        f"replace {NAME}1.9.2",
    ]

    refused = published.attempt("registry", "add", "-d", "index.db", "-b", bundle, "--fail-on", "stranded")
    assert refused.returncode == 1
    first, *details, hint = refused.stderr.splitlines()
    assert first == f"Error: refusing to change the index: {len(lost)} differences of the kind stranded"
    assert details == lines
    assert hint.startswith("  hint: name the version that each new head updates in its spec.replaces or spec.skips")
    assert database.read_bytes() == before

    image = ("index", "add", "-f", "index.db", "-b", f"{bundle}=quay.io/me/x:2", "-i", "scratch", "-t", "oci:new:1")
    assert published.attempt(*image, "--fail-on", "stranded").returncode == 1
    assert not (published.directory / "new").exists()
    built = published.attempt(*image, "--output", "json")
    assert json.loads(built.stdout)["warnings"] == lines
    (channel,) = json.loads(built.stdout)["packages"][0]["channels"]
    assert channel["stranded"] == [f"{NAME}{version}" for version in lost]

    done = published.attempt("registry", "add", "-d", "index.db", "-b", bundle)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.splitlines() == [f"Warning: {line}" for line in lines]
    gate = published.attempt("index", "diff", "catalog", "index.db", "--fail-on", "stranded")
    assert gate.returncode == 1
    assert f'stranded version: package "lagoon-operator", channel "alpha", bundle "{NAME}{lost[0]}"' in gate.stderr


def test_add_of_an_update_warns_of_nothing(published: InstalledOpm) -> None:
    bundle = add_bundle(published.directory, "2.0.0", "1.9.2")
    for target in (("registry", "add", "-d", "index.db"), ("index", "add", "-f", "catalog")):
        done = published.attempt(*target, "-b", bundle, "--fail-on", "stranded")
        assert (done.returncode, done.stderr) == (0, "")


def test_a_head_that_moves_back_is_reported(published: InstalledOpm) -> None:
    bundle = add_bundle(published.directory, "1.8.8", "1.9.2")
    line = f'package "lagoon-operator", channel "alpha": the head moves back from {NAME}1.9.2 to {NAME}1.8.8'
    refused = published.attempt("index", "add", "-f", "catalog", "-b", bundle, "--fail-on", "stranded")
    assert refused.returncode == 1
    assert line in refused.stderr.splitlines()
    done = published.attempt("index", "add", "-f", "catalog", "-b", bundle)
    assert (done.returncode, done.stderr) == (0, f"Warning: {line}\n")


def test_an_unknown_kind_is_rejected_before_anything_is_read(newcomer: InstalledOpm) -> None:
    done = newcomer.attempt("registry", "add", "-b", "./nowhere", "--fail-on", "strandet")
    assert done.returncode == 1
    assert done.stderr.startswith('Error: invalid value of --fail-on: unknown kind "strandet": expected added, ')


def test_initializer_warns_of_directories_without_a_package(newcomer: InstalledOpm) -> None:
    add_bundle(newcomer.directory, "1.0.0")
    done = newcomer.attempt("-m", ".", "-o", "new.db", program="initializer")
    assert done.returncode == 0
    assert "no package manifest found (*.package.yaml), so no bundle is in a channel" in done.stderr


def test_changes_plan_the_updates_of_installed_versions(published: InstalledOpm) -> None:
    bundle = add_bundle(published.directory, "2.0.0", "1.9.0")
    shutil.copyfile(published.directory / "index.db", published.directory / "old.db")
    added = json.loads(published("registry", "add", "-d", "index.db", "-b", bundle, "--plan", "--output", "json"))
    planned = json.loads(published("index", "plan", "index.db", "--from", "old.db", "--output", "json"))
    assert added["plan"] == planned
    assert planned["counts"] == {"head": 2, "stuck": 2}

    source = f"{bundle}=quay.io/me/lagoon:2"
    dry = published.attempt("index", "add", "-f", "old.db", "-b", source, "--plan", "--dry-run")
    assert dry.returncode == 0
    table = published.attempt("index", "plan", "index.db", "--from", "old.db")
    assert table.stdout in dry.stdout
    assert table.stderr in dry.stderr
    image = ("index", "add", "-f", "old.db", "-b", source, "-i", "scratch", "-t", "oci:new:1", "--plan")
    built = published.attempt(*image)
    assert built.stdout.startswith("oci:new:1@sha256:")
    assert table.stdout in built.stderr

    removed = published.attempt("index", "rm", "-f", "catalog", "-o", "lagoon-operator", "--plan")
    assert "gone: the catalog has no package lagoon-operator" in removed.stderr
    assert "plan" not in json.loads(published("registry", "prune-stranded", "-d", "index.db", "--output", "json"))


def test_truncation_says_which_versions_it_strands(published: InstalledOpm) -> None:
    images = ",".join(f"./b{version}=quay.io/me/lagoon:{version}" for version in PUBLISHED)
    published("registry", "add", "-d", "named.db", "-b", images)
    arguments = ("deprecatetruncate", "-d", "named.db", "-b", "quay.io/me/lagoon:1.9.1", "--plan", "--dry-run")
    done = published.attempt("registry", *arguments)
    assert done.returncode == 0
    names = f"{NAME}1.8.9, {NAME}1.9.0"
    assert f'package "lagoon-operator", channel "alpha": 2 bundles leave the channel: {names}' in done.stderr
    versions = f"2 versions ({NAME}1.8.9 to {NAME}1.9.0)"
    assert f"lagoon-operator/alpha: {versions} stuck: no entry of alpha replaces or skips them" in done.stdout


def test_a_long_channel_is_planned_or_refused_by_name(newcomer: InstalledOpm) -> None:
    catalog = newcomer.directory / "long"
    catalog.mkdir()
    (catalog / "catalog.json").write_bytes(long_channel("pool", 3300))
    plan = ("index", "plan", "long", "--from", "long", "--olm", "v1")
    lines = newcomer(*plan, "--all").splitlines()
    assert len(lines) == 1 + 2 * 3300
    assert lines[1].split() == ["pool", "(all)", "pool.v1.0.0", "pool.v1.1.0", "3299", "pool.v1.3299.0"]
    done = newcomer.attempt(*plan, "--output", "json")
    assert done.returncode == 1
    assert "Error: package pool: 10886700 updates on all paths, and 10000000 are the limit" in done.stderr
    steps = newcomer("index", "plan", "long", "--extension", "pool", "--installed", "pool.v1.0.0").splitlines()
    assert len(steps) == 1 + 3299
