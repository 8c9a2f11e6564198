"""Rules of the validators ``load``, ``sdk-content`` and ``opm-content``, in each compatibility mode."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import orjson
import pytest
import yaml

from opmkit.bundle.finding import Severity
from opmkit.bundle.validation.compat import Compat
from tests.kit.broken import BASE
from tests.kit.validation import findings, view

if TYPE_CHECKING:
    from opmkit.bundle.validation.bundle_view import BundleView

CSV = """\
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: demo.v1.0.0
  annotations: {alm-examples: '[]'}
spec:
  displayName: Demo
  version: 1.0.0
  installModes: [{type: AllNamespaces, supported: true}]
  install: {strategy: deployment, spec: {deployments: []}}
  customresourcedefinitions:
    owned:
    - {name: demos.example.com, version: v1, kind: Demo}
"""
CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: demos.example.com}
spec:
  group: example.com
  names: {plural: demos, kind: Demo}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object}}
"""
OTHER = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: demo
  labels: {a-b: c}
"""
BAD_METADATA = OTHER.replace("a-b", "a b").replace("name: demo", "name: demo\n  namespace: mine")
FILES = {"manifests/csv.yaml": CSV, "manifests/crd.yaml": CRD, "manifests/other.yaml": OTHER}


def check(bundle: BundleView, validator: str) -> list[tuple[str, str]]:
    return [(finding.rule, finding.location) for finding in findings(bundle, validator)]


def with_file(name: str, text: str | bytes, compat: Compat = Compat.OPMKIT) -> BundleView:
    return view({**FILES, f"manifests/{name}": text}, compat)


@pytest.mark.parametrize("compat", Compat)
@pytest.mark.parametrize("validator", ["load", "sdk-content", "opm-content"])
def test_a_valid_bundle_has_no_findings(validator: str, compat: Compat) -> None:
    assert check(view(FILES, compat), validator) == []


@pytest.mark.parametrize(
    ("name", "text", "rule", "location"),
    [
        ("README.md", "just text", "LOAD-DECODE", ":1:1"),
        ("empty.yaml", "", "LOAD-DECODE", ""),
        ("list.yaml", "\n- a\n", "LOAD-DECODE", ":2:1"),
        ("kindless.yaml", "a: b\n", "LOAD-DECODE", ":1:1"),
        ("slashes.yaml", "apiVersion: a/b/c\nkind: ConfigMap\n", "LOAD-DECODE", ":1:1"),
        ("tab.yaml", "kind: ConfigMap\n\tmetadata: {}\n", "LOAD-DECODE", ":2:1"),
        ("binary.yaml", b"\x89PNG\r\n\xff", "LOAD-DECODE", ":1"),
        (".hidden.yaml", OTHER, "LOAD-HIDDEN-FILE", ":1:1"),
        ("below/other.yaml", OTHER, "LOAD-SUBDIR", "below"),
        ("second.yaml", CSV, "LOAD-MULTIPLE-CSV", ":2:1"),
        ("csv.yaml", CSV.replace("1.0.0\n  inst", "1.1\n  inst"), "LOAD-CSV-TYPE", ":8:3"),
        ("crd.yaml", CRD.replace("{plural: demos, kind: Demo}", "demos"), "LOAD-CRD-TYPE", ":6:3"),
        ("crd.yaml", CRD.replace("io/v1", "io/v1alpha1"), "LOAD-CRD-APIVERSION", ":1:1"),
        ("annotations.yaml", "annotations: {", "LOAD-ANNOTATIONS", ":2:1"),
    ],
)
def test_problems_of_loading(name: str, text: str | bytes, rule: str, location: str) -> None:
    file = "manifests/below" if rule == "LOAD-SUBDIR" else f"manifests/{name}{location}"
    assert (rule, file) in check(with_file(name, text), "load")


def test_only_opmkit_reports_all_problems_of_loading() -> None:
    files = {
        **FILES,
        "manifests/csv.yaml": CSV.replace("displayName: Demo", "displayName: [Demo]\n  keywords: one"),
        "manifests/README.md": "text",
        "manifests/crd.yaml": CRD.replace("served: true", "served: 'yes'"),
    }
    opmkit = ["LOAD-DECODE", "LOAD-CSV-TYPE", "LOAD-CSV-TYPE", "LOAD-CRD-TYPE"]
    assert sorted(rule for rule, _ in check(view(files), "load")) == sorted(opmkit)
    go = ["LOAD-CRD-TYPE", "LOAD-NO-BUNDLE-CSV", "LOAD-NO-BUNDLE"]
    assert sorted(rule for rule, _ in check(view(files, Compat.NEWEST), "load")) == sorted(go)


def test_a_missing_csv() -> None:
    files = {"manifests/crd.yaml": CRD, "metadata/annotations.yaml": "annotations: {}"}
    for compat in Compat:
        assert check(view(files, compat), "load") == [("LOAD-NO-CSV", "")]
        assert check(view(files, compat), "opm-content") == [("LOAD-NO-CSV", "")]
    assert check(view({"metadata/annotations.yaml": "annotations: {}"}), "load") == [("FMT-EMPTY-MANIFESTS", "")]


def test_only_opmkit_reports_the_invalid_yaml_of_a_csv() -> None:
    broken = with_file("csv.yaml", CSV.replace("displayName: Demo", "displayName: Demo: new"))
    assert check(broken, "load") == [("LOAD-DECODE", "manifests/csv.yaml:7:20")]
    assert check(broken, "opm-content") == [("LOAD-DECODE", "manifests/csv.yaml:7:20")]
    go = view(dict(broken.files), Compat.OPM_1_26)
    assert check(go, "load") == [("LOAD-NO-CSV", "")]


def test_the_newest_go_validators_read_json_as_yaml() -> None:
    text = '{"kind": "ConfigMap", "metadata": {"name": "demo",},}'
    assert check(with_file("other.yaml", text, Compat.NEWEST), "load") == []
    for compat in (Compat.OPMKIT, Compat.OPM_1_26):
        assert check(with_file("other.yaml", text, compat), "load") == [("LOAD-DECODE", "manifests/other.yaml:1:51")]


@pytest.mark.parametrize("validator", ["sdk-content", "opm-content"])
def test_kinds(validator: str) -> None:
    newer = with_file("other.yaml", OTHER.replace("ConfigMap", "NetworkPolicy"))
    assert check(newer, validator) == []
    found = findings(with_file("other.yaml", OTHER.replace("ConfigMap", "CronJob")), validator)
    assert [(finding.rule, finding.location, finding.subject) for finding in found] == [
        ("KIND-UNSUPPORTED", "manifests/other.yaml:2:1", "/v1, Kind=CronJob")
    ]
    older = view(dict(newer.files), Compat.OPM_1_26)
    assert [rule for rule, _ in check(older, validator)] == ["KIND-UNSUPPORTED"]


def test_a_document_with_only_comments_is_an_object_without_kind() -> None:
    assert check(with_file("comment.yaml", "# nothing\n"), "load") == []
    assert check(with_file("comment.yaml", "# nothing\n"), "sdk-content")[0][0] == "KIND-UNSUPPORTED"


def test_metadata() -> None:
    found = findings(with_file("other.yaml", BAD_METADATA), "sdk-content")
    assert [(finding.rule, finding.line, finding.subject) for finding in found] == [
        ("OBJ-META", 5, "demo"),
        ("OBJ-META", 6, "demo"),
    ]
    go = findings(with_file("other.yaml", BAD_METADATA, Compat.NEWEST), "opm-content")
    assert [(finding.rule, finding.line) for finding in go] == [("OBJ-META", 5)]
    assert "namespace" in go[0].message
    assert "labels" in go[0].message


@pytest.mark.parametrize(
    ("metadata", "number"),
    [
        ("{generateName: a}", 1),
        ("{}", 1),
        ("text", 2),
        ("{name: UPPER_case}", 0),
        ("{name: a, generation: -1}", 1),
        ("{name: a, labels: {a: 1}}", 1),
        ("{name: a, labels: {a: 'b c'}}", 1),
        ("{name: a, labels: {A/b: c}}", 1),
        ("{name: a, annotations: {UP/Key: x}}", 0),
        ("{name: a, annotations: {'a b': x}}", 1),
        ("{name: a, annotations: {a: " + "x" * 270_000 + "}}", 1),
        ("{name: a, ownerReferences: [{apiVersion: v1, kind: Event, name: b, uid: c}]}", 1),
        ("{name: a, ownerReferences: [{}]}", 4),
        (
            "{name: a, ownerReferences: [" + "{apiVersion: v1, kind: A, name: b, uid: c, controller: true}," * 2 + "]}",
            1,
        ),
        ("{name: a, finalizers: ['a b', orphan, foregroundDeletion]}", 2),
        ("{name: a, finalizers: [1]}", 1),
        ("{name: a, managedFields: [{operation: Patch, fieldsType: V2}]}", 2),
        (
            "{name: a, managedFields: [{operation: Apply, manager: "
            + "x" * 200
            + ", subresource: "
            + "x" * 300
            + "}]}",
            2,
        ),
    ],
)
def test_each_problem_of_metadata_is_reported(metadata: str, number: int) -> None:
    found = findings(with_file("other.yaml", f"apiVersion: v1\nkind: ConfigMap\nmetadata: {metadata}\n"), "sdk-content")
    assert [finding.rule for finding in found] == ["OBJ-META"] * number


NUMBER = CSV.replace("{alm-examples: '[]'}", "{alm-examples: '[]', size: 3}")
NO_SPEC = CSV[: CSV.index("spec:")]


@pytest.mark.parametrize(
    ("name", "text", "opmkit", "go"),
    [
        ("csv.yaml", NUMBER, ["LOAD-CSV-TYPE"], ["LOAD-CSV-TYPE", "OPM-CSV"]),
        ("csv.yaml", CSV.replace("version: 1.0.0", "version: 1.0"), ["LOAD-CSV-TYPE"], ["LOAD-DECODE", "OPM-CSV"]),
        ("crd.yaml", CRD.replace("type: object", "type: object, description: 1"), ["OPM-CRDS"], ["OPM-CSV"]),
        ("crd.yaml", CRD.replace("scope: Namespaced", "scope: [a]"), ["LOAD-CRD-TYPE"], ["LOAD-DECODE", "OPM-CSV"]),
        ("other.yaml", OTHER.replace("c}", "1}"), ["OBJ-META"], ["LOAD-DECODE"]),
        ("crd.yaml", CRD.replace("io/v1", "io/v2"), ["LOAD-CRD-APIVERSION", "BUNDLE-OWNED-CRD-MISSING"], None),
        (
            "crd.yaml",
            CRD.replace("name: demos", "name: others"),
            ["CRD-NAME-MISMATCH", "BUNDLE-OWNED-CRD-MISSING"],
            None,
        ),
        ("csv.yaml", CSV.replace("owned:\n", "owned: none\n#"), ["LOAD-CSV-TYPE"], ["LOAD-CSV-TYPE", "OPM-CSV-CRDS"]),
        ("csv.yaml", CSV.replace("[{type: AllNamespaces, supported: true}]", "[]"), ["CSV-INSTALLMODES-MISSING"], None),
        (".hidden", "text", ["LOAD-DECODE"], None),
        ("below/a.yaml", "", ["LOAD-SUBDIR"], None),
        ("Chart.yaml", "name: demo", [], None),
    ],
)
def test_opm_content(name: str, text: str, opmkit: list[str], go: list[str] | None) -> None:
    assert Counter(rule for rule, _ in check(with_file(name, text), "opm-content")) == Counter(opmkit)
    found = findings(with_file(name, text, Compat.OPM_1_26), "opm-content")
    assert Counter(finding.rule for finding in found) == Counter(opmkit if go is None else go)
    assert {finding.severity for finding in found} <= {Severity.ERROR}


def test_a_csv_without_spec() -> None:
    found = [rule for rule, _ in check(with_file("csv.yaml", NO_SPEC, Compat.OPM_1_26), "opm-content")]
    assert {"OPM-CSV", "OPM-CSV-CRDS"} <= set(found)


OWNED = "- {name: demos.example.com, version: v1, kind: Demo"


@pytest.mark.parametrize("owned", [f"{OWNED}, group: example.com}}", f"{OWNED}}}\n    {OWNED}}}"])
def test_go_validators_find_no_crd_for_an_entry_with_group_or_a_duplicate(owned: str) -> None:
    text = CSV.replace(f"{OWNED}}}", owned)
    assert check(with_file("csv.yaml", text), "opm-content") == []
    found = findings(with_file("csv.yaml", text, Compat.OPM_1_26), "opm-content")
    assert [(finding.rule, finding.subject) for finding in found] == [
        ("BUNDLE-OWNED-CRD-MISSING", "example.com/v1, Kind=Demo")
    ]


def test_go_validators_ignore_further_versions_of_a_v1beta1_crd() -> None:
    old = CRD.replace("io/v1", "io/v1beta1").replace(
        "  scope:", "  version: v1alpha1\n  preserveUnknownFields: false\n  scope:"
    )
    assert "BUNDLE-OWNED-CRD-MISSING" not in str(check(with_file("crd.yaml", old), "opm-content"))
    assert "BUNDLE-OWNED-CRD-MISSING" in str(check(with_file("crd.yaml", old, Compat.OPM_1_26), "opm-content"))


def test_a_release_conflicts_with_substitutes_for() -> None:
    text = CSV.replace("'[]'}", "'[]', olm.substitutesFor: demo.v0.9.0}").replace(
        "version: 1.0.0\n", "version: 1.0.0\n  release: '1'\n"
    )
    assert ("BUNDLE-RELEASE-SUBSTITUTES", "manifests/csv.yaml:9:3") in check(with_file("csv.yaml", text), "opm-content")
    assert "SUBSTITUTES" not in str(check(with_file("csv.yaml", text, Compat.OPM_1_26), "opm-content"))


@pytest.mark.parametrize("value", ["a", 1, 1.5, True, None, [], {}, [[]], [None], {"a": None}])
@pytest.mark.parametrize("key", ["metadata", "spec", "apiVersion", "kind"])
def test_values_of_the_wrong_type_do_not_raise(key: str, value: object) -> None:
    for name, text in (("csv.yaml", CSV), ("crd.yaml", CRD), ("other.yaml", OTHER)):
        changed = {**yaml.safe_load(text), key: value}
        for compat in Compat:
            bundle = with_file(name, orjson.dumps(changed), compat)
            for validator in ("load", "sdk-content", "opm-content", "format", "packagemanifest"):
                findings(bundle, validator)


@pytest.mark.parametrize("compat", Compat)
@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("displayName", "CSV-REQUIRED-FIELD"),
        ("apiVersion", "CSV-APIVERSION"),
        ("installModes", "CSV-INSTALLMODES-MISSING"),
        ("strategy", "CSV-REQUIRED-FIELD"),
    ],
)
def test_only_opm_content_is_case_sensitive_in_csv_fields(name: str, rule: str, compat: Compat) -> None:
    path = "manifests/demo.clusterserviceversion.yaml"
    text = re.sub(rf"^( *){name}:", rf"\1{name[0].upper()}{name[1:]}:", BASE[path].decode(), flags=re.MULTILINE)
    bundle = view({**BASE, path: text}, compat)
    errors = {name: Counter(finding.rule for finding in findings(bundle, name)) for name in ("opm-content", "csv")}
    assert errors["opm-content"] == Counter([rule])
    assert rule not in errors["csv"]


def test_go_opm_ignores_the_case_of_metadata_fields() -> None:
    text = OTHER.replace("name: demo", "Name: demo")
    assert check(with_file("other.yaml", text, Compat.NEWEST), "opm-content") == []
    assert check(with_file("other.yaml", text), "opm-content") == [("OBJ-META", "manifests/other.yaml:3:1")]
