"""Real bundles, every third version: pinning changes their images only, and nothing the second time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.kit.pinning import fake_digest
from tests.kit.shared import SHARED, needs_shared

from opmkit.author.pin.pin import RelatedImagesMode, pin_files, read_manifests
from opmkit.author.pin.resolve import PinOptions, find_unpinned, resolve_images
from opmkit.bundle.directory import read_files
from opmkit.bundle.errors import InvalidBundle
from opmkit.documents.document_stream import read_documents
from opmkit.documents.errors import InvalidDocument

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from opmkit.documents.json_value import JsonValue

CORPUS = SHARED / "corpus" / "bundles"
PACKAGES = sorted(path.name for path in CORPUS.iterdir()) if CORPUS.is_dir() else ["none"]
INVALID = {"syn-files/1.0.0", "syn-files/1.12.0"}
"""Bundles with invalid YAML, or with related images that are not a list."""

pytestmark = [needs_shared, pytest.mark.slow]


@pytest.mark.parametrize("package", PACKAGES)
def test_only_images_of_real_bundles_change(package: str) -> None:
    for directory in sorted((CORPUS / package).iterdir())[::3]:
        manifests = read_files(directory / "manifests")
        if f"{package}/{directory.name}" in INVALID:
            with pytest.raises(InvalidBundle, match=r"\.yaml:\d+"):
                pin_all(manifests)
            continue
        check(directory, manifests)


def check(directory: Path, manifests: Mapping[str, bytes]) -> None:
    pinned, images = pin_all(manifests)
    for name, content in pinned.items():
        reverted = content
        for image, new in images.items():
            reverted = reverted.replace(new.encode(), image.encode())
        before = manifests[name]
        lines = iter(reverted.splitlines())
        assert all(line in lines for line in before.splitlines()), f"{directory}/{name}: lines are missing"
        assert decode(reverted) == decode(before), f"{directory}/{name}"
    everything = {**manifests, **pinned}
    assert not find_unpinned((use for file in read_manifests(everything) for use in file.uses()), PinOptions())
    assert not pin_all(everything)[0], f"{directory}: changed by the second run"


def pin_all(manifests: Mapping[str, bytes]) -> tuple[dict[str, bytes], dict[str, str]]:
    """Return the changed files, and the images that were replaced."""
    files = read_manifests(manifests)
    images = resolve_images((use for file in files for use in file.uses()), PinOptions(), fake_digest)
    result = pin_files(files, images, RelatedImagesMode.COMPLETE)
    return dict(result.files), {image.image: image.pinned for image in result.images}


def decode(content: bytes) -> list[JsonValue]:
    """Return the documents of a file, without their related images."""
    documents = [document for document in read_documents(content) if not isinstance(document, InvalidDocument)]
    return [without_related_images(document.value) for document in documents]


def without_related_images(value: Any) -> Any:
    spec = value.get("spec") if isinstance(value, dict) else None
    if not isinstance(spec, dict):
        return value
    return {**value, "spec": {key: item for key, item in spec.items() if key != "relatedImages"}}
