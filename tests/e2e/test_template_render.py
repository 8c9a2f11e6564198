"""``opm template render``: all catalogs of a repository, with a lock file."""

from __future__ import annotations

import json
import signal
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.e2e.test_kill import KillingProxy
from tests.kit.blobs import read_stream
from tests.kit.bundles import resolve_digest
from tests.kit.faults import Answer, Fault, FaultProxy
from tests.kit.registry import Registry
from tests.kit.template_repository import (
    basic_template,
    mapped,
    push_bundle,
    semver_template,
    tree,
    write_operator,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm

RENDER = ("template", "render")
VERSIONS = ("1.0.0", "1.1.0")


@pytest.fixture
def images(registry: Registry, tmp_path: Path) -> dict[str, str]:
    """Return the images of two versions of a bundle, in a repository of this test."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    repository = f"{registry.host}/{tmp_path.name.lower().replace('_', '-')}"
    return {version: push_bundle(repository, version, scratch) for version in VERSIONS}


@pytest.fixture
def work(opm_http: Opm, images: dict[str, str]) -> Opm:
    """Return the command in a repository with an operator: two templates for three OpenShift versions."""
    directory = opm_http.directory / "work"
    write_operator(
        directory / "operators" / "reef",
        {"basic.yaml": basic_template(images), "semver.yaml": semver_template([images["1.1.0"]])},
        [mapped("basic.yaml", "v4.16", "v4.17"), mapped("semver.yaml", "v4.18", schema="olm.semver")],
    )
    return replace(opm_http, directory=directory)


def test_catalogs_equal_those_of_a_release(work: Opm) -> None:
    for release in ("1.39", "1.26"):
        work(*RENDER, "operators", "--openshift-version", "4.16", "--compat", release)
        template = "operators/reef/catalog-templates/basic.yaml"
        expected = work("alpha", "render-template", "basic", template, "-o", "yaml", "--compat", release)
        catalog = (work.directory / "catalogs" / "v4.16" / "reef" / "catalog.yaml").read_text()
        assert catalog == expected
        assert ("olm.csv.metadata" in catalog) is (release == "1.39")
    cached = work.attempt(*RENDER, "operators", "--offline", "--openshift-version", "4.16", "--compat", "1.26")
    assert "0 changed" in cached.stderr


def test_catalogs_equal_those_of_render_template_with_the_level_of_each_version(work: Opm) -> None:
    printed = work(*RENDER, "operators").splitlines()
    assert printed == [
        *(f"catalogs/v4.{minor}/reef/catalog.yaml: written" for minor in (16, 17, 18)),
        "catalog.lock: written",
    ]
    templates = work.directory / "operators" / "reef" / "catalog-templates"
    for version, type_, level in (
        ("v4.16", "basic", "none"),
        ("v4.17", "basic", "bundle-object-to-csv-metadata"),
        ("v4.18", "semver", "bundle-object-to-csv-metadata"),
    ):
        expected = work(
            *("alpha", "render-template", type_, str(templates / f"{type_}.yaml"), "-o", "yaml"),
            *("--migrate-level", level),
        )
        assert (work.directory / "catalogs" / version / "reef" / "catalog.yaml").read_text() == expected
    assert (work.directory / "operators" / "reef" / "ci.yaml").exists()


def test_second_run_needs_no_registry(opm: Opm, tmp_path: Path) -> None:
    with Registry() as registry:
        scratch = tmp_path / "scratch"
        scratch.mkdir()
        pushed = {version: push_bundle(f"{registry.host}/reef", version, scratch) for version in VERSIONS}
        work = replace(opm, flags=("--use-http",))
        write_operator(tmp_path / "reef", {"v4.17.yaml": basic_template(pushed)}, None)
        work(*RENDER, "reef")
        before = tree(tmp_path / "catalogs")
        lock = (tmp_path / "catalog.lock").read_bytes()
        registry.stop()
        (tmp_path / "catalogs" / "v4.17" / "reef" / "catalog.yaml").unlink()
        assert work(*RENDER, "reef").splitlines() == ["catalogs/v4.17/reef/catalog.yaml: written"]
        assert work(*RENDER, "reef", "--check", "--frozen", "--offline") == ""
        work(*RENDER, "reef", "--offline", "--compat", "opm-1.47", "--output-dir", "for-1.47")
        assert tree(tmp_path / "catalogs") == before
        assert (tmp_path / "catalog.lock").read_bytes() == lock
        failed = work.attempt(*RENDER, "reef", "--no-lock")
        assert failed.returncode == 1
        assert "reef/catalog-templates/v4.17.yaml:" in failed.stderr


def test_each_image_is_requested_once_for_all_templates(work: Opm, images: dict[str, str], registry: Registry) -> None:
    name = images["1.1.0"].partition("/")[2].partition(":")[0]
    with FaultProxy(registry.host) as proxy:
        for template in (work.directory / "operators").rglob("*.yaml"):
            template.write_text(template.read_text().replace(registry.host, proxy.host))
        work(*RENDER, "operators")
        assert proxy.count("GET", f"/v2/{name}/manifests/1.1.0") == 1  # that of a HEAD is no proof
        assert proxy.count("GET", f"/v2/{name}/blobs/") == 2 * len(images)  # configuration and layer
        work(*RENDER, "operators")
        assert proxy.count("GET", f"/v2/{name}/manifests/1.1.0") == 1


def test_moved_tag_stays_locked_until_it_is_updated(work: Opm, images: dict[str, str], tmp_path: Path) -> None:
    work(*RENDER)
    locked = yaml.safe_load((work.directory / "catalog.lock").read_text())["images"]
    assert {image: entry["digest"] for image, entry in locked.items()} == {
        image: resolve_digest(image) for image in images.values()
    }
    before = tree(work.directory / "catalogs")
    moved = images["1.1.0"]
    push_bundle(moved.rpartition(":")[0], "1.1.0", tmp_path / "scratch", changed=True)
    empty_cache = replace(work, env={"OPM_STORE": str(tmp_path / "other-store")})
    for opm in (work, empty_cache):
        assert opm(*RENDER) == ""
        assert tree(work.directory / "catalogs") == before
    stale = work.attempt(*RENDER, "--check", "--update", "--no-validate")
    assert stale.returncode == 1
    assert "catalog.lock: stale" in stale.stdout
    assert "catalogs/v4.18/reef/catalog.yaml: stale" in stale.stdout
    assert tree(work.directory / "catalogs") == before
    work(*RENDER, "--update-image", images["1.0.0"], "--no-validate")
    assert tree(work.directory / "catalogs") == before
    digest = yaml.safe_load((work.directory / "catalog.lock").read_text())["images"][moved]["digest"]
    updated = work(*RENDER, "--update-image", moved, "--no-validate")
    assert updated.splitlines()[-1] == f"{moved}: moved from {digest} to {resolve_digest(moved)}"
    unknown = work.attempt(*RENDER, "--update-image", "quay.io/me/typo:1")
    assert "quay.io/me/typo:1: not an image of the templates" in unknown.stderr
    assert b"1.1.0-changed" in tree(work.directory / "catalogs")["v4.18/reef/catalog.yaml"]


def test_frozen_and_offline_runs_fail_for_images_that_are_not_locked_or_cached(
    work: Opm, images: dict[str, str], tmp_path: Path
) -> None:
    template = "operators/reef/catalog-templates/basic.yaml:"
    frozen = work.attempt(*RENDER, "--frozen")
    assert frozen.returncode == 1
    assert f"{template}" in frozen.stderr
    assert f"{images['1.0.0']}: not in the lock file" in frozen.stderr
    assert not (work.directory / "catalogs").exists()
    work(*RENDER)
    empty_cache = replace(work, env={"OPM_STORE": str(tmp_path / "other-store")})
    offline = empty_cache.attempt(*RENDER, "--offline")
    assert offline.returncode == 1
    assert f"{images['1.0.0']}: not cached" in offline.stderr
    assert "run the command once without --offline" in offline.stderr
    empty_cache(*RENDER, "--frozen")


def test_all_errors_are_reported_with_template_and_line_and_nothing_is_written(
    work: Opm, images: dict[str, str]
) -> None:
    templates = work.directory / "operators" / "reef" / "catalog-templates"
    missing = images["1.0.0"].replace("1.0.0", "9.9.9")
    (templates / "basic.yaml").write_text(yaml.safe_dump(basic_template({"1.0.0": missing})))
    (templates / "semver.yaml").write_text("schema: olm.semver\nstable: {bundles: 1}\n")
    write_operator(
        work.directory / "operators" / "cove",
        {"v4.15.yaml": basic_template({"1.0.0": missing, "1.1.0": images["1.1.0"]})},
        None,
    )
    failed = work.attempt(*RENDER, "operators")
    assert failed.returncode == 1
    assert "semver.yaml:2: stable.bundles is a number, not a list" in failed.stderr
    assert failed.stderr.count("9.9.9: not found") == 1
    assert "cove/catalog-templates/v4.15.yaml:12: " in failed.stderr
    assert "(also in operators/reef/catalog-templates/basic.yaml:10)" in failed.stderr
    assert not (work.directory / "catalogs").exists()
    assert not (work.directory / "catalog.lock").exists()


def test_check_reports_stale_catalogs_and_changes_nothing(work: Opm) -> None:
    work(*RENDER)
    assert work.attempt(*RENDER, "--check").returncode == 0
    catalog = work.directory / "catalogs" / "v4.17" / "reef" / "catalog.yaml"
    catalog.write_text(catalog.read_text() + "\n")
    before = tree(work.directory)
    checked = work.attempt(*RENDER, "--check", "--output", "json")
    assert checked.returncode == 1
    report = json.loads(checked.stdout)
    assert [entry["status"] for entry in report["catalogs"]] == ["unchanged", "stale", "unchanged"]
    assert report["lock"] == {"path": "catalog.lock", "status": "unchanged", "moved": []}
    assert tree(work.directory) == before


def test_openshift_versions_select_catalogs_and_expand_templates_without_a_version(
    work: Opm, images: dict[str, str]
) -> None:
    (work.directory / "plain.yaml").write_text(yaml.safe_dump(semver_template([images["1.0.0"]])))
    selected = (*RENDER, "--output-dir", "out", "--format", "json", "--openshift-version")
    work(*selected, "4.14,v4.17", "operators")
    assert list(tree(work.directory / "out")) == ["v4.17/reef/catalog.json"]
    work(*selected, "4.14,v4.15", "plain.yaml")
    expanded = tree(work.directory / "out")
    assert list(expanded) == [f"v4.{minor}/reef/catalog.json" for minor in (14, 15, 17)]
    conflict = work.attempt(*selected, "4.17")
    assert "catalog out/v4.17/reef/catalog.json is also written by operators/reef/catalog-templates/" in conflict.stderr
    assert tree(work.directory / "out") == expanded


@pytest.mark.parametrize("level", ["none", "all"])
def test_level_and_pinned_images(work: Opm, images: dict[str, str], level: str) -> None:
    work(*RENDER, "--migrate-level", level, "--pin", "--format", "json", "--openshift-version", "4.16")
    (bundle, _) = [
        blob
        for blob in read_stream((work.directory / "catalogs/v4.16/reef/catalog.json").read_text())
        if blob["schema"] == "olm.bundle"
    ]
    image = images["1.0.0"]
    pinned = f"{image.rpartition(':')[0]}@{resolve_digest(image)}"
    assert bundle["image"] == pinned
    assert [related["image"] for related in bundle["relatedImages"]] == [pinned]
    types = {item["type"] for item in bundle["properties"]}
    assert ("olm.csv.metadata" in types) == (level == "all")


def test_digest_is_verified_if_the_registry_returns_something_else(
    work: Opm, images: dict[str, str], registry: Registry, tmp_path: Path
) -> None:
    with FaultProxy(registry.host) as proxy:
        for template in (work.directory / "operators").rglob("*.yaml"):
            template.write_text(template.read_text().replace(registry.host, proxy.host))
        work(*RENDER)
        name = images["1.0.0"].partition("/")[2].partition(":")[0]
        digest = resolve_digest(images["1.0.0"])
        other = b'{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json"}'
        headers = {"Content-Type": "application/vnd.oci.image.manifest.v1+json"}
        path = f"/v2/{name}/manifests/{digest}"
        proxy.faults.append(Fault("GET", path, Answer(200, headers, other), times=99))
        before = tree(work.directory / "catalogs")
        failed = replace(work, env={"OPM_STORE": str(tmp_path / "other-store")}).attempt(*RENDER)
        assert failed.returncode == 1
        assert digest in failed.stderr
        assert "basic.yaml:" in failed.stderr
        assert tree(work.directory / "catalogs") == before


@pytest.mark.parametrize(
    ("at", "sign"), [(2, signal.SIGKILL), (6, signal.SIGKILL), (8, signal.SIGKILL), (7, signal.SIGTERM)]
)
def test_killed_run_leaves_no_partial_files_and_the_next_one_succeeds(
    work: Opm, registry: Registry, at: int, sign: signal.Signals
) -> None:
    templates = list((work.directory / "operators").rglob("*.yaml"))
    original = {template: template.read_text() for template in templates}
    with KillingProxy(registry.host, at, sign) as proxy:
        for template, text in original.items():
            template.write_text(text.replace(registry.host, proxy.host))
        process = subprocess.Popen(work.argv(*RENDER), cwd=work.directory, stderr=subprocess.DEVNULL)
        proxy.pid = process.pid
        proxy.started.set()
        assert process.wait(timeout=60) == (-sign if sign is signal.SIGKILL else 128 + sign)
    assert not list(work.directory.rglob("catalog.yaml"))
    assert not (work.directory / "catalog.lock").exists()
    for template, text in original.items():
        template.write_text(text)
    work(*RENDER)
    assert len(tree(work.directory / "catalogs")) == 3


def test_concurrent_runs_write_complete_files_and_one_lock(work: Opm, images: dict[str, str], tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    repository = images["1.0.0"].rpartition(":")[0]
    for number in range(3):
        other = push_bundle(f"{repository}-{number}", "1.0.0", scratch)
        write_operator(
            work.directory / "operators" / f"op{number}",
            {"a.yaml": basic_template({"1.0.0": other})},
            [mapped("a.yaml", "v4.17")],
        )
    commands = [(*RENDER, f"operators/op{number}") for number in range(3)] + [(*RENDER, "operators")] * 2
    processes = [
        subprocess.Popen(work.argv(*command), cwd=work.directory, stdout=subprocess.DEVNULL) for command in commands
    ]
    assert [process.wait(timeout=120) for process in processes] == [0] * len(commands)
    assert len(yaml.safe_load((work.directory / "catalog.lock").read_text())["images"]) == len(images) + 3
    assert len(tree(work.directory / "catalogs")) == 6
    assert work(*RENDER, "--check", "--frozen", "--offline") == ""


def test_composite_template_and_paths_of_another_layout(opm_http: Opm, images: dict[str, str]) -> None:
    work = opm_http
    (work.directory / "v4.20").mkdir()
    (work.directory / "v4.20" / "catalog-template.json").write_text(json.dumps(basic_template(images)))
    layout = (*RENDER, "--output-dir", ".", "--path", "{{.Catalog}}/catalog/{{.Package}}/catalog.json")
    assert work(*layout).splitlines() == ["v4.20/catalog/reef/catalog.json: written", "catalog.lock: written"]
    assert work(*layout) == ""
    config = {"input": "v4.20/catalog-template.json", "output": "composite.yaml"}
    strategy = {"name": "basic", "template": {"schema": "olm.builder.basic", "config": config}}
    component = {"name": "v4.20", "destination": {"path": "reef"}, "strategy": strategy}
    catalog = {"name": "v4.20", "destination": {"workingDir": "catalogs/v4.20"}, "builders": ["olm.builder.basic"]}
    for name, document in (
        ("composite.yaml", {"schema": "olm.composite", "components": [component]}),
        ("catalogs.yaml", {"schema": "olm.composite.catalogs", "catalogs": [catalog]}),
    ):
        (work.directory / name).write_text(yaml.safe_dump(document))
    assert work(*RENDER, "composite.yaml") == "catalogs/v4.20/reef/composite.yaml: written\n"
    assert work("render", "catalogs") == work("render", "v4.20/catalog")
    refused = work.attempt(*RENDER, "composite.yaml", "--output-dir", "elsewhere")
    assert "composite.yaml:2: refusing to write catalogs/v4.20/reef/composite.yaml" in refused.stderr


def test_names_that_are_not_text(opm_http: Opm, images: dict[str, str]) -> None:
    work = opm_http
    name = "reef\udcff\x1b[31m"
    write_operator(work.directory / name, {"a.yaml": basic_template(images)}, [mapped("a.yaml", "v4.17")])
    report = json.loads(work(*RENDER, "--output", "json"))
    assert report["catalogs"][0]["path"] == "catalogs/v4.17/reef\ufffd\x1b[31m/catalog.yaml"
    (work.directory / name / "catalog-templates" / "a.yaml").write_text("schema: olm.template.basic\nentries: 1\n")
    failed = work.attempt(*RENDER)
    assert r"Error: reef\udcff\x1b[31m/catalog-templates/a.yaml:2: entries is a number" in failed.stderr


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("missing",), "missing: no such file or directory"),
        (("empty",), "empty: no templates found"),
        (("note.txt",), "note.txt: not a template"),
        (("empty", "--openshift-version", "4"), "invalid value of --openshift-version"),
        (("empty", "--migrate-level", "far"), 'unknown level "far"'),
        (("empty", "--frozen", "--update"), "--update and --frozen are mutually exclusive"),
        (("empty", "--no-lock", "--frozen"), "--no-lock and --frozen are mutually exclusive"),
        (("empty", "--offline", "--update"), "--update and --offline are mutually exclusive"),
    ],
)
def test_wrong_arguments(opm: Opm, words: tuple[str, ...], problem: str) -> None:
    (opm.directory / "empty").mkdir()
    (opm.directory / "note.txt").write_text("note")
    failed = opm.attempt(*RENDER, *words)
    assert failed.returncode == 1
    assert problem in failed.stderr
    assert failed.stdout == ""


def test_two_images_with_the_same_bundle_name(work: Opm, images: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = push_bundle(images["1.0.0"].rpartition(":")[0] + "-other", "1.0.0", tmp_path / "other")
    lines = "".join(f"    - Image: {image}\n" for image in (images["1.0.0"], other))
    (work.directory / "same.yaml").write_text(f"Schema: olm.semver\nStable:\n  Bundles:\n{lines}")
    failed = work.attempt("alpha", "render-template", "semver", "same.yaml")
    assert (failed.returncode, failed.stdout) == (1, "")
    problem = "two images contain a ClusterServiceVersion of this name (metadata.name)"
    where = f'same.yaml:5: package "reef", bundle "reef.v1.0.0": {problem}'
    assert f"{where}: {images['1.0.0']} in line 4 and {other}" in failed.stderr
