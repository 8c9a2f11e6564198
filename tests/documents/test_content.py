"""Decoded files and the locations of their values."""

from __future__ import annotations

import pytest

from opmkit.documents.content import Content, ContentCache

TEXT = b"""# a comment
kind: Thing
spec:
  list:
  - a: 1
  - b: {c: [x, y]}
  kind: twice
  kind: last
"""


@pytest.mark.parametrize(
    ("path", "location"),
    [
        ((), (2, 1)),
        (("kind",), (2, 1)),
        (("spec", "list"), (4, 3)),
        (("spec", "list", 1), (6, 5)),
        (("spec", "list", 1, "b", "c", 1), (6, 16)),
        (("spec", "kind"), (8, 3)),
        (("spec", "missing", "deeper"), (3, 1)),
        (("spec", "list", 7), (4, 3)),
    ],
)
def test_locate(path: tuple[str | int, ...], location: tuple[int, int]) -> None:
    assert Content.read(TEXT).locate(path) == location


@pytest.mark.parametrize("raw", [b"a: b: c", b"\xff", b"[" * 500_000, b"a: *b", b"{", b"\0", b"a: &a [*a]"])
def test_invalid_files_have_an_error_and_no_locations(raw: bytes) -> None:
    content = Content.read(raw)
    assert content.error is not None
    content.locate(("a", 0))  # must not raise


def test_cache_decodes_equal_files_once_and_evicts_the_least_recently_used() -> None:
    cache = ContentCache(max_bytes=3 * len(TEXT))
    first = cache.read(TEXT)
    assert cache.read(bytes(TEXT)) is first
    for number in range(3):
        cache.read(TEXT[:-2] + b"%d\n" % number)
    assert cache.read(TEXT) is not first
