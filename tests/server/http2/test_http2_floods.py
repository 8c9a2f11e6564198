"""Known attacks on HTTP/2 servers: each is ended with bounded CPU and memory, and other clients are answered."""

from __future__ import annotations

import os
from itertools import chain, count, islice, repeat
from pathlib import Path
from typing import TYPE_CHECKING

import hpack
import pytest

from opmkit.server.http2.frames import ErrorCode, Flag, FrameType, SettingsParameter, pack_frame, settings_frame
from tests.kit.catalogs import write_library
from tests.kit.h2peer import END, LIST_PACKAGES, Peer
from tests.kit.server import Server, call, channel
from tests.kit.soak import own_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MAX_CPU = 3.0
"""CPU seconds for one attack; each takes less than one."""
MAX_GROWTH = 12.0
"""Growth of the server's memory in MB."""
PACE = 100
"""Frames in a chunk."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    database = tmp_path_factory.mktemp("floods") / "library.db"
    write_library(database)
    with Server("-d", str(database), "--processes", "1") as server:
        yield server
        assert server.err == ""


def number(value: int) -> bytes:
    return value.to_bytes(4, "big")


def chunks(frames: Iterable[bytes], max_frames: int = 200_000) -> Iterator[bytes]:
    """Join frames to larger chunks, to save system calls."""
    remaining = islice(frames, max_frames)
    while chunk := b"".join(islice(remaining, PACE)):
        yield chunk


def open_stream(peer: Peer, stream: int, flags: int = Flag.END_HEADERS) -> bytes:
    return pack_frame(FrameType.HEADERS, flags, stream, peer.headers())


def rapid_reset(peer: Peer) -> Iterator[bytes]:
    """CVE-2023-44487: open streams and reset them immediately."""
    return (
        open_stream(peer, stream) + pack_frame(FrameType.RST_STREAM, 0, stream, number(8)) for stream in count(1, 2)
    )


def provoked_resets(peer: Peer) -> Iterator[bytes]:
    """CVE-2025-8671: make the server reset streams whose responses it continues to compute."""
    window = number(2**31 - 1)
    return (
        open_stream(peer, stream)
        + pack_frame(FrameType.DATA, 0, stream, LIST_PACKAGES)
        + pack_frame(FrameType.WINDOW_UPDATE, 0, stream, window)
        for stream in count(1, 2)
    )


def malformed_requests(peer: Peer) -> Iterator[bytes]:
    """CVE-2019-9514: make the server write resets endlessly."""
    block = peer.headers(connection="close")
    return (pack_frame(FrameType.HEADERS, END, stream, block) for stream in count(1, 2))


def empty_continuations(peer: Peer) -> Iterator[bytes]:
    """CVE-2024-27316: an endless header block without content."""
    return chain([open_stream(peer, 1, 0)], repeat(pack_frame(FrameType.CONTINUATION, 0, 1)))


def long_continuations(peer: Peer) -> Iterator[bytes]:
    """CVE-2024-27316: an endless header block with much content."""
    return chain([open_stream(peer, 1, 0)], repeat(pack_frame(FrameType.CONTINUATION, 0, 1, b"\0\1x\1y" * 400)))


def pings(_peer: Peer) -> Iterator[bytes]:
    """CVE-2019-9512."""
    return repeat(pack_frame(FrameType.PING, 0, 0, b"12345678"))


def empty_settings(_peer: Peer) -> Iterator[bytes]:
    """CVE-2019-9515."""
    return repeat(settings_frame({}))


def full_settings(_peer: Peer) -> Iterator[bytes]:
    """Settings frames of the maximum size."""
    entries = b"".join(
        SettingsParameter.INITIAL_WINDOW_SIZE.to_bytes(2, "big") + number(index % 2) for index in range(2730)
    )
    return repeat(pack_frame(FrameType.SETTINGS, 0, 0, entries))


def windows_of_stalled_streams(peer: Peer) -> Iterator[bytes]:
    """Settings that change the windows of as many streams as possible."""
    requests = [
        open_stream(peer, stream) + pack_frame(FrameType.DATA, 1, stream, LIST_PACKAGES) for stream in range(1, 513, 2)
    ]
    changes = [settings_frame({SettingsParameter.INITIAL_WINDOW_SIZE: size}) for size in (0, 1)]
    return chain(
        [settings_frame({SettingsParameter.INITIAL_WINDOW_SIZE: 0})], requests, islice(repeat(b"".join(changes)), 5000)
    )


def empty_data(peer: Peer) -> Iterator[bytes]:
    """CVE-2019-9518."""
    return chain([open_stream(peer, 1)], repeat(pack_frame(FrameType.DATA, 0, 1)))


def small_data(peer: Peer) -> Iterator[bytes]:
    """Requests that grow byte by byte, and must not be copied for each one."""
    start = b"\0\0\0\xff\xff"
    single = pack_frame(FrameType.DATA, 0, 1, b"x")
    return chain([open_stream(peer, 1), pack_frame(FrameType.DATA, 0, 1, start)], repeat(single))


def data_dribble(peer: Peer) -> Iterator[bytes]:
    """CVE-2019-9511: receive responses byte by byte."""
    dribble = (
        open_stream(peer, stream)
        + pack_frame(FrameType.DATA, 1, stream, LIST_PACKAGES)
        + pack_frame(FrameType.WINDOW_UPDATE, 0, stream, number(1)) * 20
        for stream in count(1, 2)
    )
    return chain([settings_frame({SettingsParameter.INITIAL_WINDOW_SIZE: 0})], dribble)


def priorities(_peer: Peer) -> Iterator[bytes]:
    """CVE-2019-9513."""
    return (pack_frame(FrameType.PRIORITY, 0, 2 * index + 1, number(1) + b"\0") for index in count(1))


def unknown_frames(_peer: Peer) -> Iterator[bytes]:
    return repeat(pack_frame(0x77, 0, 0, b"x"))  # type: ignore[arg-type]


def late_data(peer: Peer) -> Iterator[bytes]:
    """Content on a closed stream, each frame of which would be answered by a reset."""
    return chain([open_stream(peer, 1, END)], repeat(pack_frame(FrameType.DATA, 0, 1, b"x" * 2000)))


FLOODS = [
    *(rapid_reset, provoked_resets, malformed_requests, empty_continuations, long_continuations, pings, empty_settings),
    *(full_settings, windows_of_stalled_streams, empty_data, small_data, data_dribble, priorities, unknown_frames),
    late_data,
]


@pytest.mark.slow
@pytest.mark.parametrize("flood", FLOODS, ids=lambda flood: flood.__name__)
def test_flood_ends_the_connection(flood: Callable[[Peer], Iterator[bytes]], served: Server) -> None:
    with channel(served.address) as other_client:
        assert len(call(other_client, "ListPackages")) == 2
        memory, cpu = own_memory(served.process.pid), cpu_seconds(served)
        with Peer(served.port) as peer:
            peer.greet()
            assert peer.flood(chunks(flood(peer))) is ErrorCode.ENHANCE_YOUR_CALM
        assert cpu_seconds(served) - cpu < MAX_CPU
        assert own_memory(served.process.pid) - memory < MAX_GROWTH
        assert len(call(other_client, "ListPackages")) == 2


def test_windows_do_not_overflow(served: Server) -> None:
    """A window of more than 2^31-1 bytes is an error of the stream, or of the connection."""
    with Peer(served.port) as peer:
        peer.greet()
        peer.send(open_stream(peer, 1), pack_frame(FrameType.WINDOW_UPDATE, 0, 1, number(2**31 - 1)))
        reset = next(frame for frame in peer.frames() if frame.type == FrameType.RST_STREAM)
        assert (reset.stream, reset.number()) == (1, ErrorCode.FLOW_CONTROL_ERROR)
        peer.ask(3)
        assert peer.answer(3)[1] == {b"grpc-status": b"0"}
        peer.send(pack_frame(FrameType.WINDOW_UPDATE, 0, 0, number(2**31 - 1)))
        assert peer.end() is ErrorCode.FLOW_CONTROL_ERROR


def test_hpack_bomb_is_not_decompressed(served: Server) -> None:
    """The block has thousands of references to a large entry of the table."""
    memory, cpu = own_memory(served.process.pid), cpu_seconds(served)
    encoder = hpack.Encoder()
    first = encoder.encode([("x", "y" * 4000)])
    bomb = first + encoder.encode([("x", "y" * 4000)]) * 10_000
    for _ in range(20):
        with Peer(served.port) as peer:
            peer.greet()
            peer.send(pack_frame(FrameType.HEADERS, END, 1, bomb))
            assert peer.end() is ErrorCode.COMPRESSION_ERROR
    assert cpu_seconds(served) - cpu < MAX_CPU
    assert own_memory(served.process.pid) - memory < MAX_GROWTH


def test_memory_for_incomplete_requests_is_bounded(served: Server) -> None:
    memory = own_memory(served.process.pid)
    message = b"\0\0\0\xff\xff" + b"x" * 60_000
    with Peer(served.port) as peer:
        peer.greet()
        for stream in range(1, 513, 2):
            peer.send(open_stream(peer, stream))
            for start in range(0, len(message), 16_000):
                peer.send(pack_frame(FrameType.DATA, 0, stream, message[start : start + 16_000]))
        assert own_memory(served.process.pid) - memory < MAX_GROWTH
        ended = (frame for frame in peer.frames() if frame.type == FrameType.HEADERS and frame.flags & Flag.END_STREAM)
        trailers = dict(hpack.Decoder().decode(next(ended).payload, raw=True))
        assert trailers[b"grpc-status"] == b"8"


def cpu_seconds(server: Server) -> float:
    """Return the CPU seconds that the processes of a server have used."""
    total = 0
    for process in server.workers():
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")
