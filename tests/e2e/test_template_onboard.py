"""``opm template onboard``: from what is published of bundle directories to templates that render to it."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.kit.forkserver import Command
from tests.kit.template_repository import basic_template, mapped, push_bundle, semver_template, tree, write_operator
from tests.kit.unprivileged import UnprivilegedUser

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.kit.forkserver import ForkServer
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

ONBOARD = ("template", "onboard")
VERSIONS = ("1.0.0", "1.1.0", "1.2.0")
FROM = ("--from", "published/v4.16,published/v4.17,published/v4.18")


@dataclass(frozen=True)
class Site:
    """The command in a repository with the operator ``reef``, and its published catalogs by OpenShift version."""

    opm: Opm
    images: Mapping[str, str]

    @property
    def directory(self) -> Path:
        return self.opm.directory

    @property
    def operator(self) -> Path:
        return self.directory / "operators" / "reef"

    def publish(self, version: str, template: dict[str, Any], package: str = "reef") -> None:
        """Publish the rendering of a template for an OpenShift version."""
        (self.directory / "template.yaml").write_text(yaml.safe_dump(template))
        level = () if version < "v4.17" else ("--migrate-level", "bundle-object-to-csv-metadata")
        text = self.opm("alpha", "render-template", "template.yaml", "-o", "yaml", *level)
        path = self.directory / "published" / version / package / "catalog.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        (self.directory / "template.yaml").unlink()

    def add_operator(self, name: str, package: str = "", ci: str = "reviewers:\n  - me  # author\n") -> Path:
        """Create an operator directory with one bundle directory."""
        directory = self.directory / "operators" / name
        (directory / "1.0.0" / "manifests").mkdir(parents=True)
        (directory / "1.0.0" / "metadata").mkdir()
        annotations = {"annotations": {"operators.operatorframework.io.bundle.package.v1": package or name}}
        (directory / "1.0.0" / "metadata" / "annotations.yaml").write_text(yaml.safe_dump(annotations))
        if ci:
            (directory / "ci.yaml").write_text(ci)
        return directory


@pytest.fixture
def site(opm_http: Opm, registry: Registry, tmp_path: Path) -> Site:
    """Return a repository with an operator that is published for three OpenShift versions."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    repository = f"{registry.host}/{tmp_path.name.lower().replace('_', '-')}"
    images = {version: push_bundle(repository, version, scratch) for version in VERSIONS}
    work = tmp_path / "work"
    (work / "operators").mkdir(parents=True)
    site = Site(replace(opm_http, directory=work), images)
    site.add_operator(
        "reef", ci="---\n# Use `replaces-mode`.\nupdateGraph: replaces-mode\nreviewers:\n  - me  # author\n"
    )
    older = basic_template({version: images[version] for version in VERSIONS[:2]})
    site.publish("v4.16", older)
    site.publish("v4.17", older)
    site.publish("v4.18", basic_template(images))
    return site


def config(directory: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((directory / "ci.yaml").read_text())
    return loaded


def test_rendering_the_written_templates_gives_what_is_published(site: Site) -> None:
    printed = site.opm(*ONBOARD, "operators/reef", *FROM)
    assert printed.splitlines() == [
        f"operators/reef/{name}: written"
        for name in ("catalog-templates/v4.16-v4.17.yaml", "catalog-templates/v4.18.yaml", "Makefile", "ci.yaml")
    ]
    text = (site.operator / "ci.yaml").read_text()
    assert text.startswith("---\nreviewers:\n  - me  # author\n")
    assert config(site.operator) == {
        "reviewers": ["me"],
        "fbc": {
            "enabled": True,
            "catalog_mapping": [mapped("v4.16-v4.17.yaml", "v4.16", "v4.17"), mapped("v4.18.yaml", "v4.18")],
        },
    }
    site.opm("template", "render", "operators", "--no-lock")
    assert tree(site.directory / "catalogs") == tree(site.directory / "published")
    assert "already onboarded" in site.opm(*ONBOARD, "operators/reef", *FROM)
    site.opm(*ONBOARD, "operators/reef", *FROM, "--check")


def test_makefile_renders_and_validates_the_catalogs(site: Site) -> None:
    if not shutil.which("make"):
        pytest.skip("requires make")
    site.opm(*ONBOARD, "operators/reef", *FROM)
    command = " ".join(site.opm.argv()[:1])
    for target in ("catalogs", "validate-catalogs"):
        flags = " --use-http" if target == "catalogs" else ""
        wrapper = site.directory / "opm.sh"
        wrapper.write_text(f'#!/bin/sh\nexec {command} "$@"{flags}\n')
        wrapper.chmod(0o755)
        subprocess.run(["make", target, f"OPM={wrapper}"], cwd=site.operator, check=True, capture_output=True)
    assert tree(site.directory / "catalogs") == tree(site.directory / "published")


def test_semver_template_is_the_smallest(site: Site) -> None:
    template = semver_template(list(site.images.values()))
    for version in ("v4.16", "v4.17", "v4.18"):
        site.publish(version, template)
    site.opm(*ONBOARD, "operators/reef", *FROM)
    assert config(site.operator)["fbc"]["catalog_mapping"] == [
        mapped("semver.yaml", "v4.16", "v4.17", "v4.18", schema="olm.semver")
    ]
    written = yaml.safe_load((site.operator / "catalog-templates" / "semver.yaml").read_text())
    assert written["stable"] == template["stable"]
    site.opm("template", "render", "operators", "--no-lock")
    assert tree(site.directory / "catalogs") == tree(site.directory / "published")
    site.opm(*ONBOARD, "operators/reef", *FROM, "--check")


def test_template_for_each_version_on_request(site: Site) -> None:
    site.opm(*ONBOARD, "operators/reef", *FROM, "--per-version")
    names = [path.name for path in sorted((site.operator / "catalog-templates").iterdir())]
    assert names == ["v4.16.yaml", "v4.17.yaml", "v4.18.yaml"]


def test_dry_run_and_check_write_nothing(site: Site) -> None:
    before = tree(site.operator)
    difference = site.opm(*ONBOARD, "operators/reef", *FROM, "--dry-run")
    assert "+++ b/operators/reef/catalog-templates/v4.18.yaml" in difference
    assert "-updateGraph: replaces-mode" in difference
    site.opm(*ONBOARD, "operators/reef", *FROM, "--check")
    assert tree(site.operator) == before


def test_check_shows_what_images_render_to_instead(site: Site, tmp_path: Path) -> None:
    repository = site.images["1.1.0"].rpartition(":")[0]
    site.opm(*ONBOARD, "operators/reef", *FROM)
    push_bundle(repository, "1.1.0", tmp_path / "scratch", changed=True)
    done = site.opm.attempt(*ONBOARD, "operators/reef", *FROM, "--check")
    assert done.returncode == 1
    assert "v4.17: published and rendered catalog differ:" in done.stdout
    assert "bundle reef.v1.1.0" in done.stdout
    assert "operators/reef: v4.16: the rendered catalog differs from the published one" in done.stderr
    assert done.stderr.splitlines()[-1] == "Error: 1 operator needs a person"
    markdown = site.opm.attempt(*ONBOARD, ".", *FROM, "--check", "-o", "markdown")
    assert markdown.returncode == 1
    assert "## `reef` in `v4.18`" in markdown.stdout


def test_default_catalogs_are_those_of_the_repository(site: Site, registry: Registry) -> None:
    name = f"{registry.host}/index-{site.directory.parent.name.lower().replace('_', '-')}"
    for version in ("v4.16", "v4.18"):
        site.opm(
            "index",
            "build",
            f"published/{version}",
            "--tag",
            f"{name}:{version}",
            "--push",
            "--binary-image",
            "scratch",
        )
        (site.directory / "catalogs" / version).mkdir(parents=True)
    done = site.opm.attempt(*ONBOARD, "operators/reef")
    assert "no published catalogs" in done.stderr
    assert "--from" in done.stderr
    (site.directory / "config.yaml").write_text(yaml.safe_dump({"index_image": {"public_repository_mirror": name}}))
    result = json.loads(site.opm(*ONBOARD, "operators/reef", "-o", "json"))
    assert [catalog for catalog, _ in result["catalogs"]] == ["v4.16", "v4.18"]
    (operator,) = result["operators"]
    assert operator["status"] == "written"
    assert [template["name"] for template in operator["templates"]] == ["v4.16.yaml", "v4.18.yaml"]


def test_repository_is_a_table_with_what_needs_a_person(site: Site) -> None:
    site.add_operator("alien", package="elsewhere")
    site.add_operator("broken", ci="fbc: [\n")
    directory = site.add_operator("shoal", package="kelp")
    (directory / "catalog-templates").mkdir()
    (directory / "catalog-templates" / "basic.yaml").write_text("mine\n")
    for version in ("v4.16", "v4.17"):
        site.publish(version, basic_template(site.images), "kelp")
        path = site.directory / "published" / version / "kelp" / "catalog.yaml"
        path.write_text(
            path.read_text().replace("package: reef", "package: kelp").replace("name: reef\n", "name: kelp\n")
        )
    write_operator(site.directory / "operators" / "done", {}, [mapped("basic.yaml", "v4.16")])
    done = site.opm.attempt(*ONBOARD, "operators", *FROM)
    assert done.returncode == 1
    rows = {line.split()[0]: line for line in done.stdout.splitlines()}
    assert list(rows) == ["OPERATOR", "alien", "broken", "done", "reef", "shoal"]
    assert "failed" in rows["alien"]
    assert "not published in any of the catalogs" in rows["alien"]
    assert "invalid YAML" in rows["broken"]
    assert rows["done"].split()[1:3] == ["onboarded", "basic"]
    assert rows["reef"].split()[1:] == ["written", "basic", "2", "v4.16-v4.18"]
    assert "already exists with other content" in rows["shoal"]
    assert "v4.16-v4.17" in rows["shoal"]
    assert "5 operators: 3 failed, 1 onboarded, 1 written" in done.stderr
    assert "Error: 3 operators need a person" in done.stderr
    assert (directory / "catalog-templates" / "basic.yaml").read_text() == "mine\n"
    site.opm.attempt(*ONBOARD, "operators/shoal", *FROM, "--force")
    assert config(directory)["fbc"]["catalog_mapping"] == [mapped("basic.yaml", "v4.16", "v4.17")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("operators/reef", "--from", "published"), "no OpenShift version"),
        (("operators/reef", "--from", "published/v4.16,v4.16=published/v4.17"), "is also the catalog of v4.16"),
        (("operators/reef", "--from", "v4.16=nothing/here"), "nothing/here"),
        (("operators/none", *FROM), "No such file or directory"),
        (("operators/reef/ci.yaml", *FROM), "not a directory"),
        (("published", *FROM), "not an operator directory"),
        (("operators/reef", *FROM, "--check", "--dry-run"), "--check"),
    ],
)
def test_usage_errors_have_a_hint_and_write_nothing(site: Site, arguments: tuple[str, ...], message: str) -> None:
    before = tree(site.directory)
    done = site.opm.attempt(*ONBOARD, *arguments)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert tree(site.directory) == before


@pytest.mark.parametrize("ci", ["fbc: 1\n", "fbc: {catalog_mapping: x}\n", "- a\n", "\x00", "a: &a [*a]\n", "{}\n"])
def test_hostile_configurations_are_problems_of_the_operator(site: Site, ci: str) -> None:
    (site.operator / "ci.yaml").write_text(ci)
    before = tree(site.operator)
    done = site.opm.attempt(*ONBOARD, "operators/reef", *FROM)
    assert done.returncode == 1
    assert "operators/reef/ci.yaml" in done.stderr
    assert "Traceback" not in done.stderr
    assert tree(site.operator) == before


@pytest.mark.parametrize("name", ["reef two", "-reef", "ré\u202ef", "$(touch x)", "a'b"])
def test_odd_names_of_operators(site: Site, name: str) -> None:
    directory = site.add_operator(name, package="reef")
    shutil.rmtree(site.operator)
    done = site.opm.attempt(*ONBOARD, f"./operators/{name}", *FROM)
    assert done.returncode == 0, done.stderr
    assert "\u202e" not in done.stdout
    assert len(config(directory)["fbc"]["catalog_mapping"]) == 2
    site.opm("template", "render", "./operators", "--no-lock")
    assert (site.directory / "catalogs" / "v4.18" / name / "catalog.yaml").exists()
    assert not (directory / "x").exists()


def test_links_out_of_the_operator_are_refused(site: Site, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (site.operator / "catalog-templates").symlink_to(outside)
    done = site.opm.attempt(*ONBOARD, "operators/reef", *FROM, "--force")
    assert done.returncode == 1
    assert "refusing to follow a symbolic link" in done.stderr
    assert list(outside.iterdir()) == []
    assert "updateGraph" in (site.operator / "ci.yaml").read_text()


def test_read_only_directory_is_an_error_that_writes_nothing(site: Site) -> None:
    with UnprivilegedUser() as user:
        shutil.copytree(site.directory, user.path / "copy")
        for path in [user.path / "copy", *(user.path / "copy").rglob("*")]:
            path.chmod(0o755 if path.is_dir() else 0o644)
        before = tree(user.path / "copy")
        flags = ("--from", f"{user.path}/copy/published/v4.16")
        done = user.attempt(*ONBOARD, str(user.path / "copy" / "operators" / "reef"), *flags)
        assert done.returncode == 1
        assert "ermission denied" in done.stderr
        assert tree(user.path / "copy") == before


def test_run_that_is_killed_between_files_can_be_repeated(site: Site, forkserver: ForkServer) -> None:
    original = (site.operator / "ci.yaml").read_bytes()
    pristine = site.directory.parent / "pristine"
    shutil.copytree(site.operator, pristine)
    argv = [*ONBOARD, "operators/reef", *FROM]
    for at in range(1, 20):
        (killed,) = forkserver.run([Command(argv, directory=site.directory, killed_at=("os.replace", at))])
        if killed.status == 0:
            break
        assert killed.status == -signal.SIGKILL, killed.stderr
        visible = {path: content for path, content in tree(site.operator).items() if not path.startswith(".")}
        assert visible["ci.yaml"] == original
        for path, content in visible.items():
            assert path.startswith("1.0.0/") or content
        site.opm(*ONBOARD, "operators/reef", *FROM)
        assert [path.name for path in site.operator.iterdir() if path.name.startswith(".")] == []
        assert len(config(site.operator)["fbc"]["catalog_mapping"]) == 2
        shutil.rmtree(site.operator)
        shutil.copytree(pristine, site.operator)
    assert at > 3


def test_full_cycle_after_force_gives_the_same_files(site: Site) -> None:
    site.opm(*ONBOARD, "operators/reef", *FROM)
    first = tree(site.operator)
    output = site.opm(*ONBOARD, "operators/reef", *FROM, "--force")
    assert all(line.endswith(": unchanged") for line in output.splitlines())
    assert tree(site.operator) == first
