"""Pinning of files: text is retained, and files that cannot be edited are rejected."""

from __future__ import annotations

import json
from textwrap import dedent, indent

import pytest
from tests.kit.pinning import pin, pin_text, pinned_name

from opmkit.author.pin.resolve import PinOptions, Replacements
from opmkit.bundle.errors import InvalidBundle

OLD, NEW = "quay.io/a/b:1", pinned_name("quay.io/a/b:1")
OTHER, NEW_OTHER = "quay.io/a/c:2", pinned_name("quay.io/a/c:2")


def pod(containers: str) -> str:
    """Return a pod with containers in YAML."""
    return f"kind: Pod\nspec:\n  containers:\n{indent(dedent(containers).lstrip(), '  ')}"


@pytest.mark.parametrize(
    "text",
    [
        pod(f"- image: {OLD}\n"),
        pod(f"- image: {OLD} # the operator\n  name: x"),
        pod(f"-   image   :   '{OLD}'   \n"),
        pod(f'- image: "{OLD}"\n'),
        pod(f"- image: >-\n    {OLD}\n"),
        pod(f"- image: |\n    {OLD}\n  name: x\n"),
        pod(f"- image: !!str {OLD}\n"),
        pod(f"- image:\n    {OLD}\n"),
        pod(f"- {{name: a, image: {OLD}}}\n- {{image: '{OLD}'}} # twice\n"),
        pod(f"- image: &image {OLD}\n- image: *image\n  args: [*image]\n"),
        pod(f"- image: {OLD}\n  args: ['--x={OLD},{OLD}', '{OLD}']\n  env:\n  - {{name: OTHER, value: {OLD}}}\n"),
        pod(f"- &base\n  image: {OLD}\n- <<: *base\n  name: other\n"),
        pod(f"- ? image\n  : {OLD}\n"),
        pod(f"- image: {OLD}1\n- image: {OLD}\n- image: {OTHER}\n"),
        f"# before\n---\n{pod(f'- image: {OLD}')}\n---\n{pod(f'- image: {OTHER}')}\n---\n",
        f"kind: Deployment\nspec: {{template: {{spec: {{containers: [{{image: {OLD}}}]}}}}}}\n",
        f'kind: Pod\nmetadata:\n  annotations:\n    containerImage: {OLD}\n    text: "ü {OLD},\\n {OTHER} and {OLD}"\n',
        f"kind: Pod\nmetadata:\n  annotations:\n    text: |\n      {OLD}\n\n      or {OTHER}.\n",
        "kind: Pod\n",
        "",
        "# nothing\n",
    ],
)  # fmt: skip
def test_only_the_images_change(text: str) -> None:
    expected = text.replace(f"{OLD}1", "\0").replace(OLD, NEW).replace(OTHER, NEW_OTHER)
    expected = expected.replace("\0", pinned_name(f"{OLD}1"))
    assert pin_text(text) == expected
    assert pin_text(expected) == expected


@pytest.mark.parametrize("before", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_line_endings_and_byte_order_marks_are_retained(before: bytes, newline: str) -> None:
    text = (pod(f"- image: {OLD} # ü\n  name: x\n") + f"---\n{pod(f'- image: {OTHER}')}").replace("\n", newline)
    result = pin(before + text.encode())
    expected = text.replace(OLD, NEW).replace(OTHER, NEW_OTHER)
    assert result.files["csv.yaml"] == before + expected.encode()


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"kind": "Pod", "spec": {"containers": [{"image": OLD, "name": "\U0001f600"}]}}),
        json.dumps({"kind": "Pod", "spec": {"containers": [{"image": OLD}]}}, indent="\t") + "\n",
        f'{{"kind":"Pod",\n "spec" : {{"containers":[{{"image":"{OLD}"}}]}} }}{{"kind": "Pod"}}',
    ],
)  # fmt: skip
def test_json(text: str) -> None:
    assert pin_text(text) == text.replace(OLD, NEW)


@pytest.mark.parametrize("image", [r"quay.io\/a\/b:1", r"quay.io/a/\u0062:1"])
def test_images_with_escapes_are_written_without_them(image: str) -> None:
    text = f'{{"kind": "Pod", "spec": {{"containers": [{{"image": "{image}"}}]}}}}'
    assert pin_text(text) == text.replace(image, NEW)
    assert pin_text(pod(f'- image: "{image}"')) == pod(f'- image: "{NEW}"')


def test_an_image_broken_over_lines_is_rejected() -> None:
    with pytest.raises(InvalidBundle, match=r"csv.yaml:4: quay.io/a/b:1 cannot be replaced: .* escapes or line breaks"):
        pin_text(pod('- image: &x "quay.io/a\\\n    /b:1"\n'))


def test_an_anchor_that_is_used_for_something_else_is_rejected() -> None:
    with pytest.raises(InvalidBundle, match=r"csv\.yaml:1: pinning would change other values as well") as raised:
        pin_text(pod("- image: &image nginx\n  name: *image\n"))
    assert "anchors" in str(raised.value.hint)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kind: [\n", r"csv.yaml:2:1: .*: invalid YAML or JSON"),
        ("kind: Pod\n---\nkind: }\n", r"csv.yaml:3:7: .*: invalid YAML or JSON"),
        ('{"kind": "Pod",}', r"csv.yaml:1:\d+: .*: invalid YAML or JSON"),
        (pod("- name: x\n- image: 3\n"), r"csv.yaml:5: spec.containers\[1\].image is a number, not a string"),
        ("kind: Pod\n---\nkind: Pod\nspec: 3\n", "csv.yaml:4: spec is a number, not a mapping"),
        ("# x\nkind: &a Pod\nspec: &a 3\n", "csv.yaml:3: an anchor with this name already exists"),
        ("- a\n", "csv.yaml:1: the document is a list, not a mapping"),
        ("[" * 1000, "levels of nesting|nested"),
        ('{"kind": "Pod", "a":' + '{"a":' * 1000 + "1" + "}" * 1001, "csv.yaml:1: too deeply nested"),
        ('{"a":' * 1200 + "1" + "}" * 1200, "nest|recursion|invalid"),
    ],
)
def test_invalid_files(text: str, message: str) -> None:
    with pytest.raises(InvalidBundle, match=message):
        pin_text(text)


def test_text_in_another_encoding_is_rejected() -> None:
    with pytest.raises(InvalidBundle, match=r"csv\.yaml:\d.*invalid YAML"):
        pin(pod(f"- image: {OLD}\n  name: ü\n").encode("latin-1"))


def test_the_result_names_each_place() -> None:
    result = pin(f"---\n{pod(f'- image: {OLD}')}\n---\n# x\n{pod(f'- name: a{chr(10)}  image: {OLD}')}")
    (image,) = result.images
    assert image.as_dict() == {
        "image": OLD,
        "pinned": NEW,
        "uses": [
            {"file": "csv.yaml", "line": 5, "role": "container", "name": ""},
            {"file": "csv.yaml", "line": 12, "role": "container", "name": "a"},
        ],
    }


def test_a_variable_with_a_source_is_a_warning_with_its_line() -> None:
    result = pin(pod("- env:\n  - name: RELATED_IMAGE_X\n    valueFrom: {fieldRef: {fieldPath: x}}\n"))
    assert result.warnings == (
        "csv.yaml:5: RELATED_IMAGE_X takes its value from elsewhere: set the image as value to pin it",
    )


def test_a_registry_that_is_not_plain_text_is_quoted() -> None:
    options = PinOptions(Replacements.parse(["quay.io=[::1]:5000/x"]))
    result = pin(pod(f'- image: "{OLD}"'), options=options)
    assert result.files["csv.yaml"].decode() == pod(f'- image: "{NEW.replace("quay.io", "[::1]:5000/x")}"')
    with pytest.raises(InvalidBundle, match=r"csv\.yaml:4"):
        pin(pod(f"- image: {OLD}"), options=options)
