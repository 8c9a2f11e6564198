"""Our own rules: what each finds, and in which line."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import Any

import pytest

from opmkit.bundle import labels
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.rule_registry import validators
from opmkit.bundle.validation.rules.opmkit_annotations import channels_odd
from tests.kit.demo import ANNOTATIONS, CRD, CSV, FILES, demo, line_of
from tests.kit.validation import findings, view

EXAMPLE = '{"apiVersion": "demo.example.com/v1", "kind": "Demo", "metadata": {"name": "example"}}'
IMAGE = FILES[CSV].partition("    image: ")[2].partition("\n")[0]
ICON = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4="
OWNED = "    - name: demos.demo.example.com\n      version: v1\n      kind: Demo\n"
WEBHOOK = FILES[CSV].partition("webhookdefinitions:\n")[2].partition("  install:\n")[0]
SERVICE = "    - {name: demos, group: g.example.com, version: v1, kind: Api, deploymentName: demo-api}\n"
SELECTOR = "          selector:\n            matchLabels:\n              app: demo\n"
CONTAINER = "              - name: manager\n"
RULE = "resources: [demos]\n          verbs: [get]"
DEPLOYMENT = FILES[CSV].partition("      deployments:\n")[2]

# Rule, what is changed, and how the line begins that is found.
FAULTS = [
    ("ANN-PACKAGE-EMPTY", ("package.v1: demo", "package.v1: ''"), "operators.operatorframework.io.bundle.package"),
    ("ANN-DEFAULT-CHANNEL-UNKNOWN", ("default.v1: stable", "default.v1: beta"), "operators.operatorframework.io"),
    ("ANN-CHANNELS-ODD", ("channels.v1: stable", "channels.v1: stable, beta"), "operators.operatorframework.io"),
    ("ANN-CHANNELS-ODD", ("channels.v1: stable", "channels.v1: stable,stable"), "operators.operatorframework.io"),
    ("ANN-DIRECTORY-UNKNOWN", ("metadata.v1: metadata/", "metadata.v1: meta/"), "operators.operatorframework.io"),
    ("CSV-APIVERSION-UNKNOWN", ("coreos.com/v1alpha1", "coreos.com/v1"), "apiVersion: operators.coreos.com/v1"),
    ("CSV-VERSION-MISSING", ("  version: 1.2.3\n", ""), "spec:"),
    ("CSV-NAME-VERSION", ("name: demo.v1.2.3", "name: demo.v1.2.4"), "name: demo.v1.2.4"),
    ("CSV-REPLACES-SELF", ("replaces: demo.v1.2.2", "replaces: demo.v1.2.3"), "replaces:"),
    ("CSV-REPLACES-LATER", ("replaces: demo.v1.2.2", "replaces: demo.v1.2.10"), "replaces:"),
    ("CSV-SKIPS-SELF", ("- demo.v1.2.1", "- demo.v1.2.3"), "- demo.v1.2.3"),
    ("CSV-SKIPS-DUPLICATE", ("- demo.v1.2.1", "- demo.v1.2.1\n  - demo.v1.2.1"), "- demo.v1.2.1"),
    ("CSV-SKIPS-FORMAT", ("- demo.v1.2.1", "- <1.2.1"), "- <1.2.1"),
    ("CSV-SKIPRANGE-INVALID", (">=1.0.0 <1.2.3", ">=1.0 <1.2.3"), "olm.skipRange:"),
    ("CSV-SKIPRANGE-INVALID", (">=1.0.0 <1.2.3", "<1.0.0 || || >1.1.0"), "olm.skipRange:"),
    ("CSV-SKIPRANGE-DROPPED", (">=1.0.0 <1.2.3", "1.0.0 - 1.2.2"), "olm.skipRange:"),
    ("CSV-SKIPRANGE-SELF", (">=1.0.0 <1.2.3", ">=1.0.0"), "olm.skipRange:"),
    ("CSV-INSTALLMODES-UNKNOWN", ("type: AllNamespaces", "type: AllNamespace"), "- type: AllNamespace"),
    ("CSV-UNKNOWN-FIELD", ("minKubeVersion", "miniKubeVersion"), "miniKubeVersion:"),
    ("CSV-UNKNOWN-FIELD", ("replicas: 1", "Replicas: 1"), "Replicas: 1"),
    ("CSV-ICON-DATA", (ICON, "'data:image/png;base64,AAAA'"), "base64data:"),
    ("CSV-ICON-IMAGE", ("image/svg+xml", "image/png"), "- mediatype: image/png"),
    ("YAML-DUPLICATE-KEY", ("  minKubeVersion:", "  displayName: Other\n  minKubeVersion:"), "displayName: Other"),
    ("YAML-MORE-DOCUMENTS", ("preserve-unknown-fields: true\n", "preserve-unknown-fields: true\n---\na: 1\n"), "---"),
    ("FILE-ENCODING", ("annotations:\n  op", "\ufeffannotations:\n  op"), "\ufeffannotations:"),
    ("META-IGNORED", ("annotations:\n  op", "annotation:\n  op"), "annotation:"),
    ("CSV-STRATEGY-UNKNOWN", ("strategy: deployment", "strategy: helm"), "strategy: helm"),
    ("CSV-DEPLOYMENT-NAME", ("- name: demo-manager", "- name: Demo_Manager"), "- name: Demo_Manager"),
    ("CSV-DEPLOYMENT-NAME", (DEPLOYMENT, DEPLOYMENT * 2), "- name: demo-manager"),
    ("CSV-DEPLOYMENT-SELECTOR", ("labels:\n                app: demo", "labels: {}"), "selector:"),
    ("CSV-DEPLOYMENT-SELECTOR", (SELECTOR, ""), "spec:"),
    ("CSV-DEPLOYMENT-CONTAINERS", (DEPLOYMENT[DEPLOYMENT.index(CONTAINER) :], " " * 16 + "[]\n"), "containers:"),
    ("CSV-DEPLOYMENT-CONTAINERS", (CONTAINER, "              - name: A\n"), "- name: A"),
    ("CSV-DEPLOYMENT-CONTAINERS", (f"                image: {IMAGE}", ""), "- name: manager"),
    ("CSV-DEPLOYMENT-ACCOUNT", ("  - serviceAccountName: demo-account", "  - serviceAccountName: other"), "serviceAcc"),
    ("CSV-PERMISSION-ACCOUNT", ("  - serviceAccountName: demo-account", "  - serviceAccountName: ''"), "- serviceAcc"),
    ("CSV-PERMISSION-RULE", (RULE, "resources: [demos]"), "- apiGroups:"),
    ("CSV-PERMISSION-RULE", (RULE, "resources: []\n          verbs: [get]"), "- apiGroups:"),
    ("CSV-PERMISSION-RULE", (RULE, "nonResourceURLs: [/metrics]\n          verbs: [get]"), "- apiGroups:"),
    ("CSV-WEBHOOK-DEPLOYMENT", ("deploymentName: demo-manager", "deploymentName: demo"), "deploymentName: demo"),
    ("CSV-APISERVICE-DEPLOYMENT", ("    owned: []\n", f"    owned:\n{SERVICE}"), "- {name: demos"),
    ("CSV-WEBHOOK-NAME", ("generateName: convert.demo.example.com", "generateName: ''"), "- generateName:"),
    ("CSV-WEBHOOK-NAME", (WEBHOOK, WEBHOOK * 2), "- generateName:"),
    ("CSV-WEBHOOK-CONVERSION", ("[demos.demo.example.com]", "[demo.example.com]"), "conversionCRDs:"),
    ("CSV-WEBHOOK-CONVERSION", ("[demos.demo.example.com]", "[]"), "conversionCRDs:"),
    ("CSV-WEBHOOK-VALUE", ("type: ConversionWebhook", "type: Webhook"), "type: Webhook"),
    ("CSV-WEBHOOK-VALUE", ("containerPort: 443", "containerPort: 70000"), "containerPort:"),
    ("CSV-WEBHOOK-VALUE", ("containerPort: 443", "timeoutSeconds: 31"), "timeoutSeconds:"),
    ("CSV-WEBHOOK-VALUE", ("sideEffects: None", "sideEffects: Some"), "sideEffects:"),
    ("CSV-WEBHOOK-VALUE", ("Versions: [v1]", "Versions: []"), "admissionReviewVersions:"),
    ("CSV-WEBHOOK-VALUE", ("containerPort: 443", "webhookPath: convert"), "webhookPath:"),
    ("CSV-IMAGE-NOT-RELATED", (f"manager\n    image: {IMAGE}", "manager\n    image: quay.io/a/b@1"), f"image: {IMAGE}"),
    ("CSV-IMAGE-UNPINNED", ("relatedImages:\n", "relatedImages:\n  - {name: b, image: b:1}\n"), "- {name: b"),
    ("CSV-OWNED-DUPLICATE", (OWNED, OWNED + OWNED), "- name: demos"),
    ("CSV-EXAMPLES-DUPLICATE", (EXAMPLE, f"{EXAMPLE}, {EXAMPLE}"), "alm-examples:"),
    ("CSV-DESCRIPTOR-DUPLICATE", ("path: users[0].name", "path: size"), "- path: size"),
    ("CSV-DESCRIPTOR-PATH", ("path: users[0].name", "path: users[0].mail"), "- path: users"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "change", "line"), FAULTS)
def test_a_fault_is_found_in_its_line(rule: str, change: tuple[str, str], line: str) -> None:
    bundle = demo(change)
    (told,) = (one for one in findings(bundle, "opmkit") if one.rule == rule)
    assert line_of(bundle, told).startswith(line)
    assert told.hint


def test_every_rule_is_tested_and_explained() -> None:
    rules = validators()["opmkit"]
    assert {one.id for one in rules} == {rule for rule, _, _ in FAULTS}
    for one in rules:
        assert one.explanation, one.id
        assert one.bad, one.id
        assert one.good, one.id


def test_nothing_is_found_in_a_sound_bundle() -> None:
    assert findings(demo(), "opmkit") == []


@pytest.mark.parametrize("compat", [Compat.OPM_1_26, Compat.NEWEST])
def test_the_references_have_none_of_these_rules(compat: Compat) -> None:
    assert findings(demo(("minKubeVersion", "miniKubeVersion"), compat=compat), "opmkit") == []


def of_rule(rule: str, *changes: tuple[str, str], more: dict[str, str | bytes] | None = None) -> list[str]:
    return [one.message for one in findings(demo(*changes, more=more), "opmkit") if one.rule == rule]


def test_a_typo_is_told_with_the_name_that_is_near_it() -> None:
    assert of_rule("CSV-UNKNOWN-FIELD", ("minKubeVersion", "miniKubeVersion")) == [
        "unknown field spec.miniKubeVersion; did you mean minKubeVersion?"
    ]


@pytest.mark.parametrize(
    ("name", "version"),
    [("demo.v1.2.3", "v1.2.3"), ("demo.v1.2.3", "1.2.3+7"), ("demo.v1.2", "1.2"), ("d.v1.2.0", "1.2")],
)
def test_names_that_end_with_their_version(name: str, version: str) -> None:
    changes = ("name: demo.v1.2.3", f"name: {name}"), ("  version: 1.2.3", f"  version: '{version}'")
    assert of_rule("CSV-NAME-VERSION", *changes) == []


def test_a_release_is_no_fault_in_a_name() -> None:
    changes = ("name: demo.v1.2.3", "name: demo-v1.2.3-1"), ("  version: 1.2.3", "  version: 1.2.3\n  release: '1'")
    assert of_rule("CSV-NAME-VERSION", *changes) == []


@pytest.mark.parametrize(
    "path",
    ["users[*].name", "users.name", "users[].name", "users.[0].name", "size", "users['a.b']"],
)
def test_paths_that_lead_somewhere(path: str) -> None:
    assert of_rule("CSV-DESCRIPTOR-PATH", ("path: users[0].name", f"path: {path}")) == []


@pytest.mark.parametrize("path", ["''", "users[0", "users..name", "size.more", "spec.size", "users[0].name."])
def test_paths_that_lead_nowhere(path: str) -> None:
    assert len(of_rule("CSV-DESCRIPTOR-PATH", ("path: users[0].name", f"path: {path}"))) == 1


@pytest.mark.parametrize(
    "schema",
    [
        "{additionalProperties: {type: object, properties: {name: {type: string}}}}",
        "{additionalProperties: true}",
        "{x-kubernetes-preserve-unknown-fields: true}",
        "{anyOf: [{properties: {name: {}}}]}",
        "{properties: {key: {properties: {name: {}}}}}",
        "{}",
    ],
)
def test_open_schemas_lead_anywhere(schema: str) -> None:
    users = FILES[CRD].partition("              users:\n")[2].partition("          status:")[0]
    changes = ("path: users[0].name", "path: users.key.name"), (f"users:\n{users}", f"users: {schema}\n")
    assert of_rule("CSV-DESCRIPTOR-PATH", *changes) == []


@pytest.mark.parametrize(
    ("expression", "matches"),
    [
        ("{key: app, operator: In, values: [demo, x]}", True),
        ("{key: app, operator: In, values: [x]}", False),
        ("{key: app, operator: NotIn, values: [x]}", True),
        ("{key: app, operator: Exists}", True),
        ("{key: none, operator: Exists}", False),
        ("{key: none, operator: DoesNotExist}", True),
        ("{key: app, operator: Equals}", False),
    ],
)
def test_selectors_are_matched_by_expressions_too(expression: str, matches: bool) -> None:
    change = ("            matchLabels:\n              app: demo\n", f"            matchExpressions: [{expression}]\n")
    assert bool(of_rule("CSV-DEPLOYMENT-SELECTOR", change)) is not matches


def test_an_account_may_come_from_a_manifest() -> None:
    change = ("  - serviceAccountName: demo-account", "  - serviceAccountName: other")
    account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: demo-account}\n"
    assert of_rule("CSV-DEPLOYMENT-ACCOUNT", change, more={"manifests/account.yaml": account}) == []


def test_related_images_are_asked_for_only_where_there_are_some() -> None:
    related = FILES[CSV].partition("  relatedImages:\n")[2].partition("  customresource")[0]
    assert of_rule("CSV-IMAGE-NOT-RELATED", (f"  relatedImages:\n{related}", "")) == []


def test_what_the_metadata_holds_is_read_once() -> None:
    dependencies = "dependencies: [{type: olm.label, value: {label: a}}]\n"
    more = {"metadata/x.yml": dependencies, "metadata/y.json": "{", "metadata/z": "x"}
    told = [one.partition(" ")[0] for one in of_rule("META-IGNORED", more=dict(more))]
    assert told == ["dependencies", "cannot"]
    none_then_one = {"metadata/dependencies.yaml": "dependencies: []\n", "metadata/x.yaml": dependencies}
    assert of_rule("META-IGNORED", more=none_then_one) == []


def test_duplicate_keys_of_json_are_told_as_well() -> None:
    bundle = view({"manifests/a.json": '{"kind": "A",\n "kind": "B"}'})
    (told,) = findings(bundle, "opmkit")
    assert (told.rule, told.location) == ("YAML-DUPLICATE-KEY", "manifests/a.json:2:2")


@pytest.mark.parametrize(("mark", "encoding"), [(b"", "utf-16"), (b"\xfe\xff", "utf-16-be"), (b"", "utf-32")])
def test_encodings_other_than_utf8(mark: bytes, encoding: str) -> None:
    bundle = view({"manifests/a.yaml": mark + "kind: A\n".encode(encoding)})
    assert [one.rule for one in findings(bundle, "opmkit")][:1] == ["FILE-ENCODING"]


def icon(data: bytes, media_type: str) -> list[str]:
    changes = (ICON, base64.b64encode(data).decode()), ("image/svg+xml", media_type)
    return of_rule("CSV-ICON-IMAGE", *changes)


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (b"\x89PNG\r\n\x1a\n....", "image/png"),
        (b"\xff\xd8\xff\xe0....", "image/jpeg"),
        (b"GIF89a....", "image/gif"),
        (b"<?xml version='1.0'?>\n<!-- c --><svg:svg xmlns:svg='http://www.w3.org/2000/svg'/>", "image/svg+xml"),
        (b"<!DOCTYPE svg [<!ENTITY a 'aaaaaaaa'>]><svg>&a;</svg>", "image/svg+xml"),
        (b"whatever", "image/webp"),
    ],
)  # fmt: skip
def test_images_that_are_what_they_claim(data: bytes, media_type: str) -> None:
    assert icon(data, media_type) == []


@pytest.mark.parametrize(
    ("data", "media_type", "told"),
    [
        (b"<svg/>", "image/png", "but like image/svg+xml"),
        (b"\x89PNG\r\n\x1a\n", "image/svg+xml", "but like image/png"),
        (b"<html/>", "image/svg+xml", "the root 'html'"),
        (b"<svg><g></svg>", "image/svg+xml", "not XML"),
        (b"<?xml version='1.0' encoding='none'?><svg/>", "image/svg+xml", "not XML"),
        (b"<svg>" + b" " * 1024 * 1024 + b"</svg>", "image/svg+xml", "bytes"),
        (b"PNG", "image/gif", "does not start"),
    ],
)
def test_images_that_are_not(data: bytes, media_type: str, told: str) -> None:
    (message,) = icon(data, media_type)
    assert told in message


def test_data_may_be_broken_into_lines() -> None:
    broken = f"|\n      {ICON[:20]}\n      {ICON[20:]}"
    assert of_rule("CSV-ICON-DATA", (ICON, broken)) == []


@pytest.mark.parametrize(
    "raw", ["", "- 1", "spec: 1", "spec: {install: {spec: {deployments: [1, {spec: {template: []}}]}}}"]
)
def test_whatever_is_there_no_rule_breaks(raw: str) -> None:
    for validator in ("csv", "bundle", "opmkit"):
        text = f"kind: ClusterServiceVersion\n{raw}" if raw.startswith("spec") else raw
        findings(view({CSV: text, CRD: raw, ANNOTATIONS: raw}), validator)


class CountedName(str):
    """A name that counts comparisons."""

    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedName.comparisons += 1
        return str.__eq__(self, other)


class ListedNames(str):
    """A list of names with commas between them."""

    __slots__ = ()

    def split(self, *separators: Any) -> list[str]:
        return list(map(CountedName, str.split(self, *separators)))


def test_channels_are_compared_a_constant_number_of_times() -> None:
    listed = ListedNames(",".join(f"channel-{number}" for number in range(500)))
    CountedName.comparisons = 0

    assert list(channels_odd.check(SimpleNamespace(annotations={labels.CHANNELS: listed}))) == []

    assert CountedName.comparisons < 1500


def test_findings_on_channels_are_of_limited_length() -> None:
    channels = ", ".join(f"channel-{number}" for number in range(500))

    found = of_rule("ANN-CHANNELS-ODD", ("channels.v1: stable", f"channels.v1: {channels}"))

    assert len(found) == 499
    assert all(len(message) < 1300 for message in found)
