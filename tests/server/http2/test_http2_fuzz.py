"""Random frames and header blocks, valid and damaged.

``OPMKIT_FUZZ`` multiplies the number of connections and blocks, ``OPMKIT_FUZZ_SEED`` changes them.
"""

from __future__ import annotations

import os
import random
import struct
from functools import partial
from typing import TYPE_CHECKING

import hpack
import pytest

from opmkit.server.grpc_calls import MAX_WAITING_MESSAGES, GrpcDispatcher, MethodHandler
from opmkit.server.http2.connection import MAX_BUFFERED, MAX_STREAMS, Connection
from opmkit.server.http2.frames import (
    DEFAULT_WINDOW,
    PREFACE,
    ConnectionFailed,
    Flag,
    Frame,
    FrameType,
    SettingsParameter,
    pack_frame,
    settings_frame,
)
from opmkit.server.http2.headers import (
    MAX_CACHED_BYTES,
    MAX_HEADER_BYTES,
    HeaderReader,
    MalformedHeaders,
    RequestHeaders,
    parse_request,
)
from opmkit.server.http2.inbound import MAX_IGNORED_STREAMS
from tests.kit.h2peer import END, MemoryTransport, split_frames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TIMES = int(os.environ.get("OPMKIT_FUZZ", "1"))
SEED = int(os.environ.get("OPMKIT_FUZZ_SEED", "0"))
CONNECTIONS = 1_000
BLOCKS = 12_000
TIMES_BY_RUN = [TIMES, pytest.param(5 * TIMES, marks=pytest.mark.long)]
MAX_OUTPUT = 3_000_000


class Windows:
    """The flow-control windows of a client, computed from the bytes that it sends."""

    def __init__(self) -> None:
        self._rest = b""
        self._preface = len(PREFACE)
        self._connection = self._initial = DEFAULT_WINDOW
        self._streams: dict[int, int] = {}

    def sent(self, data: bytes) -> None:
        """Count the window updates of the client."""
        skipped = min(self._preface, len(data))
        self._preface -= skipped
        self._rest += data[skipped:]
        while len(self._rest) >= 9 and len(self._rest) >= 9 + int.from_bytes(self._rest[:3], "big"):
            size = int.from_bytes(self._rest[:3], "big")
            (frame,) = split_frames(self._rest[: 9 + size])
            self._rest = self._rest[9 + size :]
            stream = frame.stream & 2**31 - 1
            if frame.type == FrameType.WINDOW_UPDATE and stream:
                self._streams[stream] = self._streams.get(stream, 0) + frame.number()
            elif frame.type == FrameType.WINDOW_UPDATE:
                self._connection += frame.number()
            elif frame.type == FrameType.SETTINGS and not frame.flags & Flag.ACK and not size % 6:
                for key, value in struct.iter_unpack(">HI", frame.payload):
                    self._initial = value if key == SettingsParameter.INITIAL_WINDOW_SIZE else self._initial

    def received(self, frame: Frame) -> None:
        """Check that content fits."""
        if frame.type == FrameType.DATA:
            self._connection -= len(frame.payload)
            self._streams[frame.stream] = self._streams.get(frame.stream, 0) - len(frame.payload)
            assert self._connection >= 0, frame
            assert self._initial + self._streams[frame.stream] >= 0 or not frame.payload, frame


class RandomClient:
    """A client that sends random frames, most of which are valid."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._encoder = hpack.Encoder()
        self._next = 1
        self._generators: list[Callable[[], bytes]] = [
            *[self._call] * 6,
            *(self._opening, self._content, self._content, self._trailers, self._update, self._update),
            *(self._settings, self._reset, self._priority, self._ping, self._any, self._continued),
        ]

    def frames(self) -> bytes:
        return self._rng.choice(self._generators)()

    def _stream(self) -> int:
        """Return a stream, in most cases one that was opened."""
        highest = self._next + (4 if self._rng.random() < 0.02 else -2)
        return max(0, self._rng.randint(max(0, highest - 8), max(0, highest)) | (self._rng.random() < 0.98))

    def _block(self) -> bytes:
        named = [(":method", "POST"), (":scheme", "http"), (":path", self._rng.choice(["/a/one", "/a/many", "/no"]))]
        named += [("content-type", "application/grpc")] * (self._rng.random() < 0.95)
        named += [("content-length", "5")] * (self._rng.random() < 0.1)
        named += [("connection", "close")] * (self._rng.random() < 0.02)
        block: bytes = self._encoder.encode(named, huffman=self._rng.random() < 0.5)
        return block

    def _headers(self, flags: int) -> bytes:
        stream, self._next = self._next, self._next + self._rng.choice([2] * 20 + [4, 0])
        payload = self._block()
        if self._rng.random() < 0.1:
            payload, flags = b"\0\0\0\0\x10" + payload, flags | Flag.PRIORITY
        return pack_frame(FrameType.HEADERS, flags, stream, *self._padded(payload, flags)[:1])

    def _padded(self, payload: bytes, flags: int) -> tuple[bytes, int]:
        if flags & Flag.PADDED:
            size = self._rng.randrange(20)
            return bytes([size]) + payload + bytes(size), flags
        return payload, flags

    def _call(self) -> bytes:
        stream = self._next
        return self._headers(Flag.END_HEADERS) + pack_frame(FrameType.DATA, Flag.END_STREAM, stream, b"\0\0\0\0\0")

    def _opening(self) -> bytes:
        return self._headers(Flag.END_HEADERS | self._rng.choice([0, Flag.END_STREAM, Flag.PADDED]))

    def _content(self) -> bytes:
        flags = self._rng.choice([0, 0, Flag.END_STREAM, Flag.PADDED, Flag.PADDED | Flag.END_STREAM])
        message = self._rng.choice([b"\0\0\0\0\0", b"\0\0\0\0\x05", b"hello", b"", b"\0\0\0\xff\xff" + bytes(9000)])
        payload, flags = self._padded(message, flags)
        return pack_frame(FrameType.DATA, flags, self._stream(), payload)

    def _trailers(self) -> bytes:
        return pack_frame(FrameType.HEADERS, END, self._stream(), self._encoder.encode([("x", "y")]))

    def _update(self) -> bytes:
        size = self._rng.choice([1, 100, 20_000, 2**20, 2**31 - 1] if self._rng.random() < 0.05 else [1, 30_000])
        return pack_frame(
            FrameType.WINDOW_UPDATE, 0, self._stream() * (self._rng.random() < 0.5), size.to_bytes(4, "big")
        )

    def _settings(self) -> bytes:
        sizes = self._rng.choices([0, 1, 7, 1000, 65_535, 10**6], k=self._rng.randint(0, 4))
        return pack_frame(FrameType.SETTINGS, 0, 0, b"".join(struct.pack(">HI", 4, size) for size in sizes))

    def _reset(self) -> bytes:
        return pack_frame(FrameType.RST_STREAM, 0, self._stream(), b"\0\0\0\x08")

    def _priority(self) -> bytes:
        return pack_frame(FrameType.PRIORITY, 0, self._stream() or 1, b"\0\0\0\0\x10")

    def _ping(self) -> bytes:
        return pack_frame(FrameType.PING, self._rng.choice([0, Flag.ACK, Flag.ACK]), 0, b"12345678")

    def _any(self) -> bytes:
        kind, flags = self._rng.randrange(12), self._rng.randrange(256)
        return pack_frame(kind, flags, self._stream(), self._rng.randbytes(self._rng.choice([0, 4, 5, 8, 6, 40])))  # type: ignore[arg-type]

    def _continued(self) -> bytes:
        stream, self._next = self._next, self._next + 2
        block = self._block()
        cut = self._rng.randrange(len(block))
        first = pack_frame(FrameType.HEADERS, 0, stream, block[:cut])
        return first + pack_frame(FrameType.CONTINUATION, Flag.END_HEADERS, stream, block[cut:])


def conversation(rng: random.Random) -> Iterator[bytes]:
    """Yield the bytes that a client sends, in chunks of random size."""
    client = RandomClient(rng)
    sent = PREFACE + settings_frame({}) + b"".join(client.frames() for _ in range(rng.randint(1, 60)))
    if rng.random() < 0.3:
        damaged = bytearray(sent)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        sent = bytes(damaged)
    largest = rng.choice([50, 1000, 70_000])
    while sent:
        size = rng.randint(1, largest)
        yield sent[:size]
        sent = sent[size:]


HANDLERS = {
    "/a/one": MethodHandler(lambda request: (b"response",)),
    "/a/many": MethodHandler(lambda request: iter([b"x" * 9000, b"", b"y" * 40_000]), client_streaming=True),
}


@pytest.mark.slow
@pytest.mark.timeout(120 * TIMES)
@pytest.mark.parametrize("times", TIMES_BY_RUN)
def test_random_conversations(times: int) -> None:
    """No error is raised, the windows of the client are respected, and the state of the server is bounded."""
    responses = failures = 0
    for number in range(CONNECTIONS * times):
        rng = random.Random(f"{SEED}-{number}")
        connection, transport, windows = (
            Connection(GrpcDispatcher(HANDLERS, access_log=False).accept, set()),
            MemoryTransport(),
            Windows(),
        )
        connection.connection_made(transport)
        for chunk in conversation(rng):
            connection.data_received(chunk)
            windows.sent(chunk)
            assert len(transport.written) < MAX_OUTPUT
            for frame in transport.frames():
                windows.received(frame)
                responses += frame.type == FrameType.HEADERS
                failures += frame.type == FrameType.GOAWAY
            check_state(connection)
        connection.connection_lost(None)
        assert not connection._requests
        assert connection.buffered == 0, number
    assert responses > CONNECTIONS
    assert CONNECTIONS / 10 < failures < CONNECTIONS * times


def check_state(connection: Connection) -> None:
    assert len(connection._requests) <= MAX_STREAMS
    assert set(connection._inbound.receiving) <= set(connection._requests)
    assert set(connection._inbound._remaining) <= set(connection._inbound.receiving)
    assert set(connection._sender._early_increments) <= set(connection._requests)
    assert set(connection._sender._streams) <= set(connection._requests)
    assert len(connection._inbound.ignored) <= MAX_IGNORED_STREAMS
    assert connection.buffered <= MAX_BUFFERED + MAX_WAITING_MESSAGES * MAX_HEADER_BYTES


def block(rng: random.Random) -> bytes:
    """Return a header block with random representations of fields."""
    resizes = [b"\x20", b"\x3f\x1d", b"\x3f\xe1\x1f"] + [b"\x3f\xe2\x1f"] * (rng.random() < 0.01)
    parts = rng.choices(resizes, k=rng.randint(0, 2)) if rng.random() < 0.15 else []
    parts += [b"\x83", b"\x86", rng.choice([b"\x84", b"\x04\x02/a", b"\x44\x02/b", b"\x14\x02/c"])]
    for _ in range(rng.randrange(4)):
        name, value = rng.choice([b"a", b"b", b"te"]), bytes([rng.choice(b"xyz")]) * rng.choice([1, 30, 90])
        literal = bytes([len(name)]) + name + bytes([len(value)]) + value
        parts.append(rng.choice([b"\x40" + literal, b"\x00" + literal, b"\x10" + literal]))
    if rng.random() < 0.3:
        parts.append(bytes([0x80 | 62 + rng.randrange(4)]))
    joined = b"".join(parts)
    if rng.random() < 0.01:
        joined += rng.randbytes(rng.randint(1, 9))
    return joined


def decode_without_cache(decoder: hpack.Decoder, data: bytes) -> RequestHeaders:
    return parse_request(list(decoder.decode(data, raw=True)))


def read_result(read: Callable[[bytes], RequestHeaders], data: bytes) -> object:
    try:
        return read(data)
    except (MalformedHeaders, ConnectionFailed, hpack.HPACKError) as error:
        return isinstance(error, MalformedHeaders)


@pytest.mark.slow
@pytest.mark.timeout(120 * TIMES)
@pytest.mark.parametrize("times", TIMES_BY_RUN)
def test_cache_does_not_change_how_header_blocks_are_read(times: int) -> None:
    rng = random.Random(SEED)
    known: list[bytes] = []
    reader, plain = HeaderReader(), hpack.Decoder(max_header_list_size=MAX_HEADER_BYTES)
    cached = valid = 0
    for _ in range(BLOCKS * times):
        if known and rng.random() < 0.9:
            data = rng.choice(known[-6:])
        else:
            data = block(rng)
            known = [*known[-40:], data]
        cached += data in reader._cache
        expected = read_result(partial(decode_without_cache, plain), data)
        assert read_result(reader.read, data) == expected
        assert sum(map(len, reader._cache)) <= MAX_CACHED_BYTES
        valid += isinstance(expected, RequestHeaders)
        if expected is False:  # the connection ends
            reader, plain = HeaderReader(), hpack.Decoder(max_header_list_size=MAX_HEADER_BYTES)
    assert cached > BLOCKS / 50
    assert valid > BLOCKS / 4
