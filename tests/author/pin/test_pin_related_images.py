"""The entries of ``spec.relatedImages``, and their insertion into the text of a ClusterServiceVersion."""

from __future__ import annotations

import json
from textwrap import dedent
from typing import Any

import pytest
import yaml
from tests.kit.pinning import pin, pin_text, pinned_name

from opmkit.author.pin.object_images import ImageField, Role
from opmkit.author.pin.pin import RelatedImagesMode, missing_images

COMPLETE, CREATE, KEEP = RelatedImagesMode
IMAGE, PINNED = "quay.io/a/b:1", pinned_name("quay.io/a/b:1")
HEX = "0" * 64


def use(image: str, role: Role, name: str, owner: str = "") -> ImageField:
    return ImageField(image, role, name, (), owner=owner)


def entries(*uses: ImageField, mode: RelatedImagesMode = COMPLETE) -> dict[str, str]:
    """Return the names of the missing images by their repositories; all have the same digest."""
    images = {use.image: f"{use.image}@sha256:{HEX}" for use in uses}
    return {entry.name: entry.image.partition("@")[0] for entry in missing_images(uses, images, mode)}


def test_names_are_those_of_containers_and_variables() -> None:
    found = entries(
        use("host.io/x/annotated", Role.ANNOTATION, "containerImage"),
        use("host.io/a", Role.CONTAINER, "manager"),
        use("host.io/b", Role.INIT_CONTAINER, "setup"),
        use("host.io/c", Role.ENVIRONMENT, "RELATED_IMAGE_RBAC_Proxy"),
        use("host.io/a", Role.ANNOTATION, "text"),
    )
    assert list(found) == ["manager", "setup", "rbac_proxy", f"annotated-{HEX}-annotation"]


def test_an_image_in_several_places_has_all_their_names() -> None:
    found = entries(
        use("host.io/a", Role.CONTAINER, "manager"),
        use("host.io/a", Role.CONTAINER, "webhook"),
        use("host.io/a", Role.ENVIRONMENT, "RELATED_IMAGE_OPERATOR"),
        use("host.io/a", Role.CONTAINER, "manager"),
    )
    assert found == dict.fromkeys(("manager", "webhook", "operator"), "host.io/a")


def test_names_of_different_images_differ() -> None:
    found = entries(
        use("host.io/a", Role.CONTAINER, "manager", "first"),
        use("host.io/b", Role.CONTAINER, "manager", "second"),
        use("host.io/c", Role.ENVIRONMENT, "RELATED_IMAGE_MANAGER"),
        use("host.io/d", Role.CONTAINER, ""),
    )
    assert found == {
        "manager": "host.io/a",
        "second-manager": "host.io/b",
        "manager-2": "host.io/c",
        "image": "host.io/d",
    }


def test_images_that_the_section_has_are_not_added() -> None:
    listed = use("host.io/a", Role.RELATED_IMAGE, "operator")
    uses = (
        listed,
        use("host.io/a", Role.CONTAINER, "manager"),
        use("host.io/b", Role.CONTAINER, "operator", "deployment"),
    )
    assert entries(*uses) == {"deployment-operator": "host.io/b"}
    assert entries(*uses, mode=CREATE) == {}
    assert entries(*uses[1:], mode=KEEP) == {}


def test_images_without_a_digest_are_not_added() -> None:
    assert missing_images([use("host.io/a:1", Role.CONTAINER, "x")], {"host.io/a:1": "host.io/a:1"}, COMPLETE) == ()


DEPLOYMENTS = f"""\
install:
  spec:
    deployments:
    - name: d
      spec:
        template:
          spec:
            containers:
            - name: manager
              image: {IMAGE}
"""
HEADER = "kind: ClusterServiceVersion\nspec:\n"
ENTRY = [{"name": "manager", "image": PINNED}]


def csv(spec: str, step: str = "  ") -> str:
    """Return a CSV with a spec that is indented by ``step``."""
    return HEADER + "".join(f"{step}{line}" if line.strip() else line for line in spec.splitlines(keepends=True))


def section(text: str) -> Any:
    return yaml.safe_load(text)["spec"]["relatedImages"]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (DEPLOYMENTS, DEPLOYMENTS + "relatedImages:\n- name: manager\n  image: NEW\n"),
        (  # in alphabetical order, before the comment of the next key
            f"{DEPLOYMENTS}# the version\nversion: 1.0.0\n",
            f"{DEPLOYMENTS}relatedImages:\n- name: manager\n  image: NEW\n# the version\nversion: 1.0.0\n",
        ),
        (  # at the end, since the keys have no order
            f"version: 1.0.0 # x\n{DEPLOYMENTS}",
            f"version: 1.0.0 # x\n{DEPLOYMENTS}relatedImages:\n- name: manager\n  image: NEW\n",
        ),
        (
            f"version: 1\n{DEPLOYMENTS}description: |\n  text\n\n  more\n\n",
            f"version: 1\n{DEPLOYMENTS}description: |\n  text\n\n  more\nrelatedImages:\n- name: manager\n"
            "  image: NEW\n\n",
        ),
        (
            f"{DEPLOYMENTS}description: |+\n  text\n\n",
            f"{DEPLOYMENTS}description: |+\n  text\n\nrelatedImages:\n- name: manager\n  image: NEW\n",
        ),
        (
            f"&x\nversion: &v 1\n{DEPLOYMENTS}a: *v\n",
            f"&x\nversion: &v 1\n{DEPLOYMENTS}a: *v\nrelatedImages:\n- name: manager\n  image: NEW\n",
        ),
        (f"{DEPLOYMENTS}relatedImages: []\n", f"{DEPLOYMENTS}relatedImages:\n- name: manager\n  image: NEW\n"),
        (f"{DEPLOYMENTS}relatedImages:\n", f"{DEPLOYMENTS}relatedImages:\n- name: manager\n  image: NEW\n"),
        (
            f"relatedImages: null # none\n{DEPLOYMENTS}",
            f"relatedImages:\n- name: manager\n  image: NEW # none\n{DEPLOYMENTS}",
        ),
        (
            f"{DEPLOYMENTS}relatedImages:\n# first\n- image: x.io/y@sha256:{HEX} # c\n  name: other\n"
            "# last\nversion: 1\n",
            f"{DEPLOYMENTS}relatedImages:\n# first\n- image: x.io/y@sha256:{HEX} # c\n  name: other\n"
            "- image: NEW\n  name: manager\n# last\nversion: 1\n",
        ),
        (
            f"{DEPLOYMENTS}relatedImages: [{{name: other, image: x.io/y@sha256:{HEX}}}]\n",
            f"{DEPLOYMENTS}relatedImages: [{{name: other, image: x.io/y@sha256:{HEX}}}, "
            '{"name":"manager","image":"NEW"}]\n',
        ),
    ],
)
def test_insertion_into_yaml(before: str, after: str) -> None:
    before, after = csv(before), csv(after)
    expected = after.replace("NEW", PINNED).replace(IMAGE, PINNED)
    if "&x" in before:  # the anchor is on the line of the key
        before, expected = before.replace("spec:\n  &x", "spec: &x"), expected.replace("spec:\n  &x", "spec: &x")
    assert pin_text(before, COMPLETE) == expected
    assert section(expected)[-1] == ENTRY[0]
    assert pin_text(expected, COMPLETE) == expected
    without_newline = pin_text(before.rstrip("\n"), COMPLETE)
    assert yaml.safe_load(without_newline) == yaml.safe_load(expected) or "|" in before
    crlf = pin_text(before.replace("\n", "\r\n"), COMPLETE)
    assert crlf == expected.replace("\n", "\r\n")


def test_items_are_indented_like_those_of_the_file() -> None:
    indented = dedent(
        f"""\
        kind: ClusterServiceVersion
        spec:
            install:
                spec:
                    deployments:
                      - spec: {{template: {{spec: {{containers: [{{name: manager, image: {IMAGE}}}]}}}}}}
        """
    )
    expected = f"{indented.replace(IMAGE, PINNED)}    relatedImages:\n      - name: manager\n        image: {PINNED}\n"
    assert pin_text(indented, COMPLETE) == expected


@pytest.mark.parametrize("indent", [None, 1, 2, 4, "\t"])
@pytest.mark.parametrize("related", [None, [], ENTRY, [{"name": "other", "image": f"x.io/y@sha256:{HEX}"}], "absent"])
def test_insertion_into_json(indent: int | str | None, related: Any) -> None:
    value: dict[str, Any] = {"kind": "ClusterServiceVersion", "spec": yaml.safe_load(DEPLOYMENTS)}
    if related != "absent":
        value["spec"]["relatedImages"] = related
    expected = json.loads(json.dumps(value).replace(IMAGE, PINNED))
    known = [] if related == "absent" else related or []
    expected["spec"]["relatedImages"] = known if known == ENTRY else [*known, *ENTRY]
    for text in (json.dumps(value, indent=indent), json.dumps(value, indent=indent, separators=(",", ":"))):
        new = pin_text(text, COMPLETE)
        assert json.loads(new) == expected
        assert new == json.dumps(expected, indent=indent) or '":"' in new or '"absent"' in json.dumps(related)
        assert ("\n" in new) == (indent is not None)


def test_json_of_kubectl_keeps_its_layout() -> None:
    value = {"kind": "ClusterServiceVersion", "spec": yaml.safe_load(DEPLOYMENTS)}
    new = pin_text(json.dumps(value, indent=4) + "\n", COMPLETE)
    assert new == json.dumps(json.loads(new), indent=4) + "\n"


def test_flow_mappings_get_flow_entries() -> None:
    deployment = f"{{spec: {{template: {{spec: {{containers: [{{name: manager, image: {IMAGE}}}]}}}}}}}}"
    text = f"kind: ClusterServiceVersion\nspec: {{install: {{spec: {{deployments: [{deployment}]}}}}}}\n"
    assert section(pin_text(text, COMPLETE)) == ENTRY


@pytest.mark.parametrize("text", ["kind: ClusterServiceVersion\n", "kind: ClusterServiceVersion\nspec: {}\n"])
def test_a_csv_without_images_is_unchanged(text: str) -> None:
    result = pin(text, related_images=COMPLETE)
    assert not result.files
    assert not result.related_images
