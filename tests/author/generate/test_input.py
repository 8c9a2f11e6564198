"""Reading of objects, and the locations in error messages."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from opmkit.author.generate.input import read_path, read_stream
from opmkit.bundle import InvalidBundle
from opmkit.core.errors import DiskError

from .inputs import read

if TYPE_CHECKING:
    from pathlib import Path

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\n"


def test_objects_have_locations() -> None:
    text = b"\n# comment\nkind: A\napiVersion: v1\n---\n---\nkind: B\napiVersion: g/v2\n"
    first, second = read_stream(io.BytesIO(text))
    assert (first.location(("kind",)), second.location(("apiVersion",))) == ("standard input:3:1", "standard input:8:1")
    assert (second.group, second.version, second.kind, second.name) == ("g", "v2", "B", "")


def test_json_and_lists() -> None:
    items = read('{"kind": "List", "apiVersion": "v1", "items": [{"kind": "A", "apiVersion": "v1"}]}')
    assert [item.kind for item in items] == ["A"]
    (item,) = read("kind: List\napiVersion: v1\nitems:\n- kind: A\n  apiVersion: v1\n  x: 1")
    assert item.location(("x",)) == "standard input:6:3"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: A\napiVersion: v1\n---\na: [\n", "standard input:5:1: document 2: did not find expected node content"),
        ("kind: A\napiVersion: v1\n---\n- 1\n", "standard input:4: document 2: not a Kubernetes object"),
        ("kind: 1\napiVersion: v1\n", "standard input:1: document 1: not a Kubernetes object"),
        ("apiVersion: v1\n", "standard input:1: document 1: not a Kubernetes object"),
        ("kind: List\napiVersion: v1\nitems:\n- 7\n", "standard input:4:3: List: items[0] is not a Kubernetes object"),
        ("kind: A\napiVersion: v1\nx: .nan\n", "standard input:3:1: A: x is not a finite number"),
        ('{"kind": "A"', "standard input:1:13: document 1: Expecting"),
        ("kind: A\napiVersion: v1\nmetadata: &a {x: *a}\n", "standard input:3"),
        (
            '{"kind": "A", "apiVersion": "v1", "x": ' + "[" * 900 + "]" * 900 + "}",
            "standard input:1:35: A: x is nested",
        ),
        ("kind: A\napiVersion: v1\nx: " + "[" * 900 + "]" * 900, "standard input:3:203: document 1: more than 200"),
        ("a\x00b", "standard input:1: document 1"),
    ],
)
def test_invalid_input_is_located(text: str, message: str) -> None:
    with pytest.raises(InvalidBundle) as raised:
        list(read_stream(io.BytesIO(text.encode())))
    assert raised.value.message.startswith(message)
    assert raised.value.hint


def test_lone_surrogates_are_replaced() -> None:
    (item,) = read('{"kind": "A", "apiVersion": "v1", "x": "\\ud800"}')
    assert item.value["x"] == "\ufffd"


def test_directories_are_read_in_the_order_of_paths(tmp_path: Path) -> None:
    for name in ("b.yaml", "a/c.yml", "a/d.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(CONFIG_MAP.replace("NAME", name.split(".")[0][-1]))
    (tmp_path / "a/d.json").write_text('{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "d"}}')
    (tmp_path / "README.md").write_text("not: [yaml")
    (tmp_path / "kustomization.yaml").write_text("resources: [a]\n")
    assert [item.name for item in read_path(tmp_path)] == ["c", "d", "b"]
    assert [item.name for item in read_path(tmp_path / "b.yaml")] == ["b"]


def test_errors_name_the_file(tmp_path: Path) -> None:
    file = tmp_path / "broken.yaml"
    file.write_text("a: b: c\n")
    with pytest.raises(InvalidBundle, match=r"broken.yaml:1:5: document 1: "):
        list(read_path(tmp_path))
    with pytest.raises(DiskError, match="absent: No such file or directory"):
        list(read_path(tmp_path / "absent"))
