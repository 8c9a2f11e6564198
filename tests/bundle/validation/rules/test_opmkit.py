"""Rules of the validator ``opmkit``."""

from __future__ import annotations

import base64
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from opmkit.bundle import labels
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.rule_registry import validators
from opmkit.bundle.validation.rules.opmkit_files import channels_odd
from tests.kit.demo import ANNOTATIONS, CRD, CSV, FILES, demo, line_of
from tests.kit.validation import findings, view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.bundle.validation.bundle_view import BundleView

EXAMPLE = '{"apiVersion": "demo.example.com/v1", "kind": "Demo", "metadata": {"name": "example"}}'
CAPABILITIES = "\n    capabilities: Basic Install"
IMAGE = FILES[CSV].partition("    image: ")[2].partition("\n")[0]
ICON = "PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4="
OWNED = "    - name: demos.demo.example.com\n      version: v1\n      kind: Demo\n"
WEBHOOK = FILES[CSV].partition("webhookdefinitions:\n")[2].partition("  install:\n")[0]
SERVICE = "    - {name: demos, group: g.example.com, version: v1, kind: Api, deploymentName: demo-api}\n"
SELECTOR = "          selector:\n            matchLabels:\n              app: demo\n"
CONTAINER = "              - name: manager\n"
RULE = "resources: [demos]\n          verbs: [get]"
DEPLOYMENT = FILES[CSV].partition("      deployments:\n")[2]


def described(metadata: str) -> tuple[str, str]:
    """Return the change that adds the annotation alm-examples-metadata."""
    return CAPABILITIES, f"\n    alm-examples-metadata: {metadata}{CAPABILITIES}"


INJECTED = "  annotations:\n    cert-manager.io/inject-ca-from: demo/serving\n"
SUBSTITUTES = CAPABILITIES, f"\n    olm.substitutesFor: demo.v1.2.3{CAPABILITIES}"
# Rule, change, beginning of the reported line.
CONVERSION = "conversion: {strategy: Webhook, webhook: {clientConfig: {url: 'https://example.com'}}}"
CASES = [
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
    ("CSV-REPLACES-VERSION", ("replaces: demo.v1.2.2", "replaces: 1.2.2"), "replaces:"),
    ("CSV-REPLACES-VERSION", ("replaces: demo.v1.2.2", "replaces: v1.2.2"), "replaces:"),
    ("CSV-SUBSTITUTES-SELF", SUBSTITUTES, "olm.substitutesFor:"),
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
    ("CRD-CONVERSION-HARD-CODED", ("  versions:\n", f"  {CONVERSION}\n  versions:\n"), "conversion:"),
    ("CRD-CONVERSION-HARD-CODED", ("metadata:\n  name: demos", f"metadata:\n{INJECTED}  name: demos"), "cert-manager."),
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
    ("CSV-EXAMPLES-METADATA", described("'[]'"), "alm-examples-metadata:"),
    ("CSV-EXAMPLES-METADATA", described("'{\"a\"}'"), "alm-examples-metadata:"),
    ("CSV-EXAMPLES-METADATA", described("'{\"example\": \"x\"}'"), "alm-examples-metadata:"),
    ("CSV-EXAMPLES-METADATA", described("'{\"example\": {\"description\": 1}}'"), "alm-examples-metadata:"),
    ("CSV-EXAMPLES-METADATA-UNKNOWN", described("'{\"other\": {}}'"), "alm-examples-metadata:"),
    ("CSV-DESCRIPTOR-DUPLICATE", ("path: users[0].name", "path: size"), "- path: size"),
    ("CSV-DESCRIPTOR-PATH", ("path: users[0].name", "path: users[0].mail"), "- path: users"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "change", "line"), CASES)
def test_each_rule_reports_the_line(rule: str, change: tuple[str, str], line: str) -> None:
    bundle = demo(change)
    (problem,) = (finding for finding in findings(bundle, "opmkit") if finding.rule == rule)
    assert line_of(bundle, problem).startswith(line)
    assert problem.hint


def test_every_rule_is_tested_and_documented() -> None:
    rules = validators()["opmkit"]
    assert {rule.id for rule in rules} == {rule for rule, _, _ in CASES}
    for rule in rules:
        assert rule.explanation, rule.id
        assert rule.bad, rule.id
        assert rule.good, rule.id


def test_an_empty_skip_range_is_none() -> None:
    assert findings(demo((">=1.0.0 <1.2.3", "")), "opmkit") == []


def test_descriptions_of_examples() -> None:
    change = described('\'{"example": {"description": "A demo.", "size": 1}}\'')
    assert findings(demo(change), "opmkit") == []
    rules = {finding.rule for finding in findings(demo(change, (EXAMPLE, "")), "opmkit")}
    assert rules == {"CSV-EXAMPLES-METADATA-UNKNOWN"}
    unreadable = demo(change, (f"[{EXAMPLE}]", "[{"))
    assert findings(unreadable, "opmkit") == []  # the validator csv reports the examples


def test_a_valid_bundle_has_no_findings() -> None:
    assert findings(demo(), "opmkit") == []


@pytest.mark.parametrize("compat", [Compat.OPM_1_26, Compat.NEWEST])
def test_the_rules_run_only_in_opmkit_mode(compat: Compat) -> None:
    assert findings(demo(("minKubeVersion", "miniKubeVersion"), compat=compat), "opmkit") == []


def findings_of_rule(rule: str, *changes: tuple[str, str], more: Mapping[str, str | bytes] | None = None) -> list[str]:
    return [finding.message for finding in findings(demo(*changes, more=more), "opmkit") if finding.rule == rule]


def test_a_typo_is_reported_with_the_nearest_name() -> None:
    assert findings_of_rule("CSV-UNKNOWN-FIELD", ("minKubeVersion", "miniKubeVersion")) == [
        "unknown field spec.miniKubeVersion; did you mean minKubeVersion?"
    ]


@pytest.mark.parametrize(
    ("name", "version"),
    [("demo.v1.2.3", "v1.2.3"), ("demo.v1.2.3", "1.2.3+7"), ("demo.v1.2", "1.2"), ("d.v1.2.0", "1.2")],
)
def test_names_that_end_with_the_version(name: str, version: str) -> None:
    changes = ("name: demo.v1.2.3", f"name: {name}"), ("  version: 1.2.3", f"  version: '{version}'")
    assert findings_of_rule("CSV-NAME-VERSION", *changes) == []


def test_names_with_a_release() -> None:
    changes = ("name: demo.v1.2.3", "name: demo-v1.2.3-1"), ("  version: 1.2.3", "  version: 1.2.3\n  release: '1'")
    assert findings_of_rule("CSV-NAME-VERSION", *changes) == []


@pytest.mark.parametrize(
    "path",
    ["users[*].name", "users.name", "users[].name", "users.[0].name", "size", "users['a.b']"],
)
def test_valid_descriptor_paths(path: str) -> None:
    assert findings_of_rule("CSV-DESCRIPTOR-PATH", ("path: users[0].name", f"path: {path}")) == []


@pytest.mark.parametrize("path", ["''", "users[0", "users..name", "size.more", "spec.size", "users[0].name."])
def test_invalid_descriptor_paths(path: str) -> None:
    assert len(findings_of_rule("CSV-DESCRIPTOR-PATH", ("path: users[0].name", f"path: {path}"))) == 1


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
def test_open_schemas_allow_any_path(schema: str) -> None:
    users = FILES[CRD].partition("              users:\n")[2].partition("          status:")[0]
    changes = ("path: users[0].name", "path: users.key.name"), (f"users:\n{users}", f"users: {schema}\n")
    assert findings_of_rule("CSV-DESCRIPTOR-PATH", *changes) == []


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
def test_selectors_with_expressions(expression: str, matches: bool) -> None:
    change = ("            matchLabels:\n              app: demo\n", f"            matchExpressions: [{expression}]\n")
    assert bool(findings_of_rule("CSV-DEPLOYMENT-SELECTOR", change)) is not matches


def test_a_service_account_in_a_manifest() -> None:
    change = ("  - serviceAccountName: demo-account", "  - serviceAccountName: other")
    account = "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: demo-account}\n"
    assert findings_of_rule("CSV-DEPLOYMENT-ACCOUNT", change, more={"manifests/account.yaml": account}) == []


def test_images_are_not_checked_without_related_images() -> None:
    related = FILES[CSV].partition("  relatedImages:\n")[2].partition("  customresource")[0]
    assert findings_of_rule("CSV-IMAGE-NOT-RELATED", (f"  relatedImages:\n{related}", "")) == []


def test_each_metadata_key_is_read_from_one_file() -> None:
    dependencies = "dependencies: [{type: olm.label, value: {label: a}}]\n"
    more = {"metadata/x.yml": dependencies, "metadata/y.json": "{", "metadata/z": "x"}
    first_words = [message.partition(" ")[0] for message in findings_of_rule("META-IGNORED", more=more)]
    assert first_words == ["dependencies", "cannot"]
    empty_first = {"metadata/dependencies.yaml": "dependencies: []\n", "metadata/x.yaml": dependencies}
    assert findings_of_rule("META-IGNORED", more=empty_first) == []


def test_duplicate_keys_in_json() -> None:
    bundle = view({"manifests/a.json": '{"kind": "A",\n "kind": "B"}'})
    (finding,) = findings(bundle, "opmkit")
    assert (finding.rule, finding.location) == ("YAML-DUPLICATE-KEY", "manifests/a.json:2:2")


@pytest.mark.parametrize(("mark", "encoding"), [(b"", "utf-16"), (b"\xfe\xff", "utf-16-be"), (b"", "utf-32")])
def test_encodings_other_than_utf8(mark: bytes, encoding: str) -> None:
    bundle = view({"manifests/a.yaml": mark + "kind: A\n".encode(encoding)})
    assert [finding.rule for finding in findings(bundle, "opmkit")][:1] == ["FILE-ENCODING"]


def icon(data: bytes, media_type: str) -> list[str]:
    changes = (ICON, base64.b64encode(data).decode()), ("image/svg+xml", media_type)
    return findings_of_rule("CSV-ICON-IMAGE", *changes)


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
def test_icons_that_match_their_media_type(data: bytes, media_type: str) -> None:
    assert icon(data, media_type) == []


@pytest.mark.parametrize(
    ("data", "media_type", "problem"),
    [
        (b"<svg/>", "image/png", "but like image/svg+xml"),
        (b"\x89PNG\r\n\x1a\n", "image/svg+xml", "but like image/png"),
        (b"<html/>", "image/svg+xml", "the root 'html'"),
        (b"<svg><g></svg>", "image/svg+xml", "not XML"),
        (b"<?xml version='1.0' encoding='none'?><svg/>", "image/svg+xml", "not XML"),
        (b"<svg>" + b" " * 1024 * 1024 + b"</svg>", "image/svg+xml", "bytes"),
        (b"PNG", "image/gif", "does not start"),
    ],
    ids=["svg", "png", "html", "unclosed", "encoding", "large", "gif"],
)
def test_icons_that_do_not_match_their_media_type(data: bytes, media_type: str, problem: str) -> None:
    (message,) = icon(data, media_type)
    assert problem in message


def test_icon_data_with_line_breaks() -> None:
    broken = f"|\n      {ICON[:20]}\n      {ICON[20:]}"
    assert findings_of_rule("CSV-ICON-DATA", (ICON, broken)) == []


@pytest.mark.parametrize(
    "raw", ["", "- 1", "spec: 1", "spec: {install: {spec: {deployments: [1, {spec: {template: []}}]}}}"]
)
def test_unexpected_content_does_not_raise(raw: str) -> None:
    for validator in ("csv", "bundle", "opmkit"):
        text = f"kind: ClusterServiceVersion\n{raw}" if raw.startswith("spec") else raw
        findings(view({CSV: text, CRD: raw, ANNOTATIONS: raw}), validator)


class CountedName(str):
    """A string that counts comparisons."""

    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        CountedName.comparisons += 1
        return str.__eq__(self, other)


class ListedNames(str):
    """A comma-separated list of names that count comparisons."""

    __slots__ = ()

    def split(self, *separators: Any) -> list[str]:
        return list(map(CountedName, str.split(self, *separators)))


def test_comparisons_grow_linearly_with_channels() -> None:
    listed = ListedNames(",".join(f"channel-{number}" for number in range(500)))
    CountedName.comparisons = 0

    bundle = cast("BundleView", SimpleNamespace(annotations={labels.CHANNELS: listed}))
    assert list(channels_odd.check(bundle)) == []

    assert CountedName.comparisons < 1500


def test_findings_on_channels_are_of_limited_length() -> None:
    channels = ", ".join(f"channel-{number}" for number in range(500))

    found = findings_of_rule("ANN-CHANNELS-ODD", ("channels.v1: stable", f"channels.v1: {channels}"))

    assert len(found) == 499
    assert all(len(message) < 1300 for message in found)
