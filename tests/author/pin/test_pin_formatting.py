"""Random formatting of YAML: pinning changes images only."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.pinning import pin, pinned_name

from opmkit.author.pin.pin import RelatedImagesMode

MARKER = "\x00"
IMAGES = ["quay.io/a/b:1", "quay.io/a/b:11", "registry.corp:5000/x-y/z_w:v1.0.0-rc.1", "docker.io/library/nginx:1.2"]
COMMENTS = ["", "", " # quay.io/a/b:1", "  #", " # ünïcode 😀"]
WORDS = st.sampled_from(["a", "manager", "ü", "with space", "it's", "quay.io/a/b:1-x", "1", "true", "# no", "a: b", ""])


class Writer:
    """Writes values as YAML in random styles; images are replaced by a marker and their number."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.step = draw(st.integers(1, 4))
        self.offset = draw(st.integers(0, 2))
        self.lines: list[str] = []

    def scalar(self, text: str) -> str:
        style = self.draw(st.sampled_from(["plain", "single", "double"]))
        is_image = text.startswith(MARKER)
        if style == "plain" and (is_image or text.isalpha()):
            return text if text not in ("true", "") else f"'{text}'"
        return f"'{text.replace(chr(39), chr(39) * 2)}'" if style == "single" else f'"{text}"'

    def comment(self) -> str:
        return self.draw(st.sampled_from(COMMENTS))

    def add(self, line: str) -> None:
        self.lines.append(line)
        if self.draw(st.integers(0, 9)) == 0:
            self.lines.append(self.draw(st.sampled_from(["", "# quay.io/a/b:1", "        # indented"])))

    def value(self, value: Any, indent: int, first: str) -> None:
        """Write a value; ``first`` is the text before it on its first line."""
        if isinstance(value, str):
            if value and self.draw(st.integers(0, 5)) == 0 and first.rstrip().endswith(":"):
                self.lines.append(f"{first} {self.draw(st.sampled_from(['|-', '>-']))}{self.comment()}")
                self.lines.append(f"{' ' * (indent + 1)}{value}")
            else:
                self.add(f"{first} {self.scalar(value)}{self.comment()}")
        elif not value or self.draw(st.integers(0, 7)) == 0:
            self.add(f"{first} {self.flow(value)}{self.comment()}")
        else:
            self.block(value, indent, first)

    def block(self, value: Any, indent: int, first: str) -> None:
        is_list = isinstance(value, list)
        after_dash = first.endswith("-")
        column = indent + (self.offset if is_list and not after_dash else self.step)
        if after_dash:
            column = len(first) + 1
            prefix = first + " "
        else:
            self.add(f"{first}{self.comment()}")
            prefix = " " * column
        for item in value if is_list else value.items():
            if is_list:
                self.value(item, column, f"{prefix}-")
            else:
                self.value(item[1], column, f"{prefix}{item[0]}:")
            prefix = " " * column

    def flow(self, value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key}: {self.flow(item)}" for key, item in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(map(self.flow, value)) + "]"
        text = self.scalar(value)
        return text if value.startswith(MARKER) or not value.isalpha() or text[0] in "'\"" else f'"{value}"'


@st.composite
def manifests(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """Return a CSV as text with markers for images, and its value."""

    def image() -> str:
        return f"{MARKER}{draw(st.integers(0, len(IMAGES) - 1))}"

    def container() -> dict[str, Any]:
        found: dict[str, Any] = {
            "name": draw(st.sampled_from(["manager", "proxy", "web"])),
            "image": image(),
            "note": draw(WORDS),
        }
        if draw(st.booleans()):
            found["env"] = [{"name": "RELATED_IMAGE_A", "value": image()}, {"name": "B", "value": draw(WORDS)}]
        return dict(draw(st.permutations(list(found.items()))))

    containers = [container() for _ in range(draw(st.integers(1, 3)))]
    spec: dict[str, Any] = {
        "description": draw(WORDS),
        "install": {
            "spec": {"deployments": [{"name": "d", "spec": {"template": {"spec": {"containers": containers}}}}]}
        },
        "version": "x",
    }
    related = draw(st.sampled_from(["absent", "empty", "some"]))
    if related != "absent":
        spec["relatedImages"] = [{"name": "known", "image": image()}] if related == "some" else []
    value = {
        "kind": "ClusterServiceVersion",
        "metadata": {"annotations": {"containerImage": image(), "other": draw(WORDS)}},
        "spec": dict(draw(st.permutations(list(spec.items())))),
    }
    writer = Writer(draw)
    for key, item in value.items():
        writer.value(item, 0, f"{key}:")
    return "\n".join(writer.lines) + draw(st.sampled_from(["\n", "", "\n\n# end\n"])), value


def fill(text: str, *, pinned: bool) -> str:
    """Replace the markers by images."""
    for number, image in enumerate(IMAGES):
        text = text.replace(f"{MARKER}{number}", pinned_name(image) if pinned else image)
    return text


@given(manifests(), st.sampled_from(["\n", "\r\n"]), st.sampled_from([b"", b"\xef\xbb\xbf"]))
@settings(max_examples=60, deadline=None)
def test_nothing_but_images_changes(manifest: tuple[str, dict[str, Any]], newline: str, byte_order_mark: bytes) -> None:
    template = manifest[0].replace("\n", newline)
    # An image in other text than an image is found in annotations only; those with "-x" are not references.
    old, new = fill(template, pinned=False), fill(template, pinned=True)
    extra = pinned_name("quay.io/a/b:1-x")
    result = pin(byte_order_mark + old.encode())
    found = result.files["csv.yaml"].removeprefix(byte_order_mark).decode()
    assert found.replace(extra, "quay.io/a/b:1-x") == new
    assert result.files["csv.yaml"].startswith(byte_order_mark)


@given(manifests())
@settings(max_examples=60, deadline=None)
@pytest.mark.slow
def test_related_images_are_inserted_between_the_lines(manifest: tuple[str, dict[str, Any]]) -> None:
    template, _ = manifest
    old, new = fill(template, pinned=False), fill(template, pinned=True)
    extra = pinned_name("quay.io/a/b:1-x")
    result = pin(old, related_images=RelatedImagesMode.COMPLETE)
    found = result.files["csv.yaml"].decode()
    value, expected = yaml.safe_load(found.replace(extra, "quay.io/a/b:1-x")), yaml.safe_load(new)
    related = value["spec"].pop("relatedImages")
    known = expected["spec"].pop("relatedImages", [])
    assert value == expected
    assert related[: len(known)] == known
    containers = value["spec"]["install"]["spec"]["deployments"][0]["spec"]["template"]["spec"]["containers"]
    assert {container["image"] for container in containers} <= {entry["image"] for entry in related}
    assert len({entry["name"] for entry in related}) == len(related)
    again = pin(found, related_images=RelatedImagesMode.COMPLETE)
    assert not again.files
