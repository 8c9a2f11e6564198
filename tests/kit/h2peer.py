"""HTTP/2 client that sends arbitrary frames, and an in-memory transport."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from typing import TYPE_CHECKING, Self

import hpack

from opmkit.server.http2.frames import (
    MAX_FRAME_SIZE,
    PREFACE,
    ErrorCode,
    Flag,
    Frame,
    FrameType,
    SettingsParameter,
    pack_frame,
    settings_frame,
)
from tests.kit.server import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LIST_PACKAGES = b"\0\0\0\0\0"
END = Flag.END_HEADERS | Flag.END_STREAM


class Peer:
    """A client that sends arbitrary bytes and frames."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
        self._encoder = hpack.Encoder()
        self._data = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, *data: bytes) -> None:
        self._socket.sendall(b"".join(data))

    def greet(self, **values: int) -> None:
        self.send(PREFACE, settings_frame({SettingsParameter[name.upper()]: value for name, value in values.items()}))

    def headers(self, path: str = "/api.Registry/ListPackages", **more: str) -> bytes:
        named = {":method": "POST", ":scheme": "http", ":path": path, "content-type": "application/grpc"} | more
        return self._encoder.encode(list(named.items()))

    def ask(self, stream: int, path: str = "/api.Registry/ListPackages", data: bytes = LIST_PACKAGES) -> None:
        self.send(pack_frame(FrameType.HEADERS, Flag.END_HEADERS, stream, self.headers(path)))
        self.send(pack_frame(FrameType.DATA, Flag.END_STREAM, stream, data))

    def ask_on(self, path: str, patience: float) -> None:
        """Send requests without reading responses; raise TimeoutError once the server stops reading."""
        self._socket.settimeout(patience)
        for stream in range(1, 1_000_001, 2):
            self.ask(stream, path)

    def frames(self) -> Iterator[Frame]:
        """Yield the frames of the server until it closes the connection."""
        while True:
            while len(self._data) >= 9:
                high, low, kind, flags, stream = struct.unpack(">HBBBI", self._data[:9])
                size = high << 8 | low
                if len(self._data) < 9 + size:
                    break
                payload, self._data = self._data[9 : 9 + size], self._data[9 + size :]
                yield Frame(kind, flags, stream, payload)
            try:
                more = self._socket.recv(65536)
            except ConnectionResetError:
                return
            if not more:
                return
            self._data += more

    def answer(self, stream: int) -> tuple[bytes, dict[bytes, bytes]]:
        """Return the content and the trailers of a stream."""
        content = b""
        for frame in self.frames():
            assert frame.type not in (FrameType.GOAWAY, FrameType.RST_STREAM), frame
            assert len(frame.payload) <= MAX_FRAME_SIZE, frame
            if frame.stream == stream and frame.type == FrameType.DATA:
                content += frame.payload
            if frame.stream == stream and frame.flags & Flag.END_STREAM:
                return content, dict(hpack.Decoder().decode(frame.payload, raw=True))
        raise AssertionError(f"no end of stream {stream}")

    def end(self) -> ErrorCode:
        """Wait until the server closes the connection and return the error code of its GOAWAY frame."""
        codes = [frame.payload[4:8] for frame in self.frames() if frame.type == FrameType.GOAWAY]
        return ErrorCode(int.from_bytes(codes[-1], "big"))

    def flood(self, chunks: Iterable[bytes]) -> ErrorCode:
        """Send chunks, reading at the same time, until the server closes the connection; return its error code."""
        codes: list[ErrorCode] = []

        def read() -> None:
            codes.append(self.end())

        reader = threading.Thread(target=read)
        reader.start()
        try:
            for chunk in chunks:
                self.send(chunk)
                if codes:
                    break
        except OSError:
            pass  # closed by the server
        reader.join()
        return codes[0]


class MemoryTransport(asyncio.Transport):
    """A transport that records written bytes; ``closed`` once the protocol closes it."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.written = bytearray()
        self.closed = self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed, "write after close"
        self.written += data

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.closed = True

    def resume_reading(self) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def frames(self) -> list[Frame]:
        """Return the frames written since the last call."""
        data, self.written = bytes(self.written), bytearray()
        return list(split_frames(data))


def split_frames(data: bytes) -> Iterator[Frame]:
    """Yield the frames in bytes that end with a complete frame."""
    while data:
        high, low, kind, flags, stream = struct.unpack(">HBBBI", data[:9])
        size = high << 8 | low
        assert len(data) >= 9 + size
        yield Frame(kind, flags, stream, data[9 : 9 + size])
        data = data[9 + size :]
