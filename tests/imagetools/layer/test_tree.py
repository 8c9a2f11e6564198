"""Reading files of layers into memory."""

from __future__ import annotations

from opmkit.imagetools.layer import read_tree
from tests.kit.images import layer, member


def test_files_are_sorted() -> None:
    assert list(read_tree([layer(member("b"), member("a")), layer(member("0"))], [""])) == ["0", "a", "b"]
