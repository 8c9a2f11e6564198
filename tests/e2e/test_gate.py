"""The gate: policies and reports of ``opm validate``, for catalogs of every form and from real registries."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.kit.opm import FIXTURES, LAGOON, PROGRAM

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import CompletedProcess

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

VALID = FIXTURES / "catalogs" / "valid"
CYCLE = FIXTURES / "catalogs" / "invalid" / "cycle.yaml"
POLICY = """
severity: {FBC-ENTRY-ORDER: off}
ignore:
- rule: FBC-GRAPH
  package: demo
  channel: alp*
  reason: fixed in the next release
- rule: FBC-ICON-*
  reason: there is no icon
- rule: CSV-REPLACES-FORMAT
  reason: for bundles
- rule: FBC-*
  target: another-catalog
  reason: not this one
- rule: GATE-HEAD
  reason: there is no published index
"""


@pytest.fixture
def broken(opm: Opm) -> Path:
    """Return a catalog with one error and one warning on line 9."""
    directory = opm.directory / "broken"
    directory.mkdir()
    (directory / "demo.yaml").write_bytes(CYCLE.read_bytes())
    return directory


def attempt(opm: Opm, *flags: str) -> CompletedProcess[str]:
    return opm.attempt("validate", "broken", *flags)


def test_policy_allows_findings_with_reasons(opm: Opm, broken: Path) -> None:
    assert attempt(opm).returncode == 1
    (opm.directory / ".opm-validate.yaml").write_text(POLICY)
    done = attempt(opm)
    assert (done.returncode, done.stdout) == (0, "")
    allowed, reason, unused = done.stderr.splitlines()
    assert allowed.startswith('broken/demo.yaml:9: allowed: package "demo", channel "alpha": detected cycle')
    assert allowed.endswith(" [FBC-GRAPH]")
    assert reason == "  reason: fixed in the next release"
    nothing = "the policy allows nothing: no finding matches rule FBC-ICON-*"
    assert unused == f"Warning: .opm-validate.yaml:8:3: {nothing}"
    report = json.loads(attempt(opm, "-o", "json").stdout)
    assert (report["passed"], report["findings"]) == (True, [])
    (entry,) = report["allowed"]
    assert (entry["rule"], entry["reason"]) == ("FBC-GRAPH", "fixed in the next release")
    assert report["notices"] == [f".opm-validate.yaml:8:3: {nothing}"]
    strict = attempt(opm, "--fail-on", "warning")
    assert strict.returncode == 1
    assert f"Error: broken: invalid catalog: .opm-validate.yaml:8:3: {nothing}" in strict.stderr


def test_one_policy_serves_bundles_and_catalogs(opm: Opm, broken: Path) -> None:
    policy = "ignore:\n- {rule: FBC-GRAPH, reason: a}\n- {rule: CSV-ICON-IMAGE, reason: b}\n"
    (opm.directory / "policy.yaml").write_text(policy)
    assert attempt(opm, "--config", "policy.yaml").returncode == 0
    opm.build_bundle("0.1.0", "oci:image:0.1.0")
    done = opm.attempt("bundle", "validate", "oci:image:0.1.0", "--config", "policy.yaml", "-o", "markdown")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("### Validation passed: 1 bundle")
    assert "policy allows nothing" not in done.stderr


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("ignore: [{rule: FBC-GRAPH}]", "policy.yaml:1:10: ignore.0 has no rule or no reason"),
        ("ignore: [{rule: FBC-GRAF, reason: x}]", "policy.yaml:1:10: ignore.0 is not a known rule"),
        ("catalog: {fragment: 1}", "policy.yaml:1:11: catalog.fragment is not a boolean"),
        ("ignore: [\x1b[31m", "policy.yaml:1:"),
        ("catalog: {openshift-version: '4'}", "invalid value of --openshift-version"),
    ],
)
def test_invalid_policies_are_errors(opm: Opm, broken: Path, policy: str, message: str) -> None:
    (opm.directory / "policy.yaml").write_text(policy)
    done = attempt(opm, "--config", "policy.yaml")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: {message}")
    assert "\x1b" not in done.stderr


@pytest.mark.parametrize("content", [None, "", "# to do\n", "null\n"], ids=["dangling", "empty", "comment", "null"])
@pytest.mark.parametrize("flags", [(), ("--config", ".opm-validate.yaml")], ids=["found", "named"])
@pytest.mark.parametrize("command", [("validate", str(VALID)), ("bundle", "validate", str(LAGOON / "0.1.0"))])
def test_a_policy_without_content_is_an_error(
    opm: Opm, content: str | None, flags: tuple[str, ...], command: tuple[str, ...]
) -> None:
    path = opm.directory / ".opm-validate.yaml"
    if content is None:
        path.symlink_to("missing.yaml")
    else:
        path.write_text(content)
    done = opm.attempt(*command, *flags)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: .opm-validate.yaml: ")


def test_the_policy_that_the_environment_names_applies(opm: Opm, broken: Path) -> None:
    (opm.directory / ".opm-validate.yaml").write_text(POLICY)
    (opm.directory / "base.yaml").write_text("{}\n")
    assert attempt(opm).returncode == 0
    assert attempt(replace(opm, env={"OPM_POLICY": "base.yaml"})).returncode == 1
    bundle = ("bundle", "validate", str(LAGOON / "0.1.0"))
    for value, message in (("missing.yaml", "missing.yaml: No such file"), ("", "OPM_POLICY: the value is empty")):
        for command in (bundle, ("validate", "broken")):
            done = replace(opm, env={"OPM_POLICY": value}).attempt(*command)
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr.startswith(f"Error: {message}")


@pytest.mark.parametrize(
    "arguments",
    [
        ("validate", "catalog", "--against", ""),
        ("validate", "catalog", "--allowed-registries", ""),
        ("validate", "catalog", "--allowed-registries", ","),
        ("validate", "catalog", "--openshift-version", ""),
        ("validate", "catalog", "--profile", ""),
        ("validate", "catalog", "--fail-on", ""),
        ("bundle", "validate", "bundle", "--fail-on", ""),
        ("bundle", "validate", "bundle", "--profile", ""),
        ("bundle", "validate", "bundle", "--from", ""),
        ("bundle", "permissions", "bundle", "--fail-on", ""),
        ("index", "diff", "catalog", "catalog", "--fail-on", ""),
        ("index", "plan", "catalog", "--fail-on", ""),
    ],
    ids=" ".join,
)
def test_an_empty_value_does_not_turn_a_requirement_off(opm: Opm, arguments: tuple[str, ...]) -> None:
    done = opm.attempt(*arguments)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: empty value of {arguments[-2]}")


def test_settings_of_the_policy_are_defaults_of_flags(opm: Opm) -> None:
    catalog = str(VALID)
    settings = "{require-digests: true, allowed-registries: [registry.example.com/], against: published}"
    (opm.directory / ".opm-validate.yaml").write_text(f"catalog: {settings}\n")
    (opm.directory / "published").mkdir()
    report = json.loads(opm.attempt("validate", catalog, "-o", "json").stdout)
    assert {finding["rule"] for finding in report["findings"]} == {"GATE-DIGEST", "GATE-REGISTRY"}
    assert report["notices"] == [f"{opm.directory / 'published'}: the published index has no packages"]
    flags = ("--allowed-registries", "quay.io/", "--ignore", "GATE-DIGEST")
    report = json.loads(opm("validate", catalog, "-o", "json", *flags))
    assert {entry["reason"] for entry in report["allowed"]} == {"ignored on the command line"}
    assert opm.attempt("validate", catalog, "--ignore", "FBC-NO").returncode == 1


def test_reports_of_catalogs(opm: Opm, broken: Path) -> None:
    forms = ("sarif", "junit", "github", "markdown", "yaml")
    reports = {form: attempt(opm, "--output", form) for form in forms}
    assert {done.returncode for done in reports.values()} == {1}
    (run,) = json.loads(reports["sarif"].stdout)["runs"]
    error, warning = run["results"]
    assert (error["ruleId"], warning["ruleId"]) == ("FBC-GRAPH", "FBC-ENTRY-ORDER")
    assert error["locations"][0]["physicalLocation"] == {
        "artifactLocation": {"uri": "broken/demo.yaml"},
        "region": {"startLine": 9},
    }
    assert all(rule["shortDescription"]["text"] for rule in run["tool"]["driver"]["rules"])
    suites = ET.fromstring(reports["junit"].stdout)
    assert (suites.get("name"), suites.get("tests"), suites.get("failures")) == ("catalog validation", "2", "1")
    annotations = reports["github"].stdout.splitlines()
    assert annotations[0].startswith('::error title=FBC-GRAPH,file=broken/demo.yaml,line=9::package "demo", ')
    assert reports["markdown"].stdout.startswith("### Validation failed: 1 catalog, 1 error, 1 warning\n")
    assert "| error | `FBC-GRAPH` | `demo.yaml:9` | `package" in reports["markdown"].stdout
    for form in ("sarif", "junit", "github", "markdown"):
        assert reports[form].stderr.startswith("Error: broken: invalid catalog: demo.yaml:9: package"), form


@pytest.mark.parametrize("form", ["sarif", "junit", "github", "markdown", "json", "yaml", "text"])
def test_reports_of_valid_catalogs(opm: Opm, form: str) -> None:
    done = opm.attempt("validate", str(VALID), "-o", form)
    assert (done.returncode, done.stderr) == (0, "")
    if form == "sarif":
        log: dict[str, Any] = json.loads(done.stdout)
        assert log["runs"][0]["results"] == []


PUBLISHED_FORMS = ("directory", "image", "layout", "database", "database image")


@pytest.mark.parametrize("form", PUBLISHED_FORMS)
def test_published_indexes_of_all_forms(opm_http: Opm, registry: Registry, form: str) -> None:
    opm = opm_http
    images = [f"{registry.host}/gate-{form.replace(' ', '-')}/lagoon:{version}" for version in ("0.1.0", "0.2.0")]
    for image in images:
        opm.build_bundle(image.rpartition(":")[2], image, "--push")
    prefix = images[0].removesuffix("/lagoon:0.1.0")
    catalog = ("--to-fbc",) if form in ("directory", "image", "layout") else ()
    target = {
        "directory": ("--tag", "oci:published:1"),
        "layout": ("--tag", "oci:published:1"),
        "image": ("--tag", f"{prefix}/catalog:1", "--push"),
        "database image": ("--tag", f"{prefix}/catalog:1", "--push"),
    }
    if form == "database":
        opm("registry", "add", "-b", ",".join(images), "-d", "index.db")
        published = "index.db"
    else:
        opm("index", "add", "-b", ",".join(images), "-i", "scratch", *catalog, *target[form])
        published = target[form][1]
    opm("migrate", published, "catalog")
    if form == "directory":
        shutil.copytree(opm.directory / "catalog", opm.directory / "published-directory")
        published = "published-directory"
    assert opm.attempt("validate", "catalog", "--against", published).returncode == 0
    opm("index", "rm", "-o", "lagoon-operator", "-f", "catalog")
    done = opm.attempt("validate", "catalog", "--against", published, "-o", "json")
    removed, empty = json.loads(done.stdout)["findings"]
    assert (done.returncode, empty["rule"], empty["severity"]) == (1, "FBC-EMPTY", "warning")
    assert (removed["rule"], removed["package"]) == ("GATE-PACKAGE-REMOVED", "lagoon-operator")
    done = opm.attempt("index", "diff", published, "catalog", "--fail-on", "removed-package", "-o", "json")
    assert (done.returncode, len(json.loads(done.stdout)["failures"])) == (1, 1)


def published(opm: Opm, files: dict[str, str]) -> str:
    (opm.directory / "published").mkdir(exist_ok=True)
    for name, text in files.items():
        (opm.directory / "published" / name).write_text(text)
    return "published"


BUNDLE = '{"schema": "olm.bundle", "name": "demo.v9", "package": "demo", "properties": [{"type": "x", "value": %s}]}'
CHANNEL = '{"schema": "olm.channel", "name": "%s", "package": "demo", "entries": [{"name": "demo.v9"}]}'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "invalid YAML or JSON"),
        ("schema: olm.bundle\nname: [demo]\n", "name is a list"),
        ("schema: olm.channel\nentries: 1\n", "entries is a number"),
        (BUNDLE % ("[" * 5000 + "]" * 5000), "invalid YAML or JSON"),
        ("schema: olm.package\nname: \x1b[31mdemo\n", "invalid YAML or JSON"),
        ("a: &a [x, x]\nb: &b [*a, *a, *a]\nc: [*b, *b]\nd: [\n", "invalid YAML or JSON"),
    ],
)
def test_malformed_published_index_is_an_error(opm: Opm, text: str, message: str) -> None:
    name = published(opm, {"a.yaml": text})
    for command in (("validate", str(VALID), "--against", name), ("index", "diff", name, str(VALID))):
        done = opm.attempt(*command)
        assert (done.returncode, done.stdout) == (1, "")
        assert re.match(r"Error: published: invalid catalog: a\.yaml:\d+: ", done.stderr), done.stderr
        assert message in done.stderr
        assert "\x1b" not in done.stderr


@pytest.mark.parametrize("value", ["1" * 400, "[" * 900 + "]" * 900, '"\\ud800"', '"' + "x" * 3_000_000 + '"'])
def test_huge_values_of_published_bundles_are_compared(opm: Opm, value: str) -> None:
    name = published(opm, {"a.json": f"{BUNDLE % value}\n{CHANNEL % 'stable'}\n"})
    shutil.copytree(opm.directory / "published", opm.directory / "catalog")
    assert opm("index", "diff", name, "catalog", "--fail-on", "changed") == "no difference\n"
    changed = (opm.directory / "catalog" / "a.json").read_text().replace(value, f"[{value}]")
    (opm.directory / "catalog" / "a.json").write_text(changed)
    assert opm.attempt("index", "diff", name, "catalog", "--fail-on", "changed-bundle").returncode == 1
    report = json.loads(opm.attempt("validate", "catalog", "--against", name, "-o", "json").stdout)
    assert "the published bundle changed: properties x" in {finding["message"] for finding in report["findings"]}


def test_published_package_in_two_files(opm: Opm) -> None:
    bundle = BUNDLE % 1
    files = {"a.json": f"{CHANNEL % 'a'}\n{bundle}\n", "b.json": f"{CHANNEL % 'b'}\n{CHANNEL % 'a'}\n{BUNDLE % 2}\n"}
    name = published(opm, files)
    (opm.directory / "catalog").mkdir()
    (opm.directory / "catalog" / "a.json").write_text(f"{CHANNEL % 'a'}\n{bundle}\n")
    report = json.loads(opm.attempt("validate", "catalog", "--against", name, "-o", "json").stdout)
    gate = [(one["rule"], one["channel"]) for one in report["findings"] if one["rule"].startswith("GATE-")]
    assert gate == [("GATE-CHANNEL-REMOVED", "b")]


def test_hostile_names_are_escaped_in_reports(opm: Opm) -> None:
    name = published(opm, {"a.yaml": 'schema: olm.package\nname: "x\\e[31m\\n|`<b>"\ndefaultChannel: a\n'})
    for form in ("text", "sarif", "junit", "github", "markdown", "json", "yaml"):
        done = opm.attempt("validate", str(VALID), "--against", name, "-o", form)
        assert done.returncode == 1
        assert "\x1b" not in done.stdout + done.stderr, form
        assert form != "markdown" or '`` package "x\\x1b[31m\\n\\|`<b>": the published' in done.stdout


def blocks_of_page() -> dict[str, Any]:
    """Return the YAML files in the page about the gate, by their names."""
    page = (FIXTURES.parent / "docs" / "gate.md").read_text()
    blocks = re.findall(r"^```yaml\n# (\S+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert blocks
    return dict(blocks)


def run_job(opm: Opm, workflow: str) -> list[CompletedProcess[str]]:
    """Run the commands of a job's steps, whether they succeed or fail."""
    (job,) = yaml.safe_load(workflow)["jobs"].values()
    commands = [run for step in job["steps"] if (run := step.get("run") or step.get("with", {}).get("run"))]
    assert len(commands) == 2
    environment = {**os.environ, **opm.env, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
    environment["RUNNER_TEMP"] = str(opm.directory)
    environment["GITHUB_STEP_SUMMARY"] = str(opm.directory / "summary.md")
    return [
        subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=opm.directory,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        for command in commands
    ]


def test_job_of_the_documentation(opm: Opm, registry: Registry) -> None:
    """The registry takes the place of quay.io."""
    files = blocks_of_page()
    configuration = opm.directory / "registries.conf"
    location = f'[[registry]]\nprefix = "quay.io/me"\nlocation = "{registry.host}/gate-job"\ninsecure = true\n'
    configuration.write_text(location)
    (opm.directory / ".opm-validate.yaml").write_text(files[".opm-validate.yaml"])
    job = replace(opm, env={**opm.env, "CONTAINERS_REGISTRIES_CONF": str(configuration)})
    catalog = opm.directory / "catalog"
    shutil.copytree(VALID / "demo", catalog)
    bundles = catalog / "bundles.yaml"
    text = bundles.read_text().replace("quay.io/example/", "quay.io/me/")
    bundles.write_text(text.replace("demo-bundle:1.1.0", f"demo-bundle@sha256:{'0' * 64}"))
    publish = ("index", "build", "catalog", "--binary-image", "scratch")
    opm(*publish, "--tag", f"{registry.host}/gate-job/catalog:latest", "--push", "--use-http")

    done = run_job(job, files[".github/workflows/gate.yaml"])
    assert [step.returncode for step in done] == [0, 0], [step.stderr for step in done]
    log = json.loads((opm.directory / "gate.sarif").read_text())
    assert {result["ruleId"] for result in log["runs"][0]["results"] if result["suppressions"]} == {"GATE-DIGEST"}

    bundles.write_text(bundles.read_text().replace("0" * 64, "1" * 64))
    done = run_job(job, files[".github/workflows/gate.yaml"])
    assert [step.returncode for step in done] == [1, 1]
    log = json.loads((opm.directory / "gate.sarif").read_text())
    (failure,) = [result for result in log["runs"][0]["results"] if "suppressions" not in result]
    location = failure["locations"][0]["physicalLocation"]
    assert (failure["ruleId"], location["artifactLocation"]["uri"]) == ("GATE-BUNDLE-CHANGED", "catalog/bundles.yaml")
    assert location["region"]["startLine"] > 1
    summary = (opm.directory / "summary.md").read_text()
    assert "### Gate passed" in summary
    assert "| changed bundle | `demo` |  | `demo.v1.1.0` | `image: " in summary

    configuration.write_text(configuration.read_text().replace("gate-job", "gate-none"))
    done = run_job(job, files[".github/workflows/gate.yaml"])
    assert [step.returncode for step in done] == [1, 1]
    assert all("catalog:latest" in step.stderr for step in done)


LAUNCHER = """
import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)])
_, status, usage = os.wait4(pid, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss)
"""
"""The peak memory of a child includes that of the process that it was forked from, so a small process starts it."""


def test_memory_does_not_depend_on_the_size_of_the_published_index(tmp_path: Path) -> None:
    """Each catalog is a single file of 80 MB."""
    rng = random.Random(1)
    content = [rng.randbytes(500_000).hex() for _ in range(80)]
    for name in ("published", "catalog"):
        (tmp_path / name).mkdir()
        with (tmp_path / name / "catalog.json").open("w") as file:
            for number, data in enumerate(content):
                value = f'{{"data": "{data}"}}'
                properties = f'[{{"type": "olm.bundle.object", "value": {value}}}]'
                identity = f'"schema": "olm.bundle", "name": "{name[0] if number == 7 else "a"}.v{number}"'
                file.write(f'{{{identity}, "package": "p{number}", "properties": {properties}\n}}\n')
    command = [str(PROGRAM), "index", "diff", "published", "catalog", "--fail-on", "removed-bundle"]
    done = subprocess.run(
        [sys.executable, "-ISc", LAUNCHER, *command], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    status, kilobytes = map(int, done.stdout.split())
    assert (status, done.stderr.count("removed bundle")) == (1, 1)
    assert kilobytes < 100_000
