"""Rules of the validator ``operator``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.profiles import PROFILES, profile_named
from opmkit.bundle.validation.rule_registry import validators
from opmkit.bundle.validation.run import run_profile
from tests.kit.validation import findings, view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.bundle.validation.bundle_view import BundleView

CI = "updateGraph: replaces-mode\nreviewers: [me]\n"
SEMVER = "template_name: semver.yaml, type: olm.semver"
FBC = f"fbc: {{enabled: true, catalog_mapping: [{{{SEMVER}, catalog_names: [v4.17]}}]}}\n"
TEMPLATE = {"catalog-templates/semver.yaml": ""}


def bundle(
    version: str, replaces: str = "", *, name: str = "demo", spec: str = "", annotations: str = "", openshift: str = ""
) -> dict[str, str]:
    """Return the files of a version; ``replaces`` is another version, the others are further members."""
    lines = [f"  version: {version}", *([f"  replaces: demo.v{replaces}"] if replaces else []), f"  {spec}"]
    csv = (
        f"kind: ClusterServiceVersion\nmetadata:\n  name: {name}.v{version}\n  annotations: {{{annotations}}}\nspec:\n"
    )
    prefix = "operators.operatorframework.io.bundle"
    labels = f"annotations:\n  {prefix}.package.v1: demo\n  {prefix}.channels.v1: stable, beta\n"
    labels += f"  com.redhat.openshift.versions: {openshift}\n" if openshift else ""
    return {
        f"{version}/manifests/demo.clusterserviceversion.yaml": csv + "\n".join(lines) + "\n",
        f"{version}/metadata/annotations.yaml": labels,
    }


def operator(*bundles: Mapping[str, str], ci: str | None = CI, more: Mapping[str, str] | None = None) -> BundleView:
    files = {path: content for files in bundles for path, content in files.items()} | dict(more or {})
    return view({**({"ci.yaml": ci} if ci is not None else {}), **files}, operator="demo")


def check(checked: BundleView) -> list[tuple[str, str, int]]:
    """Return rule, file and line of the findings except the recommendation of file-based catalogs."""
    found = run_profile(checked, profile_named("all"))
    return [(finding.rule, finding.file, finding.line) for finding in found if finding.rule != "OPERATOR-FBC"]


def csv(version: str) -> str:
    return f"{version}/manifests/demo.clusterserviceversion.yaml"


CHAIN = (bundle("1.0.0"), bundle("1.1.0", "1.0.0"), bundle("1.10.0", "1.1.0"))


def test_a_valid_operator_has_no_findings() -> None:
    assert check(operator(*CHAIN)) == []
    assert findings(operator(*CHAIN, ci=FBC, more=TEMPLATE), "operator") == []


@pytest.mark.parametrize("profile", PROFILES)
def test_the_rules_run_in_every_profile(profile: str) -> None:
    assert run_profile(operator(ci="merge: 1\n"), profile_named(profile))[0].rule == "OPERATOR-CI"
    compatible = view({"ci.yaml": "merge: 1\n"}, Compat.NEWEST, operator="demo")
    assert run_profile(compatible, profile_named(profile)) == []


INVALID_CI = [
    ("updateGraph: semver\n", 1),
    ("reviewers: []\nupdateGraph: replaces-mode\n", 1),
    ("reviewers: me\nupdateGraph: replaces-mode\n", 1),
    ("updateGraph: replaces-mode\nreviewers:\n- a\n- 1\n", 4),
    ("updateGraph: replaces-mode\nmerge: 'yes'\n", 2),
    ("updateGraph: replaces-mode\ncert_project_id: 12\n", 2),
    ("updateGraph: replaces-mode\nfbc: true\n", 2),
    ("updateGraph: replaces-mode\nfbc:\n  enable: true\n", 3),
    ("updateGraph: replaces-mode\nfbc:\n  version_promotion_strategy: sometimes\n", 3),
    ("updateGraph: replaces-mode\nfbc:\n  catalog_mapping:\n  - type: olm.semver\n    catalog_names: [a]\n", 4),
    ("- a\n", 1),
    ("updateGraph: replaces-mode\na: [\n", 3),
    ("updateGraph: replaces-mode\n---\n", 2),
    ("updateGraph: replaces-mode\na: !x y\n", 2),
    ("", 0),
]


@pytest.mark.parametrize(("ci", "line"), INVALID_CI)
def test_invalid_ci_files(ci: str, line: int) -> None:
    found = [(rule, at) for rule, _, at in check(operator(*CHAIN, ci=ci)) if rule != "OPERATOR-CI-UPDATE-GRAPH"]
    assert found == [("OPERATOR-CI", line)]


@pytest.mark.parametrize("ci", ["", "---\n", "# nothing\n", None, "merge: true\n", "[]\n"])
def test_missing_update_graph(ci: str | None) -> None:
    found = check(operator(*CHAIN, ci=ci))
    assert [rule for rule, _, _ in found if rule != "OPERATOR-CI"] == ["OPERATOR-CI-UPDATE-GRAPH"]


def test_catalogs_and_templates() -> None:
    entries = [f"{{{SEMVER}, catalog_names: [v4.17]}}", "{template_name: b, type: olm.semver, catalog_names: [v4.17]}"]
    ci = "fbc:\n  enabled: true\n  catalog_mapping:\n" + "".join(f"  - {entry}\n" for entry in entries)
    assert check(operator(ci=ci, more=TEMPLATE)) == [
        ("OPERATOR-CI-CATALOG", "ci.yaml", 5),
        ("OPERATOR-CI-TEMPLATE", "ci.yaml", 5),
    ]


RELEASE_CONFIGS = [
    ("catalog_templates: [{template_name: semver.yaml, channels: [Stable]}]\n", []),
    ("merge: false\ncatalog_templates: [{template_name: semver.yaml, channels: [Fast], skips: [a]}]\n", []),
    ("merge: false\n", ["OPERATOR-RELEASE-CONFIG"]),
    ("catalog_templates: []\n", ["OPERATOR-RELEASE-CONFIG"]),
    ("catalog_templates: [{template_name: semver.yaml}]\n", ["OPERATOR-RELEASE-CONFIG"]),
    ("catalog_templates: {a: 1}\n", ["OPERATOR-RELEASE-CONFIG"]),
    ("catalog_templates: [1, [], {template_name: [], channels: {}}]\n", ["OPERATOR-RELEASE-CONFIG"] * 4),
    ("[\n", ["OPERATOR-RELEASE-CONFIG"]),
    ("catalog_templates: [{template_name: a.yaml, channels: [Stable]}]\n", ["OPERATOR-RELEASE-TEMPLATE"]),
    ("catalog_templates: [{template_name: semver.yaml, channels: [stable]}]\n", ["OPERATOR-RELEASE-TEMPLATE"]),
]


@pytest.mark.parametrize(("config", "rules"), RELEASE_CONFIGS)
def test_release_configurations(config: str, rules: list[str]) -> None:
    checked = operator(*CHAIN, ci=FBC, more={**TEMPLATE, "1.1.0/release-config.yaml": config})
    assert [(rule, file) for rule, file, _ in check(checked)] == [(rule, "1.1.0/release-config.yaml") for rule in rules]


def test_release_configuration_without_catalogs() -> None:
    checked = operator(*CHAIN, more={"1.1.0/release-config.yaml": RELEASE_CONFIGS[0][0]})
    assert check(checked) == [("OPERATOR-RELEASE-TEMPLATE", "1.1.0/release-config.yaml", 1)]


def test_files_of_the_cluster_service_version() -> None:
    only = bundle("1.0.0")
    named = {path.replace("demo.clusterserviceversion", "csv"): content for path, content in only.items()}
    assert check(operator(named)) == [("OPERATOR-CSV-FILE", "1.0.0/manifests/csv.yaml", 1)]
    without = {path: content for path, content in only.items() if "manifests" not in path}
    assert check(operator(without)) == [("OPERATOR-CSV-FILE", "", 0)]


def test_directories_and_packages() -> None:
    moved = {path.replace("1.0.0/", "v1.0.0/"): content for path, content in bundle("1.0.0").items()}
    assert check(operator(moved)) == [("OPERATOR-VERSION-DIRECTORY", f"v{csv('1.0.0')}", 6)]
    files = bundle("1.0.0")
    path = "1.0.0/metadata/annotations.yaml"
    other = {**files, path: files[path].replace("package.v1: demo", "package.v1: other")}
    rules = [("OPERATOR-PACKAGE", path, 2), ("OPERATOR-NAME", csv("1.0.0"), 3)]
    assert check(operator(other)) == rules
    assert severities(operator(other)) == ["error", "error"]
    changed = [("OPERATOR-NAME-CHANGED", path, 2), ("OPERATOR-NAME-CHANGED", "1.10.0/metadata/annotations.yaml", 2)]
    assert check(operator(other, *CHAIN[1:])) == [*rules, *changed]
    assert severities(operator(other, *CHAIN[1:])) == ["warning", "warning", "error", "warning"]
    assert check(operator({**files, path: "annotations: {}\n"})) == [("OPERATOR-PACKAGE", path, 1)]


def severities(checked: BundleView) -> list[str]:
    return [finding.severity.value for finding in findings(checked, "operator") if finding.rule != "OPERATOR-FBC"]


def test_names_of_bundles() -> None:
    renamed = bundle("1.2.0", name="other", spec="skips: [demo.v1.10.0]")
    found = check(operator(*CHAIN[:2], renamed, ci=f"{CI}# names\n"))
    graph = ["OPERATOR-GRAPH-DANGLING"] * 2  # the last bundle by name and version is not that with the skips
    assert [rule for rule, _, _ in found] == ["OPERATOR-NAME", *["OPERATOR-NAME-CHANGED"] * 2, "OPERATOR-NAMES", *graph]
    invalid = {path: text.replace("demo.v1.0.0", "demo") for path, text in CHAIN[0].items()}
    assert check(operator(invalid)) == [("OPERATOR-NAME", csv("1.0.0"), 3)]


def test_annotations_of_the_marketplace() -> None:
    config = {"../../config.yaml": "organization: redhat-marketplace\n"}
    assert check(operator(CHAIN[0], more=config)) == [("OPERATOR-MARKETPLACE", csv("1.0.0"), 4)] * 2
    page = "https://marketplace.redhat.com/en-us/operators/demo/{}?utm_source=openshift_console"
    pages = {"remote": page.format("pricing"), "support": page.format("support")}
    annotations = ", ".join(f"marketplace.openshift.io/{key}-workflow: '{url}'" for key, url in pages.items())
    assert check(operator(bundle("1.0.0", annotations=annotations), more=config)) == []


DANGLING, PRUNED = ["OPERATOR-GRAPH-DANGLING"], ["OPERATOR-GRAPH-PRUNED"]
GRAPHS = [
    ((bundle("1.0.0"), bundle("1.1.0", "1.0.9")), ["OPERATOR-REPLACES-MISSING", "OPERATOR-GRAPH-DANGLING"]),
    ((bundle("1.0.0", "1.1.0"), bundle("1.1.0", "1.0.0")), ["OPERATOR-GRAPH-LOOP"]),
    (
        (bundle("1.0.0", "1.1.0"), bundle("1.1.0", annotations="olm.skipRange: '<1.1.0'"), bundle("1.2.0", "1.1.0")),
        ["OPERATOR-GRAPH-LOOP", "OPERATOR-GRAPH-PRUNED"],
    ),
    ((*CHAIN, bundle("1.2.0", "1.1.0")), ["OPERATOR-GRAPH-DANGLING"]),
    ((*CHAIN[:2], bundle("1.2.0", "1.0.0", spec="skips: [demo.v1.1.0]")), []),
    ((*CHAIN[:2], bundle("1.2.0", "1.0.0", annotations="olm.skipRange: '>=1.0.0 <1.2.0'")), []),
    ((*CHAIN[:2], bundle("1.2.0", "1.0.0", annotations="olm.skipRange: '>=one'")), ["OPERATOR-GRAPH-DANGLING"]),
    ((bundle("1.0.0"), bundle("1.1.0", annotations="olm.skipRange: '<1.1.0'")), ["OPERATOR-GRAPH-PRUNED"]),
    ((bundle("1.0.0", "1.0.0"),), ["OPERATOR-REPLACES-SELF", "OPERATOR-GRAPH-LOOP"]),
    ((bundle("1.0.0", annotations="olm.skipRange: '<2.0.0'"),), ["OPERATOR-GRAPH-LOOP"]),
    (
        (bundle("1.0.0", spec="skips: {a: 1}"), bundle("1.1.0", spec="skips: [[], x.v1.0.0]")),
        ["OPERATOR-GRAPH-INVALID"],
    ),
    ((bundle("1.0.0", spec="skips: null"),), ["OPERATOR-GRAPH-INVALID"]),
    ((bundle("1.0.0", spec="replaces: ''"),), ["OPERATOR-GRAPH-INVALID"]),
    ((bundle("1.0.0", spec="skips: [demo]"),), ["OPERATOR-GRAPH-INVALID"]),
    ((bundle("1.0.x"), bundle("1.1.0", "1.0.x", annotations="olm.skipRange: '<1.1.0'")), ["OPERATOR-GRAPH-INVALID"]),
    ((bundle("1.0.0-rc.1"), bundle("1.1.0", annotations="olm.skipRange: '>=0.9.0 <1.1.0'")), [*DANGLING, *PRUNED]),
    ((bundle("1.0.0-rc.1"), bundle("1.1.0", annotations="olm.skipRange: '>=1.0.0-0 <1.1.0'")), PRUNED),
    ((bundle("1.0.0"), bundle("1.1.0", annotations="olm.skipRange: ^1.0.0-0")), ["OPERATOR-GRAPH-LOOP", *PRUNED]),
]


@pytest.mark.parametrize(("bundles", "rules"), GRAPHS)
def test_update_graphs(bundles: tuple[dict[str, str], ...], rules: list[str]) -> None:
    found = check(operator(*bundles))
    assert list(dict.fromkeys(rule for rule, _, _ in found)) == rules
    assert all(line for _, _, line in found)
    assert check(operator(*bundles, ci=FBC, more=TEMPLATE)) == []
    ordered = [rule for rule, _, _ in check(operator(*bundles, ci="updateGraph: semver-mode\n"))]
    assert set(ordered) <= {"OPERATOR-REPLACES-MISSING", "OPERATOR-REPLACES-SELF"}


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        ("", "", 0),
        ("v4.12", "v4.14", 0),
        ("v4.14", "v4.12", 1),
        ("v4.14", "", 1),
        ("", "v4.14", 0),
        ("v4.12-v4.14", "v4.13", 1),
        ("v4.12-v4.14", "v4.13-v4.15", 1),
        ("v4.12-v4.14", "=v4.14", 0),
        ("latest", "v4.12", 0),
    ],
)
def test_openshift_versions_of_replaced_bundles(first: str, second: str, count: int) -> None:
    found = check(operator(bundle("1.0.0", openshift=first), bundle("1.1.0", "1.0.0", openshift=second)))
    expected = [("OPERATOR-REPLACES-OPENSHIFT", csv("1.1.0"), 7)] * count
    assert [finding for finding in found if finding[0] != "OPERATOR-OPENSHIFT-NARROWED"] == expected


@pytest.mark.parametrize(
    ("first", "second", "count"),
    [
        ("v4.12", "v4.14", 0),
        ("v4.12", "v4.12-v4.14", 1),
        ("", "=v4.14", 1),
        ("v4.12-v4.15", "v4.13-v4.14", 1),
        ("v4.12-v4.14", "v4.13-v4.15", 0),
        ("v4.12-v4.14", "v4.12-v4.14", 0),
    ],
)
def test_a_range_that_ends_before_that_of_the_replaced_bundle(first: str, second: str, count: int) -> None:
    found = check(operator(bundle("1.0.0", openshift=first), bundle("1.1.0", "1.0.0", openshift=second)))
    expected = [("OPERATOR-OPENSHIFT-NARROWED", csv("1.1.0"), 7)] * count
    assert [finding for finding in found if finding[0] == "OPERATOR-OPENSHIFT-NARROWED"] == expected


def test_a_long_chain_is_checked_without_recursion() -> None:
    chain = [bundle("1.0.0"), *(bundle(f"1.{minor}.0", f"1.{minor - 1}.0") for minor in range(1, 1500))]
    assert check(operator(*chain)) == []


def test_every_rule_is_documented_and_tested() -> None:
    rules = validators()["operator"]
    assert all(rule.explanation and rule.bad and rule.good and rule.hint for rule in rules)
    here = Path(__file__).read_text()
    assert [rule.id for rule in rules if f'"{rule.id}"' not in here] == []


@pytest.mark.parametrize("value", ["null", "[]", "{}", "1", "'a'", "true", "[null]", "[{}]", "[[1]]"])
@pytest.mark.parametrize("field", ["updateGraph", "reviewers", "fbc", "merge"])
def test_values_of_any_type(field: str, value: str) -> None:
    check(operator(*CHAIN, ci=f"{field}: {value}\n"))
    for member in ("enabled", "catalog_mapping"):
        check(operator(*CHAIN, ci=f"fbc: {{{member}: {value}}}\n"))
    for member in ("template_name", "catalog_names", "type"):
        check(operator(*CHAIN, ci=f"fbc: {{enabled: true, catalog_mapping: [{{{member}: {value}}}]}}\n"))
