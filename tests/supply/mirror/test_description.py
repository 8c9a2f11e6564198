"""Descriptions of mirrors, and records of carried content: errors name the file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.imagetools.errors import InvalidImage, InvalidReference
from opmkit.supply.mirror.description import CarriedContent, MirrorDescription

if TYPE_CHECKING:
    from pathlib import Path

DIGEST = f"sha256:{'0' * 64}"
IMAGE = {"name": "quay.io/x/y:1", "digest": DIGEST}
ERRORS = (InvalidImage, InvalidReference)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"images": [{**IMAGE, "digest": "x"}]}, "mirror.json.images[0]: invalid digest 'x'"),
        ({"images": [{**IMAGE, "name": "("}]}, "mirror.json.images[0]: invalid image reference '('"),
        ({"images": [{**IMAGE, "name": "quay.io/x/y"}]}, "mirror.json.images[0].name: expected a name with a tag"),
        ({"images": [], "omitted": {"x": "quay.io/x/y"}}, "mirror.json: invalid digest 'x'"),
        ({"images": [], "omitted": {DIGEST: ""}}, "mirror.json: invalid image reference ''"),
    ],
)
def test_invalid_descriptions(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ERRORS) as caught:
        MirrorDescription.parse(json.dumps({"version": 1, **fields}).encode(), "mirror.json")
    assert caught.value.message.startswith(message)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ({"images": {"quay.io/x/y:1": "x"}}, "invalid digest 'x'"),
        ({"blobs": {"x": "quay.io/x/y"}}, "invalid digest 'x'"),
        ({"blobs": {DIGEST: "("}}, "invalid image reference '('"),
    ],
)
def test_invalid_records(record: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = tmp_path / "have.json"
    path.write_text(json.dumps(record))
    with pytest.raises(ERRORS) as caught:
        CarriedContent.read(path)
    assert caught.value.message.startswith(f"{path}: {message}")
