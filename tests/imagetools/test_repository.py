"""Verification of streams against descriptors."""

from __future__ import annotations

import io

import pytest

from opmkit.imagetools.errors import DigestMismatch
from opmkit.imagetools.repository import verify_stream
from tests.kit.content import described

CONTENT = b"content" * 100_000


def test_verifying_stream_is_not_wrapped_again() -> None:
    stream = verify_stream(io.BytesIO(CONTENT), described(CONTENT))
    assert verify_stream(stream, described(CONTENT)) is stream
    assert stream.read() == CONTENT


def test_verifying_stream_is_wrapped_for_another_descriptor() -> None:
    other = described(CONTENT + b"!")
    stream = verify_stream(verify_stream(io.BytesIO(CONTENT), described(CONTENT)), other)
    with pytest.raises(DigestMismatch, match=other.digest):
        stream.read()


def test_partially_read_stream_is_wrapped_again() -> None:
    stream = verify_stream(io.BytesIO(CONTENT), described(CONTENT))
    stream.read(1)
    with pytest.raises(DigestMismatch):
        verify_stream(stream, described(CONTENT)).read()
