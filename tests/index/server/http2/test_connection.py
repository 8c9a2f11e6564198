"""Connections without sockets: stream states, flow control, header rules, idle times, budgets, the header cache."""

from __future__ import annotations

import struct
import time
from typing import TYPE_CHECKING

import hpack
import pytest

from opmkit.index.server.grpc_calls import GrpcDispatcher
from opmkit.index.server.http2 import budget
from opmkit.index.server.http2.budget import FrameBudget, PingGuard
from opmkit.index.server.http2.connection import Connection
from opmkit.index.server.http2.frames import (
    PREFACE,
    ConnectionFailed,
    ErrorCode,
    Flag,
    Frame,
    FrameType,
    Setting,
    pack_frame,
    settings_frame,
)
from opmkit.index.server.http2.headers import MAX_CACHED_BYTES, HeaderReader, MalformedHeaders, RequestHeaders
from opmkit.index.server.rpc import MethodHandler
from opmkit.index.server.settings import ConnectionLimits
from tests.kit.h2peer import END, MemoryTransport

if TYPE_CHECKING:
    from collections.abc import Iterator

REQUEST = b"\0\0\0\0\0"
ANSWER = b"an answer"
PSEUDO = [(":method", "POST"), (":scheme", "http"), (":path", "/a/call")]
GRPC = ("content-type", "application/grpc")


class Client:
    """A client of a connection in this process."""

    def __init__(self) -> None:
        methods = {
            "/a/call": MethodHandler(lambda request: (ANSWER,)),
            "/a/stream": MethodHandler(lambda request: iter([b"x" * 40_000] * 4)),
        }
        self.transport = MemoryTransport()
        self.connection = Connection(GrpcDispatcher(methods, access_log=False).accept, set())
        self.connection.connection_made(self.transport)
        self._encoder = hpack.Encoder()

    def greet(self, **values: int) -> Client:
        self.send(PREFACE, settings_frame({Setting[name.upper()]: value for name, value in values.items()}))
        self.transport.frames()
        return self

    def send(self, *frames: bytes) -> list[Frame]:
        """Send frames, and return what comes back."""
        self.connection.data_received(b"".join(frames))
        return self.transport.frames()

    def block(self, *more: tuple[str, str], path: str = "/a/call") -> bytes:
        return self._encoder.encode([*PSEUDO[:2], (":path", path), GRPC, *more])

    def call(self, stream: int, path: str = "/a/call") -> list[Frame]:
        headers = pack_frame(FrameType.HEADERS, Flag.END_HEADERS, stream, self.block(path=path))
        return self.send(headers, pack_frame(FrameType.DATA, Flag.END_STREAM, stream, REQUEST))


@pytest.fixture
def client() -> Client:
    return Client().greet()


def resets(frames: list[Frame]) -> list[tuple[int, int]]:
    return [(frame.stream, frame.number()) for frame in frames if frame.type == FrameType.RST_STREAM]


def failure(frames: list[Frame]) -> ErrorCode:
    (goaway,) = (frame for frame in frames if frame.type == FrameType.GOAWAY)
    return ErrorCode(goaway.number(4))


def content(frames: list[Frame]) -> bytes:
    return b"".join(frame.payload for frame in frames if frame.type == FrameType.DATA)


# Streams.


def test_content_under_way_is_ignored_after_the_server_has_answered_early(client: Client) -> None:
    headers = pack_frame(FrameType.HEADERS, Flag.END_HEADERS, 1, client.block(path="/unknown/method"))
    assert resets(client.send(headers)) == [(1, ErrorCode.NO_ERROR)]
    assert client.send(pack_frame(FrameType.DATA, 0, 1, REQUEST), pack_frame(FrameType.DATA, Flag.END_STREAM, 1)) == []
    assert resets(client.send(pack_frame(FrameType.DATA, 0, 1, REQUEST))) == [(1, ErrorCode.STREAM_CLOSED)]


def test_calls_of_unknown_methods_leave_no_streams(client: Client) -> None:
    for stream in range(1, 1001, 2):
        frames = client.send(pack_frame(FrameType.HEADERS, END, stream, client.block(path="/unknown/method")))
        assert [(frame.type, bool(frame.flags & Flag.END_STREAM)) for frame in frames] == [(FrameType.HEADERS, True)]
    assert content(client.call(1001)).endswith(ANSWER)


@pytest.mark.parametrize(("stream", "code"), [(3, ErrorCode.PROTOCOL_ERROR), (5, ErrorCode.STREAM_CLOSED)])
def test_closed_streams_can_not_be_opened_again(stream: int, code: ErrorCode, client: Client) -> None:
    client.call(1)
    client.call(5)
    assert failure(client.send(pack_frame(FrameType.HEADERS, END, stream, client.block()))) is code


@pytest.mark.parametrize(
    ("length", "sent", "valid"), [("5", REQUEST, True), ("6", REQUEST, False), ("4", REQUEST, False), ("x", b"", False)]
)
def test_content_has_the_length_that_the_headers_give(length: str, sent: bytes, valid: bool, client: Client) -> None:
    headers = pack_frame(FrameType.HEADERS, Flag.END_HEADERS, 1, client.block(("content-length", length)))
    frames = client.send(headers, pack_frame(FrameType.DATA, Flag.END_STREAM, 1, sent))
    assert content(frames).endswith(ANSWER) is valid
    assert resets(frames)[:1] == ([] if valid else [(1, ErrorCode.PROTOCOL_ERROR)])


def test_room_given_before_the_answer_counts() -> None:
    client = Client().greet(initial_window_size=0)
    client.send(pack_frame(FrameType.HEADERS, Flag.END_HEADERS, 1, client.block()))
    client.send(pack_frame(FrameType.WINDOW_UPDATE, 0, 1, (100).to_bytes(4, "big")))
    assert content(client.send(pack_frame(FrameType.DATA, Flag.END_STREAM, 1, REQUEST))).endswith(ANSWER)


def test_trailers_need_no_room() -> None:
    client = Client().greet(initial_window_size=5 + len(ANSWER))
    assert client.call(1)[-1].flags & Flag.END_STREAM


def test_only_the_last_value_of_a_setting_is_applied(client: Client) -> None:
    client.call(1, "/a/stream")  # fills the window of the stream
    values = b"".join(struct.pack(">HI", Setting.INITIAL_WINDOW_SIZE, size) for size in (2**31 - 1, 0, 65_535))
    assert [frame.type for frame in client.send(pack_frame(FrameType.SETTINGS, 0, 0, values))] == [FrameType.SETTINGS]
    assert failure(client.send(pack_frame(FrameType.SETTINGS, 0, 0, values * 22))) is ErrorCode.ENHANCE_YOUR_CALM


def test_a_client_that_has_failed_may_read_why(client: Client) -> None:
    client.send(pack_frame(FrameType.DATA, 0, 9, b""))
    assert not client.transport.aborted
    client.connection.data_received(b"x" * 1000)
    assert not client.transport.aborted
    for _ in range(20):
        client.connection.data_received(b"x" * 100_000)
    assert client.transport.aborted


# Headers.


@pytest.mark.parametrize(
    "fields",
    [
        [*PSEUDO, ("Upper", "case")],
        [*PSEUDO, ("", "no name")],
        [*PSEUDO, ("a b", "c")],
        [*PSEUDO, ("a", "b\r\nc: d")],
        [*PSEUDO, ("a", " b")],
        [*PSEUDO, ("a", "b\0")],
        [*PSEUDO[:2], (":path", "/a\n")],
        [*PSEUDO, ("connection", "close")],
        [*PSEUDO, ("te", "gzip")],
        [*PSEUDO, ("transfer-encoding", "chunked")],
        [*PSEUDO, ("content-length", "-1")],
        [*PSEUDO, ("content-length", "1"), ("content-length", "2")],
        [*PSEUDO, (":status", "200")],
        [*PSEUDO, (":path", "/")],
        [*PSEUDO[:2], GRPC, PSEUDO[2]],
        [*PSEUDO[:2], (":path", "")],
        PSEUDO[1:],
        PSEUDO[:2],
    ],
)
def test_malformed_headers(fields: list[tuple[str, str]]) -> None:
    with pytest.raises(MalformedHeaders):
        HeaderReader().read(hpack.Encoder().encode(fields))


def test_well_formed_headers() -> None:
    fields = [*PSEUDO, (":authority", "a:1"), ("te", "trailers"), GRPC, ("x-bin", "AA=="), ("content-length", "7")]
    assert HeaderReader().read(hpack.Encoder().encode(fields)) == RequestHeaders(
        b"POST", b"/a/call", b"application/grpc", 7
    )


RESIZE_0, RESIZE_4096 = b"\x20", b"\x3f\xe1\x1f"


def test_blocks_that_resize_the_table_are_not_cached() -> None:
    """The first block has no effect on an empty table, but must have one when it comes again."""
    encoder, reader = hpack.Encoder(), HeaderReader()
    indexed = encoder.encode(PSEUDO[:2])
    plain = indexed + b"\x04\x07/a/call"
    adding = indexed + b"\x44\x07/a/call"
    using = indexed + b"\xbe"
    for block in (RESIZE_0 + plain, RESIZE_4096 + plain, adding, using, RESIZE_0 + plain, RESIZE_4096 + plain):
        assert reader.read(block).path == b"/a/call"
    with pytest.raises(ConnectionFailed):
        reader.read(using)


def test_a_block_that_adds_to_the_table_is_not_cached_while_the_table_has_no_room() -> None:
    encoder, reader = hpack.Encoder(), HeaderReader()
    indexed = encoder.encode(PSEUDO[:2])
    adding = indexed + b"\x44\x07/a/call"
    reader.read(RESIZE_0 + indexed + b"\x04\x07/a/call")
    for block in (adding, adding, RESIZE_4096 + indexed + b"\x04\x07/a/call", adding, indexed + b"\xbe"):
        assert reader.read(block).path == b"/a/call"


def test_the_cache_is_bounded() -> None:
    reader = HeaderReader()
    indexed = hpack.Encoder().encode(PSEUDO[:2])
    for number in range(2000):
        path = f"/{number:05}".encode() * 10
        reader.read(indexed + b"\x04" + bytes([len(path)]) + path)
    cached = reader._cache
    assert len(cached) > 10
    assert sum(len(block) + len(headers.path) for block, headers in cached.items()) < MAX_CACHED_BYTES
    large = indexed + b"\x04\x7f\x80\x3e" + b"/" * (127 + 62 * 128)
    assert reader.read(large).path.startswith(b"//")
    assert large not in reader._cache


# Time.


LIMITS = ConnectionLimits(idle=100, greeting=10)


def checks(client: Client, *times: float) -> Iterator[list[Frame]]:
    start = time.monotonic()
    for after in times:
        client.connection.enforce_timeouts(start + after, LIMITS)
        yield client.transport.frames()


def test_an_idle_connection_is_left_gracefully(client: Client) -> None:
    client.call(1)
    *early, goaway, waiting, _ = checks(client, 0, 50, 99, 101, 105, 112)
    assert early == [[], [], []]
    assert failure(goaway) is ErrorCode.NO_ERROR
    assert waiting == []
    assert client.transport.closed
    assert not client.transport.aborted


def test_a_connection_with_calls_is_not_idle(client: Client) -> None:
    for number, frames in enumerate(checks(client, 0, 60, 120, 180, 240)):
        assert frames == []
        client.call(2 * number + 1)


def test_a_call_without_progress_does_not_keep_a_connection(client: Client) -> None:
    client.call(1, "/a/stream")
    list(checks(client, 0, 101, 112))
    assert client.transport.closed


def test_a_connection_that_does_not_begin_is_closed() -> None:
    client = Client()
    list(checks(client, 0, 9))
    assert not client.transport.closed
    list(checks(client, 11))
    assert client.transport.aborted


# Budgets.


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("opmkit.index.server.http2.budget.time.monotonic", lambda: now[0])
    return now


def test_pings_are_limited_as_in_grpc(clock: list[float]) -> None:
    guard = PingGuard()
    for _ in range(20):
        clock[0] += budget.MIN_PING_INTERVAL
        guard.count(0, 0)
    for sent in range(20):  # pings that measure the bandwidth follow data
        guard.count(0, sent)
    for _ in range(budget.MAX_PING_STRIKES):
        guard.count(0, sent)
    with pytest.raises(ConnectionFailed, match=r"^too_many_pings$"):
        guard.count(0, sent)


def test_work_and_time_pay_for_frames(clock: list[float]) -> None:
    frames = FrameBudget()
    for number in range(10 * budget.MAX_FRAMES):
        frames.spend(responses=number // budget.FRAMES_PER_RESPONSE, sent=0)
    for number in range(10 * budget.MAX_FRAMES):
        frames.spend(responses=10 * budget.MAX_FRAMES, sent=number * budget.BYTES_PER_FRAME)
    idle = FrameBudget()
    for _ in range(3):
        for _ in range(budget.MAX_FRAMES):
            idle.spend(0, 0)
        clock[0] += budget.PERIOD
    assert flood(idle, 0, 0) is ErrorCode.ENHANCE_YOUR_CALM


def test_work_in_the_past_does_not_pay_for_ever(clock: list[float]) -> None:
    assert flood(FrameBudget(), responses=10**9, sent=10**12) is ErrorCode.ENHANCE_YOUR_CALM


def flood(frames: FrameBudget, responses: int, sent: int) -> ErrorCode | None:
    try:
        for _ in range(2 * budget.MAX_FRAMES + 2):
            frames.spend(responses, sent)
    except ConnectionFailed as error:
        return error.code
    return None
