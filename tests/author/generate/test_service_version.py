"""Related images from the variables of containers."""

from __future__ import annotations

import pytest

from opmkit.author.generate.service_version import find_related_images
from opmkit.bundle import InvalidBundle

from .inputs import DEPLOYMENT, collect


def deployment(*containers: dict[str, str], name: str = "boat-operator") -> str:
    """Return a Deployment whose containers have these variables."""
    texts = []
    for number, variables in enumerate(containers):
        env = ", ".join(f"{{name: RELATED_IMAGE_{key}, value: {value}}}" for key, value in variables.items())
        texts.append(f"      - {{name: c{number}, image: i, env: [{{name: X, value: y}}, {env}]}}")
    start = DEPLOYMENT.partition("      - name: manager")[0].replace("boat-operator", name)
    return start + "\n".join(texts)


def entries(*documents: str) -> list[tuple[str, str]]:
    return [(entry["name"], entry["image"]) for entry in find_related_images(collect(*documents)).entries]


def test_names_are_those_of_the_variables() -> None:
    found = entries(deployment({"MAIN_SAIL": "s:1", "OAR": "o:1"}, {"OAR": "o:1"}))
    assert found == [("main-sail", "s:1"), ("oar", "o:1")]


def test_ambiguous_names_are_prefixed() -> None:
    documents = deployment({"OAR": "o:1"}, {"OAR": "o:2"}), deployment({"OAR": "o:3"}, name="other")
    assert entries(*documents) == [
        ("boat-operator-c0-oar", "o:1"),
        ("boat-operator-c1-oar", "o:2"),
        ("other-oar", "o:3"),
    ]


def test_images_with_several_names_have_none() -> None:
    found = find_related_images(collect(deployment({"OAR": "o:1", "PADDLE": "o:1"})))
    assert found.entries == ({"name": "", "image": "o:1"},)
    assert found.warnings == ("related image o:1 has several names: oar, paddle",)


def test_variables_must_be_constant() -> None:
    text = deployment({"OAR": "o:1"}).replace("value: o:1", "valueFrom: {fieldRef: {fieldPath: x}}")
    with pytest.raises(InvalidBundle, match=r"env\[1\].valueFrom is unsupported for RELATED_IMAGE_OAR"):
        entries(text)
