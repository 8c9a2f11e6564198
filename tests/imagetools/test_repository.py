"""Streams that check what they give."""

from __future__ import annotations

import io

import pytest

from opmkit.imagetools.errors import DigestMismatch
from opmkit.imagetools.repository import verified
from tests.kit.content import described

CONTENT = b"content" * 100_000


def test_what_is_checked_already_is_hashed_once() -> None:
    stream = verified(io.BytesIO(CONTENT), described(CONTENT))
    assert verified(stream, described(CONTENT)) is stream
    assert stream.read() == CONTENT


def test_what_is_checked_against_something_else_is_checked_again() -> None:
    other = described(CONTENT + b"!")
    stream = verified(verified(io.BytesIO(CONTENT), described(CONTENT)), other)
    with pytest.raises(DigestMismatch, match=other.digest):
        stream.read()


def test_what_is_read_in_part_is_checked_again() -> None:
    stream = verified(io.BytesIO(CONTENT), described(CONTENT))
    stream.read(1)
    with pytest.raises(DigestMismatch):
        verified(stream, described(CONTENT)).read()
