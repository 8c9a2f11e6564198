"""When things are tried again: a policy with a clock of its own, so that no test waits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from opmkit.imagetools.errors import NotFound, RegistryUnavailable
from opmkit.imagetools.registry.retry import RetryPolicy, TransientError


@dataclass
class Time:
    now: float = 0.0
    waits: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds

    def policy(self, chance: float = 1.0) -> RetryPolicy:
        return RetryPolicy(clock=lambda: self.now, sleep=self.sleep, chance=lambda: chance)


@dataclass
class Failing:
    failures: list[Exception]
    calls: int = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.failures:
            raise self.failures.pop(0)
        return "done"


def test_waits_double_up_to_a_bound() -> None:
    time = Time()
    policy = replace(time.policy(), attempts=9)
    operation = Failing([TransientError("x") for _ in range(8)])
    assert policy.run(operation, policy.deadline(1000)) == "done"
    assert time.waits == [0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15.0, 15.0]


def test_jitter_halves_a_wait_at_most() -> None:
    time = Time()
    policy = time.policy(chance=0.0)
    policy.run(Failing([TransientError("x")]), policy.deadline(100))
    assert time.waits == [0.2]


def test_attempts_are_bounded() -> None:
    time = Time()
    policy = time.policy()
    operation = Failing([TransientError("server on fire", hint="call somebody") for _ in range(50)])
    with pytest.raises(RegistryUnavailable, match="server on fire; given up after 6 attempts") as caught:
        policy.run(operation, policy.deadline(1000))
    assert type(caught.value) is RegistryUnavailable
    assert str(caught.value.hint) == "call somebody"
    assert operation.calls == 6


def test_nobody_there_is_given_up_soon() -> None:
    time = Time()
    policy = time.policy()
    operation = Failing([TransientError("refused", unreachable=True) for _ in range(50)])
    with pytest.raises(RegistryUnavailable, match="after 3 attempts"):
        policy.run(operation, policy.deadline(1000))
    assert sum(time.waits) < 2


def test_no_attempt_after_the_deadline() -> None:
    time = Time()
    policy = time.policy()
    with pytest.raises(RegistryUnavailable, match="after 3 attempts"):
        policy.run(Failing([TransientError("x") for _ in range(50)]), policy.deadline(2))
    assert time.now <= 2


def test_the_registry_says_how_long_to_wait() -> None:
    time = Time()
    policy = time.policy()
    policy.run(
        Failing([TransientError("x", retry_after=7), TransientError("x", retry_after=500)]), policy.deadline(100)
    )
    assert time.waits == [7, 60]


def test_asked_to_wait_beyond_the_deadline() -> None:
    time = Time()
    policy = time.policy()
    with pytest.raises(RegistryUnavailable, match="asks to wait 30 s more"):
        policy.run(Failing([TransientError("busy", retry_after=30)]), policy.deadline(10))
    assert time.waits == []


def test_other_errors_pass_at_once() -> None:
    operation = Failing([NotFound("gone")])
    policy = Time().policy()
    with pytest.raises(NotFound):
        policy.run(operation, policy.deadline(10))
    assert operation.calls == 1


def test_a_deadline_is_never_negative() -> None:
    time = Time()
    deadline = time.policy().deadline(5)
    assert deadline.left() == 5
    time.now = 9
    assert deadline.left() == 0
