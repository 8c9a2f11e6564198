from __future__ import annotations

import json

import pytest

from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.rendering.registry_v1 import read_registry_v1
from tests.bundle.rendering.samples import DEFINITION, bundle, files


def config_map(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def test_all_documents_count_and_lists_are_taken_apart() -> None:
    given = files(DEFINITION)
    lists = {"apiVersion": "v1", "kind": "ConfigMapList", "items": [config_map("a"), config_map("b")]}
    given["manifests/.hidden.yaml"] = json.dumps(config_map("hidden")).encode()
    given["manifests/more.yaml"] = f"---\n{json.dumps(lists)}\n---\n---\n{json.dumps(config_map('c'))}\n".encode()
    read = read_registry_v1(given)
    assert [value["metadata"]["name"] for value in read.others] == ["hidden", "a", "b", "c"]
    assert (read.name, read.package, read.csv_path) == ("reef.v1.0.0", "reef", "manifests/csv.yaml")
    assert [value["metadata"]["name"] for value in read.definitions] == ["reefs.demo.com"]
    assert read.paths["ConfigMap", "c"] == "manifests/more.yaml"


LISTED = b"""
apiVersion: v1
kind: ConfigMapList
items: [null, {metadata: {name: a}}, {kind: Service, apiVersion: v1, items: {b: 1}}]
---
kind: List
items:
---
kind: List
items: []
"""


def test_items_inherit_the_type_of_the_list() -> None:
    read = read_registry_v1({**files(), "manifests/x.yaml": LISTED})
    config_map = {"kind": "ConfigMap", "apiVersion": "v1"}
    service = {"kind": "Service", "apiVersion": "v1", "items": {"b": 1}}
    assert [*read.others] == [config_map, {**config_map, "metadata": {"name": "a"}}, service]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"kind: ConfigMap\nitems: []", "a ConfigMap with items: OLM v0 reads an object of this kind, OLM v1 a list"),
        (b"kind: list\nitems:", "a list with items: "),
        (b'{"kind": "Role", "items": null}', "a Role with items: "),
        (b"items: []", "not a Kubernetes object: it has no kind"),
        (b"kind: List\nitems: {}", "items is not a list"),
        (b"kind: List\nitems: [1]", "items[0]: not a Kubernetes object: not a mapping"),
        (b"kind: List\nitems: [{kind: Role}]", "items[0]: an object of a list must have an apiVersion"),
        (b"kind: RoleList\nitems: [{}]", "items[0]: an object of a list must have an apiVersion"),
        (b"kind: List\nitems: [{apiVersion: v1}]", "items[0]: not a Kubernetes object: it has no kind"),
        (b"kind: List\nitems: [{kind: List, apiVersion: v1, items: []}]", "items[0]: a list in a list"),
        (b"kind: List\nitems: [{kind: A, apiVersion: a/b/c}]", "items[0]: invalid apiVersion 'a/b/c'"),
        (b"kind: Role\napiVersion: a/b/c", "invalid apiVersion 'a/b/c': more than one slash"),
        (b"kind: Role\napiVersion: 1", "Role : apiVersion is a number, not a string"),
        (b"kind: Role\nmetadata: text", "Role : metadata is a string, not a mapping"),
        (b"kind: Role\nmetadata: {name: 1}", "Role : metadata.name is a number, not a string"),
        (b"kind: Role\nmetadata: {labels: {a: 1}}", "Role : metadata.labels.a is a number, not a string"),
        (b"kind: Role\nmetadata: {annotations: [a]}", "Role : metadata.annotations is a list, not a mapping"),
        (b"kind: Role\nmetadata: {generation: 1.5}", "Role : metadata.generation is a number, not an integer"),
        (b"kind: Role\nmetadata: {creationTimestamp: today}", "Role : metadata.creationTimestamp is 'today', which is"),
        (
            b"kind: Role\nmetadata: {ownerReferences: [{controller: 1}]}",
            "Role : metadata.ownerReferences[0].controller",
        ),
        (b"kind: List\nmetadata: {name: 1}\nitems: []", "List : metadata.name is a number, not a string"),
        (b'\xef\xbb\xbf{"kind": "Role"}{"kind": "Role"}', "byte order mark before JSON"),
        (b'{"kind": "Role", "a": ' + b"[" * 500 + b"]" * 500 + b"}", "more than 200 levels of nesting"),
    ],
)
def test_what_olm_refuses_or_reads_differently_is_refused(content: bytes, problem: str) -> None:
    with pytest.raises(InvalidBundle) as raised:
        read_registry_v1({**files(), "manifests/x.yaml": content})
    assert str(raised.value).startswith(f"manifests/x.yaml:1: {problem}")


def test_package_can_be_a_number() -> None:
    annotations = b"annotations: {operators.operatorframework.io.bundle.package.v1: 3}"
    assert read_registry_v1({**files(), "metadata/annotations.yaml": annotations}).package == "3"


@pytest.mark.parametrize("namespace", ["null", "''"])
def test_empty_namespace_is_removed(namespace: str) -> None:
    content = f"kind: Role\nmetadata: {{name: x, namespace: {namespace}}}".encode()
    (value,) = read_registry_v1({**files(), "manifests/x.yaml": content}).others
    assert value["metadata"] == {"name": "x"}


def test_numbers_are_those_of_go() -> None:
    content = b"kind: Role\nmetadata: {generation: 1.0}\na: [!!float 1, 1e3, 18446744073709551615, 1.5, 9e18, 9.3e18]\n"
    (value,) = read_registry_v1({**files(), "manifests/x.yaml": content}).others
    assert json.dumps(value["a"]) == "[1, 1000, 1.8446744073709552e+19, 1.5, 9000000000000000000, 9.3e+18]"
    assert json.dumps(value["metadata"]) == '{"generation": 1}'


def test_unknown_fields_are_dropped() -> None:
    read = bundle({**DEFINITION, "other": 1}, spec={"other": 1})
    assert "other" not in read.spec
    assert "other" not in read.definitions[0]


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("metadata/annotations.yaml", None, "metadata/annotations.yaml: no such file"),
        ("metadata/annotations.yaml", b"a: b: c", "metadata/annotations.yaml:1"),
        (
            "metadata/annotations.yaml",
            b"annotations: {operators.operatorframework.io.bundle.channels.v1: [a]}",
            "metadata/annotations.yaml: annotations.operators.operatorframework.io.bundle.channels.v1 is not a string",
        ),
        ("manifests/csv.yaml", None, "no ClusterServiceVersion found in manifests/"),
        ("manifests/deep/x.yaml", b"kind: ConfigMap", "manifests/deep/x.yaml: the file is in a subdirectory"),
        ("manifests/x.yaml", b"a: b: c", "manifests/x.yaml:1"),
        ("manifests/x.yaml", b"kind: ConfigMap\n---\na: 1\n", "manifests/x.yaml:3: not a Kubernetes object"),
        ("manifests/x.yaml", b"- 1", "manifests/x.yaml:1: not a Kubernetes object"),
        ("manifests/x.yaml", b"kind: ConfigMap\ndata: {a: .inf}", "manifests/x.yaml:1: contains an infinite number"),
        (
            "manifests/x.yaml",
            b"kind: CustomResourceDefinition\nmetadata: {name: x}\nspec: {group: 1}",
            "manifests/x.yaml:1: CustomResourceDefinition x: spec.group is a number, not a string",
        ),
        ("metadata/properties.yaml", b"properties: 1", "metadata/properties.yaml: properties is not a list"),
    ],
)
def test_invalid_files_are_named(path: str, content: bytes | None, message: str) -> None:
    given = {key: value for key, value in files().items() if key != path}
    if content is not None:
        given[path] = content
    with pytest.raises(InvalidBundle) as raised:
        read_registry_v1(given)
    assert str(raised.value).startswith(message)
    assert str(raised.value.hint)


def test_properties_are_added_to_the_annotation() -> None:
    given = files()
    given["manifests/csv.yaml"] = given["manifests/csv.yaml"].replace(
        b"    of: csv\n", b"""    olm.properties: '[{"type":"a","value":{"z":1,"b":2}}]'\n"""
    )
    given["metadata/properties.yaml"] = b"properties:\n- {type: b, value: {z: 1.0, a: <}}\n"
    annotations = read_registry_v1(given).csv["metadata"]["annotations"]
    expected = r'[{"type":"a","value":{"z":1,"b":2}},{"type":"b","value":{"a":"\u003c","z":1}}]'
    assert annotations["olm.properties"] == expected
    given["metadata/properties.yaml"] = b"properties: []\n"
    assert read_registry_v1(given).csv["metadata"]["annotations"]["olm.properties"].startswith('[{"type":"a"')
    given["manifests/csv.yaml"] = given["manifests/csv.yaml"].replace(b"'[{", b"'{")
    with pytest.raises(InvalidBundle, match=r"manifests/csv.yaml: annotation olm.properties is not JSON"):
        read_registry_v1(given)
