"""``opm bundle validate --profile community`` compared with the static tests of operator-pipelines.

``OPMKIT_REFERENCE_OPERATOR_PIPELINES`` is a Python interpreter that can import ``operatorcert``;
``OPMKIT_OPERATOR_REPOSITORY`` is a checkout such as that of community-operators-prod, of whose operators the last
``OPMKIT_OPERATOR_VERSIONS`` versions are compared, 0 for all.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit import static_tests
from tests.kit.broken import BROKEN, Broken, broken_bundles
from tests.kit.corpus import SHARED_BUNDLES
from tests.kit.operator_repositories import copy_operators, random_operator, write_files
from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tests.kit.opm import Opm

PYTHON = os.environ.get("OPMKIT_REFERENCE_OPERATOR_PIPELINES", "")
REPOSITORY = os.environ.get("OPMKIT_OPERATOR_REPOSITORY", "")
VERSIONS = int(os.environ.get("OPMKIT_OPERATOR_VERSIONS", "2"))
COUNT = int(os.environ.get("OPMKIT_RANDOM_OPERATORS", "400"))
SEED = int(os.environ.get("OPMKIT_RANDOM_OPERATORS_SEED", "1"))

pytestmark = [
    pytest.mark.skipif(
        not PYTHON, reason="set OPMKIT_REFERENCE_OPERATOR_PIPELINES to an interpreter with operatorcert"
    ),
    pytest.mark.timeout(0),
]

PASS, WARNING, ERROR, CRASH = "pass", "warning", "error", "crash"
LEVELS = {"warning": WARNING, "failure": ERROR, "crash": CRASH}

BUNDLE_CHECKS: Mapping[str, frozenset[str]] = {
    "check_api_version_constraints": frozenset({"PIPELINE-KUBE-VERSION"}),
    "check_bundle_release_config": frozenset({"OPERATOR-RELEASE-TEMPLATE"}),
    "check_marketplace_annotation": frozenset({"OPERATOR-MARKETPLACE"}),
    "check_network_policy_presence": frozenset({"PIPELINE-NETWORK-POLICY", "PIPELINE-YAML"}),
    "check_operator_name": frozenset({"OPERATOR-PACKAGE", "OPERATOR-NAME", "OPERATOR-NAME-CHANGED"}),
    "check_operator_version_directory_name": frozenset({"OPERATOR-VERSION-DIRECTORY"}),
    "check_replaces_availability": frozenset({"OPERATOR-REPLACES-MISSING", "OPERATOR-REPLACES-SELF"}),
    "check_required_fields": frozenset({"PIPELINE-REQUIRED-FIELD", "PIPELINE-RECOMMENDED-FIELD"}),
    "check_validate_schema_bundle_release_config": frozenset({"OPERATOR-RELEASE-CONFIG"}),
}
"""Checks with a result per bundle, and their rules."""

OPERATOR_CHECKS: Mapping[str, frozenset[str]] = {
    "check_catalog_usage_ci_config": frozenset({"OPERATOR-CI-CATALOG"}),
    "check_ci_upgrade_graph": frozenset({"OPERATOR-CI-UPDATE-GRAPH"}),
    "check_dangling_bundles": frozenset({"OPERATOR-GRAPH-DANGLING", "OPERATOR-GRAPH-INVALID"}),
    "check_operator_name_unique": frozenset({"OPERATOR-NAMES"}),
    "check_pruned_graph": frozenset({"OPERATOR-GRAPH-PRUNED"}),
    "check_schema_operator_ci_config": frozenset({"OPERATOR-CI"}),
    "check_upgrade_graph_loop": frozenset({"OPERATOR-GRAPH-LOOP", "OPERATOR-GRAPH-INVALID"}),
    "check_using_fbc": frozenset({"OPERATOR-FBC"}),
}
"""Checks of which opmkit has one result per operator, and their rules."""

UPDATE_GRAPH = frozenset({"check_ci_upgrade_graph", "check_dangling_bundles", "check_upgrade_graph_loop"})
"""Checks that fail for an unknown updateGraph, the last two if there are channels; the rule OPERATOR-CI reports it."""
SERVER = "the same OCP versions"
"""Part of the reason of a failure that depends on the versions of OpenShift that a server knows."""


@dataclass
class Operator:
    """The results for an operator and its bundles.

    Attributes:
        path: Directory of the operator.
        theirs: Level by check and version, "" for the operator.
        reasons: Reason of the first result by check and version.
        findings: Findings of opmkit by version, "" for the operator.
    """

    path: str
    theirs: dict[tuple[str, str], str] = field(default_factory=dict)
    reasons: dict[tuple[str, str], str] = field(default_factory=dict)
    findings: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, version: str, results: Iterable[tuple[str, str, str]]) -> None:
        for check, kind, reason in results:
            if SERVER not in reason:
                key, level = (check, version), LEVELS[kind]
                if level == max_level([self.theirs.get(key, PASS), level]):
                    self.theirs[key] = level
                    self.reasons[key] = reason.strip().rpartition("\n")[2][:200]

    def level(self, rules: frozenset[str], versions: Iterable[str]) -> str:
        found = [one["severity"] for version in versions for one in self.findings[version] if one["rule"] in rules]
        return max_level([PASS, *found])

    def is_explained(self, check: str, version: str, theirs: str) -> bool:
        """Return whether opmkit reports the cause of a different result once, instead of each consequence.

        A check of the pipelines that crashes is a failure without a reason. Files that cannot be loaded, or are not
        named as the pipelines expect, make other checks fail as well.
        """
        errors = [
            (place, one["rule"], one["validator"])
            for place, found in self.findings.items()
            for one in found
            if one["severity"] == ERROR
        ]
        if theirs == CRASH:
            return bool(errors)
        unread = any(place in ("", version) and validator == "load" for place, _, validator in errors)
        unnamed = any(rule == "OPERATOR-CSV-FILE" for _, rule, _ in errors)
        return (theirs != PASS and (unread or unnamed)) or (check == "check_pruned_graph" and self.is_ordered)

    @property
    def is_ordered(self) -> bool:
        """Whether the graph is that of semver-mode, in which skip ranges prune nothing."""
        configs = [path.read_text() for path in Path(self.path).glob("ci.y*ml")]
        return any("semver-mode" in config for config in configs)

    def compare(self) -> Iterator[tuple[str, str, str, str]]:
        """Yield check, version, level of the pipelines and of opmkit."""
        versions = [version for version in self.findings if version]
        for check, rules in BUNDLE_CHECKS.items():
            for version in versions:
                ours = self.level(rules, [version])
                theirs = self.theirs.get((check, version), PASS)
                if theirs == CRASH and check == "check_network_policy_presence":  # it reads all manifests
                    theirs = ERROR
                yield check, version, theirs, ours
        for check, rules in OPERATOR_CHECKS.items():
            theirs = max_level([PASS, *(self.theirs.get((check, version), PASS) for version in self.findings)])
            ours = self.level(rules, self.findings)
            if check in UPDATE_GRAPH and ours != WARNING and self.level(frozenset({"OPERATOR-FBC"}), [""]) != PASS:
                graph = [
                    one for one in self.findings[""] if (one["rule"], one["subject"]) == ("OPERATOR-CI", "updateGraph")
                ]
                ours = ERROR if graph and (theirs != PASS or check == "check_ci_upgrade_graph") else ours
            if versions or check != "check_using_fbc":
                yield check, "", theirs, ours


def max_level(levels: Iterable[str]) -> str:
    return max(levels, key=(PASS, WARNING, ERROR, CRASH).index)


def results(repositories: Iterable[Path], opm: Opm) -> list[Operator]:
    """Run both on all operators of the repositories."""
    paths = sorted(map(str, repositories))
    done = subprocess.run(
        [PYTHON, static_tests.__file__], input="\n".join(paths), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    operators = {}
    for line in done.stdout.splitlines():
        record = json.loads(line)
        operator = operators[record["path"]] = Operator(record["path"], findings={"": []})
        operator.add("", record["operator"])
        for version, found in record["bundles"].items():
            operator.findings[version] = []
            operator.add(version, found)
    targets = opm.directory / "targets"
    targets.write_text("".join(f"{path}/operators\n" for path in paths))
    flags = ("--profile", "community", "--no-cache", "--output", "json")
    report = opm.attempt("bundle", "validate", f"@{targets}", *flags)
    assert report.returncode in (0, 1), report.stderr
    for bundle in json.loads(report.stdout)["bundles"]:
        if not bundle["target"].endswith("/operators"):  # without an operator
            add_findings(operators, bundle)
    return list(operators.values())


def add_findings(operators: Mapping[str, Operator], bundle: Mapping[str, Any]) -> None:
    """Add the findings for an operator or a bundle; those of an operator go to the bundles that they are about."""
    target = str(Path(bundle["target"]).resolve())
    found = [dict(finding) for finding in bundle["findings"]]
    if "error" in bundle:
        found.append({"rule": "", "validator": "load", "severity": ERROR, "file": "", "subject": ""})
    if target not in operators:
        operator, _, version = target.rpartition("/")
        operators[operator].findings[version] += found
        return
    operator_findings = operators[target].findings
    for finding in found:
        places = finding["file"].partition("/")[0], finding["subject"]
        versions = [place for place in places if place and place in operator_findings] or [""]
        is_general = finding["rule"] == "OPERATOR-NAME-CHANGED" and finding["severity"] == WARNING
        for version in operator_findings if is_general else versions[:1]:
            operator_findings[version].append(finding)


def assert_equal(operators: Iterable[Operator]) -> None:
    """Compare all results, and print their numbers."""
    same: Counter[tuple[str, str]] = Counter()
    explained = 0
    different: list[tuple[str, ...]] = []
    bundles = 0
    for operator in operators:
        bundles += len(operator.findings) - 1
        for check, version, theirs, ours in operator.compare():
            if theirs == ours:
                same[check, theirs] += 1
            elif operator.is_explained(check, version, theirs):
                explained += 1
            else:
                reason = operator.reasons.get((check, version), "")
                different.append((operator.path, check, version, f"pipelines: {theirs}", f"opmkit: {ours}", reason))
    print(f"{bundles} bundles, {same.total()} equal results, {explained} explained, {len(different)} different")
    for (check, level), number in sorted(same.items()):
        print(f"{check:45} {level:8} {number:6}")
    assert different == []


def test_bundles_of_the_fixtures(opm: Opm, tmp_path: Path) -> None:
    repositories = []
    for broken in [Broken("base"), *broken_bundles()]:
        repositories.append(tmp_path / broken.name)
        broken.write(repositories[-1] / "operators" / "demo" / "1.2.3")
    recorded = [path for path in (FIXTURES / "recorded" / "bundles").iterdir() if path.is_dir()]
    repositories.append(copy_operators([FIXTURES / "lagoon-operator", *recorded], tmp_path / "recorded"))
    assert BROKEN.is_dir()
    assert_equal(results(repositories, opm))


@pytest.mark.skipif(not SHARED_BUNDLES.is_dir(), reason="the corpus is absent")
def test_bundles_of_the_corpus(opm: Opm, tmp_path: Path) -> None:
    operators = sorted(path for path in SHARED_BUNDLES.iterdir() if path.is_dir())
    assert_equal(results([copy_operators(operators, tmp_path / "corpus")], opm))


@pytest.mark.skipif(not REPOSITORY, reason="set OPMKIT_OPERATOR_REPOSITORY to a checkout with a directory operators")
def test_bundles_of_a_repository(opm: Opm, tmp_path: Path) -> None:
    operators = sorted(path for path in Path(REPOSITORY, "operators").iterdir() if path.is_dir())
    assert_equal(results([copy_operators(operators, tmp_path / "repository", VERSIONS)], opm))


def test_random_operators(opm: Opm, tmp_path: Path) -> None:
    rng = random.Random(SEED)
    repositories = [tmp_path / str(number) for number in range(COUNT)]
    for repository in repositories:
        write_files(random_operator(rng), repository / "operators" / "demo")
    assert_equal(results(repositories, opm))
