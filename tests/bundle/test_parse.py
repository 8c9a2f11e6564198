"""Parsing of bundles from their files."""

from __future__ import annotations

import json
import re
from typing import Any

import orjson
import pytest

from opmkit.bundle import ApiKey, InvalidBundle, ManifestCache, TypedValue, parse_bundle
from tests.bundle.samples import CRD, CSV, LABEL, annotations_file, crd, csv, files

THING = ApiKey("example.com", "v1", "Thing", "things")


def gvk(version: str, kind: str = "Thing", group: str = "example.com") -> TypedValue:
    return TypedValue("olm.gvk", f'{{"group":"{group}","kind":"{kind}","version":"{version}"}}')


def test_objects_are_sorted_by_file_name() -> None:
    bundle = parse_bundle(
        {
            "manifests/b.yaml": b"kind: B\n",
            **files(),
            "manifests/a.json": b'{"kind": "A", "x": "<"}',
            "manifests/z.txt": b"kind: Z\nf: 1.0\n---\nkind: ignored\n",
        }
    )
    assert bundle.objects == (b'{"kind":"A","x":"\\u003c"}', b'{"kind":"B"}', bundle.csv.json, b'{"f":1,"kind":"Z"}')
    assert bundle.warnings == ("manifests/z.txt: only the first document is used",)


def test_hidden_nested_and_empty_files_are_ignored() -> None:
    bundle = parse_bundle(
        {
            **files(),
            "manifests/.hidden.yaml": b"kind: Hidden\n",
            "manifests/sub/nested.yaml": b"kind: Nested\n",
            "manifests/empty.yaml": b"",
            "manifests/remark.yaml": b"# nothing\n---\nkind: Second\n",
            "other/file.yaml": b"kind: Other\n",
            "metadata/sub/dependencies.yaml": b'{"dependencies": [{"type": "t"}]}',
        }
    )
    assert bundle.objects == (bundle.csv.json,)
    assert bundle.dependencies == ()
    assert bundle.warnings == ()


@pytest.mark.parametrize(
    ("content", "warning"),
    [
        (b"a: b: c\n", ":1:5: mapping values are not allowed in this context"),
        (b"- kind: List\n", ": not a Kubernetes object: not a mapping"),
        (b"just text\n", ": not a Kubernetes object: not a mapping"),
        (b"a: 1\n", ": not a Kubernetes object: missing or invalid kind or apiVersion"),
        (b"kind: 5\n", ": not a Kubernetes object: missing or invalid kind or apiVersion"),
        (b"kind: A\napiVersion: a/b/c\n", ": not a Kubernetes object: missing or invalid kind or apiVersion"),
        (b"kind: A\nx: .inf\n", ": cannot be encoded as JSON: inf is not a JSON number"),
    ],
)
def test_other_files_than_objects_are_ignored_with_a_warning(content: bytes, warning: str) -> None:
    bundle = parse_bundle({**files(), "manifests/x.yaml": content})

    assert bundle.objects == (bundle.csv.json,)
    assert bundle.warnings == (f"ignored manifests/x.yaml{warning}",)


def test_first_csv_is_used() -> None:
    bundle = parse_bundle({**files(), "manifests/second.yaml": b"kind: ClusterServiceVersion\n"})

    assert bundle.name == "op.v1.0.0"
    assert bundle.objects == (bundle.csv.json,)
    (warning,) = bundle.warnings
    assert "manifests/second.yaml" in warning
    assert CSV in warning


def test_without_a_csv_the_error_lists_invalid_files() -> None:
    broken = {**files(), CSV: b"kind: ClusterServiceVersion\nspec: [\n"}
    with pytest.raises(InvalidBundle) as raised:
        parse_bundle(broken)
    assert raised.value.message.startswith(f"no Kubernetes object found in manifests/; {CSV}:3:1: ")
    assert "correct the invalid file" in str(raised.value.hint)


@pytest.mark.parametrize("depth", [300, 990, 1020, 5000])
def test_too_deeply_nested_json_is_ignored(depth: int) -> None:
    bundle = parse_bundle({**files(), "manifests/x.json": b'{"kind": "X", "a": %s}' % (b"[" * depth + b"]" * depth)})
    assert bundle.objects == (bundle.csv.json,)
    assert re.match("ignored manifests/x.json: (invalid JSON|cannot be encoded as JSON): ", bundle.warnings[0])


@pytest.mark.parametrize(
    ("manifest", "missing"), [(b"kind: Secret\n", "no ClusterServiceVersion"), (b"", "no Kubernetes object")]
)
def test_csv_is_required(manifest: bytes, missing: str) -> None:
    with pytest.raises(InvalidBundle, match=f"^{missing} found in manifests/$") as raised:
        parse_bundle({"manifests/a.yaml": manifest, "metadata/annotations.yaml": annotations_file()})
    assert str(raised.value.hint)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"version": 1.5}, "spec.version is a number, not a string"),
        ({"replaces": 5}, "spec.replaces is a number, not a string"),
        ({"skips": "op.v0"}, "spec.skips is a string, not a list"),
        ({"skips": [True]}, "an entry of spec.skips is a boolean, not a string"),
        ({"relatedImages": "x"}, "spec.relatedImages is a string, not a list"),
        ({"relatedImages": [{"image": []}]}, "an image in spec.relatedImages is a list, not a string"),
        ({"install": {"spec": {"deployments": {}}}}, "spec.install.spec.deployments is a mapping, not a list"),
        ({"customresourcedefinitions": []}, "spec.customresourcedefinitions is a list, not a mapping"),
        ({"customresourcedefinitions": {"owned": [None]}}, "spec.customresourcedefinitions.owned has an empty entry"),
        ({"customresourcedefinitions": {"required": [{"name": "x"}]}}, "invalid CRD name 'x': no group"),
        (
            {"apiservicedefinitions": {"owned": [{"version": 1}]}},
            "version in spec.apiservicedefinitions.owned is a number",
        ),
    ],
)
def test_fields_of_wrong_types(spec: Any, message: str) -> None:
    with pytest.raises(InvalidBundle) as raised:
        parse_bundle(files(spec=spec))
    assert raised.value.message.startswith(f"{CSV}: ")
    assert message in raised.value.message
    assert str(raised.value.hint)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ({"metadata": {"name": "a"}}, "has no spec"),
        ({"metadata": {"name": "a"}, "spec": None}, "has no spec"),
        ({"metadata": {"name": "a"}, "spec": "x"}, "spec is a string, not a mapping"),
        ({"metadata": {}, "spec": {}}, "has no metadata.name"),
        ({"spec": {}}, "has no metadata.name"),
        ({"metadata": {"name": "a", "annotations": {"x": 1}}, "spec": {}}, "metadata.annotations[x] is a number"),
        ({"metadata": {"name": "a", "labels": []}, "spec": {}}, "metadata.labels is a list"),
    ],
)
def test_required_fields_of_a_csv(text: Any, message: str) -> None:
    content = json.dumps({"kind": "ClusterServiceVersion", **text}).encode()
    with pytest.raises(InvalidBundle) as raised:
        parse_bundle({CSV: content, "metadata/annotations.yaml": annotations_file()})
    assert message in raised.value.message


def test_update_graph_fields() -> None:
    spec = {"version": "1.0.0+b", "replaces": "op.v0.9.0", "skips": ["op.v0.9.1", "op.v0.9.2"]}
    annotations = {"olm.skipRange": "<1.0.0", "olm.substitutesFor": "op.v0.8.0"}
    bundle = parse_bundle(files(spec=spec, annotations=annotations), image="example.com/op:1")

    assert (bundle.name, bundle.version, bundle.csv.replaces) == ("op.v1.0.0", "1.0.0+b", "op.v0.9.0")
    assert bundle.csv.skips == ("op.v0.9.1", "op.v0.9.2")
    assert (bundle.csv.skip_range, bundle.csv.substitutes_for) == ("<1.0.0", "op.v0.8.0")
    assert bundle.image == "example.com/op:1"


def test_null_fields_are_empty() -> None:
    spec = dict.fromkeys(["version", "replaces", "skips", "relatedImages", "install", "customresourcedefinitions"])
    bundle = parse_bundle(files(spec=spec))

    assert (bundle.version, bundle.csv.replaces, bundle.csv.skips) == ("", "", ())
    assert bundle.related_images == ()
    assert (bundle.provided_apis, bundle.required_apis) == ((), ())


def test_all_versions_of_crds_are_provided() -> None:
    beta = {
        "apiVersion": "apiextensions.k8s.io/v1beta1",
        "kind": "CustomResourceDefinition",
        "spec": {"group": "g", "version": "v1", "versions": [{"name": "v2"}], "names": {"kind": "K", "plural": "ks"}},
    }
    spec = {"apiservicedefinitions": {"owned": [{"group": "s", "version": "v1", "kind": "S", "name": "esses"}]}}
    bundle = parse_bundle(
        {**files(spec=spec), CRD: crd("v1", "v2", "v1"), "manifests/b.json": json.dumps(beta).encode()}
    )

    assert set(bundle.provided_apis) == {
        THING,
        ApiKey("example.com", "v2", "Thing", "things"),
        ApiKey("g", "v1", "K", "ks"),
        ApiKey("g", "v2", "K", "ks"),
        ApiKey("s", "v1", "S", "esses"),
    }
    assert len(bundle.provided_apis) == 5
    assert {gvk("v1"), gvk("v2"), gvk("v1", "K", "g"), gvk("v1", "S", "s")} <= set(bundle.properties)


def test_owned_crds_are_required() -> None:
    spec = {"customresourcedefinitions": {"owned": [{"name": "things.example.com", "version": "v1", "kind": "Thing"}]}}

    assert parse_bundle({**files(spec=spec), CRD: crd("v1")}).provided_apis == (THING,)
    for other in (crd("v2"), crd("v1", kind="Other"), crd("v1", plural="thingies"), crd("v1", group="example.org")):
        with pytest.raises(InvalidBundle) as raised:
            parse_bundle({**files(spec=spec), CRD: other})
        assert "the bundle has no CRD for example.com/v1/Thing (things)" in raised.value.message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"spec": {"names": "x"}}, "spec.names is a string, not a mapping"),
        ({"spec": {"versions": {}}}, "spec.versions is a mapping, not a list"),
        ({"apiVersion": "example.com/v1"}, "unknown API group 'example.com'"),
    ],
)
def test_invalid_crds(change: Any, message: str) -> None:
    with pytest.raises(InvalidBundle) as raised:
        parse_bundle({**files(), CRD: orjson.dumps({**orjson.loads(crd("v1")), **change})})
    assert raised.value.message.startswith(f"{CRD}: ")
    assert message in raised.value.message


def test_crd_of_unknown_version_provides_no_api() -> None:
    other = orjson.loads(crd("v1")) | {"apiVersion": "apiextensions.k8s.io/v2"}
    assert parse_bundle({**files(), CRD: orjson.dumps(other)}).provided_apis == ()


def test_required_apis_are_dependencies() -> None:
    required = {"name": "needs.example.com", "version": "v1", "kind": "Need"}
    spec = {
        "customresourcedefinitions": {"required": [required, required]},
        "apiservicedefinitions": {"required": [{"group": "s", "version": "v1", "kind": "S", "name": "esses"}]},
    }
    dependencies = (
        b"dependencies:\n- type: olm.package\n  value: {version: '>1', packageName: other}\n"
        b"- type: olm.package\n  value: {version: '>1', packageName: other}\n- type: t\n- {type: t, value: }\n"
    )
    bundle = parse_bundle({**files(spec=spec), "metadata/dependencies.yaml": dependencies})

    other = TypedValue("olm.package", '{"packageName":"other","version":"\\u003e1"}')
    assert bundle.dependencies == (
        other,
        other,
        TypedValue("t", ""),
        TypedValue("t", "null"),
        gvk("v1", "Need"),
        gvk("v1", "S", "s"),
    )
    assert bundle.required_apis == (ApiKey("example.com", "v1", "Need", "needs"), ApiKey("s", "v1", "S", "esses"))


def test_duplicate_properties_are_removed() -> None:
    annotation = (
        '[{"type": "t", "value": {"b": 1.0, "a": "<"}}, {"type": "t", "value": {"b": 1.0, "a": "<"}}, {}, null]'
    )
    file = b"properties:\n- {type: t, value: {b: 1.0, a: <}}\n- {type: f}\n- {type: f, value: ~}\n"
    bundle = parse_bundle({**files(annotations={"olm.properties": annotation}), "metadata/properties.yaml": file})

    assert bundle.properties == (
        TypedValue("t", '{"a":"\\u003c","b":1}'),
        TypedValue("f", "null"),
        TypedValue("olm.package", '{"packageName":"op","version":"1.0.0"}'),
        TypedValue("t", '{"b":1.0,"a":"\\u003c"}'),
        TypedValue("", "null"),
    )


@pytest.mark.parametrize(
    "annotation",
    [
        "nonsense",
        "{}",
        "[1]",
        '[{"type": 1}]',
        '[{"type": "olm.package", "value": 7}]',
        '[{"type": "olm.package"}]',
        '[{"type": "olm.gvk", "value": {"kind": 1}}]',
        '[{"type": "olm.label", "value": "x"}]',
        "[" * 100_000,
    ],
)
def test_invalid_properties_annotation(annotation: str) -> None:
    with pytest.raises(InvalidBundle, match=r"olm\.properties"):
        parse_bundle(files(annotations={"olm.properties": annotation}))


@pytest.mark.parametrize("annotation", ["[]", "null", '[{"type": "olm.gvk", "value": null}]', '[{"TYPE": "t"}]'])
def test_properties_annotations_that_go_accepts(annotation: str) -> None:
    parse_bundle(files(annotations={"olm.properties": annotation}))


def deployment(*images: Any) -> dict[str, Any]:
    containers = [{"image": image} if image is not None else {} for image in images]
    pod = {"containers": containers, "initContainers": [{"image": "init"}]}
    return {"spec": {"deployments": [{"spec": {"template": {"spec": pod}}}]}}


@pytest.mark.parametrize(
    ("install", "images"),
    [
        ({"strategy": "deployment", **deployment("b", "a")}, {"a", "b", "init"}),
        ({"strategy": "deployment", **deployment(None)}, {"", "init"}),
        ({"strategy": "other", **deployment("b")}, set()),
        ({"Strategy": "deployment", "Spec": {"Deployments": [{"Spec": None}]}}, set()),
    ],
)
def test_images_of_the_install_strategy(install: Any, images: set[str]) -> None:
    spec = {"install": install, "relatedImages": [{"name": "n", "image": "rel"}, {"name": "m"}, {"Image": "rel2"}]}
    bundle = parse_bundle(files(spec=spec), image="own")

    assert bundle.related_images == tuple(sorted({"own", "rel", "rel2", "", *images}))


def test_cache_parses_equal_content_once() -> None:
    cache = ManifestCache()
    first = parse_bundle({**files(), CRD: crd("v1")}, cache=cache)
    second = parse_bundle({**files(name="op.v2"), CRD: crd("v1")}, cache=cache)

    assert first.objects[1] is second.objects[1]
    assert first.objects[0] != second.objects[0]


def test_cache_size_is_limited() -> None:
    cache = ManifestCache(max_bytes=100)
    contents = [b"kind: A\nx: %s" % (bytes([letter]) * 30) for letter in b"abcdefgh"]
    manifests = [cache.read(content) for content in contents]

    assert cache.read(contents[-1]) is manifests[-1]
    assert cache.read(contents[0]) is not manifests[0]
    assert cache.read(contents[0]) == manifests[0]


def test_annotations_are_required() -> None:
    with pytest.raises(InvalidBundle, match="no annotations for the package and channels") as raised:
        parse_bundle({CSV: csv(), "metadata/annotations.yaml": b"annotations: {x: y}", "metadata/b.yaml": b"a: b: c"})
    assert "metadata/b.yaml:1:5: " in raised.value.message
    assert "generate_bundle" in str(raised.value.hint)


def test_annotations_in_json() -> None:
    bundle = parse_bundle(
        {CSV: csv(), "metadata/a.json": json.dumps({"annotations": {LABEL + "package.v1": "p"}}).encode()}
    )
    assert (bundle.package, bundle.annotations.channels) == ("p", ())
