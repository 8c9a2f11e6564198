"""Header blocks, assembled from HEADERS and CONTINUATION frames (RFC 9113, sections 6.2 and 6.10)."""

from __future__ import annotations

from dataclasses import dataclass

from opmkit.server.http2.frames import ConnectionFailed, ErrorCode, Flag, Frame
from opmkit.server.http2.headers import MAX_HEADER_BYTES

MAX_CONTINUATIONS = 32
"""CONTINUATION frames of one header block."""


@dataclass(slots=True)
class HeaderBlock:
    """A header block on a stream; ``ended`` means that no content follows it."""

    stream: int
    ended: bool
    data: bytes
    continuations: int = 0


class HeaderBlocks:
    """Assembler of the header blocks of one connection, which do not overlap."""

    def __init__(self) -> None:
        """Wait for a HEADERS frame."""
        self.incomplete: HeaderBlock | None = None

    def start(self, frame: Frame) -> HeaderBlock | None:
        """Add a HEADERS frame; return its block if it is complete."""
        block = HeaderBlock(frame.stream, bool(frame.flags & Flag.END_STREAM), frame.content())
        if len(block.data) > MAX_HEADER_BYTES:
            raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, "headers are too large")
        if frame.flags & Flag.END_HEADERS:
            return block
        self.incomplete = block
        return None

    def resume(self, frame: Frame) -> HeaderBlock | None:
        """Add a CONTINUATION frame; return its block if it is complete."""
        block = self.incomplete
        if block is None or block.stream != frame.stream:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "unexpected CONTINUATION frame")
        if block.continuations == MAX_CONTINUATIONS:
            raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, "too many CONTINUATION frames")
        if len(block.data) + len(frame.payload) > MAX_HEADER_BYTES:
            raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, "headers are too large")
        block.data += frame.payload
        block.continuations += 1
        if not frame.flags & Flag.END_HEADERS:
            return None
        self.incomplete = None
        return block
