"""Retries, with a fake clock so that no test waits."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from msgspec.structs import replace

from opmkit.imagetools.errors import NotFound, RegistryUnavailable
from opmkit.imagetools.registry.retry import RetryPolicy, TransientError


@dataclass
class Clock:
    """A fake clock that records waits."""

    now: float = 0.0
    waits: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def policy(self, jitter: float = 1.0) -> RetryPolicy:
        return RetryPolicy(clock=lambda: self.now, sleep=self.sleep, jitter=lambda: jitter)


@dataclass
class Operation:
    """An operation that fails with these errors, then succeeds."""

    failures: list[Exception]
    calls: int = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return "done"


def test_waits_double_up_to_a_maximum() -> None:
    clock = Clock()
    policy = replace(clock.policy(), max_attempts=9)
    operation = Operation([TransientError("x") for _ in range(8)])
    assert policy.run(operation, policy.deadline(1000)) == "done"
    assert clock.waits == [0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15.0, 15.0]


def test_jitter_halves_a_wait_at_most() -> None:
    clock = Clock()
    policy = clock.policy(jitter=0.0)
    policy.run(Operation([TransientError("x")]), policy.deadline(100))
    assert clock.waits == [0.2]


def test_attempts_are_limited() -> None:
    clock = Clock()
    policy = clock.policy()
    operation = Operation([TransientError("server error", hint="try again later") for _ in range(50)])
    with pytest.raises(RegistryUnavailable, match="server error; gave up after 6 attempts") as caught:
        policy.run(operation, policy.deadline(1000))
    assert type(caught.value) is RegistryUnavailable
    assert str(caught.value.hint) == "try again later"
    assert operation.calls == 6


def test_unreachable_server_gets_fewer_attempts() -> None:
    clock = Clock()
    policy = clock.policy()
    operation = Operation([TransientError("refused", unreachable=True) for _ in range(50)])
    with pytest.raises(RegistryUnavailable, match="after 3 attempts"):
        policy.run(operation, policy.deadline(1000))
    assert sum(clock.waits) < 2


def test_no_attempt_starts_after_the_deadline() -> None:
    clock = Clock()
    policy = clock.policy()
    with pytest.raises(RegistryUnavailable, match="after 3 attempts"):
        policy.run(Operation([TransientError("x") for _ in range(50)]), policy.deadline(2))
    assert clock.now <= 2


def test_retry_after() -> None:
    clock = Clock()
    policy = clock.policy()
    policy.run(
        Operation([TransientError("x", retry_after=7), TransientError("x", retry_after=500)]), policy.deadline(100)
    )
    assert clock.waits == [7, 60]


def test_retry_after_beyond_the_deadline() -> None:
    clock = Clock()
    policy = clock.policy()
    with pytest.raises(RegistryUnavailable, match="asks to retry after 30 s"):
        policy.run(Operation([TransientError("busy", retry_after=30)]), policy.deadline(10))
    assert clock.waits == []


def test_other_errors_are_not_retried() -> None:
    operation = Operation([NotFound("gone")])
    policy = Clock().policy()
    with pytest.raises(NotFound):
        policy.run(operation, policy.deadline(10))
    assert operation.calls == 1


def test_remaining_time_is_never_negative() -> None:
    clock = Clock()
    deadline = clock.policy().deadline(5)
    assert deadline.remaining() == 5
    clock.now = 9
    assert deadline.remaining() == 0
