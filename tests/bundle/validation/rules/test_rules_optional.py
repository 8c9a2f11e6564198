"""Rules of the optional validators, ``object`` and ``operatorgroup``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.finding import Severity
from opmkit.bundle.validation.compat import Compat, Options
from opmkit.bundle.validation.platforms import ImagePlatforms
from opmkit.bundle.validation.rule_registry import validators
from opmkit.bundle.validation.run import MAX_FINDINGS
from opmkit.imagetools.spec import Platform
from tests.kit.broken import BASE
from tests.kit.demo import CSV, demo, line_of
from tests.kit.fake_platforms import platforms_of
from tests.kit.validation import findings, view

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.bundle.validation.bundle_view import BundleView

ICON = (
    "  icon:\n  - mediatype: image/svg+xml\n    base64data: PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4=\n"
)
PROVIDER = "  provider:\n    name: Example\n"
MAINTAINERS = "  maintainers:\n  - name: Demo Makers\n    email: makers@example.com\n"
LINKS = "  links:\n  - name: Home\n    url: https://demo.example.com/\n"
REQUESTS = "                resources:\n                  requests: {cpu: 10m, memory: 64Mi}\n"
OLD_CRD = """\
apiVersion: apiextensions.k8s.io/v1beta1
kind: CustomResourceDefinition
metadata: {name: olds.demo.example.com}
"""


def permission(group: str, resource: str, verb: str = "create") -> tuple[str, str]:
    """Return a change of the permission in the valid bundle."""
    old = "        - apiGroups: [demo.example.com]\n          resources: [demos]\n          verbs: [get]\n"
    return old, f"        - apiGroups: [{group}]\n          resources: [{resource}]\n          verbs: ['{verb}']\n"


def check(bundle: BundleView, validator: str) -> list[tuple[str, str]]:
    """Return rules and reported lines of the findings."""
    return [(finding.rule, line_of(bundle, finding)) for finding in findings(bundle, validator)]


# Validator, rule, change, beginning of the reported line.
CASES = [
    ("operatorhubv2", "HUB-PROVIDER", (PROVIDER, "  provider: {name: ' '}\n"), "provider:"),
    ("operatorhubv2", "HUB-MAINTAINER-FIELDS", (MAINTAINERS, "  maintainers: [{name: Ann}]\n"), "maintainers:"),
    (
        "operatorhubv2",
        "HUB-MAINTAINER-EMAIL",
        (MAINTAINERS, "  maintainers: [{name: A, email: a@b@c}]\n"),
        "maintainers:",
    ),
    ("operatorhubv2", "HUB-LINK-FIELDS", (LINKS, "  links: [{url: 'https://a.b'}]\n"), "links:"),
    ("operatorhubv2", "HUB-LINK-URL", (LINKS, "  links: [{name: A, url: a.b}]\n"), "links:"),
    ("operatorhubv2", "HUB-VERSION", ("version: 1.2.3", "version: 0.0.0+1"), "version: 0.0.0"),
    ("operatorhubv2", "HUB-VERSION", ("  version: 1.2.3\n", ""), "spec:"),
    ("operatorhubv2", "HUB-ICON-MISSING", (ICON, ""), "spec:"),
    ("operatorhubv2", "HUB-ICON-COUNT", (ICON, "  icon: []\n"), "icon:"),
    (
        "operatorhubv2",
        "HUB-ICON-FIELDS",
        ("  - mediatype: image/svg+xml\n    base64data", "  - base64data"),
        "- base64data:",
    ),
    ("operatorhubv2", "HUB-ICON-MEDIATYPE", ("image/svg+xml", "image/svg"), "- mediatype:"),
    ("operatorhubv2", "MINKUBE-MISSING", ("minKubeVersion: 1.27.0", "minKubeVersion: ''"), "minKubeVersion:"),
    ("operatorhubv2", "MINKUBE-INVALID", ("minKubeVersion: 1.27.0", "minKubeVersion: '1.27'"), "minKubeVersion:"),
    ("operatorhubv2", "DEPAPI-MINKUBE-INVALID", ("minKubeVersion: 1.27.0", "minKubeVersion: x"), "minKubeVersion:"),
    ("capabilities", "HUB-CAPABILITIES", ("capabilities: Basic Install", "capabilities: basic"), "capabilities:"),
    ("categories", "HUB-CATEGORIES", ("categories: Developer Tools", "categories: 'Security, x'"), "categories:"),
    ("good-practices", "GP-NO-DEPLOYMENT", ("      deployments:\n      - name", "      other:\n      - name"), "spec:"),
    ("good-practices", "GP-RESOURCE-REQUESTS", (REQUESTS, ""), "- name: manager"),
    ("good-practices", "GP-RESOURCE-REQUESTS-PARTIAL", (", memory: 64Mi", ""), "requests:"),
    (
        "good-practices",
        "GP-CRD-DESCRIPTION",
        ("      description: A demo to show.\n", ""),
        "- name: demos.demo.example.com",
    ),
    (
        "good-practices",
        "GP-CHANNEL-NAME",
        ("channels.v1: stable", "channels.v1: stable,beta"),
        "operators.operatorframework.io.bundle.channels.v1:",
    ),
    ("good-practices", "GP-RBAC-CRD", permission("apiextensions.k8s.io", "'*'"), "- apiGroups: [apiext"),
    ("good-practices", "GP-NAME-VERSION", ("  name: demo.v1.2.3", "  name: demo.v1.2"), "name: demo.v1.2"),
    ("good-practices", "GP-NAME-CONVENTION", ("  name: demo.v1.2.3", "  name: demo-1.2.3"), "name: demo-1.2.3"),
    ("alpha-deprecated-apis", "DEPAPI-1.25", permission("policy", "podsecuritypolicies"), "- apiGroups: [policy]"),
    (
        "alpha-deprecated-apis",
        "DEPAPI-1.25",
        (
            "kind: Demo\n      displayName",
            "kind: Demo\n      resources: [{version: batch/v1beta1, kind: CronJob}]\n      displayName",
        ),
        "resources:",
    ),
]


@pytest.mark.parametrize(("validator", "rule", "change", "line"), CASES, ids=lambda value: str(value)[:30])
def test_each_rule_reports_the_line(validator: str, rule: str, change: tuple[str, str], line: str) -> None:
    bundle = demo(change)
    lines = [found for name, found in check(bundle, validator) if name == rule]
    assert len(lines) == 1
    assert lines[0].startswith(line)


@pytest.mark.parametrize("validator", ["operatorhubv2", "operatorhub", "alpha-deprecated-apis", "community", "object"])
def test_what_is_right_passes(validator: str) -> None:
    bundle = demo(
        (MAINTAINERS, "  maintainers: [{name: A, email: A <a@b>}]\n"),
        (LINKS, "  links: [{name: A, url: 'https://a.b/#c'}]\n"),
    )
    expected = ["HUB-DEPRECATED"] if validator == "operatorhub" else []
    assert [rule for rule, _ in check(bundle, validator)] == expected
    assert expected or not check(bundle, "capabilities") + check(bundle, "categories")


def test_opm_1_26_accepts_a_blank_provider() -> None:
    blank = (PROVIDER, "  provider: {name: ' '}\n")
    assert ("HUB-PROVIDER", "provider: {name: ' '}") not in check(demo(blank, compat=Compat.OPM_1_26), "operatorhub")


def test_categories_file(tmp_path: Path) -> None:
    bundle = demo(("categories: Developer Tools", "categories: 'Cloud Pak,Security'"))

    def with_file(text: str) -> list[tuple[str, str, str]]:
        file = tmp_path / "categories.json"
        file.write_text(text)
        view = replace(bundle, options=Options(categories_file=str(file)))
        return [(finding.rule, finding.message, finding.file) for finding in findings(view, "categories")]

    assert [message for _, message, _ in with_file('{"categories": ["Cloud Pak"]}')] == ["unknown category 'Security'"]
    assert with_file('{"categories": ["Cloud Pak", "Security"]}') == []
    for broken in ("[]", "{", '{"categories": "x"}', '{"categories": [1]}', " " * 2_000_000):
        assert [rule for rule, _, _ in with_file(broken)] == ["HUB-CATEGORIES-FILE"], broken[:20]
    absent = replace(bundle, options=Options(categories_file=str(tmp_path / "none")))
    assert [finding.rule for finding in findings(absent, "categories")] == ["HUB-CATEGORIES-FILE"]


@pytest.mark.parametrize(
    ("api_version", "kind", "rule"),
    [
        ("policy/v1beta1", "PodDisruptionBudget", "DEPAPI-1.25"),
        ("autoscaling/v2beta2", "HorizontalPodAutoscaler", "DEPAPI-1.26"),
        ("storage.k8s.io/v1beta1", "CSIStorageCapacity", "DEPAPI-1.27"),
        ("flowcontrol.apiserver.k8s.io/v1beta2", "FlowSchema", "DEPAPI-1.29"),
        ("flowcontrol.apiserver.k8s.io/v1beta3", "PriorityLevelConfiguration", "DEPAPI-1.32"),
        ("rbac.authorization.k8s.io/v1beta1", "Role", "DEPAPI-1.22"),
    ],
)
def test_removed_apis(api_version: str, kind: str, rule: str) -> None:
    text = f"\napiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: x}}\n"
    bundle = demo(("  minKubeVersion: 1.27.0\n", ""), more={"manifests/x.yaml": text})
    (finding,) = findings(bundle, "alpha-deprecated-apis")
    assert (finding.rule, finding.severity, finding.location, finding.subject) == (
        rule,
        Severity.WARNING,
        "manifests/x.yaml:2:1",
        "demo.v1.2.3",
    )
    assert f"{kind} (x)" in finding.message
    for options in (Options(k8s_version="v1.40"), Options(k8s_version=rule.removeprefix("DEPAPI-"))):
        (finding,) = findings(replace(bundle, options=options), "alpha-deprecated-apis")
        assert finding.severity is Severity.ERROR
    with_invalid_option = replace(bundle, options=Options(k8s_version="soon"))
    assert [finding.rule for finding in findings(with_invalid_option, "alpha-deprecated-apis")] == [
        "DEPAPI-OPTION-INVALID",
        rule,
    ]


def test_min_kube_version_makes_a_removed_api_an_error() -> None:
    found = findings(demo(more={"manifests/old.yaml": OLD_CRD}), "alpha-deprecated-apis")  # minKubeVersion is 1.27.0
    assert [(finding.rule, finding.severity) for finding in found] == [("DEPAPI-1.22", Severity.ERROR)]


PROPERTIES = '    olm.properties: \'[{"type": "olm.maxOpenShiftVersion", "value": %s}]\'\n    capabilities:'


@pytest.mark.parametrize(
    ("value", "rule"),
    [
        ('"4.8"', ""),
        ("4.8", "COMM-PROPERTIES-JSON"),
        ('"x"', "COMM-MAXOCP-PARSE"),
        ('"4.8.1"', "COMM-MAXOCP-PATCH"),
        ('"4.9"', "COMM-MAXOCP-TOO-NEW"),
    ],
)
def test_max_openshift_version(value: str, rule: str) -> None:
    bundle = demo(("    capabilities:", PROPERTIES % value), more={"manifests/old.yaml": OLD_CRD})
    assert [finding.rule for finding in findings(bundle, "community")] == [rule] * bool(rule) + ["COMM-INDEX-PATH"]


def test_go_validators_repeat_errors_without_index_path() -> None:
    files = {"manifests/old.yaml": OLD_CRD}
    levels = [
        (finding.rule, finding.severity.value)
        for finding in findings(demo(more=files, compat=Compat.NEWEST), "community")
    ]
    missing = "COMM-MAXOCP-MISSING"
    assert levels == [(missing, "error"), (missing, "warning"), ("COMM-INDEX-PATH", "warning")]
    assert [finding.rule for finding in findings(demo(more=files), "community")] == [missing, "COMM-INDEX-PATH"]
    patch = demo(("    capabilities:", PROPERTIES % '"4.8.1"'), more=files, compat=Compat.NEWEST)
    assert [finding.rule for finding in findings(patch, "community")] == ["COMM-INDEX-PATH"]


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ('LABEL com.redhat.openshift.versions="v4.5-v4.8"', ""),
        ('LABEL com.redhat.openshift.versions="=v4.8"', ""),
        ("LABEL com.redhat.openshift.versions v4.5", "COMM-LABEL-SYNTAX"),
        ("LABEL com.redhat.openshift.versions='4.5-x'", "COMM-LABEL-PARSE"),
        ('LABEL com.redhat.openshift.versions=""', "COMM-LABEL-EMPTY"),
        ('LABEL com.redhat.openshift.versions="v4.5"', "COMM-LABEL-RANGE"),
        ('LABEL com.redhat.openshift.versions="v4.5-v4.9"', "COMM-LABEL-RANGE"),
        ('LABEL com.redhat.openshift.versions="=v4.9"', "COMM-LABEL-RANGE"),
    ],
)
def test_openshift_versions_label(line: str, rule: str, tmp_path: Path) -> None:
    dockerfile = tmp_path / "bundle.Dockerfile"
    dockerfile.write_text(f"FROM scratch\n{line}\n")
    bundle = demo(("    capabilities:", PROPERTIES % '"4.8"'), more={"manifests/old.yaml": OLD_CRD})
    found = findings(replace(bundle, options=Options(index_path=str(dockerfile))), "community")
    assert [(finding.rule, finding.location) for finding in found] == [(rule, f"{dockerfile}:2")] * bool(rule)


def test_unreadable_dockerfile(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none"):
        bundle = demo(more={"manifests/old.yaml": OLD_CRD})
        found = findings(replace(bundle, options=Options(index_path=str(path))), "community")
        assert [finding.rule for finding in found] == ["COMM-MAXOCP-MISSING", "COMM-INDEX-FILE"]


PDB = "kind: PodDisruptionBudget\napiVersion: policy/v1\nmetadata: {name: x}\nspec:\n  %s\n"
ROLE = (
    "kind: Role\nmetadata: {name: x}\nrules:\n- {apiGroups: [%s], resources: [%s], verbs: [%s], resourceNames: [%s]}\n"
)
SCC = ("security.openshift.io", "securitycontextconstraints")


@pytest.mark.parametrize(
    ("text", "rules"),
    [
        (PDB % "maxUnavailable: 0", ["OBJECT-PDB-MAX"]),
        (PDB % "maxUnavailable: 00%", ["OBJECT-PDB-MAX"]),
        (PDB % "maxUnavailable: 50%", []),
        (PDB % "minAvailable: 100%", ["OBJECT-PDB-MIN"]),
        (PDB % "minAvailable: 200%", ["OBJECT-PDB-MIN"]),
        (PDB % "minAvailable: 100", []),
        (PDB % "minAvailable: {}", ["OBJECT-DECODE"]),
        ("kind: PriorityClass\n\n\n\nglobalDefault: true\n", ["OBJECT-PC-GLOBAL"]),
        ("kind: PriorityClass\n\n\n\nglobalDefault: 'true'\n", ["OBJECT-DECODE"]),
        ("\n" + ROLE % ("policy", "poddisruptionbudgets", "create", ""), ["OBJECT-RBAC-PDB"]),
        ("\n" + ROLE % ("policy", "poddisruptionbudgets", "get", ""), []),
        ("\n" + ROLE % (*SCC, "update", "anyuid"), ["OBJECT-RBAC-SCC"]),
        ("\n" + ROLE % (*SCC, "update", "mine"), []),
    ],
)
def test_objects(text: str, rules: list[str]) -> None:
    found = findings(demo(more={"manifests/x.yaml": text}), "object")
    assert [(finding.rule, finding.file, finding.line) for finding in found] == [
        (rule, "manifests/x.yaml", 5) for rule in rules
    ]


def test_go_validators_read_percentages_as_0() -> None:
    files = {"manifests/x.yaml": PDB % "maxUnavailable: 50%"}
    assert [finding.rule for finding in findings(demo(more=files, compat=Compat.NEWEST), "object")] == [
        "OBJECT-PDB-MAX"
    ]


def test_annotation_keys_of_operator_groups() -> None:
    text = "apiVersion: operators.coreos.com/v1\nkind: OperatorGroup\nmetadata: {annotations: {olm.providedapis: x}}\n"
    (finding,) = findings(demo(more={"manifests/x.yaml": text}), "operatorgroup")
    assert (finding.rule, finding.location) == ("ANNOTATION-KEY-CASE", "manifests/x.yaml:3:26")


MANAGER = "quay.io/example/demo@sha256:0123456789012345678901234567890123456789012345678901234567890123"
AFFINITY = """\
              affinity:
                nodeAffinity:
                  requiredDuringSchedulingIgnoredDuringExecution:
                    nodeSelectorTerms:
                    - matchExpressions:
                      - {key: kubernetes.io/arch, operator: In, values: [%s]}
                      - {key: kubernetes.io/os, operator: In, values: [linux]}
              containers:
"""


def arches(*architectures: str, index: bool = True) -> ImagePlatforms:
    return ImagePlatforms(tuple(Platform("linux", finding) for finding in architectures), index)


def platform_findings(
    platforms: ImagePlatforms | None, labels: str = "", affinity: str = "", compat: Compat = Compat.OPMKIT
) -> list[tuple[str, str]]:
    changes = [("  annotations:\n    alm", f"  labels: {{{labels}}}\n  annotations:\n    alm")]
    if affinity:
        changes.append(("              containers:\n", AFFINITY % affinity))
    bundle = replace(demo(*changes, compat=compat), inspect=lambda _image: platforms)
    return [(rule, line.partition(":")[0]) for rule, line in check(bundle, "multiarch")]


def test_matching_platforms() -> None:
    label = "operatorframework.io/arch.%s: supported"
    both = f"{label % 'amd64'}, {label % 'arm64'}"
    assert platform_findings(arches("amd64"), affinity="amd64") == []
    assert platform_findings(arches("amd64", index=False), affinity="amd64") == []
    assert platform_findings(arches("amd64", "arm64"), both, "amd64, arm64") == []
    attested = ImagePlatforms((Platform("linux", "amd64"), Platform("unknown", "unknown")), is_index=True)
    assert platform_findings(attested, affinity="amd64") == []


def test_mismatched_platforms() -> None:
    assert platform_findings(arches("arm64"), affinity="arm64") == [
        ("ARCH-IMAGE-UNSUPPORTED", "image"),
        ("ARCH-LABEL-MISSING", "labels"),
        ("ARCH-OTHER-IMAGE", "image"),
    ]
    assert platform_findings(arches("amd64")) == [("ARCH-AFFINITY-MISSING", "image")]
    assert platform_findings(arches("amd64"), affinity="amd64, s390x") == [("ARCH-AFFINITY-EXTRA", "image")]
    assert ("ARCH-AFFINITY-LACKS", "image") in platform_findings(arches("amd64", "arm64"), affinity="amd64")
    windows = ImagePlatforms((Platform("linux", "amd64"), Platform("windows", "amd64")), is_index=True)
    assert ("ARCH-OS-LABEL-MISSING", "labels") in platform_findings(windows, affinity="amd64")
    label = "operatorframework.io/os.windows: supported"
    assert platform_findings(arches("amd64"), label, "amd64") == [
        ("ARCH-IMAGE-UNSUPPORTED", "image"),
        ("ARCH-OS-LABEL-MISSING", "labels"),
        ("ARCH-OTHER-IMAGE-OS", "image"),
    ]


def test_unknown_platforms() -> None:
    assert platform_findings(None) == [("ARCH-INSPECT", "image"), ("ARCH-AFFINITY-UNKNOWN", "image")]
    assert platform_findings(None, affinity="amd64") == [("ARCH-INSPECT", "image")]


def test_go_validators_reject_an_image_without_index() -> None:
    assert ("ARCH-IMAGE-UNSUPPORTED", "image") in platform_findings(arches("amd64", index=False), compat=Compat.NEWEST)


def test_unsupported_container_tool() -> None:
    bundle = replace(demo(), options=Options(container_tools="crictl"), inspect=platforms_of)
    assert [finding.rule for finding in findings(bundle, "multiarch")] == ["ARCH-OPTION-INVALID"]
    assert findings(replace(bundle, options=Options(container_tools="Podman")), "multiarch")


def test_the_same_manager_image_in_two_deployments() -> None:
    text = demo().files[CSV].decode()
    first = text[text.index("      - name: demo-manager\n") :]
    second = first.replace("demo-manager", "demo-again") + "              - {name: side, image: side}\n"
    platforms = {MANAGER: arches("amd64"), "side": arches("amd64", "arm64")}
    for compat, expected in ((Compat.OPMKIT, []), (Compat.NEWEST, ["ARCH-LABEL-MISSING"])):
        bundle = replace(demo((first, first + second), compat=compat), inspect=platforms.get)
        assert [finding.rule for finding in findings(bundle, "multiarch") if "LABEL" in finding.rule] == expected


@pytest.mark.parametrize("value", ["x", "1", "null", "[]", "{}", "[[]]", "[null]", "{a: 1}", "true"])
def test_values_of_the_wrong_type_do_not_raise(value: str) -> None:
    fields = ("provider", "maintainers", "links", "version", "icon", "minKubeVersion", "install", "relatedImages")
    names = (
        "operatorhub",
        "alpha-deprecated-apis",
        "community",
        "good-practices",
        "multiarch",
        "object",
        "operatorgroup",
    )
    members = "".join(f"{name}: {value}\n" for name in ("metadata", "spec", "rules", "globalDefault"))
    objects = {
        f"manifests/{kind}.yaml": f"kind: {kind}\napiVersion: operators.coreos.com/v1\n{members}"
        for kind in ("Role", "PodDisruptionBudget", "PriorityClass", "OperatorGroup")
    }
    for field in (*fields, "customresourcedefinitions"):
        text = f"kind: ClusterServiceVersion\nmetadata: {value}\nspec: {{{field}: {value}}}\n"
        for compat in Compat:
            bundle = demo(compat=compat, more={CSV: text, "manifests/old.yaml": OLD_CRD, **objects})
            for name in names:
                assert isinstance(findings(bundle, name), list)


def test_every_rule_is_documented() -> None:
    for name in (
        "crd",
        "object",
        "operatorhub",
        "capabilities",
        "categories",
        "community",
        "good-practices",
        "multiarch",
    ):
        for rule in validators()[name]:
            assert rule.explanation, rule.id
            assert rule.summary, rule.id
            assert rule.hint.endswith("."), rule.id
            assert rule.bad, rule.id
            assert rule.good not in ("", rule.bad), rule.id


@pytest.mark.slow
def test_aliased_values_are_bounded() -> None:
    many = ", ".join(f"x{number}" for number in range(3000))
    labels = "".join(
        f"    operatorframework.io/{kind}.x{number}: supported\n" for kind in ("os", "arch") for number in range(3000)
    )
    affinity = AFFINITY.replace("values: [%s]", f"values: &many [{many}]")
    changes = [
        ("  annotations:\n    alm", f"  labels:\n{labels}  annotations:\n    alm"),
        ("              containers:\n", affinity.replace("values: [linux]", "values: *many")),
    ]
    bundle = replace(demo(*changes), inspect=lambda _image: arches("amd64"))
    *listed, last = [finding for finding in findings(bundle, "multiarch") if finding.rule == "ARCH-IMAGE-UNSUPPORTED"]
    assert len(listed) == MAX_FINDINGS
    assert last.message.startswith(f"{100 * 100 - MAX_FINDINGS} more findings")


@pytest.mark.slow
def test_a_crd_with_many_versions_takes_linear_time() -> None:
    versions = "".join(f"  - {{name: v{number}}}\n" for number in range(5_000)) + "  - {name: v1}\n"
    text = f"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nspec:\n  versions:\n{versions}"
    assert "CRD-VERSION-DUPLICATE" in {
        finding.rule for finding in findings(demo(more={"manifests/x.yaml": text}), "crd")
    }


def test_dependencies_that_olm_v1_refuses() -> None:
    file = "dependencies:\n- type: olm.package\n  value: {packageName: reef, version: '>=1.0.0'}\n"
    bundle = view({**BASE, "metadata/dependencies.yaml": file.encode()})
    assert [(found.rule, found.file, found.subject) for found in findings(bundle, "olm-v1")] == [
        ("OLM-V1-DEPENDENCY", "metadata/dependencies.yaml", "olm.package.required")
    ]
    required = {path: raw for path, raw in BASE.items() if path != "metadata/dependencies.yaml"}
    assert findings(view(required), "olm-v1") == []
