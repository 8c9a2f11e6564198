"""Sending of responses under flow control."""

from __future__ import annotations

from opmkit.server.http2.frames import ErrorCode, FrameType
from opmkit.server.http2.sender import BlockedStreams, Sender


def test_streams_share_the_window_of_the_connection() -> None:
    written: list[bytes] = []
    ended: list[int] = []
    sender = Sender(written.append, ended.append, lambda: None, BlockedStreams())
    for stream in (1, 3):
        outgoing = sender.open(stream)
        outgoing.sources.append(iter([b"x" * 50_000]))
        outgoing.trailers = b"end"
        sender.add(outgoing)
    sender.send()
    assert sum(len(frame) - 9 for frame in written) == 65_535
    assert {frame[8] for frame in written} == {1, 3}
    assert ended == []
    sender.increase_window(40_000)
    sender.send()
    assert sorted(ended) == [1, 3]


def test_streams_that_wait_for_their_clients_share_a_budget() -> None:
    blocked = BlockedStreams(limit=2)
    written: list[bytes] = []
    ended: list[int] = []
    senders = [Sender(written.append, ended.append, lambda: None, blocked) for _ in range(3)]
    outgoing = []
    for sender in senders:
        sender.set_initial_window(0)
        stream = sender.open(1)
        stream.sources.append(iter([b"x" * 100]))
        stream.trailers = b"end"
        sender.add(stream)
        sender.send()
        outgoing.append(stream)
    assert [frame[3] for frame in written] == [FrameType.RST_STREAM]  # of the first one
    assert written[0].endswith(ErrorCode.ENHANCE_YOUR_CALM.to_bytes(4, "big"))
    assert (ended, outgoing[0].rest) == ([1], b"")
    senders[1].increase_stream_window(1, 100)  # so that it waits no longer
    senders[1].send()
    assert ended == [1, 1]
    another = senders[0].open(3)
    another.sources.append(iter([b"y"]))
    senders[0].add(another)
    senders[0].send()
    assert len(written) == 3  # content and end of the second; nothing was reset
    senders[0].close()
    assert another.rest == b""


def test_empty_responses_need_no_window() -> None:
    written: list[bytes] = []
    ended: list[int] = []
    sender = Sender(written.append, ended.append, lambda: None, BlockedStreams())
    sender.set_initial_window(0)
    outgoing = sender.open(1)
    outgoing.sources.append(iter([]))
    outgoing.trailers = b"end"
    sender.add(outgoing)
    sender.send()
    assert ended == [1]
