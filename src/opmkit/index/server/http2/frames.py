"""Frames of HTTP/2 (RFC 9113, sections 4, 6 and 7)."""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_FRAME_SIZE = 16_384
"""Bytes of the largest payload that every peer takes, and the largest that we take."""
MAX_WINDOW = 2**31 - 1
DEFAULT_WINDOW = 65_535
MAX_SETTINGS = 64
"""Settings in one frame that are accepted."""

_HEADER = struct.Struct(">HBBBI")
_SETTING = struct.Struct(">HI")
_HEADER_SIZE = 9
_STREAM_BITS = 2**31 - 1
_PRIORITY_SIZE = 5


class Kind(IntEnum):
    """What a frame is."""

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
    """What a flag of a frame means, depending on its kind."""

    ACK = 0x1
    END_STREAM = 0x1
    END_HEADERS = 0x4
    PADDED = 0x8
    PRIORITY = 0x20


class Setting(IntEnum):
    """The settings that are looked at."""

    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class ErrorCode(IntEnum):
    """Why a stream or a connection ends."""

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
    """A peer that does not keep to the protocol: nothing it sends can be understood from here on."""

    def __init__(self, code: ErrorCode, text: str) -> None:
        """Say what it did."""
        super().__init__(text)
        self.code = code


class StreamFailed(Exception):
    """A breach of the protocol that ends one stream; the connection goes on."""

    def __init__(self, stream: int, code: ErrorCode) -> None:
        """Name the stream and the code to reset it with."""
        super().__init__(f"stream {stream}: {code.name}")
        self.stream = stream
        self.code = code


class Frame(NamedTuple):
    """One frame."""

    kind: int
    flags: int
    stream: int
    payload: bytes

    def content(self) -> bytes:
        """The payload without padding and without the fields of a priority, which have no meaning any more."""
        payload, start, end = self.payload, 0, len(self.payload)
        if self.flags & Flag.PADDED:
            end -= payload[0] if payload else 1
            start = 1
        if self.kind == Kind.HEADERS and self.flags & Flag.PRIORITY:
            start += _PRIORITY_SIZE
        if start > end:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "more padding than payload")
        if start >= _PRIORITY_SIZE and self.number(start - _PRIORITY_SIZE) == self.stream:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "a stream that depends on itself")
        return payload[start:end]

    def number(self, position: int = 0) -> int:
        """Return the 31-bit number at a position of the payload, by default the only one that it consists of."""
        return int.from_bytes(self.payload[position : position + 4], "big") & _STREAM_BITS


def pack(kind: Kind, flags: int, stream: int, payload: bytes | memoryview = b"") -> bytes:
    """The bytes of a frame."""
    size = len(payload)
    return _HEADER.pack(size >> 8, size & 0xFF, kind, flags, stream) + payload


def settings(values: dict[Setting, int]) -> bytes:
    """A frame with settings."""
    return pack(Kind.SETTINGS, 0, 0, b"".join(_SETTING.pack(key, value) for key, value in values.items()))


def parse_settings(payload: bytes) -> dict[int, int]:
    """Return the last value of each setting of a frame; raises ConnectionFailed for a value that is out of range.

    A frame with more than ``MAX_SETTINGS`` is refused: there is room for 2,730, and clients send fewer than ten.
    """
    if len(payload) > MAX_SETTINGS * _SETTING.size:
        raise ConnectionFailed(ErrorCode.ENHANCE_YOUR_CALM, "too many settings in a frame")
    values: dict[int, int] = {}
    for key, value in _SETTING.iter_unpack(payload):
        if key == Setting.INITIAL_WINDOW_SIZE and value > MAX_WINDOW:
            raise ConnectionFailed(ErrorCode.FLOW_CONTROL_ERROR, "a window that is too large")
        if key == Setting.MAX_FRAME_SIZE and not MAX_FRAME_SIZE <= value < 2**24:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "invalid maximum frame size")
        if key == Setting.ENABLE_PUSH and value > 1:
            raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "invalid value to enable push")
        values[key] = value
    return values


def goaway(last: int, code: ErrorCode, text: str = "") -> bytes:
    """A frame that says up to which stream a peer is listened to, and why not beyond."""
    return pack(Kind.GOAWAY, 0, 0, struct.pack(">II", last, code) + text.encode())


def reset(stream: int, code: ErrorCode) -> bytes:
    """A frame that ends a stream at once."""
    return pack(Kind.RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def window_update(stream: int, size: int) -> bytes:
    """A frame that lets the peer send more, on a stream or, for 0, on all."""
    return pack(Kind.WINDOW_UPDATE, 0, stream, size.to_bytes(4, "big"))


_SIZES = {Kind.PRIORITY: _PRIORITY_SIZE, Kind.RST_STREAM: 4, Kind.PING: 8, Kind.WINDOW_UPDATE: 4}
"""The sizes of payloads that can have only one."""
_OF_CONNECTION = {Kind.SETTINGS, Kind.PING, Kind.GOAWAY}
_OF_STREAM = {Kind.DATA, Kind.HEADERS, Kind.PRIORITY, Kind.RST_STREAM, Kind.PUSH_PROMISE, Kind.CONTINUATION}


class FrameReader:
    """Frames out of bytes as they come; raises ConnectionFailed for what is none."""

    def __init__(self) -> None:
        """Expect the preface of a client."""
        self._rest = b""
        self._greeted = False

    def read(self, data: bytes) -> Iterator[Frame]:
        """The frames that are complete now."""
        data = self._rest + data if self._rest else data
        position = 0
        if not self._greeted:
            if not data.startswith(PREFACE[: len(data)]):
                raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "this is a gRPC server: speak HTTP/2")
            if len(data) < len(PREFACE):
                self._rest = data
                return
            self._greeted, position = True, len(PREFACE)
        while len(data) - position >= _HEADER_SIZE:
            high, low, kind, flags, stream = _HEADER.unpack_from(data, position)
            size, stream = high << 8 | low, stream & _STREAM_BITS
            _check(kind, flags, stream, size)
            end = position + _HEADER_SIZE + size
            if end > len(data):
                break
            frame = Frame(kind, flags, stream, data[position + _HEADER_SIZE : end])
            position = end
            yield frame
        self._rest = data[position:]


def _check(kind: int, flags: int, stream: int, size: int) -> None:
    if size > MAX_FRAME_SIZE or _SIZES.get(kind, size) != size:  # type: ignore[call-overload]
        raise ConnectionFailed(ErrorCode.FRAME_SIZE_ERROR, "frame of a wrong size")
    if kind == Kind.SETTINGS and (size % 6 or (flags & Flag.ACK and size)):
        raise ConnectionFailed(ErrorCode.FRAME_SIZE_ERROR, "settings of a wrong size")
    if (kind in _OF_CONNECTION and stream) or (kind in _OF_STREAM and not stream):
        raise ConnectionFailed(ErrorCode.PROTOCOL_ERROR, "frame on a wrong stream")
