"""Sources of bundles."""

from __future__ import annotations

from pathlib import Path

import pytest

from opmkit.bundle.source import BundleSource, parse_location
from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.reference import parse_image_reference

DIGEST = "sha256:" + "0" * 64


@pytest.mark.parametrize(
    ("text", "image", "warns"),
    [
        ("quay.io/me/lagoon:1", "quay.io/me/lagoon:1", False),
        ("me/lagoon", "me/lagoon", False),
        ("docker://quay.io/me/lagoon:1", "quay.io/me/lagoon:1", False),
        ("docker-daemon:me/lagoon:1", "me/lagoon:1", False),
        ("containers-storage:quay.io/me/lagoon:1", "quay.io/me/lagoon:1", False),
        ("store:quay.io/me/lagoon:1", "quay.io/me/lagoon:1", False),
        (f"docker-daemon:{DIGEST}", f"docker-daemon:{DIGEST}", True),
        ("oci:dir:1", "oci:dir:1", True),
        ("oci-archive:a.tar:1", "oci-archive:a.tar:1", True),
        ("docker-archive:a.tar:quay.io/me/lagoon:1", "docker-archive:a.tar:quay.io/me/lagoon:1", True),
    ],
)
def test_images(text: str, image: str, warns: bool) -> None:
    source = BundleSource.parse(text)
    assert (source.text, source.location, source.image) == (text, parse_image_reference(text), image)
    assert bool(source.warning) is warns
    named = BundleSource.parse(f"{text}=quay.io/x/y:2")
    assert (named.location, named.image, named.warning) == (source.location, "quay.io/x/y:2", "")
    assert BundleSource.parse(f"{text}=docker://x/y").image == "x/y"


@pytest.mark.parametrize("text", [".", "..", "./a", "../a/b", "/a", "./a:1@b"])
def test_directories(text: str) -> None:
    assert BundleSource.parse(text) == BundleSource(text, Path(text), "")
    assert not BundleSource.parse(text).warning
    assert BundleSource.parse(f"{text}=x:1") == BundleSource(f"{text}=x:1", Path(text), "x:1")
    assert parse_location(text) == Path(text)


@pytest.mark.parametrize("text", ["", "=x", "a=", "./a=", "x=oci:dir:1", "x=./y", "dir:x", "A", "./a=B"])
def test_invalid_sources(text: str) -> None:
    with pytest.raises(InvalidReference):
        BundleSource.parse(text)


def test_recorded_image_is_never_a_directory() -> None:
    assert BundleSource.from_image("x:1").location == parse_image_reference("x:1")
    with pytest.raises(InvalidReference, match="path"):
        BundleSource.from_image("/etc")
