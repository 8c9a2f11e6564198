"""Loading, kinds and metadata: each rule fires with its place, in ours and in the references' dialects."""

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


def told(bundle: BundleView, validator: str) -> list[tuple[str, str]]:
    return [(one.rule, one.location) for one in findings(bundle, validator)]


def with_file(name: str, text: str | bytes, compat: Compat = Compat.OPMKIT) -> BundleView:
    return view({**FILES, f"manifests/{name}": text}, compat)


@pytest.mark.parametrize("compat", Compat)
@pytest.mark.parametrize("validator", ["load", "sdk-content", "opm-content"])
def test_a_sound_bundle_passes(validator: str, compat: Compat) -> None:
    assert told(view(FILES, compat), validator) == []


@pytest.mark.parametrize(
    ("name", "text", "rule", "place"),
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
def test_what_cannot_be_loaded(name: str, text: str | bytes, rule: str, place: str) -> None:
    file = "manifests/below" if rule == "LOAD-SUBDIR" else f"manifests/{name}{place}"
    assert (rule, file) in told(with_file(name, text), "load")


def test_all_that_keeps_a_bundle_from_loading_is_told_at_once_except_by_the_references() -> None:
    files = {
        **FILES,
        "manifests/csv.yaml": CSV.replace("displayName: Demo", "displayName: [Demo]\n  keywords: one"),
        "manifests/README.md": "text",
        "manifests/crd.yaml": CRD.replace("served: true", "served: 'yes'"),
    }
    ours = ["LOAD-DECODE", "LOAD-CSV-TYPE", "LOAD-CSV-TYPE", "LOAD-CRD-TYPE"]
    assert sorted(rule for rule, _ in told(view(files), "load")) == sorted(ours)
    theirs = ["LOAD-CRD-TYPE", "LOAD-NO-BUNDLE-CSV", "LOAD-NO-BUNDLE"]
    assert sorted(rule for rule, _ in told(view(files, Compat.NEWEST), "load")) == sorted(theirs)


def test_a_missing_csv() -> None:
    files = {"manifests/crd.yaml": CRD, "metadata/annotations.yaml": "annotations: {}"}
    for compat in Compat:
        assert told(view(files, compat), "load") == [("LOAD-NO-CSV", "")]
        assert told(view(files, compat), "opm-content") == [("LOAD-NO-CSV", "")]
    assert told(view({"metadata/annotations.yaml": "annotations: {}"}), "load") == [("FMT-EMPTY-MANIFESTS", "")]


def test_a_csv_with_a_fault_in_its_yaml_is_told_by_the_fault_except_by_the_references() -> None:
    broken = with_file("csv.yaml", CSV.replace("displayName: Demo", "displayName: Demo: new"))
    assert told(broken, "load") == [("LOAD-DECODE", "manifests/csv.yaml:7:20")]
    assert told(broken, "opm-content") == [("LOAD-DECODE", "manifests/csv.yaml:7:20")]
    theirs = view(dict(broken.files), Compat.OPM_1_26)
    assert told(theirs, "load") == [("LOAD-NO-CSV", "")]


def test_the_newest_reference_takes_json_for_yaml() -> None:
    text = '{"kind": "ConfigMap", "metadata": {"name": "demo",},}'
    assert told(with_file("other.yaml", text, Compat.NEWEST), "load") == []
    for compat in (Compat.OPMKIT, Compat.OPM_1_26):
        assert told(with_file("other.yaml", text, compat), "load") == [("LOAD-DECODE", "manifests/other.yaml:1:51")]


@pytest.mark.parametrize("validator", ["sdk-content", "opm-content"])
def test_kinds(validator: str) -> None:
    newer = with_file("other.yaml", OTHER.replace("ConfigMap", "NetworkPolicy"))
    assert told(newer, validator) == []
    found = findings(with_file("other.yaml", OTHER.replace("ConfigMap", "CronJob")), validator)
    assert [(one.rule, one.location, one.subject) for one in found] == [
        ("KIND-UNSUPPORTED", "manifests/other.yaml:2:1", "/v1, Kind=CronJob")
    ]
    older = view(dict(newer.files), Compat.OPM_1_26)
    assert [rule for rule, _ in told(older, validator)] == ["KIND-UNSUPPORTED"]


def test_a_document_of_comments_is_an_object_without_a_kind() -> None:
    assert told(with_file("comment.yaml", "# nothing\n"), "load") == []
    assert told(with_file("comment.yaml", "# nothing\n"), "sdk-content")[0][0] == "KIND-UNSUPPORTED"


def test_metadata() -> None:
    found = findings(with_file("other.yaml", BAD_METADATA), "sdk-content")
    assert [(one.rule, one.line, one.subject) for one in found] == [("OBJ-META", 5, "demo"), ("OBJ-META", 6, "demo")]
    theirs = findings(with_file("other.yaml", BAD_METADATA, Compat.NEWEST), "opm-content")
    assert [(one.rule, one.line) for one in theirs] == [("OBJ-META", 5)]
    assert "namespace" in theirs[0].message
    assert "labels" in theirs[0].message


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
def test_each_fault_of_metadata_is_told(metadata: str, number: int) -> None:
    found = findings(with_file("other.yaml", f"apiVersion: v1\nkind: ConfigMap\nmetadata: {metadata}\n"), "sdk-content")
    assert [one.rule for one in found] == ["OBJ-META"] * number


NUMBER = CSV.replace("{alm-examples: '[]'}", "{alm-examples: '[]', size: 3}")
NO_SPEC = CSV[: CSV.index("spec:")]


@pytest.mark.parametrize(
    ("name", "text", "ours", "theirs"),
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
def test_the_manifests_as_opm_takes_them(name: str, text: str, ours: list[str], theirs: list[str] | None) -> None:
    assert Counter(rule for rule, _ in told(with_file(name, text), "opm-content")) == Counter(ours)
    found = findings(with_file(name, text, Compat.OPM_1_26), "opm-content")
    assert Counter(one.rule for one in found) == Counter(ours if theirs is None else theirs)
    assert {one.severity for one in found} <= {Severity.ERROR}


def test_a_csv_without_a_spec() -> None:
    found = [rule for rule, _ in told(with_file("csv.yaml", NO_SPEC, Compat.OPM_1_26), "opm-content")]
    assert {"OPM-CSV", "OPM-CSV-CRDS"} <= set(found)


OWNED = "- {name: demos.example.com, version: v1, kind: Demo"


@pytest.mark.parametrize("owned", [f"{OWNED}, group: example.com}}", f"{OWNED}}}\n    {OWNED}}}"])
def test_a_group_and_an_entry_listed_twice_hide_no_crd_except_from_the_references(owned: str) -> None:
    text = CSV.replace(f"{OWNED}}}", owned)
    assert told(with_file("csv.yaml", text), "opm-content") == []
    found = findings(with_file("csv.yaml", text, Compat.OPM_1_26), "opm-content")
    assert [(one.rule, one.subject) for one in found] == [("BUNDLE-OWNED-CRD-MISSING", "example.com/v1, Kind=Demo")]


def test_all_versions_of_an_older_crd_count_except_for_the_references() -> None:
    old = CRD.replace("io/v1", "io/v1beta1").replace(
        "  scope:", "  version: v1alpha1\n  preserveUnknownFields: false\n  scope:"
    )
    assert "BUNDLE-OWNED-CRD-MISSING" not in str(told(with_file("crd.yaml", old), "opm-content"))
    assert "BUNDLE-OWNED-CRD-MISSING" in str(told(with_file("crd.yaml", old, Compat.OPM_1_26), "opm-content"))


def test_a_release_does_not_go_with_substitutes() -> None:
    text = CSV.replace("'[]'}", "'[]', olm.substitutesFor: demo.v0.9.0}").replace(
        "version: 1.0.0\n", "version: 1.0.0\n  release: '1'\n"
    )
    assert ("BUNDLE-RELEASE-SUBSTITUTES", "manifests/csv.yaml:9:3") in told(with_file("csv.yaml", text), "opm-content")
    assert "SUBSTITUTES" not in str(told(with_file("csv.yaml", text, Compat.OPM_1_26), "opm-content"))


@pytest.mark.parametrize("value", ["a", 1, 1.5, True, None, [], {}, [[]], [None], {"a": None}])
@pytest.mark.parametrize("key", ["metadata", "spec", "apiVersion", "kind"])
def test_values_of_any_type_break_nothing(key: str, value: object) -> None:
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
def test_the_case_of_a_csv_field_counts_for_opm_alone(name: str, rule: str, compat: Compat) -> None:
    path = "manifests/demo.clusterserviceversion.yaml"
    text = re.sub(rf"^( *){name}:", rf"\1{name[0].upper()}{name[1:]}:", BASE[path].decode(), flags=re.MULTILINE)
    bundle = view({**BASE, path: text}, compat)
    errors = {name: Counter(one.rule for one in findings(bundle, name)) for name in ("opm-content", "csv")}
    assert errors["opm-content"] == Counter([rule])
    assert rule not in errors["csv"]


def test_the_case_of_metadata_fields_counts_for_a_cluster_but_not_for_opm() -> None:
    text = OTHER.replace("name: demo", "Name: demo")
    assert told(with_file("other.yaml", text, Compat.NEWEST), "opm-content") == []
    assert told(with_file("other.yaml", text), "opm-content") == [("OBJ-META", "manifests/other.yaml:3:1")]
