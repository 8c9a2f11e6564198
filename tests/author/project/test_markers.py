"""Markers of Go sources."""

from __future__ import annotations

from typing import Any

import pytest

from opmkit.author.project.markers import CSV_MARKER, FIELD_MARKERS, PACKAGE_MARKERS, TYPE_MARKERS, parse_marker
from opmkit.documents.errors import InvalidDocument

CSV = f"+{CSV_MARKER}:"


def values(text: str, definitions: Any = TYPE_MARKERS) -> Any:
    marker = parse_marker(text, definitions)
    assert marker is not None
    return marker.values


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (CSV + 'displayName="My App",order=2', {"displayName": "My App", "order": 2}),
        (CSV + "displayName=My App , order=-1", {"displayName": "My App", "order": -1}),
        (CSV + "displayName=`a \\n`", {"displayName": "a \\n"}),
        (CSV + r'displayName="\"\t\x41\u00e9\U0001F600\101"', {"displayName": '"\tA\u00e9\U0001f600A'}),
        (CSV + "displayName=", {"displayName": ""}),
        (CSV + "order=7", {"order": 7}),
        (CSV + 'resources={{Pod,v1,"my-pod"},{Job,v1}}', {"resources": [["Pod", "v1", "my-pod"], ["Job", "v1"]]}),
        (CSV + 'resources={ { "Pod" , v1 , "" } , }', {"resources": [["Pod", "v1", ""]]}),
        (CSV + "resources={}", {"resources": []}),
        (f"+{CSV_MARKER}", {}),
        ("+kubebuilder:resource:path=apps,shortName=a;b", {"path": "apps", "shortName": ["a", "b"]}),
        ("+kubebuilder:resource:categories={all,my apps}", {"categories": ["all", "my apps"]}),
    ],
)  # fmt: skip
def test_arguments(text: str, expected: object) -> None:
    assert values(text) == expected


def test_descriptors_of_fields() -> None:
    assert values(CSV + 'type=spec,xDescriptors={"urn:a","urn:b"},displayName="A"', FIELD_MARKERS) == {
        "type": "spec",
        "xDescriptors": ["urn:a", "urn:b"],
        "displayName": "A",
    }
    assert values(CSV + 'type=status,xDescriptors="urn:a,b"', FIELD_MARKERS)["xDescriptors"] == ["urn:a,b"]


def test_markers_of_packages() -> None:
    assert values("+groupName=apps.example.com", PACKAGE_MARKERS) == {"": "apps.example.com"}
    assert values("+kubebuilder:skip", PACKAGE_MARKERS) == {}


@pytest.mark.parametrize("text", ["+optional", "+kubebuilder:validation:Minimum=1", "+groupName=x", "+"])
def test_other_markers_are_ignored(text: str) -> None:
    assert parse_marker(text, TYPE_MARKERS) is None


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ("displayname=a", 'unknown argument "displayname": not one of resources, displayName, order'),
        ("order=a", "expected an integer before 'a'"),
        ("order=1 2", "expected \",\" before '2'"),
        ("order=1,", "expected the name of an argument at the end"),
        ('displayName="a', "missing quote at the end of a string"),
        (r'displayName="\q"', r"invalid escape sequence \q in a string"),
        (r'displayName="\ud800"', r"invalid escape sequence \ud800 in a string"),
        ('displayName="a"b', "expected \",\" before 'b'"),
        ("resources={{Pod,v1}", 'expected "}" at the end'),
        ("resources={{Pod;v1}}", "expected \",\" before ';v1}}'"),
    ],
)
def test_invalid_arguments(arguments: str, problem: str) -> None:
    with pytest.raises(InvalidDocument) as raised:
        parse_marker(CSV + arguments, TYPE_MARKERS)
    assert raised.value.problem == problem
