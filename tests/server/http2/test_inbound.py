"""Limits on control frames and pings."""

from __future__ import annotations

import pytest

from opmkit.server.http2 import inbound
from opmkit.server.http2.frames import ConnectionFailed, ErrorCode
from opmkit.server.http2.inbound import FrameBudget, PingGuard


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [1000.0]
    monkeypatch.setattr("opmkit.server.http2.inbound.time.monotonic", lambda: now[0])
    return now


def test_pings_are_limited_as_in_grpc(clock: list[float]) -> None:
    guard = PingGuard()
    for _ in range(20):
        clock[0] += inbound.MIN_PING_INTERVAL
        guard.count(0, 0)
    for sent in range(20):  # pings that measure the bandwidth follow data
        guard.count(0, sent)
    for _ in range(inbound.MAX_PING_STRIKES):
        guard.count(0, sent)
    with pytest.raises(ConnectionFailed, match=r"^too_many_pings$"):
        guard.count(0, sent)


def test_responses_and_time_justify_frames(clock: list[float]) -> None:
    frames = FrameBudget()
    for number in range(10 * inbound.MAX_FRAMES):
        frames.spend(responses=number // inbound.FRAMES_PER_RESPONSE, sent=0)
    for number in range(10 * inbound.MAX_FRAMES):
        frames.spend(responses=10 * inbound.MAX_FRAMES, sent=number * inbound.BYTES_PER_FRAME)
    idle = FrameBudget()
    for _ in range(3):
        for _ in range(inbound.MAX_FRAMES):
            idle.spend(0, 0)
        clock[0] += inbound.PERIOD
    assert flood(idle, 0, 0) is ErrorCode.ENHANCE_YOUR_CALM


def test_earlier_responses_do_not_justify_frames_forever(clock: list[float]) -> None:
    assert flood(FrameBudget(), responses=10**9, sent=10**12) is ErrorCode.ENHANCE_YOUR_CALM


def flood(frames: FrameBudget, responses: int, sent: int) -> ErrorCode | None:
    try:
        for _ in range(2 * inbound.MAX_FRAMES + 2):
            frames.spend(responses, sent)
    except ConnectionFailed as error:
        return error.code
    return None
