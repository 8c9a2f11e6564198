"""Go files: types, documentation, and the markers that belong to a type, a field or the package."""

from __future__ import annotations

import pytest

from opmkit.author.project.go_source import GoField, GoType, TypeName, parse_go
from opmkit.documents.errors import InvalidDocument

MARKER = "// +operator-sdk:csv:customresourcedefinitions:displayName="


def parse_types(source: str) -> dict[str, GoType]:
    return {declared.name: declared for declared in parse_go(f"package v1\n\n{source}\n".encode()).types}


def parse_type(source: str) -> GoType:
    (declared,) = parse_types(source).values()
    return declared


def parse_field(lines: str) -> GoField:
    return parse_type(f"type App struct {{\n{lines}\n}}").fields[-1]


def names(declared: GoType | GoField) -> list[str]:
    return [marker.values["displayName"] for marker in declared.markers]


@pytest.mark.parametrize(
    ("comment", "doc"),
    [
        ("// App runs.", "App runs."),
        ("// App\n// runs.", "App\nruns."),
        ("//App\n//\n//\n//  runs.  ", "App\n\n runs."),
        ("/* App\n   runs. */", "App\nruns."),
        ("/*\nApp\n\n\nruns.\n*/", "App\n\nruns."),
        ("// App.\n// TODO: more\n// Runs.", "App.\nRuns."),
        ("// App.\n// ---\n// internal", "App."),
        ("// ```\n// TODO\n// ---\n// ```", "```\nTODO\n---\n```"),
        ("// App.\n// +kubebuilder:object:root=true\n//+x\n// Runs.", "App.\nRuns."),
        ("//go:generate x\n//nolint:all\n// App.", "App."),
        ("//nolint\n// App.", "nolint\nApp."),
        ("// App.\n\n// Runs.", "Runs."),
        ("// App.\n", ""),
        ("// Grüße.", "Grüße."),
    ],
)
def test_documentation_of_types(comment: str, doc: str) -> None:
    assert parse_type(f"{comment}\ntype App struct {{}}").doc == doc


def test_documentation_of_fields() -> None:
    source = """type App struct { // not this
	// First.
	A string `json:"a"` // nor this
	// Second.
	B, C string

	// Not attached.

	D string
	Base
}"""
    docs = {field.name: field.doc for field in parse_type(source).fields}
    assert docs == {"A": "First.", "B": "Second.", "C": "Second.", "D": "", "": ""}


def test_line_breaks_of_windows() -> None:
    source = b"package v1\r\n\r\n// App\r\n// runs.\r\ntype App struct {}\r\n"
    assert [declared.doc for declared in parse_go(source).types] == ["App\nruns."]


def test_markers_in_the_doc_comment_and_in_the_group_above() -> None:
    declared = parse_type(f"{MARKER}a\n\n{MARKER}b\n\n{MARKER}c\n// App runs.\n{MARKER}d\ntype App struct {{}}")
    assert names(declared) == ["b", "c", "d"]


def test_markers_belong_to_the_following_declaration() -> None:
    types = parse_types(f"type A struct {{}} {MARKER}x\n{MARKER}b\n\ntype B struct {{}}\n{MARKER}c")
    assert {name: names(declared) for name, declared in types.items()} == {"A": [], "B": ["b"]}


def test_types_in_parentheses_have_their_own_comments() -> None:
    types = parse_types(f"// All.\n{MARKER}x\ntype (\n// A.\n{MARKER}a\nA struct {{ F string }}\nB = A\n)")
    assert {name: (declared.doc, names(declared)) for name, declared in types.items()} == {
        "A": ("A.", ["a"]),
        "B": ("", []),
    }


def test_markers_of_fields() -> None:
    field = parse_field(f"{MARKER}a\n\n{MARKER}b\n\n// Doc.\n{MARKER}c\nF string")
    assert names(field) == ["b", "c"]
    assert names(parse_field(f"E string {MARKER}x\nF string {MARKER}y")) == []


def test_markers_of_the_package() -> None:
    source = b"""// +groupName=a.example.com

// Package v1 is an API.
// +versionName=v1beta1
package v1

// +groupName=b.example.com

// +groupName=not.this
func f() {
	// +groupName=nor.this
}

// +kubebuilder:skip
"""
    markers = [(marker.name, marker.values.get("")) for marker in parse_go(source).markers]
    assert markers == [
        ("groupName", "a.example.com"),
        ("versionName", "v1beta1"),
        ("groupName", "b.example.com"),
        ("kubebuilder:skip", None),
    ]


def test_imports_and_build_constraint() -> None:
    file = parse_go(b'//go:build !windows\n\npackage v1\n\nimport "a/b"\nimport (\n\tc "d/e"\n\t_ `f`\n)\n')
    assert file.package == "v1"
    assert file.constraint == "!windows"
    assert file.imports == (("", "a/b"), ("c", "d/e"), ("_", "f"))


@pytest.mark.parametrize(
    ("declaration", "references", "is_list"),
    [
        ("F string", ["string"], False),
        ("F *App", ["App"], False),
        ("F []*corev1.Pod", ["corev1.Pod"], True),
        ("F [3]App", ["App"], True),
        ("F map[Key][]Value", ["Key", "Value"], False),
        ("F List[a.Item]", ["List", "a.Item"], False),
        ("F struct { G Inner }", ["Inner"], False),
        ("metav1.ObjectMeta", ["metav1.ObjectMeta"], False),
        ("*Base", ["Base"], False),
    ],
)
def test_types_of_fields(declaration: str, references: list[str], is_list: bool) -> None:
    field = parse_field(declaration)
    expected = tuple(TypeName(name, package) for package, _, name in (text.rpartition(".") for text in references))
    assert field.references == expected
    assert field.is_list is is_list


@pytest.mark.parametrize(
    ("tag", "tags"),
    [
        ('`json:"f,omitempty" yaml:"g"`', {"json": "f,omitempty", "yaml": "g"}),
        (r'"json:\"f\""', {"json": "f"}),
        ("", {}),
        ("`nonsense`", {}),
    ],
)
def test_tags_of_fields(tag: str, tags: dict[str, str]) -> None:
    assert parse_field(f"F string {tag}").tags == tags


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (b"package v1\n\ntype App struct {\n", "x.go:3:"),
        (b"package v1\n\ntype struct\n", "x.go:3:"),
        (b"\xff\xfe", "x.go:1:1: invalid Go syntax"),
        (b"package v1\n\n// +kubebuilder:resource:pth=x\ntype App struct{}\n",
         'x.go:3: invalid marker +kubebuilder:resource:pth: unknown argument "pth"'),
    ],
)  # fmt: skip
def test_invalid_files_are_reported_with_their_line(source: bytes, message: str) -> None:
    with pytest.raises(InvalidDocument) as raised:
        parse_go(source)
    assert raised.value.located("x.go").startswith(message)


def test_errors_in_functions_are_ignored() -> None:
    source = b"package v1\n\nfunc f() {\n\tx := = 3\n}\n\nvar g = func() { = }\n\ntype App struct{}\n"
    assert [declared.name for declared in parse_go(source).types] == ["App"]
