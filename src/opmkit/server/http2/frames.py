"""HTTP/2 frames (RFC 9113, sections 4, 6 and 7)."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_FRAME_SIZE = 16_384
"""Bytes of the largest payload, as long as a peer does not allow more."""
MAX_WINDOW = 2**31 - 1
DEFAULT_WINDOW = 65_535
MAX_SETTINGS = 64
"""Settings in one frame that are accepted."""

_HEADER = struct.Struct(">HBBBI")
_SETTING = struct.Struct(">HI")
_HEADER_SIZE = 9
_STREAM_BITS = 2**31 - 1
_PRIORITY_SIZE = 5


class FrameType(IntEnum):
    """Types of frames."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class Flag(IntEnum):
    """Flags of frames; their meaning depends on the type."""

    ACK = 0x1
    END_STREAM = 0x1
    END_HEADERS = 0x4
    PADDED = 0x8
    PRIORITY = 0x20


class SettingsParameter(IntEnum):
    """Settings that are sent or read."""

    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class ErrorCode(IntEnum):
    """Reasons for the end of a stream or connection."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class ConnectionFailed(Exception):
    """A violation of the protocol that ends the connection."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        """Create the error; the client receives the text."""
        super().__init__(text)
        self.code = code


class StreamFailed(Exception):
    """A violation of the protocol that ends one stream."""

    def __init__(self, stream: int, code: ErrorCode) -> None:
        """Create the error; ``code`` is sent to reset the stream."""
        super().__init__(f"stream {stream}: {code.name}")
        self.stream = stream
        self.code = code


class Frame(NamedTuple):
    """A frame."""

    type: int
    flags: int
    stream: int
    payload: bytes

    def content(self) -> bytes:
        """Return the payload without padding and without the deprecated priority fields."""
        payload, start, end = self.payload, 0, len(self.payload)
        if self.flags & Flag.PADDED:
            end -= payload[0] if payload else 1
            start = 1
        if self.type == FrameType.HEADERS and self.flags & Flag.PRIORITY:
            start += _PRIORITY_SIZE
        if start > end:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "more padding than payload")
        if start >= _PRIORITY_SIZE and self.number(start - _PRIORITY_SIZE) == self.stream:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "stream depends on itself")
        return payload[start:end]

    def number(self, position: int = 0) -> int:
        """Return the 31-bit number at a position of the payload."""
        return int.from_bytes(self.payload[position : position + 4], "big") & _STREAM_BITS


def pack_frame(frame_type: FrameType, flags: int, stream: int, payload: bytes | memoryview = b"") -> bytes:
    """Serialize a frame."""
    size = len(payload)
    return _HEADER.pack(size >> 8, size & 0xFF, frame_type, flags, stream) + payload


def settings_frame(values: dict[SettingsParameter, int]) -> bytes:
    """Serialize a SETTINGS frame."""
    return pack_frame(
        FrameType.SETTINGS, 0, 0, b"".join(_SETTING.pack(setting, value) for setting, value in values.items())
    )


def parse_settings(payload: bytes) -> dict[int, int]:
    """Return the last value of each setting in a frame.

    Raises:
        ConnectionFailed: A value is out of range, or there are more than ``MAX_SETTINGS``. A frame has room for 2,730,
            and clients send fewer than ten.
    """
    if len(payload) > MAX_SETTINGS * _SETTING.size:
        raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, "too many settings in a frame")
    values: dict[int, int] = {}
    for setting, value in _SETTING.iter_unpack(payload):
        if setting == SettingsParameter.INITIAL_WINDOW_SIZE and value > MAX_WINDOW:
            raise ConnectionFailed(ErrorCode.FLOW_CONTROL_ERROR, "window is too large")
        if setting == SettingsParameter.MAX_FRAME_SIZE and not MAX_FRAME_SIZE <= value < 2**24:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "invalid maximum frame size")
        if setting == SettingsParameter.ENABLE_PUSH and value > 1:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "invalid value to enable push")
        values[setting] = value
    return values


def goaway_frame(last_stream: int, code: ErrorCode, text: str = "") -> bytes:
    """Serialize a GOAWAY frame; streams after ``last_stream`` are not processed."""
    return pack_frame(FrameType.GOAWAY, 0, 0, struct.pack(">II", last_stream, code) + text.encode())


def rst_stream_frame(stream: int, code: ErrorCode) -> bytes:
    """Serialize a RST_STREAM frame."""
    return pack_frame(FrameType.RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def window_update_frame(stream: int, increment: int) -> bytes:
    """Serialize a WINDOW_UPDATE frame for a stream, or for 0 the connection."""
    return pack_frame(FrameType.WINDOW_UPDATE, 0, stream, increment.to_bytes(4, "big"))


_FIXED_SIZES = {
    FrameType.PRIORITY: _PRIORITY_SIZE,
    FrameType.RST_STREAM: 4,
    FrameType.PING: 8,
    FrameType.WINDOW_UPDATE: 4,
}
_CONNECTION_TYPES = {FrameType.SETTINGS, FrameType.PING, FrameType.GOAWAY}
_STREAM_TYPES = {
    FrameType.DATA,
    FrameType.HEADERS,
    FrameType.PRIORITY,
    FrameType.RST_STREAM,
    FrameType.PUSH_PROMISE,
    FrameType.CONTINUATION,
}


class FrameReader:
    """Incremental parser of the bytes that a client sends."""

    def __init__(self) -> None:
        """Expect the preface."""
        self._rest = b""
        self._greeted = False

    def read(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that are complete with ``data``; raises ConnectionFailed."""
        data = self._rest + data if self._rest else data
        position = 0
        if not self._greeted:
            if not data.startswith(PREFACE[: len(data)]):
                raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "this is a gRPC server: use HTTP/2")
            if len(data) < len(PREFACE):
                self._rest = data
                return
            self._greeted, position = True, len(PREFACE)
        while len(data) - position >= _HEADER_SIZE:
            high, low, frame_type, flags, stream = _HEADER.unpack_from(data, position)
            size, stream = high << 8 | low, stream & _STREAM_BITS
            _check(frame_type, flags, stream, size)
            end = position + _HEADER_SIZE + size
            if end > len(data):
                break
            frame = Frame(frame_type, flags, stream, data[position + _HEADER_SIZE : end])
            position = end
            yield frame
        self._rest = data[position:]


def _check(frame_type: int, flags: int, stream: int, size: int) -> None:
    if size > MAX_FRAME_SIZE or _FIXED_SIZES.get(frame_type, size) != size:  # type: ignore[call-overload]
        raise ConnectionFailed(ErrorCode.FRAME_SIZE_ERROR, "invalid frame size")
    if frame_type == FrameType.SETTINGS and (size % 6 or (flags & Flag.ACK and size)):
        raise ConnectionFailed(ErrorCode.FRAME_SIZE_ERROR, "invalid size of SETTINGS")
    if (frame_type in _CONNECTION_TYPES and stream) or (frame_type in _STREAM_TYPES and not stream):
        raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "frame on the wrong stream")
