"""opmkit with the name operator-sdk, and the wrappers that Makefiles cannot overwrite it through."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.kit.broken import Broken
from tests.kit.operator_project import HARBOR
from tests.kit.opm import PROGRAM
from tests.kit.requirements import require

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

pytestmark = pytest.mark.slow

CURL = """#!/bin/sh
# Stands for curl: writes to the file of the option -o, through links as curl does.
while [ $# -gt 0 ]; do
  case "$1" in -*o) file=$2; shift ;; esac
  shift
done
echo "$file" >>"$DOWNLOADS"
echo downloaded >"$file"
"""
COMPARING = """
SDK_PIN ?= v1.34.2
OPERATOR_SDK ?= bin/operator-sdk
.PHONY: operator-sdk bundle
operator-sdk:
ifneq ($(shell $(OPERATOR_SDK) version | {field}),$(SDK_PIN))
	mkdir -p $(dir $(OPERATOR_SDK))
	curl -sSLo $(OPERATOR_SDK) https://downloads.example.com/$(SDK_PIN)
	chmod +x $(OPERATOR_SDK)
endif
bundle: operator-sdk
"""
"""A Makefile that downloads operator-sdk to the path of the program if its version is not the required one."""
CUT, AWK = """cut -d'"' -f2""", """awk -F '"' '{print $$2}'"""
MISSING = """
OPERATOR_SDK ?= bin/operator-sdk
.PHONY: operator-sdk bundle
operator-sdk:
ifeq (,$(wildcard $(OPERATOR_SDK)))
	curl -sSLo $(OPERATOR_SDK) https://downloads.example.com/operator-sdk
endif
bundle: operator-sdk
"""
"""A Makefile that downloads operator-sdk if it is not there, as operator-sdk scaffolds it."""
GENERATING = """
	cat built.yaml | $(OPERATOR_SDK) generate bundle -q --overwrite --version 0.1.0
	echo '  com.redhat.openshift.versions: v4.16' >> bundle/metadata/annotations.yaml
	echo 'LABEL com.redhat.openshift.versions=v4.16' >> bundle.Dockerfile
	$(OPERATOR_SDK) bundle validate ./bundle
"""
VERSION_LINE = re.compile(
    r'operator-sdk version: "(v[\d.]+)", commit: "\w+", kubernetes version: "v[\d.]+", go version: "\w+", '
    r'GOOS: "linux", GOARCH: "\w+", opmkit version: "v[^"]+"\n'
)


@dataclass(frozen=True)
class Site:
    """A project, an ``opm`` that may be overwritten, and a curl that records its downloads."""

    project: Path
    opm: Path

    @property
    def downloads(self) -> list[str]:
        record = self.project / "downloads"
        return record.read_text().split() if record.exists() else []

    def run(self, *arguments: str | Path, **variables: str) -> subprocess.CompletedProcess[str]:
        path = f"{self.opm.parent}:{os.environ['PATH']}"
        return subprocess.run(
            [*map(str, arguments)],
            cwd=self.project,
            env={**os.environ, "PATH": path, "DOWNLOADS": str(self.project / "downloads"), **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    def check(self, *arguments: str | Path, **variables: str) -> str:
        done = self.run(*arguments, **variables)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def write_wrapper(self, file: str = "bin/operator-sdk", *flags: str) -> Path:
        self.check(self.opm, "generate", "wrapper", file, *flags)
        return self.project / file

    def is_whole(self) -> bool:
        return self.opm.read_bytes() == PROGRAM.read_bytes()


@pytest.fixture
def site(tmp_path: Path) -> Site:
    project, tools = tmp_path / "project", tmp_path / "tools"
    shutil.copytree(HARBOR, project)
    tools.mkdir()
    shutil.copy(PROGRAM, tools / "opm")
    (tools / "curl").write_text(CURL)
    (tools / "curl").chmod(0o755)
    return Site(project, tools / "opm")


def make_bundle(site: Site, makefile: str, *variables: str) -> subprocess.CompletedProcess[str]:
    (site.project / "Makefile").write_text(makefile + GENERATING)
    return site.run(require("make"), "bundle", *variables)


@pytest.mark.parametrize("field", [CUT, AWK])
def test_wrapper_that_reports_the_required_version_is_not_replaced(site: Site, field: str) -> None:
    wrapper = site.write_wrapper("bin/operator-sdk", "--reported-version", "v1.34.2")
    content = wrapper.read_bytes()
    for _ in range(3):
        done = make_bundle(site, COMPARING.replace("{field}", field))
        assert done.returncode == 0, done.stderr
    assert (site.downloads, wrapper.read_bytes(), site.is_whole()) == ([], content, True)


def test_variable_of_make_selects_the_version_that_opmkit_has(site: Site) -> None:
    site.write_wrapper()
    done = make_bundle(site, COMPARING.replace("{field}", CUT), "SDK_PIN=v1.42.3")
    assert (done.returncode, site.downloads) == (0, []), done.stderr


def test_download_replaces_a_wrapper_but_never_opm(site: Site) -> None:
    wrapper = site.write_wrapper()
    make_bundle(site, COMPARING.replace("{field}", CUT))
    assert site.downloads == ["bin/operator-sdk"]
    assert (wrapper.read_text(), site.is_whole()) == ("downloaded\n", True)


def test_download_overwrites_opm_through_a_link_of_which_version_warns(site: Site) -> None:
    link = site.project / "operator-sdk"
    link.symlink_to(site.opm)
    done = make_bundle(site, COMPARING.replace("{field}", CUT), "OPERATOR_SDK=./operator-sdk")
    assert not site.is_whole(), "wrappers are not required any more"
    assert (
        "Warning: operator-sdk: link to opm: downloading operator-sdk to this path overwrites opm\n"
        "  hint: replace the link by a script: 'opm generate wrapper FILE'\n"
    ) in done.stderr


def test_wrapper_takes_the_place_of_a_link(site: Site) -> None:
    link = site.project / "bin" / "operator-sdk"
    link.parent.mkdir()
    link.symlink_to(site.opm)
    assert VERSION_LINE.fullmatch(site.check(link, "version"))
    site.write_wrapper()
    assert (link.is_symlink(), site.is_whole()) == (False, True)
    assert site.run(link, "version").stderr == ""


def test_opm_may_be_a_link_itself(site: Site) -> None:
    link = site.project / "opm"
    link.symlink_to(site.opm)
    site.check(link, "generate", "wrapper", "bin/operator-sdk")
    done = site.run("bin/operator-sdk", "version")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"exec {link} operator-sdk" in (site.project / "bin/operator-sdk").read_text()


def test_wrapper_is_found_by_a_makefile_that_downloads_a_missing_program(site: Site) -> None:
    site.write_wrapper()
    done = make_bundle(site, MISSING)
    assert (done.returncode, site.downloads) == (0, []), done.stderr


def test_repeated_make_bundle_appends_an_annotation_once(site: Site) -> None:
    site.write_wrapper()
    results = []
    for _ in range(3):
        assert make_bundle(site, MISSING).returncode == 0
        files = (site.project / "bundle/metadata/annotations.yaml", site.project / "bundle.Dockerfile")
        results.append([file.read_text() for file in files])
    assert results[0] == results[1] == results[2]
    assert [text.count("com.redhat.openshift.versions") for text in results[0]] == [1, 1]


def test_opm_merges_appended_annotations(site: Site) -> None:
    annotations = site.project / "bundle/metadata/annotations.yaml"
    for version in ("v4.16", "v4.17", "v4.18"):
        done = site.run("sh", "-c", "cat built.yaml | opm generate bundle -q --version 0.1.0")
        assert done.returncode == 0, done.stderr
        with annotations.open("a") as file:
            file.write(f"  com.redhat.openshift.versions: {version}\n")
    assert "duplicate key 'com.redhat.openshift.versions': retained the last value" in done.stderr
    assert re.findall(r"openshift.versions: (.*)", annotations.read_text()) == ["v4.17", "v4.18"]
    assert "openshift" not in (site.project / "bundle.Dockerfile").read_text()


def test_version_has_the_format_of_operator_sdk(site: Site) -> None:
    wrapper = site.write_wrapper()
    for arguments in (["version"], ["--version"], ["version", "--verbose"]):
        found = VERSION_LINE.fullmatch(site.check(wrapper, *arguments))
        assert found
        assert found[1] == "v1.42.3"
    assert 'version: "v1.35.0",' in site.check(wrapper, "version", OPM_OPERATOR_SDK_VERSION="1.35.0")
    done = site.run(wrapper, "version", OPM_OPERATOR_SDK_VERSION="latest")
    assert (done.returncode, done.stderr.splitlines()) == (
        1,
        [
            'Error: OPM_OPERATOR_SDK_VERSION: invalid version "latest"',
            "  hint: set it to a release of operator-sdk, such as v1.42.3",
        ],
    )


def test_wrapper_of_opm_reports_a_release_of_opm(site: Site) -> None:
    wrapper = site.write_wrapper("bin/opm", "--reported-version", "v1.23.0")
    assert 'OpmVersion:"v1.23.0",' in site.check(wrapper, "version")
    assert "duplicate" not in site.check(wrapper, "render", "--help")


def test_validation_is_that_of_operator_sdk(site: Site) -> None:
    bundle = site.project / "other"
    Broken("csv-replaces-self").write(bundle)
    wrapper = site.write_wrapper()
    assert site.run(site.opm, "bundle", "validate", bundle).returncode == 1
    done = site.run(wrapper, "bundle", "validate", bundle)
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.endswith('level=info msg="All validation tests have completed successfully"\n')
    assert '"passed": true' in site.check(wrapper, "bundle", "validate", "-o", "json-alpha1", bundle)
    assert site.run(wrapper, "bundle", "validate", bundle, "--profile", "all").returncode == 1


def test_findings_are_log_lines_on_stdout(site: Site) -> None:
    wrapper = site.write_wrapper()
    site.check("sh", "-c", "cat built.yaml | bin/operator-sdk generate bundle -q --version 0.1.0")
    done = site.run(wrapper, "bundle", "validate", "./bundle", "--select-optional", "suite=operatorframework")
    lines = done.stdout.splitlines()
    assert (done.returncode, len(lines)) == (0, 3)
    assert all(re.fullmatch(r'time="[^"]+" level=warning msg="manifests/.*"', line) for line in lines)
    csv = site.project / "bundle/manifests/harbor-operator.clusterserviceversion.yaml"
    csv.write_text(csv.read_text().replace("  installModes:", "  unknownModes:"))
    done = site.run(wrapper, "bundle", "validate", "./bundle")
    assert done.returncode == 1
    assert "level=error msg=" in done.stdout
    assert "All validation tests" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["init", "--domain", "example.com"], "init"),
        (["create", "api", "--group", "ships"], "create"),
        (["edit", "--multigroup"], "edit"),
        (["scorecard", "-w=5m", "./bundle"], "scorecard"),
        (["--verbose", "scorecard", "./bundle"], "scorecard"),
        (["generate", "packagemanifests"], "generate packagemanifests"),
        (["generate", "--verbose", "packagemanifests"], "generate packagemanifests"),
        (["pkgman-to-bundle", "packagemanifests"], "pkgman-to-bundle"),
        (["alpha", "config-3alpha-to-3"], "alpha"),
        (["completion", "bash"], "completion"),
    ],
)
def test_commands_that_only_operator_sdk_has(site: Site, arguments: Sequence[str], command: str) -> None:
    done = site.run(site.write_wrapper(), *arguments)
    assert done.returncode == 1
    *_, message, hint = done.stderr.splitlines()
    assert message == f"Error: operator-sdk {command}: not supported by opmkit, which runs here as operator-sdk"
    assert hint == "  hint: install operator-sdk from https://sdk.operatorframework.io, and run it by its path"


def test_other_unknown_commands(site: Site) -> None:
    done = site.run(site.write_wrapper(), "generat", "bundle")
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, 'Error: unknown command "generat" for "operator-sdk"')


def test_help_lists_the_commands_of_operator_sdk(site: Site) -> None:
    wrapper = site.write_wrapper()
    pages = [site.check(wrapper, *arguments) for arguments in ([], ["--help"], ["help"], ["-h"])]
    assert len(set(pages)) == 1
    assert re.findall(r"^  ([a-z]+) ", pages[0], re.MULTILINE) == [
        *("bundle", "cleanup", "generate", "olm", "run", "version"),
    ]
    assert "operator-sdk bundle validate [OPTIONS]" in site.check(wrapper, "help", "bundle", "validate")
    assert "Usage: operator-sdk run bundle" in site.check(wrapper, "-n", "harbor", "run", "bundle", "--help")


def test_wrapper_replaces_only_wrappers_and_links_to_opm(site: Site) -> None:
    real = site.project / "bin" / "operator-sdk"
    real.parent.mkdir()
    real.write_text("the real one\n")
    done = site.run(site.opm, "generate", "wrapper", "bin/operator-sdk")
    assert (done.returncode, done.stderr.splitlines()) == (
        1,
        [
            "Error: bin/operator-sdk: refusing to overwrite a file that is not a wrapper",
            "  hint: remove bin/operator-sdk first",
        ],
    )
    assert real.read_text() == "the real one\n"
    link = real.with_name("operator-sdk-link")
    link.symlink_to(real)
    assert site.run(site.opm, "generate", "wrapper", link).returncode == 1
    hard_link = real.with_name("opm")
    hard_link.hardlink_to(site.opm)
    assert site.run(site.opm, "generate", "wrapper", hard_link).returncode == 1
    done = site.run(site.opm, "generate", "wrapper", site.opm)
    assert (done.returncode, site.is_whole()) == (1, True)
    assert "refusing to replace the program that the script runs" in done.stderr
    (real.with_name("operator-sdk-dangling")).symlink_to("nowhere")
    site.write_wrapper("bin/operator-sdk-dangling")
    assert site.is_whole()


def test_invalid_wrappers(site: Site) -> None:
    assert "unknown program: the name must begin with operator-sdk or opm" in (
        site.run(site.opm, "generate", "wrapper", "bin/kustomize").stderr
    )
    assert '--reported-version: invalid version "$(id)"' in (
        site.run(site.opm, "generate", "wrapper", "bin/opm", "--reported-version", "$(id)").stderr
    )
    (site.project / "bin").touch()
    done = site.run(site.opm, "generate", "wrapper", "bin/operator-sdk")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)


def test_wrapper_of_a_program_with_an_unusual_path(site: Site) -> None:
    odd = site.opm.parent.with_name('it\'s $HOME; "odd"')
    site.opm.parent.rename(odd)
    (odd / "opm").write_text(f'#!/bin/sh\nexec {PROGRAM} "$@"\n')  # a path with spaces is invalid in a first line
    moved = Site(site.project, odd / "opm")
    script = moved.project / "bin" / "operator-sdk"
    script.parent.mkdir()
    done = moved.run(odd / "opm", "generate", "wrapper", "bin/operator-sdk", "--reported-version", "1.2.3")
    assert done.returncode == 0, done.stderr
    assert 'version: "v1.2.3",' in moved.check("bin/operator-sdk", "version")


def test_several_writers_of_a_wrapper(site: Site) -> None:
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: site.write_wrapper(), range(8)))
    assert VERSION_LINE.fullmatch(site.check("bin/operator-sdk", "version"))
    assert [path.name for path in (site.project / "bin").iterdir()] == ["operator-sdk"]
