"""Comparison of catalogs does not store them."""

from __future__ import annotations

import random
import tracemalloc
from typing import TYPE_CHECKING

from opmkit.index.diff.fbc import diff_blobs
from opmkit.index.fbc.check.published import check_published, summarize_published
from opmkit.index.fbc.load import load_directory, stream_blobs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

BUNDLES, SIZE = 40, 100_000
"""Number of bundles, and bytes of each."""


def write_catalog(root: Path) -> Path:
    rng = random.Random(1)
    root.mkdir()
    for number in range(BUNDLES):
        properties = f'[{{"type":"olm.bundle.object","value":{{"data":"{rng.randbytes(SIZE // 2).hex()}"}}}}]'
        text = f'{{"schema":"olm.bundle","name":"b{number}","package":"p{number}","properties":{properties}}}\n'
        (root / f"{number}.json").write_text(text)
    return root


def peak_bytes(function: Callable[[], object]) -> int:
    """Return the largest amount of memory that Python objects take during a call."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_peak_memory_of_a_difference_does_not_depend_on_the_size_of_the_catalogs(tmp_path: Path) -> None:
    before, after = (write_catalog(tmp_path / name) for name in ("before", "after"))
    (after / "0.json").write_text((after / "0.json").read_text().replace('"b0"', '"c0"'))
    assert len(diff_blobs(stream_blobs(before), stream_blobs(after)).packages) == 1
    assert peak_bytes(lambda: diff_blobs(stream_blobs(before), stream_blobs(after))) < 20 * SIZE


def test_peak_memory_of_the_published_side_does_not_depend_on_its_size(tmp_path: Path) -> None:
    root = write_catalog(tmp_path / "published")
    blobs = load_directory(root).blobs
    assert list(check_published(blobs, summarize_published(stream_blobs(root)))) == []
    assert peak_bytes(lambda: list(check_published(blobs, summarize_published(stream_blobs(root))))) < 20 * SIZE
