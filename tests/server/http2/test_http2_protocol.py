"""HTTP/2 over sockets: calls, flow control, protocol violations and limits."""

from __future__ import annotations

import os
import random
import struct
import time
from typing import TYPE_CHECKING

import hpack
import pytest

from opmkit.index.grpc_api import request_class
from opmkit.server.grpc_calls import MAX_ERROR_LENGTH
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
from tests.kit.catalogs import write_library
from tests.kit.h2peer import END, LIST_PACKAGES, Peer
from tests.kit.server import PATIENCE, Server, call, channel
from tests.kit.soak import memory

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    database = tmp_path_factory.mktemp("http2") / "library.db"
    write_library(database)
    with Server("-d", str(database), "--processes", "1") as server:
        yield server
        assert server.err == ""


@pytest.fixture
def peer(served: Server) -> Iterator[Peer]:
    """Yield a connection; the server must answer other clients after it ends."""
    with Peer(served.port) as connected:
        yield connected
    with channel(served.address) as connection:
        assert len(call(connection, "ListPackages")) == 2


def test_a_call(peer: Peer) -> None:
    peer.greet()
    peer.ask(1)
    content, trailers = peer.answer(1)
    assert content.count(b"book") == content.count(b"shelf") == 1
    assert trailers == {b"grpc-status": b"0"}


def test_padded_headers_with_priority_and_continuations(peer: Peer) -> None:
    peer.greet()
    block = peer.headers()
    first = bytes([3]) + b"\0\0\0\0\x10" + block[:5] + b"\0\0\0"
    peer.send(pack_frame(FrameType.HEADERS, Flag.PADDED | Flag.PRIORITY, 1, first))
    peer.send(
        pack_frame(FrameType.CONTINUATION, 0, 1, block[5:9]),
        pack_frame(FrameType.CONTINUATION, Flag.END_HEADERS, 1, block[9:]),
    )
    peer.send(pack_frame(FrameType.DATA, Flag.PADDED | Flag.END_STREAM, 1, bytes([2]) + LIST_PACKAGES + b"\0\0"))
    assert peer.answer(1)[1] == {b"grpc-status": b"0"}


def test_request_sent_byte_by_byte(peer: Peer) -> None:
    data = PREFACE + settings_frame({}) + pack_frame(FrameType.HEADERS, Flag.END_HEADERS, 1, peer.headers())
    data += b"".join(pack_frame(FrameType.DATA, 0, 1, bytes([byte])) for byte in LIST_PACKAGES)
    for byte in data + pack_frame(FrameType.DATA, Flag.END_STREAM, 1):
        peer.send(bytes([byte]))
    assert peer.answer(1)[1] == {b"grpc-status": b"0"}


def test_trailers_end_a_request(peer: Peer) -> None:
    peer.greet()
    peer.send(
        pack_frame(FrameType.HEADERS, Flag.END_HEADERS, 1, peer.headers()),
        pack_frame(FrameType.DATA, 0, 1, LIST_PACKAGES),
    )
    peer.send(pack_frame(FrameType.HEADERS, END, 1, hpack.Encoder().encode([("x", "y")])))
    assert peer.answer(1)[1] == {b"grpc-status": b"0"}


def test_content_is_sent_as_far_as_the_window_allows(peer: Peer) -> None:
    peer.greet(initial_window_size=3)
    peer.ask(1)
    received = b""
    for frame in peer.frames():
        if frame.type == FrameType.DATA:
            received += frame.payload
            assert len(frame.payload) <= 3
            if len(received) == 3:
                peer.send(pack_frame(FrameType.WINDOW_UPDATE, 0, 1, (2).to_bytes(4, "big")))
            elif len(received) == 5:
                peer.send(settings_frame({SettingsParameter.INITIAL_WINDOW_SIZE: 1000}))
                break
    assert (received + peer.answer(1)[0]).endswith(b"shelf")


def test_concurrent_calls(peer: Peer) -> None:
    peer.greet()
    for stream in range(1, 200, 2):
        peer.ask(stream)
    ended = set()
    for frame in peer.frames():
        if frame.type == FrameType.HEADERS and frame.flags & Flag.END_STREAM:
            ended.add(frame.stream)
            if len(ended) == 100:
                break
    assert ended == set(range(1, 200, 2))


def test_pings_are_acknowledged_and_unknown_frames_ignored(peer: Peer) -> None:
    peer.greet()
    peer.send(pack_frame(FrameType.PING, 0, 0, b"12345678"), pack_frame(99, 0, 7, b"unknown type"))  # type: ignore[arg-type]
    ping = next(frame for frame in peer.frames() if frame.type == FrameType.PING)
    assert (ping.flags, ping.payload) == (Flag.ACK, b"12345678")


def number(value: int) -> bytes:
    return value.to_bytes(4, "big")


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        ([pack_frame(FrameType.DATA, 0, 0, b"")], ErrorCode.PROTOCOL_ERROR),
        ([pack_frame(FrameType.DATA, 0, 5, b"")], ErrorCode.PROTOCOL_ERROR),
        ([pack_frame(FrameType.HEADERS, END, 2, b"\x82")], ErrorCode.PROTOCOL_ERROR),
        ([pack_frame(FrameType.HEADERS, END, 0, b"\x82")], ErrorCode.PROTOCOL_ERROR),
        ([pack_frame(FrameType.HEADERS, END, 1, b"\xff\xff\xff\xff\xff")], ErrorCode.COMPRESSION_ERROR),
        ([pack_frame(FrameType.HEADERS, END | Flag.PADDED, 1, b"\x09\x82")], ErrorCode.PROTOCOL_ERROR),
        ([pack_frame(FrameType.HEADERS, END | Flag.PADDED, 1, b"")], ErrorCode.PROTOCOL_ERROR),
        (
            [pack_frame(FrameType.HEADERS, 0, 1, b"\x82"), pack_frame(FrameType.PING, 0, 0, b"8" * 8)],
            ErrorCode.PROTOCOL_ERROR,
        ),
        (
            [pack_frame(FrameType.HEADERS, 0, 1, b"\x82"), pack_frame(FrameType.CONTINUATION, 0, 3, b"")],
            ErrorCode.PROTOCOL_ERROR,
        ),
        ([pack_frame(FrameType.CONTINUATION, 0, 1, b"")], ErrorCode.PROTOCOL_ERROR),
        (
            [pack_frame(FrameType.HEADERS, 0, 1, b"\x82")]
            + [pack_frame(FrameType.CONTINUATION, 0, 1, b"x" * 9000)] * 2,
            ErrorCode.ENHANCE_YOUR_CALM,
        ),
        ([pack_frame(FrameType.PUSH_PROMISE, 0, 1, b"1234")], ErrorCode.PROTOCOL_ERROR),
        ([pack_frame(FrameType.SETTINGS, 0, 0, b"12345")], ErrorCode.FRAME_SIZE_ERROR),
        ([pack_frame(FrameType.SETTINGS, 0, 1, b"")], ErrorCode.PROTOCOL_ERROR),
        ([pack_frame(FrameType.SETTINGS, Flag.ACK, 0, b"123456")], ErrorCode.FRAME_SIZE_ERROR),
        ([settings_frame({SettingsParameter.INITIAL_WINDOW_SIZE: 2**31})], ErrorCode.FLOW_CONTROL_ERROR),
        ([settings_frame({SettingsParameter.MAX_FRAME_SIZE: 5})], ErrorCode.PROTOCOL_ERROR),
        ([pack_frame(FrameType.PING, 0, 0, b"1")], ErrorCode.FRAME_SIZE_ERROR),
        ([pack_frame(FrameType.WINDOW_UPDATE, 0, 0, number(0))], ErrorCode.PROTOCOL_ERROR),
        ([pack_frame(FrameType.WINDOW_UPDATE, 0, 0, number(2**31 - 1))], ErrorCode.FLOW_CONTROL_ERROR),
        ([pack_frame(FrameType.WINDOW_UPDATE, 0, 9, number(1))], ErrorCode.PROTOCOL_ERROR),
        ([pack_frame(FrameType.RST_STREAM, 0, 9, number(8))], ErrorCode.PROTOCOL_ERROR),
        ([pack_frame(FrameType.RST_STREAM, 0, 0, number(8))], ErrorCode.PROTOCOL_ERROR),
        ([struct.pack(">HBBBI", 255, 255, 0, 0, 1)], ErrorCode.FRAME_SIZE_ERROR),
    ],
)
def test_protocol_violations_end_the_connection(peer: Peer, frames: list[bytes], code: ErrorCode) -> None:
    peer.greet()
    peer.send(*frames)
    assert peer.end() is code


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\x00", b"PRI * HTTP/2.0\r\n\r\nXX"]
)
def test_other_protocols_are_refused(peer: Peer, data: bytes) -> None:
    peer.send(data)
    assert peer.end() is ErrorCode.PROTOCOL_ERROR


def test_the_first_frame_must_be_settings(peer: Peer) -> None:
    peer.send(PREFACE, pack_frame(FrameType.PING, 0, 0, b"12345678"))
    assert peer.end() is ErrorCode.PROTOCOL_ERROR


def test_headers_that_decompress_to_many_bytes_are_refused(peer: Peer) -> None:
    peer.greet()
    encoder = hpack.Encoder()
    block = encoder.encode([("x", "y" * 3000)]) + encoder.encode([("x", "y" * 3000)]) * 20
    assert len(block) < 4000
    peer.send(pack_frame(FrameType.HEADERS, END, 1, block))
    assert peer.end() is ErrorCode.COMPRESSION_ERROR


@pytest.mark.parametrize(
    ("path", "data", "status"),
    [
        ("/api.Registry/GetPackage", b"", b"13"),
        ("/api.Registry/GetPackage", b"\0\0\0", b"13"),
        ("/api.Registry/GetPackage", b"\0\0\0\0\x02\xff\xff", b"13"),
        ("/api.Registry/GetPackage", LIST_PACKAGES * 2, b"13"),
        ("/api.Registry/GetPackage", b"\1\0\0\0\0", b"12"),
        ("/api.Registry/GetPackage", b"\0\x7f\xff\xff\xff", b"8"),
        ("/api.Registry/None", LIST_PACKAGES, b"12"),
        ("x", LIST_PACKAGES, b"12"),
    ],
)
def test_invalid_calls_end_with_a_status_code(peer: Peer, path: str, data: bytes, status: bytes) -> None:
    peer.greet()
    peer.ask(1, path, data)
    _, trailers = peer.answer(1)
    assert trailers[b"grpc-status"] == status
    assert trailers[b"grpc-message"]


def get_package(name: str) -> bytes:
    request: bytes = request_class("GetPackage")(name=name).SerializeToString()
    return struct.pack(">BI", 0, len(request)) + request


def test_error_messages_are_escaped(peer: Peer) -> None:
    peer.greet()
    peer.ask(1, "/api.Registry/GetPackage", get_package("50%\n\u00e9"))
    assert peer.answer(1)[1][b"grpc-message"] == b"package 50%25%0A%C3%A9 not found"


def test_error_messages_are_truncated_to_fit_into_a_frame(peer: Peer) -> None:
    peer.greet()
    name = "\u00e9" * 8000
    peer.ask(1, "/api.Registry/GetPackage", get_package(name))
    trailers = peer.answer(1)[1]
    assert trailers[b"grpc-status"] == b"2"
    assert trailers[b"grpc-message"] == b"package " + b"%C3%A9" * (MAX_ERROR_LENGTH - len("package "))


def test_requests_other_than_grpc_are_refused(peer: Peer) -> None:
    peer.greet()
    peer.send(pack_frame(FrameType.HEADERS, END, 1, peer.headers(**{"content-type": "text/html"})))
    frames = (frame for frame in peer.frames() if frame.stream == 1)
    headers, content = next(frames), next(frames)
    assert dict(hpack.Decoder().decode(headers.payload, raw=True))[b":status"] == b"415"
    assert b"gRPC" in content.payload
    assert next(frames) == Frame(FrameType.DATA, Flag.END_STREAM, 1, b"")


def test_streams_beyond_the_limit_are_refused(peer: Peer) -> None:
    """The requests are not completed, so that none of the streams ends."""
    peer.greet()
    for stream in range(1, 515, 2):
        peer.send(pack_frame(FrameType.HEADERS, Flag.END_HEADERS, stream, peer.headers()))
    refused = next(frame for frame in peer.frames() if frame.type == FrameType.RST_STREAM)
    assert (refused.stream, refused.number()) == (513, ErrorCode.REFUSED_STREAM)
    peer.send(pack_frame(FrameType.RST_STREAM, 0, 1, number(8)))
    peer.ask(515)
    assert peer.answer(515)[1] == {b"grpc-status": b"0"}


@pytest.mark.slow
def test_client_that_does_not_read_takes_no_memory(served: Server) -> None:
    """Its window is unlimited."""
    before = memory(served.process.pid)
    with Peer(served.port) as peer:
        peer.greet(initial_window_size=2**31 - 1)
        with pytest.raises((TimeoutError, ConnectionError)):
            peer.ask_on("/api.Registry/ListBundles", patience=2)
        assert memory(served.process.pid) < before + 8
    with channel(served.address) as connection:
        assert len(call(connection, "ListPackages")) == 2


def test_random_bytes(served: Server) -> None:
    rng = random.Random(0)
    for _ in range(100 * int(os.environ.get("OPMKIT_FUZZ", "1"))):
        with Peer(served.port) as peer:
            peer.greet()
            valid = pack_frame(FrameType.HEADERS, Flag.END_HEADERS, 1, peer.headers()) + pack_frame(
                FrameType.DATA, 1, 1, LIST_PACKAGES
            )
            damaged = bytearray(valid)
            for _ in range(rng.randint(1, 6)):
                damaged[rng.randrange(len(damaged))] = rng.randrange(256)
            peer.send(bytes(damaged))
    with channel(served.address) as connection:
        assert len(call(connection, "ListPackages")) == 2


@pytest.mark.slow
def test_idle_connections_are_closed_on_shutdown(tmp_path: Path) -> None:
    write_library(tmp_path / "library.db")
    with Server("-d", str(tmp_path / "library.db")) as server, Peer(server.port) as peer:
        peer.greet()
        peer.ask(1)
        assert peer.answer(1)[1] == {b"grpc-status": b"0"}
        start = time.monotonic()
        assert server.stop() == 0
        assert peer.end() is ErrorCode.NO_ERROR
        assert time.monotonic() - start < PATIENCE / 3  # without waiting for the grace period
