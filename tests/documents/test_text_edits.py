"""Edits of YAML and JSON documents in their text."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from opmkit.documents.document_stream import is_json, read_documents
from opmkit.documents.errors import InvalidDocument, UneditableText
from opmkit.documents.text_edits import SourceText

if TYPE_CHECKING:
    from collections.abc import Callable

ITEM: dict[str, Any] = {"name": "new", "replaces": "old", "tags": ["x1", "2"]}


def source(text: str) -> SourceText:
    (document,) = read_documents(text.encode())
    assert not isinstance(document, InvalidDocument)
    return SourceText.from_document("f.yaml", text.encode(), document, is_json=is_json(text.encode()))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a: 1\n", 'a: 1\nlist:\n- name: new\n  replaces: old\n  tags:\n  - x1\n  - "2"\n'),
        ("list: []\nb: 1\n", 'list:\n- name: new\n  replaces: old\n  tags:\n  - x1\n  - "2"\nb: 1\n'),
        (
            "list:\n  - replaces: 'a'\n    name: \"b\" # c\n# end\n",
            "list:\n  - replaces: 'a'\n    name: \"b\" # c\n  - replaces: 'old'\n    name: \"new\"\n"
            '    tags:\n      - x1\n      - "2"\n# end\n',
        ),
        ('{"list":[{"name":"b"}]}', '{"list":[{"name":"b"}, {"name":"new","replaces":"old","tags":["x1","2"]}]}'),
        ("list: [a]\n", 'list: [a, {"name":"new","replaces":"old","tags":["x1","2"]}]\n'),
    ],
)
def test_items_are_appended_in_the_style_of_the_list(before: str, after: str) -> None:
    edited = source(before)
    items = edited.value["list"] if isinstance(edited.value, dict) and edited.value.get("list") else []
    assert edited.insert(("list",), len(items), ITEM).text == after  # type: ignore[arg-type]


@pytest.mark.parametrize("index", [0, 1, 2])
@pytest.mark.parametrize(
    "text",
    [
        "# x\nlist:\n# a\n- a1 # a\n# b\n- b1\nend: 1\n",
        "list: [a1, b1]\nend: 1\n",
        '{\n  "list": [\n    "a1",\n    "b1"\n  ]\n}\n',
    ],
)
def test_items_are_inserted_and_removed_anywhere(text: str, index: int) -> None:
    edited = source(text).insert(("list",), index, "new1")
    assert yaml.safe_load(edited.text)["list"] == [*("a1", "b1")[:index], "new1", *("a1", "b1")[index:]]
    assert edited.remove(("list", index)).text == text


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("a: 1 # one\n", "two", "a: two # one\n"),
        ("a: 'x' # one\n", "it's", "a: 'it''s' # one\n"),
        ('a: "x"\n', "y", 'a: "y"\n'),
        ("a: |\n  text\n  more\nb: 1\n", "y1", "a: y1\nb: 1\n"),
        ("a:\nb: 1\n", "y1", "a: y1\nb: 1\n"),
        ("a: x\n", "no", 'a: "no"\n'),
        ("a: x\n", "\x1b\x7f\u202e\u2028é😀", 'a: "\\u001b\\u007f\\u202e\\u2028é😀"\n'),
        ("a: x\n", "- b: #c", 'a: "- b: #c"\n'),
        ('{"a": 1}', None, '{"a": null}'),
    ],
)
def test_scalars_are_replaced(before: str, value: Any, after: str) -> None:
    edited = source(before).set(("a",), value)
    assert edited.text == after
    assert edited.value == {**source(before).value, "a": value}  # type: ignore[dict-item]


@pytest.mark.parametrize(
    ("text", "edit", "problem"),
    [
        ("x: &a\n  list: [1]\ny: *a\n", lambda text: text.insert(("y", "list"), 1, 2), "would change other values"),
        ("x: &a {b: 1}\ny:\n  <<: *a\n", lambda text: text.set(("y", "b"), 2), "would change other values"),
        ("x: {}\n", lambda text: text.set(("x", "a"), 1), "the value around it is empty"),
        ("x: [1]\n", lambda text: text.set(("x",), [2]), "its value is not empty"),
        ("x: [1]\n", lambda text: text.set(("x",), 2), "its value is not a scalar"),
        ("x: [1]\n", lambda text: text.remove(("x", 0)), "the list would be empty"),
        ("x: &a 1\nx2: &a 2\n", lambda text: text.set(("x",), 2), "an anchor with this name already exists"),
    ],
)
def test_values_that_cannot_be_edited_are_located(
    text: str, edit: Callable[[SourceText], SourceText], problem: str
) -> None:
    with pytest.raises(UneditableText, match=problem) as error:
        edit(source(text))
    assert error.value.message.startswith("f.yaml:")
    assert error.value.hint


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("# file\n# old: b\nb: 1 # x\nc: 2\n", "# file\nc: 2\n"),
        ("c: 2\nb:\n- x\n- y\n\n# end\n", "c: 2\n\n# end\n"),
        ("c: 2\nb:", "c: 2\n"),
        ("c: |\n  x\nb: >-\n  y\n  z\nd: 1", "c: |\n  x\nd: 1"),
        ("x: 1\r\nb: 2\r\nc: 3\r\n", "x: 1\r\nc: 3\r\n"),
        ('{"b": 1, "c": 2}\n', '{"c": 2}\n'),
        ('{\n  "c": 2,\n  "b": [1]\n}\n', '{\n  "c": 2\n}\n'),
    ],
)
def test_members_are_removed_with_the_comments_about_them(text: str, after: str) -> None:
    edited = source(text).remove(("b",), comments="old")
    assert edited.text == after
    assert "b" not in yaml.safe_load(after)


@pytest.mark.parametrize("text", ["b: 1\n", "- b: 1\n", '{"b": 1}\n'])
def test_last_member_is_not_removed(text: str) -> None:
    path = (0, "b") if text.startswith("- ") else ("b",)
    with pytest.raises(UneditableText, match="the mapping would be empty"):
        source(text).remove(path)


def random_value(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(6 if depth < 3 else 3)
    if kind == 0:
        return rng.choice(
            ["plain", "a: b", "# c", "", " x ", "yes", "1.0", "é\n", "- x", "'", '"', "quay.io/a/b:1", "\t"]
        )
    if kind == 1:
        return rng.choice([0, -1, 1.5, True, False, None])
    if kind == 2:
        return rng.choice(["v1.0.0", "x" * 100, "a b " * 40])
    if kind < 5:
        return {rng.choice("abcdef") * 2: random_value(rng, depth + 1) for _ in range(rng.randrange(4))}
    return [random_value(rng, depth + 1) for _ in range(rng.randrange(4))]


def with_comments(rng: random.Random, text: str) -> tuple[str, list[str]]:
    """Add comments after lines that end a plain scalar, and between lines; return the text and the comments."""
    lines, comments = [], []
    for number, line in enumerate(text.splitlines()):
        if rng.random() < 0.2 and line.endswith(("plain", "v1.0.0", "true", "null")):
            comments.append(f"# {number}")
            line += f" # {number}"
        lines.append(line)
    return "\n".join(lines) + "\n", comments


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    for key, child in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        found += paths(child, (*path, key))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_random_edits_change_one_value_or_fail(seed: int) -> None:
    rng = random.Random(seed)
    value = {"top": random_value(rng), "list": [random_value(rng) for _ in range(3)], "last": 1}
    style = rng.choice(["block", "json", "indented", "flow"])
    comments: list[str] = []
    if style in ("json", "indented"):
        text = json.dumps(value, indent=2 if style == "indented" else None)
    else:
        flow = None if style == "flow" else False
        text, comments = with_comments(rng, yaml.safe_dump(value, sort_keys=False, default_flow_style=flow, width=1000))
    edited, done = source(text), 0
    for _ in range(15):
        path = rng.choice(paths(edited.value)[1:])
        new = random_value(rng, 2)
        try:
            if rng.random() < 0.5:
                edited = edited.insert(path, rng.randrange(3), new)
            else:
                edited = edited.set((*path[:-1], "new"), new) if rng.random() < 0.5 else edited.set(path, new)
        except UneditableText:
            continue
        done += 1
        (found,) = read_documents(edited.text.encode())
        assert not isinstance(found, InvalidDocument)
        assert found.value == edited.value
    assert done
    assert all(comment in edited.text for comment in comments)
