"""Owned CRDs are replaced in the text of a base; comments and formatting elsewhere are retained."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from opmkit.author.project.base import encode_base, new_base, replace_owned_crds, set_owned_crds, update_base

OWNED: Any = [{"kind": "App", "name": "apps.example.com", "version": "v1", "description": "a\nb"}]
NEW = """\
      owned:
      - description: |-
          a
          b
        kind: App
        name: apps.example.com
        version: v1
"""
TEXTS = {
    "block": (
        """\
# top
spec:
   customresourcedefinitions: # section
      # before
      owned: # key
        - kind: Old # item
          description: |
            text
      # after
      required: [] # more
   version: 1.0.0
""",
        f"""\
# top
spec:
   customresourcedefinitions: # section
      # before
{NEW}      # after
      required: [] # more
   version: 1.0.0
""",
    ),
    "flow": (
        "spec:\n   customresourcedefinitions:\n      owned: [{kind: Old,\n        name: x}]\n   # end\n",
        f"spec:\n   customresourcedefinitions:\n{NEW}   # end\n",
    ),
    "last without line break": (
        "spec:\n   customresourcedefinitions:\n      owned:\n      - kind: Old",
        f"spec:\n   customresourcedefinitions:\n{NEW}",
    ),
    "only required": (
        "spec:\n   customresourcedefinitions:\n      required: []\n",
        f"spec:\n   customresourcedefinitions:\n{NEW}      required: []\n",
    ),
    "no list": (
        "spec:\n   customresourcedefinitions:\n      owned:\n   a: b\n",
        f"spec:\n   customresourcedefinitions:\n{NEW}   a: b\n",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_list_is_replaced(name: str) -> None:
    before, after = TEXTS[name]
    edited = replace_owned_crds(before.encode(), OWNED)
    assert edited is not None
    assert edited.decode() == after
    assert yaml.safe_load(edited)["spec"]["customresourcedefinitions"]["owned"] == OWNED


@pytest.mark.parametrize("section", ["", "  customresourcedefinitions: {} # e\n", "  customresourcedefinitions:\n"])
def test_section_is_added(section: str) -> None:
    edited = replace_owned_crds(f"spec:\n  # c\n{section}  version: 1.0.0 # d\n".encode(), OWNED)
    assert edited is not None
    assert b"# c" in edited
    assert b"# d" in edited
    assert yaml.safe_load(edited)["spec"] == {"version": "1.0.0", "customresourcedefinitions": {"owned": OWNED}}


@pytest.mark.parametrize("text", ["", "a: [", "\xff", "spec: {}", "spec:\n- a", "a: 1\n---\nb: 1\n", "[" * 5000])
def test_other_syntax_is_not_edited(text: str) -> None:
    assert replace_owned_crds(text.encode("latin-1"), OWNED) is None


BASE = "apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion\n"


def test_formatting_is_only_changed_where_necessary() -> None:
    csv = new_base("x")
    set_owned_crds(csv, OWNED)
    canonical = encode_base(csv)
    text = canonical.decode().replace("  version: 0.0.0", "  version: 0.0.0 # comment")
    assert update_base(text.encode(), csv) == text.encode()
    set_owned_crds(csv, [])
    assert b"# comment" in update_base(text.encode(), csv)
    assert update_base(canonical, csv) == encode_base(csv)


@pytest.mark.parametrize(
    "text",
    [
        "spec: &a\n  displayName: x\n  other: &b {}\n  customresourcedefinitions:\n    owned: [*b]\n",
        "spec:\n  customresourcedefinitions:\n    owned: &a [{kind: Old}]\n    required: *a\n",
    ],
)
def test_texts_that_cannot_be_edited_are_encoded(text: str) -> None:
    csv = new_base("x")
    assert update_base((BASE + text).encode(), csv) == encode_base(csv)
