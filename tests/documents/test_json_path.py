"""Templates of Kubernetes' JSONPath."""

from __future__ import annotations

from typing import Any

import pytest

from opmkit.documents.json_path import JsonPath

POD: dict[str, Any] = {
    "kind": "Pod",
    "metadata": {"annotations": {"example.com/image": "annotated", "odd}'": "odd"}},
    "spec": {
        "containers": [{"name": "a", "image": "one", "env": [{"value": "x"}]}, {"name": "b", "image": "two"}, "text"],
        "sidecars": {"image": "three", "tag": 1.10, "port": 8080, "round": 2.0, "on": True, "none": None},
    },
}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{.kind}", "Pod"),
        ("{$.kind}", "Pod"),
        ("{ @.kind }", "Pod"),
        ("{.spec.containers[*].image}", "one two"),
        ("{.spec.containers.*.image}", "one two"),
        ("{.spec.containers[0].image}", "one"),
        ("{.spec.containers[-2]['image']}", "two"),
        ("{.spec.containers[*].env[*].value}", "x"),
        (r"{.metadata.annotations.example\.com/image}", "annotated"),
        ("{.metadata.annotations['example.com/image']}", "annotated"),
        (r"{.metadata.annotations['example\.com/image']}", "annotated"),
        (r"{.metadata.annotations.odd\}\'}", "odd"),
        ("{..image}", "one two three"),
        ("{.spec..image}", "one two three"),
        ("{..containers..image}", "one two"),
        ("{..['image']}", "one two three"),
        ("{..containers[1].image}", "two"),
        ("{.spec.sidecars.image}:{.spec.sidecars.tag}", "three:1.1"),
        ("{.spec.sidecars.port} {.spec.sidecars.round} {.spec.sidecars.on}", "8080 2 true"),
        ("{.spec.sidecars.absent}:{.spec.sidecars.absent}", ""),
        ("{.spec.sidecars.none}", ""),
        ("{.spec.containers[9].image}", ""),
        ("{.spec.containers[-9].image}", ""),
        ("{.spec.containers.image}", ""),
        ("{.spec[*].image}", ""),
        ("{.spec[0]}", ""),
        ("{.kind[0]}", ""),
        ("{.kind.*}", ""),
        ("{.spec.containers}", ""),
    ],
)
def test_values_are_found(template: str, text: str) -> None:
    assert JsonPath.parse(template).format(POD) == text


@pytest.mark.parametrize(
    "template",
    [
        *("", ".kind", "text", "{", "{.kind", "{}", "{$}", "{kind}", "{.}", "{..}", "{.a.}", "{.a b}", "{.a[]}"),
        *("{.a[0:2]}", "{.a[0,1]}", "{.a[?(@.b=='c')]}", "{range .a[*]}{.b}{end}", '{"\\n"}', "{.a{.b}}", "{.a['b]}"),
        *("{.a[12345678901]}", "{....a}", "{.a'b'}", "{." + "a" * 1000 + "}", "{.a\\", "{.a['']}"),
    ],
)
def test_what_is_not_supported_is_an_error(template: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        JsonPath.parse(template)


def test_repeated_recursion_visits_each_value_once() -> None:
    value: Any = {"image": "deep"}
    for _ in range(50):
        value = {"a": value, "b": [value]}
    assert JsonPath.parse("{" + "..a" * 20 + "..image}").format(value) == "deep"
    assert JsonPath.parse("{..image}").format(value) == "deep"
    for _ in range(100_000):
        value = [value]
    assert JsonPath.parse("{..image}").format(value) == "deep"
