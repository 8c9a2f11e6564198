"""Sending of responses under flow control."""

from __future__ import annotations

from opmkit.index.server.http2.sender import Sender


def test_streams_share_the_window_of_the_connection() -> None:
    written: list[bytes] = []
    ended: list[int] = []
    sender = Sender(written.append, ended.append)
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
