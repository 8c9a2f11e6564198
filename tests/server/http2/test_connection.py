"""Connections over a transport in memory: stream states, flow control and timeouts."""

from __future__ import annotations

import errno
import struct
import time
from typing import TYPE_CHECKING

import hpack
import pytest

from opmkit.server.grpc_calls import GrpcDispatcher, MethodHandler
from opmkit.server.http2.connection import Connection
from opmkit.server.http2.frames import (
    PREFACE,
    ErrorCode,
    Flag,
    Frame,
    FrameType,
    SettingsParameter,
    pack_frame,
    settings_frame,
)
from opmkit.server.settings import ConnectionLimits
from tests.kit.h2peer import END, MemoryTransport

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUEST = b"\0\0\0\0\0"
RESPONSE = b"response"


class Client:
    """A client of a connection in this process."""

    def __init__(self) -> None:
        handlers = {
            "/a/call": MethodHandler(lambda request: (RESPONSE,)),
            "/a/stream": MethodHandler(lambda request: iter([b"x" * 40_000] * 4)),
        }
        self.transport = MemoryTransport()
        self.connection = Connection(GrpcDispatcher(handlers, access_log=False).accept, set())
        self.connection.connection_made(self.transport)
        self._encoder = hpack.Encoder()

    def greet(self, **values: int) -> Client:
        self.send(PREFACE, settings_frame({SettingsParameter[name.upper()]: value for name, value in values.items()}))
        self.transport.frames()
        return self

    def send(self, *frames: bytes) -> list[Frame]:
        """Send frames, and return those of the server."""
        self.connection.data_received(b"".join(frames))
        return self.transport.frames()

    def block(self, *fields: tuple[str, str], path: str = "/a/call") -> bytes:
        named = [(":method", "POST"), (":scheme", "http"), (":path", path), ("content-type", "application/grpc")]
        block: bytes = self._encoder.encode([*named, *fields])
        return block

    def call(self, stream: int, path: str = "/a/call") -> list[Frame]:
        headers = pack_frame(FrameType.HEADERS, Flag.END_HEADERS, stream, self.block(path=path))
        return self.send(headers, pack_frame(FrameType.DATA, Flag.END_STREAM, stream, REQUEST))


@pytest.fixture
def client() -> Client:
    return Client().greet()


def resets(frames: list[Frame]) -> list[tuple[int, int]]:
    return [(frame.stream, frame.number()) for frame in frames if frame.type == FrameType.RST_STREAM]


def goaway_code(frames: list[Frame]) -> ErrorCode:
    (goaway,) = (frame for frame in frames if frame.type == FrameType.GOAWAY)
    return ErrorCode(goaway.number(4))


def content(frames: list[Frame]) -> bytes:
    return b"".join(frame.payload for frame in frames if frame.type == FrameType.DATA)


# Streams.


def test_content_after_an_early_response_is_ignored(client: Client) -> None:
    headers = pack_frame(FrameType.HEADERS, Flag.END_HEADERS, 1, client.block(path="/unknown/method"))
    assert resets(client.send(headers)) == [(1, ErrorCode.NO_ERROR)]
    rest = [pack_frame(FrameType.DATA, 0, 1, REQUEST), pack_frame(FrameType.DATA, Flag.END_STREAM, 1)]
    assert client.send(*rest) == []
    assert resets(client.send(rest[0])) == [(1, ErrorCode.STREAM_CLOSED)]


def test_calls_of_unknown_methods_close_their_streams(client: Client) -> None:
    for stream in range(1, 1001, 2):
        block = client.block(path="/unknown/method")
        frames = client.send(pack_frame(FrameType.HEADERS, END, stream, block))
        assert [(frame.type, bool(frame.flags & Flag.END_STREAM)) for frame in frames] == [(FrameType.HEADERS, True)]
    assert content(client.call(1001)).endswith(RESPONSE)


@pytest.mark.parametrize(("stream", "code"), [(3, ErrorCode.PROTOCOL_ERROR), (5, ErrorCode.STREAM_CLOSED)])
def test_closed_streams_cannot_be_reopened(stream: int, code: ErrorCode, client: Client) -> None:
    client.call(1)
    client.call(5)
    assert goaway_code(client.send(pack_frame(FrameType.HEADERS, END, stream, client.block()))) is code


@pytest.mark.parametrize(
    ("length", "data", "valid"), [("5", REQUEST, True), ("6", REQUEST, False), ("4", REQUEST, False), ("x", b"", False)]
)
def test_content_length(length: str, data: bytes, valid: bool, client: Client) -> None:
    headers = pack_frame(FrameType.HEADERS, Flag.END_HEADERS, 1, client.block(("content-length", length)))
    frames = client.send(headers, pack_frame(FrameType.DATA, Flag.END_STREAM, 1, data))
    assert content(frames).endswith(RESPONSE) is valid
    assert resets(frames)[:1] == ([] if valid else [(1, ErrorCode.PROTOCOL_ERROR)])


def test_window_update_before_the_response() -> None:
    client = Client().greet(initial_window_size=0)
    client.send(pack_frame(FrameType.HEADERS, Flag.END_HEADERS, 1, client.block()))
    client.send(pack_frame(FrameType.WINDOW_UPDATE, 0, 1, (100).to_bytes(4, "big")))
    assert content(client.send(pack_frame(FrameType.DATA, Flag.END_STREAM, 1, REQUEST))).endswith(RESPONSE)


def test_trailers_do_not_need_a_window() -> None:
    client = Client().greet(initial_window_size=5 + len(RESPONSE))
    assert client.call(1)[-1].flags & Flag.END_STREAM


def test_last_value_of_a_setting_is_applied(client: Client) -> None:
    client.call(1, "/a/stream")  # fills the window of the stream
    values = b"".join(
        struct.pack(">HI", SettingsParameter.INITIAL_WINDOW_SIZE, size) for size in (2**31 - 1, 0, 65_535)
    )
    frames = client.send(pack_frame(FrameType.SETTINGS, 0, 0, values))
    assert [frame.type for frame in frames] == [FrameType.SETTINGS]
    too_many = client.send(pack_frame(FrameType.SETTINGS, 0, 0, values * 22))
    assert goaway_code(too_many) is ErrorCode.ENHANCE_YOUR_CALM


def test_input_after_a_failure_is_discarded_up_to_a_limit(client: Client) -> None:
    client.send(pack_frame(FrameType.DATA, 0, 9, b""))
    assert not client.transport.aborted
    client.connection.data_received(b"x" * 1000)
    assert not client.transport.aborted
    for _ in range(20):
        client.connection.data_received(b"x" * 100_000)
    assert client.transport.aborted


# Timeouts.


LIMITS = ConnectionLimits(idle=100, greeting=10)


def enforce_timeouts(client: Client, *times: float) -> Iterator[list[Frame]]:
    """Yield the frames that the server sends when it enforces timeouts so many seconds from now."""
    start = time.monotonic()
    for seconds in times:
        client.connection.enforce_timeouts(start + seconds, LIMITS)
        yield client.transport.frames()


def test_idle_connection_is_closed_gracefully(client: Client) -> None:
    client.call(1)
    *early, goaway, waiting, _ = enforce_timeouts(client, 0, 50, 99, 101, 105, 112)
    assert early == [[], [], []]
    assert goaway_code(goaway) is ErrorCode.NO_ERROR
    assert waiting == []
    assert client.transport.closed
    assert not client.transport.aborted


def test_connection_with_calls_is_not_idle(client: Client) -> None:
    for number, frames in enumerate(enforce_timeouts(client, 0, 60, 120, 180, 240)):
        assert frames == []
        client.call(2 * number + 1)


def test_call_without_progress_does_not_prevent_the_timeout(client: Client) -> None:
    client.call(1, "/a/stream")
    list(enforce_timeouts(client, 0, 101, 112))
    assert client.transport.closed


def test_connection_without_a_preface_is_aborted() -> None:
    client = Client()
    list(enforce_timeouts(client, 0, 9))
    assert not client.transport.closed
    list(enforce_timeouts(client, 11))
    assert client.transport.aborted


def test_a_reset_during_shutdown_closes_the_connection(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_eof() -> None:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")

    monkeypatch.setattr(client.transport, "write_eof", write_eof)
    client.connection.drain()
    assert client.transport.aborted
