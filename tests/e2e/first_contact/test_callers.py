"""Programs that run opm have the same results with opmkit as with Go opm, and can parse its errors.

``OPMKIT_REFERENCE_OPM_NEWEST`` is the path of Go opm; without it, only opmkit is run.
"""

from __future__ import annotations

import os
import re
import socket
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.kit import callers
from tests.kit.callers import iib_documents, iib_error, iib_remove
from tests.kit.installed import InstalledOpm
from tests.kit.opm import LAGOON
from tests.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator

GO_OPM = os.environ.get("OPMKIT_REFERENCE_OPM_NEWEST", "")
VERSIONS = ("0.1.0", "0.2.0")
PACKAGE = "lagoon-operator"


@dataclass(frozen=True)
class Site:
    """Both tools, and two bundles in a registry whose certificate both trust."""

    ours: InstalledOpm
    bundles: tuple[str, ...]

    @property
    def go(self) -> InstalledOpm:
        """Go opm for the same user, in a separate directory."""
        bin_directory, directory = self.ours.home / "go-bin", self.ours.directory.with_name("go")
        bin_directory.mkdir(exist_ok=True)
        directory.mkdir(exist_ok=True)
        program = bin_directory / "opm"
        program.unlink(missing_ok=True)
        program.symlink_to(Path(GO_OPM).absolute())
        return replace(self.ours, bin=bin_directory, directory=directory)

    def tools(self) -> list[InstalledOpm]:
        return [self.ours, self.go] if GO_OPM else [self.ours]


@pytest.fixture(scope="module")
def published(installed_bin: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Push two bundles and return the certificate of the registry's authority and their references."""
    with Registry(tls=True) as registry:
        home = tmp_path_factory.mktemp("publisher")
        opm = InstalledOpm(installed_bin, home, home, {"SSL_CERT_FILE": str(registry.ca_file)})
        names = tuple(f"{registry.host}/callers/lagoon:{version}" for version in VERSIONS)
        for version, name in zip(VERSIONS, names, strict=True):
            manifests = str(LAGOON / version / "manifests")
            channels = ("-p", PACKAGE, "-c", "alpha,stable", "-e", "stable", "--output-dir", version)
            opm("bundle", "build", "-d", manifests, *channels, "-t", name, "--push")
        yield registry.ca_file, names


@pytest.fixture
def site(newcomer: InstalledOpm, published: tuple[Path, tuple[str, ...]]) -> Site:
    authority, bundles = published
    return Site(newcomer.with_env(SSL_CERT_FILE=str(authority)), bundles)


def run_script(opm: InstalledOpm, script: str, bundles: tuple[str, ...]) -> Any:
    """Run a script and return what its caller reads: the documents it rendered, and the Dockerfiles' instructions."""
    for name, content in callers.TEMPLATES.items():
        (opm.directory / name).write_text(content.replace("BUNDLE", bundles[-1]))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    names = {"BUNDLES": ",".join(bundles), "FIRST_BUNDLE": bundles[0], "LAST_BUNDLE": bundles[-1]}
    done = opm.with_env(**names, PORT=str(port)).shell_out(["sh", "-c", script])
    assert done.returncode == 0, done.stderr
    documents = iib_documents((opm.directory / "out.json").read_text())
    extra = [path for path in opm.directory.rglob("*.yaml") if path.name not in callers.TEMPLATES]
    files = {str(path.relative_to(opm.directory)): list(yaml.safe_load_all(path.read_text())) for path in extra}
    dockerfiles = {path.name: instructions(path) for path in opm.directory.rglob("*.Dockerfile")}
    return documents, files, dockerfiles


def instructions(dockerfile: Path) -> list[str]:
    lines = dockerfile.read_text().splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


SCRIPTS = {
    name: script for name, script in vars(callers).items() if isinstance(script, str) and script.startswith("\nset ")
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_of_callers_have_the_same_results_with_go_opm(site: Site, name: str) -> None:
    ours, *go = (run_script(tool, SCRIPTS[name], site.bundles) for tool in site.tools())
    named = {document.get("name") for document in ours[0]}
    assert {"lagoon-operator.v0.2.0", PACKAGE} <= named or (name in ("IIB_NOTHING", "IIB_EMPTY") and named == set())
    for other in go:
        assert ours == other


def make_database(opm: InstalledOpm, bundles: tuple[str, ...]) -> None:
    opm("registry", "add", "--database", "index.db", "--bundle-images", bundles[0])


def test_iib_retries_with_permissive_for_a_missing_package(site: Site) -> None:
    make_database(site.ours, site.bundles)
    content = (site.ours.directory / "index.db").read_bytes()
    for tool in site.tools():
        (tool.directory / "index.db").write_bytes(content)
        runs = iib_remove(tool, ["nothing"], "registry", "rm", "--database", "index.db", "--packages")
        assert [run.returncode for run in runs] == [1, 0], runs[0].stderr


@pytest.mark.parametrize("command", ["registry", "index"])
def test_fatal_log_record_equals_that_of_go_opm(site: Site, command: str) -> None:
    make_database(site.ours, site.bundles)
    content = (site.ours.directory / "index.db").read_bytes()
    if command == "index":
        done = site.ours.attempt("index", "rm", "--generate", "--from-index", "index.db", "--operators", "nothing")
    else:
        done = site.ours.attempt("registry", "rm", "--database", "index.db", "--packages", "nothing")
    shape = (
        r'time="\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ" level=fatal msg="permissive mode disabled" error="error deleting '
        r"packages from database: error removing operator package nothing: no package found for packagename "
        r'nothing"\n'
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(shape, done.stderr)
    if GO_OPM:
        (site.go.directory / "index.db").write_bytes(content)
        run = site.go.attempt("registry", "rm", "--database", "index.db", "--packages", "nothing")
        assert re.fullmatch(shape, run.stderr.splitlines(keepends=True)[-1])


def test_missing_package_in_a_catalog_directory_is_an_ordinary_error(site: Site) -> None:
    (site.ours.directory / "catalog").mkdir()
    (site.ours.directory / "catalog/catalog.json").write_text('{"schema": "olm.package", "name": "lagoon-operator"}')
    done = site.ours.attempt("index", "rm", "-f", "catalog", "-o", "lagoon-operatr")
    assert done.stderr.startswith('Error: package "lagoon-operatr" not found\n  hint: did you mean lagoon-operator?')


@dataclass(frozen=True)
class Failure:
    """A command that fails, its exit code, and the cause that the ``Error:`` line must contain.

    ``go_line`` is whether Go opm prints such a line as well; if not, IIB reports only its text for the failed step.
    """

    arguments: str
    cause: str
    code: int = 1
    go_line: bool = True


FAILURES = (
    Failure("registry add --database index.db --bundle-images {bundle}", "already exists", code=2),
    Failure("registry add --database index.db --bundle-images {host}/callers/none:1", "{host}/callers/none"),
    Failure("registry add --database index.db --nothing", "unknown flag: --nothing"),
    Failure("registry rm --database index.db", r'required flag\(s\) "packages" not set'),
    Failure(
        "registry deprecatetruncate --database index.db --bundle-images {host}/none:1 --allow-package-removal",
        "{host}/none:1",
        go_line=False,
    ),
    Failure(
        "registry deprecatetruncate --database index.db --bundle-images {bundle}", "default channel", go_line=False
    ),
    Failure("index add --generate --bundles {host}/callers/none:1 --binary-image scratch", "{host}/callers/none"),
    Failure("migrate index.db full", "full", go_line=False),
    Failure("validate nothing-here", "nothing-here"),
    Failure("validate", "CATALOG|accepts 1 arg"),
    Failure("validate broken", 'unknown package "x"', go_line=False),
    Failure("validate unreadable", "mapping values are not allowed", go_line=False),
    Failure("render unreadable", "mapping values are not allowed", go_line=False),
    Failure("migrate unreadable catalog", "mapping values are not allowed", go_line=False),
    Failure("generate dockerfile nothing-here", "nothing-here"),
    Failure("generate dockerfile full", "full.Dockerfile", go_line=False),
    Failure("init lagoon --description nothing-here", "nothing-here", go_line=False),
    Failure("alpha render-template basic nothing-here", "nothing-here"),
    Failure("alpha render-template basic unreadable/catalog.yaml", "schema|mapping values"),
    Failure("alpha render-template basic template.yaml", "{host}/callers/none"),
    Failure("nothing", 'unknown command "nothing" for "opm"'),
)


@pytest.fixture
def failing(site: Site) -> Site:
    """The directories of both tools with a database, broken catalogs and templates in them."""
    make_database(site.ours, site.bundles)
    content = (site.ours.directory / "index.db").read_bytes()
    broken = '{"schema": "olm.channel", "package": "x", "name": "alpha", "entries": []}'
    host = site.bundles[0].partition("/")[0]
    template = callers.TEMPLATES["template.yaml"].replace("BUNDLE", f"{host}/callers/none:1")
    for tool in site.tools():
        files = {
            "full/file": "",
            "full.Dockerfile": "",
            "broken/catalog.json": broken,
            "unreadable/catalog.yaml": "schema: olm.package\nname: : x",
            "template.yaml": template,
        }
        for name, text in files.items():
            path = tool.directory / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        (tool.directory / "index.db").write_bytes(content)
    return site


def test_error_line_contains_the_cause(failing: Site) -> None:
    values = {"bundle": failing.bundles[0], "host": failing.bundles[0].partition("/")[0]}
    wrong = []
    for failure in FAILURES:
        arguments = [part.format(**values) for part in failure.arguments.split()]
        for tool in failing.tools():
            done = tool.attempt(*arguments)
            error = iib_error(done, "failed")
            cause = error != "failed" and re.search(failure.cause.format(**values), error) is not None
            expected = failure.go_line or tool is failing.ours
            if (done.returncode, cause) != (failure.code, expected):
                wrong.append((tool.bin.name, failure.arguments, done.returncode, error, done.stderr[-500:]))
    assert not wrong, "\n\n".join(map(str, wrong))


def test_error_line_contains_the_first_of_several_findings(site: Site) -> None:
    """If findings follow on further lines, callers read only the first line."""
    directory = site.ours.directory
    channel = '{"schema": "olm.channel", "package": "%s", "name": "alpha", "entries": []}\n'
    for name, content in {
        "catalog/catalog.json": channel % "x" + channel % "y",
        "many/a.yaml": "schema: : olm.bundle\n",
        "many/b.yaml": "schema: : olm.channel\n",
        "contribution.yaml": CONTRIBUTION,
        "catalogs.yaml": CATALOGS,
        "empty.yaml": "schema: olm.template.basic\nentries:\n- schema: olm.bundle\n  image: ''\n",
    }.items():
        path = directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content)
    causes = {
        ("validate", "catalog"): 'catalog: invalid catalog: catalog.json:1: unknown package "x", which has 1 channel '
        "(4 errors, 0 warnings)",
        ("render", "many"): "many: invalid catalog: a.yaml:1: ",
        ("alpha", "list", "bundles", "many"): "many: invalid catalog: a.yaml:1: ",
        (
            "alpha",
            "render-template",
            "composite",
            "-c",
            "contribution.yaml",
            "-f",
            "catalogs.yaml",
        ): "component 'one': ",
    }
    for arguments, cause in causes.items():
        done = site.ours.attempt(*arguments)
        assert done.returncode == 1
        error = iib_error(done, "failed").removeprefix("failed: ")
        assert error.startswith(cause)
        assert not error.rstrip().endswith(":")


CONTRIBUTION = """
schema: olm.composite
components:
- name: one
  destination: {path: out}
  strategy: {name: basic, template: {schema: olm.builder.basic, config: {input: empty.yaml, output: catalog.yaml}}}
"""
CATALOGS = """
schema: olm.composite.catalogs
catalogs:
- name: one
  destination: {workingDir: .}
  builders: [olm.builder.basic]
"""


def test_rendered_json_can_be_split_between_braces(site: Site) -> None:
    script = "opm render {} {}".format(*site.bundles)
    outputs = [tool.shell_out(script.split()).stdout for tool in site.tools()]
    for output in outputs:
        assert [one["name"] for one in iib_documents(output)] == [f"{PACKAGE}.v{version}" for version in VERSIONS]
    version = (
        "import json, sys; found = json.load(sys.stdin)['properties'];"
        "print(*(one['value']['version'] for one in found if one['type'] == 'olm.package'), end='')"
    )
    for tool in site.tools():  # Konflux opm-get-bundle-version, with jq
        one = tool.shell_out(["opm", "render", site.bundles[0]])
        assert tool.shell_out([sys.executable, "-c", version], stdin=one.stdout).stdout == "0.1.0"
