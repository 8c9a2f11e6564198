"""Helpers for tests that read layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.layer import LayerSource, Limits, extract_tree, find_file, read_tree

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from opmkit.core.errors import OpmkitError


OPAQUE = ".wh..wh..opq"


def assert_rejected(source: LayerSource, scratch: Path, error: type[OpmkitError], *texts: str) -> None:
    """Check that all functions reject a layer, name it in the error, and write nothing outside the destination."""
    limits = Limits(total_bytes=1 << 22, extracted_bytes=1 << 20, file_bytes=1 << 19, entries=1000, path_length=300)
    inside = scratch / "in/side"
    for read in (
        lambda: read_tree([source], [""], limits),
        lambda: extract_tree([source], inside, limits=limits),
        lambda: find_file([source], "wanted", scratch / "in/found", limits),
    ):
        (scratch / "in").mkdir(exist_ok=True)
        with pytest.raises(error) as caught:
            read()
        for text in (source[0].digest, *texts):
            assert text in caught.value.message
    assert [path.name for path in scratch.iterdir()] == ["in"]
    assert [path.name for path in (scratch / "in").iterdir() if path.name != "side"] == []


def extract_files(bottom_first: Sequence[LayerSource], destination: Path) -> dict[str, bytes]:
    """Extract layers, and return the contents of files and of links to files, by path."""
    extract_tree(bottom_first, destination)
    return {
        path.relative_to(destination).as_posix(): path.read_bytes() for path in destination.rglob("*") if path.is_file()
    }


def find_content(top_first: Sequence[LayerSource], path: str, destination: Path) -> bytes | None:
    """Return the content of one file, None if it does not exist."""
    if find_file(top_first, path, destination) is None:
        return None
    return destination.read_bytes()
