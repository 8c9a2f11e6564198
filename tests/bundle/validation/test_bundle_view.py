"""The view of a bundle that rules get."""

from __future__ import annotations

import pytest

from opmkit.bundle.labels import MANIFESTS
from tests.kit.validation import view


def test_annotations_name_the_manifests_directory() -> None:
    bundle = view(
        {
            "metadata/a-readme.yaml": b"annotations: none\n",
            "metadata/annotations.yaml": f"annotations: {{{MANIFESTS}: deploy/, number: 1, truth: yes}}".encode(),
            "deploy/csv.yaml": b"kind: ClusterServiceVersion\nspec: {version: 1.0.0}\n",
            "deploy/below/other.yaml": b"kind: CustomResourceDefinition\n",
            "manifests/csv.yaml": b"kind: Other\n",
        }
    )
    assert bundle.annotations_file is not None
    assert bundle.annotations_file.path == "metadata/annotations.yaml"
    assert (bundle.annotations["number"], bundle.annotations["truth"]) == ("1", "true")
    assert [manifest.path for manifest in bundle.manifests] == ["deploy/csv.yaml"]
    assert bundle.spec == {"version": "1.0.0"}
    assert bundle.crds == ()


@pytest.mark.parametrize(
    ("annotation", "directory"), [("", ""), ("/", ""), ("../up", "up"), ("a//b/", "a/b"), ("./", "")]
)
def test_manifests_directory_is_always_within_the_bundle(annotation: str, directory: str) -> None:
    text = f"annotations: {{{MANIFESTS}: {annotation!r}}}".encode()
    assert view({"metadata/annotations.yaml": text}).manifests_directory == directory
