"""``opm bundle validate`` and ``opm bundle rules``."""

from __future__ import annotations

import gzip
import json
import os
import re
import shutil
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from tests.kit.broken import Broken
from tests.kit.bundles import bundle_image, push_image
from tests.kit.faults import Answer, Fault, FaultProxy
from tests.kit.images import small_image
from tests.kit.opm import FIXTURES
from tests.kit.screen import misfits, run_on_terminal

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry


@pytest.fixture
def bundle(opm: Opm) -> Path:
    """Write a valid bundle and return its directory."""
    opm.build_bundle("0.1.0", "oci:image:0.1.0")
    return opm.directory / "bundle-0.1.0"


def csv_of(bundle: Path) -> Path:
    return next(path for path in (bundle / "manifests").iterdir() if "kind: ClusterServiceVersion" in path.read_text())


def broken(bundle: Path) -> Path:
    """Return the bundle with an invalid ClusterServiceVersion name."""
    copy = bundle.with_name("broken")
    shutil.copytree(bundle, copy)
    csv = csv_of(copy)
    csv.write_text(csv.read_text().replace("name: lagoon-operator.v0.1.0", "name: Lagoon_Operator"))
    return copy


def line_of(path: Path, text: str) -> int:
    return next(number for number, line in enumerate(path.read_text().splitlines(), 1) if text in line)


def test_valid_bundle_passes_as_directory_and_as_image(opm: Opm, bundle: Path) -> None:
    for target in (str(bundle), "oci:image:0.1.0"):
        done = opm.attempt("bundle", "validate", target)
        assert done.returncode == 0, done.stdout + done.stderr
        assert "1 bundle, 0 errors" in done.stdout


def test_platforms_of_images_are_read_from_registries(
    opm_http: Opm, bundle: Path, registry: Registry, tmp_path: Path
) -> None:
    csv = csv_of(bundle)
    (image,) = set(re.findall(r"image: (\S*/lagoon-operator:\S+)", csv.read_text()))
    name = f"{registry.host}/{tmp_path.name.replace('_', '-')}/lagoon-operator:v1"
    push_image(name, bundle_image("lagoon", "0.1.0", tmp_path, platform="linux/arm64"))
    csv.write_text(csv.read_text().replace(image, name))
    done = opm_http.attempt("bundle", "validate", "bundle-0.1.0", "--select-optional", "name=multiarch")
    assert f"these images do not support linux/amd64: {name}" in done.stdout
    assert done.returncode == 1


def test_excerpts_and_examples_fit_a_terminal(opm: Opm, bundle: Path) -> None:
    (bundle / "manifests" / "layer").write_bytes(gzip.compress(b"a layer\n" * 100, mtime=0))
    (bundle / "manifests" / "words.yaml").write_text(f"key: {'some words ' * 14}: more\n")
    report = run_on_terminal("bundle", "validate", "bundle-0.1.0", columns=80, directory=opm.directory, env=opm.env)
    assert "| key: some words some words" in report.text
    layer = report.text.partition("manifests/layer")[2].partition("manifests/words.yaml")[0]
    assert "LOAD-DECODE" in layer
    assert "| " not in layer
    assert not misfits(report.text, 80)
    rule = run_on_terminal("bundle", "rules", "CRD-STRUCTURAL-TYPE", columns=80, env=opm.env)
    assert not misfits(rule.text, 80)


def test_error_has_file_line_and_hint(opm: Opm, bundle: Path) -> None:
    bad = broken(bundle)
    done = opm.attempt("bundle", "validate", "broken", "bundle-0.1.0")
    assert done.returncode == 1
    line = line_of(csv_of(bad), "Lagoon_Operator")
    assert re.match(
        rf"Error: broken: invalid bundle: manifests/.*:{line}:3: invalid name 'Lagoon_Operator'", done.stderr
    )
    assert f"    {line}:3 error CSV-NAME-FORMAT" in done.stdout
    assert "| name: Lagoon_Operator" in done.stdout
    assert "hint: " in done.stdout
    again = opm.attempt("bundle", "validate", *["broken"] * 2)
    assert "; 1 other bundle failed: broken\n" in again.stderr
    many = opm.attempt("bundle", "validate", *["broken"] * 5)
    assert many.stderr.endswith("; 4 other bundles failed\n")


def test_a_catalog_is_not_a_bundle(opm: Opm) -> None:
    done = opm.attempt("bundle", "validate", str(FIXTURES / "teams/reef"))
    assert done.returncode == 1
    assert f"hint: validate the catalog with 'opm validate {FIXTURES}/teams/reef'" in done.stdout
    assert done.stderr.endswith("teams/reef: a file-based catalog, not a bundle\n")


@pytest.mark.parametrize("flag", ["--output", "-o"])
def test_report_formats(flag: str, opm: Opm, bundle: Path) -> None:
    broken(bundle)
    report = {form: opm.attempt("bundle", "validate", "broken", flag, form) for form in ("json", "sarif", "junit")}
    assert {done.returncode for done in report.values()} == {1}
    rules = {finding["rule"] for one in json.loads(report["json"].stdout)["bundles"] for finding in one["findings"]}
    assert "CSV-NAME-FORMAT" in rules
    (run,) = json.loads(report["sarif"].stdout)["runs"]
    assert {result["ruleId"] for result in run["results"]} == rules
    assert {case.get("name") for case in ET.fromstring(report["junit"].stdout).iter("testcase")} == rules
    annotations = opm.attempt("bundle", "validate", "broken", flag, "github").stdout.splitlines()
    assert any(line.startswith("::error title=CSV-NAME-FORMAT,file=broken/manifests/") for line in annotations)
    sdk = json.loads(opm.attempt("bundle", "validate", "broken", flag, "json-alpha1").stdout)
    assert sdk["passed"] is False
    assert {"error"} <= {output["type"] for output in sdk["outputs"]}


def test_failing_severity_and_ignored_rules(opm: Opm, bundle: Path) -> None:
    (opm.directory / "bare").mkdir()
    shutil.copytree(bundle, opm.directory / "warned")
    csv = csv_of(opm.directory / "warned")
    csv.write_text(csv.read_text().replace("  displayName:", "  displayNam: typo\n  displayName:", 1))
    assert opm.attempt("bundle", "validate", "warned").returncode == 0
    strict = opm.attempt("bundle", "validate", "warned", "--fail-on", "warning", "--output", "json")
    assert strict.returncode == 1
    rules = {finding["rule"] for finding in json.loads(strict.stdout)["bundles"][0]["findings"]}
    ignored = opm.attempt("bundle", "validate", "warned", "--fail-on", "warning", "--ignore", ",".join(rules))
    assert ignored.returncode == 0, ignored.stdout
    policy = "fail-on: warning\nignore:\n" + "".join(f"- {{rule: {rule}, reason: so it is}}\n" for rule in rules)
    (opm.directory / ".opm-validate.yaml").write_text(policy)
    allowed = opm.attempt("bundle", "validate", "warned")
    assert (allowed.returncode, allowed.stdout.count("    reason: so it is\n")) == (0, len(rules))
    (opm.directory / ".opm-validate.yaml").write_text("fail-on: warning\n")
    assert opm.attempt("bundle", "validate", "warned").returncode == 1
    opm("bundle", "validate", "warned", "--write-baseline", "known.json")
    assert opm.attempt("bundle", "validate", "warned", "--baseline", "known.json").returncode == 0
    csv.write_text(csv.read_text().replace("  displayName:", "  maturit: alpha\n  displayName:", 1))
    again = opm.attempt("bundle", "validate", "warned", "--baseline", "known.json", "--output", "json")
    assert again.returncode == 1
    (finding,) = json.loads(again.stdout)["bundles"][0]["findings"]
    assert finding["line"] == line_of(csv, "maturit:")


def test_repositories_and_unreachable_images(opm_http: Opm, registry: Registry) -> None:
    opm = opm_http
    repository = f"{registry.host}/validated/lagoon"
    for version in ("0.1.0", "0.2.0"):
        opm.build_bundle(version, f"{repository}:{version}", "--push")
    done = opm.attempt("bundle", "validate", repository, f"{registry.host}/validated/gone:1", "--output", "json")
    assert done.returncode == 1
    first, second, gone = json.loads(done.stdout)["bundles"]
    assert [first["target"], second["target"]] == [f"{repository}:0.1.0", f"{repository}:0.2.0"]
    assert (first["passed"], first["name"]) == (True, "lagoon-operator.v0.1.0")
    assert f"{registry.host}/validated/gone" in gone["error"]["message"]
    labels = json.loads(opm("bundle", "validate", repository, "--labels-only", "--output", "json"))
    assert [bundle["findings"] for bundle in labels["bundles"]] == [[], []]
    done = opm.attempt("alpha", "bundle", "validate", "--tag", f"{repository}:0.1.0", "-b", "none", "-o", "operatorhub")
    assert (done.returncode, done.stdout) == (0, "")  # as Go opm
    assert "no findings" in done.stderr


def test_flags_and_output_of_operator_sdk(opm: Opm, bundle: Path) -> None:
    rules = ("--profile", "operator-sdk", "--compat", "newest", "-b", "none", "--verbose")
    done = opm.attempt("bundle", "validate", str(bundle), *rules, "-o", "json-alpha1")
    assert json.loads(done.stdout)["passed"] is True
    assert re.search(r'level=info msg="All validation tests have completed successfully"$', done.stderr.strip())
    failed = opm.attempt("bundle", "validate", str(broken(bundle)), *rules, "-o", "text")
    assert failed.returncode == 1
    assert "successfully" not in failed.stderr
    listed = opm("bundle", "validate", "--list-optional")
    assert "operatorframework" in listed
    optional = ("--select-optional", "suite=operatorframework", "--optional-values=k8s-version=1.22")
    assert opm.attempt("bundle", "validate", str(bundle), *rules, *optional).returncode in (0, 1)


def test_empty_skip_range_of_a_scaffold_is_valid(opm: Opm) -> None:
    Broken("base").write(opm.directory / "demo")
    csv = opm.directory / "demo/manifests/demo.clusterserviceversion.yaml"
    csv.write_text(re.sub(r"olm.skipRange: .*", "olm.skipRange: ''", csv.read_text()))
    for profile in ("default", "all", "community", "redhat"):
        assert "1 bundle, 0 errors, 0 warnings" in opm("bundle", "validate", "demo", "--profile", profile)
    opm("registry", "add", "--database", "index.db", "--bundle-images", "./demo", "--mode", "semver")
    assert "demo.v1.2.3" in opm("alpha", "list", "bundles", "index.db")
    rendered = json.loads(opm("render", "./demo"))
    entries = [{"name": "demo.v1.2.3", "skipRange": ""}]
    channel = {"schema": "olm.channel", "name": "stable", "package": "demo", "entries": entries}
    package = {"schema": "olm.package", "name": "demo", "defaultChannel": "stable"}
    documents = [package, channel, {**rendered, "image": "quay.io/me/demo:1"}]
    (opm.directory / "catalog").mkdir()
    (opm.directory / "catalog" / "demo.json").write_text("\n".join(map(json.dumps, documents)))
    assert opm("validate", "catalog") == ""


def test_requirements_for_publishing_are_warnings_by_default(opm: Opm) -> None:
    Broken("hub-provider").write(opm.directory / "demo")
    assert "1 bundle, 0 errors, 1 warning" in opm("bundle", "validate", "demo")
    for flags in (("--profile", "all"), ("--profile", "operatorhub"), ("--select-optional", "name=operatorhubv2")):
        assert "error HUB-PROVIDER" in opm.attempt("bundle", "validate", "demo", *flags).stdout
    Broken("depapi-1.25").write(opm.directory / "old")
    assert "error DEPAPI-1.25" in opm.attempt("bundle", "validate", "old").stdout


@pytest.mark.parametrize("target", ["bundle-0.1.0", "oci:image:0.1.0"])
def test_external_validators(target: str, opm: Opm, bundle: Path) -> None:
    script = opm.directory / "external"
    errors = '[{"Detail": "\'$(ls "$1")\'"}]'
    script.write_text(f"""#!/bin/sh\necho '{{"Name": "demo", "Errors": {errors}, "Warnings": []}}' | tr '\\n' ' '\n""")
    script.chmod(0o755)
    done = opm.attempt("bundle", "validate", target, "--alpha-select-external", f"{script}:{script}", "-o", "json")
    assert done.returncode == 1, done.stderr
    findings = json.loads(done.stdout)["bundles"][0]["findings"]
    external = [finding for finding in findings if finding["rule"] == "EXTERNAL"]
    assert [(finding["validator"], finding["severity"]) for finding in external] == [("external", "error")] * 2
    assert external[0]["message"] == "manifests metadata"
    gone = opm.attempt("bundle", "validate", target, "--alpha-select-external", "./gone")
    assert (gone.returncode, "external validator ./gone: cannot be run" in gone.stderr) == (1, True)


def test_operators_of_a_repository(opm: Opm, bundle: Path) -> None:
    operator = opm.directory / "operators" / "lagoon-operator"
    opm.build_bundle("0.2.0", "oci:image:0.2.0")
    for version in ("0.1.0", "0.2.0"):
        shutil.copytree(opm.directory / f"bundle-{version}", operator / version)
        csv = csv_of(operator / version)
        csv.rename(csv.with_name("lagoon-operator.clusterserviceversion.yaml"))
    (operator / "ci.yaml").write_text("updateGraph: semver\n")
    done = opm.attempt("bundle", "validate", "operators/lagoon-operator", "--output", "json")
    assert done.returncode == 1, done.stderr
    first, *versions = json.loads(done.stdout)["bundles"]
    assert first["target"] == "operators/lagoon-operator"
    assert [one["target"].rpartition("/")[2] for one in versions] == ["0.1.0", "0.2.0"]
    errors = [(one["rule"], one["file"], one["line"]) for one in first["findings"] if one["severity"] == "error"]
    assert errors == [("OPERATOR-CI", "ci.yaml", 1)]
    several = opm.attempt("bundle", "validate", "operators/lagoon-operator", "--output", "json-alpha1")
    assert (several.returncode, several.stdout) == (1, "")
    assert "json-alpha1: unsupported for several bundles" in several.stderr
    (operator / "ci.yaml").write_text("updateGraph: replaces-mode\n")
    for target in (".", "operators"):
        done = opm.attempt("bundle", "validate", target, "--profile", "redhat")
        assert "3 bundles, 0 errors" in done.stdout, done.stdout
    csv = operator / "0.1.0" / "manifests" / "lagoon-operator.clusterserviceversion.yaml"
    csv.symlink_to(csv.rename(opm.directory / "elsewhere.yaml"))
    done = opm.attempt("bundle", "validate", "operators/lagoon-operator")
    refusals = [line for line in done.stdout.splitlines() if "refusing to follow a symbolic link" in line]
    assert [line.partition(":")[0].rpartition("/")[2] for line in refusals] == ["lagoon-operator", "0.1.0"]
    assert all("0.1.0/manifests/lagoon-operator.clusterserviceversion.yaml: refusing" in line for line in refusals)
    assert "no file 0.1.0" not in done.stdout + done.stderr, "the manifest is not absent"


def across(report: str) -> list[tuple[str, str]]:
    """Return target and rule of the findings of cross-bundle rules in a JSON report."""
    bundles = json.loads(report)["bundles"]
    return [
        (one["target"], finding["rule"])
        for one in bundles
        for finding in one["findings"]
        if finding["validator"] == "across"
    ]


@pytest.mark.parametrize("flags", [(), ("--no-cache",)], ids=["cached", "no cache"])
def test_bundles_are_validated_together(flags: tuple[str, ...], opm: Opm, bundle: Path) -> None:
    shutil.copytree(bundle, opm.directory / "copy")
    for _ in range(2):  # the second time from the cache
        done = opm.attempt("bundle", "validate", "bundle-0.1.0", "copy", "--output", "json", *flags)
        assert across(done.stdout) == [("copy", "ACROSS-NAME-DUPLICATE")]
        finding = json.loads(done.stdout)["bundles"][1]["findings"][-1]
        csv = opm.directory / "copy" / finding["file"]
        assert "name: lagoon-operator" in csv.read_text().splitlines()[finding["line"] - 1]
        assert done.returncode == 1
    same = opm("bundle", "validate", "bundle-0.1.0", "./bundle-0.1.0/", "--output", "json", *flags)
    assert across(same) == []
    opm("bundle", "validate", "bundle-0.1.0", "copy", "--profile", "operator-sdk", *flags)
    ignored = ("--ignore", "ACROSS-NAME-DUPLICATE", *flags)
    assert "0 errors" in opm("bundle", "validate", "bundle-0.1.0", "copy", *ignored)


@pytest.mark.parametrize("flags", [(), ("--no-cache",)], ids=["cached", "no cache"])
def test_two_tags_of_an_image_are_one_bundle(flags: tuple[str, ...], opm_http: Opm, registry: Registry) -> None:
    repository = f"{registry.host}/tags-{len(flags)}/lagoon"
    for tag in ("0.1.0", "latest"):
        opm_http.build_bundle("0.1.0", f"{repository}:{tag}", "--push")
    opm_http.build_bundle("0.2.0", f"{repository}:0.2.0", "--push")
    assert across(opm_http("bundle", "validate", repository, "--output", "json", *flags)) == []


@pytest.mark.parametrize("name", ["load-decode", "csv-unknown-field", "crd-structural-default", "file-encoding"])
def test_finding_of_a_broken_bundle_has_its_location(name: str, opm: Opm) -> None:
    broken = Broken(name)
    broken.write(opm.directory / name)
    (reports,) = json.loads(opm.attempt("bundle", "validate", name, "--output", "json").stdout)["bundles"]
    expected = [{key: finding[key] for key in ("rule", "severity", "file", "line")} for finding in reports["findings"]]
    assert expected == broken.expected["findings"]


def test_unreachable_tag_is_reported_among_many(registry: Registry, opm_http: Opm, tmp_path: Path) -> None:
    versions = [f"0.1.{number}" for number in range(12)]
    for version in versions:
        push_image(f"{registry.host}/many/demo:{version}", bundle_image("demo", version, tmp_path))
    push_image(f"{registry.host}/many/demo:none", small_image(tmp_path, {"etc/passwd": b"root"}))
    gone = Fault("GET|HEAD", "/v2/many/demo/manifests/0.1.5", Answer(404), times=1000)
    with FaultProxy(registry.host, gone) as proxy:
        done = opm_http.attempt("bundle", "validate", f"{proxy.host}/many/demo", "--output", "json")
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {proxy.host}/many/demo:0.1.0: invalid bundle: manifests/csv.yaml:")
    assert done.stderr.count("\n") == 1
    reports = {one["target"].rpartition(":")[2]: one for one in json.loads(done.stdout)["bundles"]}
    assert list(reports) == sorted([*versions, "none"])
    assert {version for version, one in reports.items() if "error" in one} == {"0.1.5", "none"}
    assert f"{proxy.host}/many/demo:0.1.5" in reports["0.1.5"]["error"]["message"]
    assert "is not a bundle" in reports["none"]["error"]["message"]
    assert all(reports[version]["name"] == f"demo.v{version}" for version in versions if version != "0.1.5")


def test_binary_names_and_contents_are_findings(opm: Opm) -> None:
    root = opm.directory / os.fsdecode(b"bad\xff")
    Broken("load-decode").write(root)
    (root / "manifests" / os.fsdecode(b"\xfe\x1b.yaml")).write_bytes(
        b'{"kind": "\\ud800", "metadata": {"name": "\\u001b["}}'
    )
    (opm.directory / "none").mkdir()
    for form in ("text", "json", "sarif", "junit", "github"):
        done = opm.attempt("bundle", "validate", root.name, "none", "--output", form)
        assert done.returncode == 1
        assert done.stderr.startswith("Error: bad\\udcff: "), form
        assert "LOAD-DECODE" in done.stdout
        assert "none: no bundle found" in done.stdout
        assert "none: none" not in done.stdout
        assert "\x1b" not in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "no bundle to validate"),
        (("nowhere/at/all:1:2",), "invalid image reference"),
        (("./nowhere",), "no such directory"),
        (("x", "--output", "yaml"), 'invalid value of --output: "yaml"'),
        (("x", "--fail-on", "never"), "unknown severity 'never'"),
        (("x", "--profile", "sdk"), "sdk"),
        (("x", "--compat", "2"), 'unknown release of Go opm "2"'),
        (("x", "--ignore", "NO-RULE"), "unknown rule 'NO-RULE'"),
        (("x", "--select-optional", "name=none"), "selects no optional validator"),
        (("x", "--optional-values", "k9s=1"), "k9s"),
        (("x", "y", "-o", "json-alpha1"), "unsupported for several bundles"),
        (("x", "--config", "gone.yaml"), "gone.yaml"),
        (("x", "--baseline", "gone.json"), "gone.json"),
    ],
)
def test_usage_errors(arguments: tuple[str, ...], message: str, opm: Opm) -> None:
    done = opm.attempt("bundle", "validate", *arguments)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_optional_validators_and_rules_are_listed_and_explained(opm: Opm) -> None:
    assert "good-practices" in opm("bundle", "validate", "--list-optional")
    assert "CSV-REPLACES-FORMAT" in opm("bundle", "rules")
    explained = opm("bundle", "rules", "csv-replaces-format")
    assert "Bad:" in explained
    assert "Good:" in explained
    every = json.loads(opm("bundle", "rules", "--output", "json"))
    assert all(one["summary"] and one["explanation"] for one in every)
    assert all(one["hint"] for one in every if not one["id"].startswith(("FBC-", "GATE-", "KONFLUX-")))
    assert "several heads" in opm("bundle", "rules", "FBC-GRAPH")
    assert "unknown rule" in opm.attempt("bundle", "rules", "NO-RULE").stderr
