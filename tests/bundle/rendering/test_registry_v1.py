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


def test_unknown_fields_are_dropped() -> None:
    read = bundle({**DEFINITION, "other": 1}, spec={"other": 1})
    assert "other" not in read.spec
    assert "other" not in read.definitions[0]


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("metadata/annotations.yaml", None, "metadata/annotations.yaml: no such file"),
        ("metadata/annotations.yaml", b"a: b: c", "metadata/annotations.yaml:1"),
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
