"""Parsing of the files in ``metadata/``."""

from __future__ import annotations

import pytest

from opmkit.bundle import BundleAnnotations, InvalidBundle, TypedValue
from opmkit.bundle.metadata import read_metadata
from tests.bundle.samples import LABEL, annotations_file


def yaml(**entries: str) -> bytes:
    lines = [f"  {LABEL}{key.replace('_', '.')}.v1: {value}\n" for key, value in entries.items()]
    return f"annotations:\n{''.join(lines)}".encode()


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (yaml(package="p", channels="a,b", channel_default="b"), ("p", ("a", "b"), "b")),
        (yaml(package="p", channels='"alpha, beta"'), ("p", ("alpha", " beta"), "")),
        (yaml(channels="4.10"), ("", ("4.1",), "")),
        (yaml(package="yes", channels="007"), ("true", ("7",), "")),
        (yaml(channel_default="x"), ("", (), "x")),
        (yaml(package="p", channels="~"), ("p", (), "")),
        (yaml(package="p").replace(b"annotations", b"Annotations"), ("p", (), "")),
    ],
)
def test_annotations(content: bytes, expected: tuple[str, tuple[str, ...], str]) -> None:
    assert read_metadata({"metadata/x": content}).annotations == BundleAnnotations(*expected)


def test_labels_are_all_scalar_annotations() -> None:
    content = yaml(package="p", channels="a") + b"  extra: kept\n  number: 1.0\n  nothing:\n  list: []\n"
    assert read_metadata({"metadata/x": content}).labels == {
        LABEL + "package.v1": "p",
        LABEL + "channels.v1": "a",
        "extra": "kept",
        "number": "1",
    }


def test_first_file_with_each_part_is_used() -> None:
    metadata = read_metadata(
        {
            "metadata/z.yaml": annotations_file("last") + b"",
            "metadata/a.yaml": b"annotations: {x: y}\ndependencies: []\nproperties: [{type: a, value: 1}]\n",
            "metadata/b": annotations_file("first"),
            "metadata/c.json": b'{"dependencies": [{"type": "d", "value": {"b": 1, "a": 2}}], "properties": [{}]}',
        }
    )
    assert metadata.annotations.package == "first"
    assert metadata.dependencies == (TypedValue("d", '{"a":2,"b":1}'),)
    assert metadata.properties == (TypedValue("a", "1"),)
    assert metadata.warnings == ()


def test_numbers_become_strings_only_in_yaml() -> None:
    good = {"metadata/annotations.yaml": annotations_file()}
    assert read_metadata({**good, "metadata/d.yaml": b"dependencies: [{type: 1.50}]"}).dependencies[0].type == "1.5"
    metadata = read_metadata({**good, "metadata/d.json": b'{"dependencies": [{"type": 1}]}'})
    assert metadata.dependencies == ()
    assert metadata.warnings == ("ignored metadata/d.json: a type in dependencies is a number, not a string",)


@pytest.mark.parametrize(
    "content", [b"annotations: []", b"[]", b"text", b"annotations: {%spackage.v1: []}" % LABEL.encode(), b"a: b: c"]
)
def test_other_files_are_ignored_with_a_warning(content: bytes) -> None:
    metadata = read_metadata({"metadata/a.yaml": content, "metadata/b.yaml": annotations_file("p")})
    assert metadata.annotations.package == "p"
    assert len(metadata.warnings) == 1
    assert metadata.warnings[0].startswith("ignored metadata/a.yaml")


def test_annotations_are_required() -> None:
    with pytest.raises(InvalidBundle, match="no annotations"):
        read_metadata({})
