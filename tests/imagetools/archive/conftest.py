"""Fixtures for archives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.layer import LayerFile, write_layer
from tests.imagetools.archive.helpers import FILES, LABELS
from tests.kit.images import small_image

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.imagetools.image import Image


@pytest.fixture
def image(tmp_path: Path) -> Image:
    """An image with two layers."""
    top = write_layer([LayerFile("top", b"top")], tmp_path)
    return small_image(tmp_path, FILES, labels=LABELS).append([top])
