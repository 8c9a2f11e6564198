"""``opm bundle validate --profile community`` in a repository of operators."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.broken import BASE
from tests.kit.operator_repositories import write_files

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm

CSV, ANNOTATIONS = "manifests/demo.clusterserviceversion.yaml", "metadata/annotations.yaml"
CI = "updateGraph: replaces-mode\n"
FBC = "fbc: {enabled: true}\n"


def bundle(version: str, *edits: tuple[str, str, str]) -> dict[str, bytes]:
    """Return the files of a version without edges in the graph, after edits: file, pattern and replacement."""
    edits = (
        (CSV, r"1\.2\.3", version),
        (CSV, r"    olm.skipRange: .*\n|  replaces: .*\n|  skips:\n.*\n", ""),
        (ANNOTATIONS, r"(?m)^  com.redhat.openshift.versions: .*$", "  com.redhat.openshift.versions: v4.14"),
        *edits,
    )
    files = {path: raw.decode() for path, raw in BASE.items()}
    for path, pattern, replacement in edits:
        files[path] = re.sub(pattern, replacement, files.get(path, ""))
    return {f"{version}/{path}": text.encode() for path, text in files.items()}


def field(name: str, value: str) -> tuple[str, str, str]:
    """Return an edit that adds a field to the spec."""
    return CSV, r"(?m)^spec:\n", f"spec:\n  {name}: {value}\n"


def write_operator(opm: Opm, *bundles: dict[str, bytes], ci: str = CI) -> Path:
    root = opm.directory / "operators" / "demo"
    write_files({"ci.yaml": ci.encode(), **{path: raw for files in bundles for path, raw in files.items()}}, root)
    return root


def validate(opm: Opm, target: str = "operators/demo") -> list[dict[str, Any]]:
    """Return the findings except the recommendation of file-based catalogs, with the target."""
    done = opm.attempt("bundle", "validate", target, "--profile", "community", "--output", "json")
    assert done.returncode in (0, 1), done.stderr
    reports = json.loads(done.stdout)["bundles"]
    found = [{**finding, "target": one["target"]} for one in reports for finding in one["findings"]]
    return [finding for finding in found if finding["rule"] != "OPERATOR-FBC"]


def test_a_valid_operator_has_no_findings(opm: Opm) -> None:
    write_operator(opm, bundle("1.0.0"), bundle("1.1.0", field("replaces", "demo.v1.0.0")))
    assert validate(opm) == []
    assert validate(opm, "operators/demo/1.1.0") == []


SECOND = field("replaces", "demo.v1.0.0")
CASES = [
    ("OPERATOR-NAME-CHANGED", "error", (CSV, r"name: demo\.v", "name: other.v"), "1.0.0/" + CSV, "name: demo"),
    ("OPERATOR-REPLACES-SELF", "error", field("replaces", "x.v1.1.0"), "1.1.0/" + CSV, "replaces"),
    ("OPERATOR-REPLACES-MISSING", "error", field("replaces", "demo.v0.9.0"), "1.1.0/" + CSV, "replaces"),
    ("OPERATOR-GRAPH-INVALID", "error", field("replaces", "''"), "1.1.0/" + CSV, "replaces"),
    ("OPERATOR-GRAPH-LOOP", "error", field("replaces", "demo.v1.1.0"), "1.1.0/" + CSV, "replaces"),
    ("OPERATOR-GRAPH-DANGLING", "error", field("replaces", "demo.v0.9.0"), "1.0.0/" + CSV, "name: demo"),
    ("PIPELINE-YAML", "error", ("manifests/demo.service.yaml", r"\Z", "kind: Service\na: [=]\n"), "manifests/", "[=]"),
    (
        *("PIPELINE-KUBE-VERSION", "error", (ANNOTATIONS, "v4.14", "v4.12")),
        *("manifests/demo.clusterserviceversion.yaml", "minKubeVersion"),
    ),
    (
        *("PIPELINE-RECOMMENDED-FIELD", "warning", (CSV, "Developer Tools", "Observability")),
        *("manifests/demo.clusterserviceversion.yaml", "categories"),
    ),
]


@pytest.mark.parametrize(("rule", "severity", "edit", "file", "text"), CASES, ids=[case[0] for case in CASES])
def test_findings_have_their_locations(
    rule: str, severity: str, edit: tuple[str, str, str], file: str, text: str, opm: Opm
) -> None:
    edits = (edit,) if edit[1] == field("replaces", "")[1] else (SECOND, edit)
    root = write_operator(opm, bundle("1.0.0"), bundle("1.1.0", *edits))
    finding = next(one for one in validate(opm) if one["rule"] == rule and one["severity"] == severity)
    assert finding["file"].startswith(file)
    base = opm.directory / finding["target"]
    assert base in (root, root / "1.1.0")
    assert text in (base / finding["file"]).read_text().splitlines()[finding["line"] - 1]
    assert finding["hint"]
    assert rule in opm("bundle", "rules", rule)


def test_catalogs_replace_the_checks_of_the_graph(opm: Opm) -> None:
    write_operator(opm, bundle("1.0.0", (ANNOTATIONS, "v4.14", "v4.12"), field("replaces", "demo")), ci=FBC)
    assert not [one for one in validate(opm) if one["rule"].startswith("OPERATOR-")]
    for target in ("operators/demo", "operators/demo/1.0.0"):
        assert "PIPELINE-KUBE-VERSION" not in [one["rule"] for one in validate(opm, target)]
    write_operator(opm, ci=CI)
    for target in ("operators/demo", "operators/demo/1.0.0"):
        assert "PIPELINE-KUBE-VERSION" in [one["rule"] for one in validate(opm, target)]


def test_comments_before_the_configuration(opm: Opm) -> None:
    write_operator(opm, bundle("1.0.0"), ci="# text\n\n---\nupdateGraph: semver\n")
    assert [(one["rule"], one["line"]) for one in validate(opm)] == [("OPERATOR-CI", 4)]


@pytest.mark.parametrize(
    "ci", ["", "1\n", "- a\n", "fbc: [true]\n", "a: [\n", "\0", "&a [*a]\n", "a: b\n---\n", "é: !x y\n"]
)
def test_invalid_configurations(ci: str, opm: Opm) -> None:
    write_operator(opm, bundle("1.0.0"), ci=ci)
    assert "OPERATOR-CI" in [one["rule"] for one in validate(opm)]
    validate(opm, "operators/demo/1.0.0")


def test_large_linked_and_special_configurations(opm: Opm) -> None:
    root = write_operator(opm, bundle("1.0.0"))
    ci = root / "ci.yaml"
    ci.write_bytes(b"# x\n" * (5 << 20))
    for target in ("operators/demo", "operators/demo/1.0.0"):
        done = opm.attempt("bundle", "validate", target, "--profile", "community")
        assert done.returncode == 1
        assert "operators/demo/ci.yaml is larger than 16777216 bytes" in done.stderr + done.stdout
    ci.unlink()
    (opm.directory / "outside.yaml").write_text("updateGraph: semver\n")
    ci.symlink_to(opm.directory / "outside.yaml")
    assert [one["rule"] for one in validate(opm)] == ["OPERATOR-CI-UPDATE-GRAPH"]  # as if it did not exist
    ci.unlink()
    ci.mkdir()
    assert [one["rule"] for one in validate(opm)] == ["OPERATOR-CI-UPDATE-GRAPH"]
    ci.rmdir()
    os.mkfifo(ci)
    assert [one["rule"] for one in validate(opm)] == ["OPERATOR-CI-UPDATE-GRAPH"]


@pytest.mark.skipif(os.getuid() == 0, reason="root can read every file")
def test_configuration_without_permission(opm: Opm) -> None:
    (write_operator(opm, bundle("1.0.0")) / "ci.yaml").chmod(0)
    for target in ("operators/demo", "operators/demo/1.0.0"):
        done = opm.attempt("bundle", "validate", target, "--profile", "community")
        assert done.returncode == 1
        assert "ci.yaml: permission denied" in (done.stderr + done.stdout).lower()
