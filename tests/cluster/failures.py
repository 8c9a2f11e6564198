"""Commands that must fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.kit.opm import Opm

_TIMEOUTS = (15, 30, 60, 120)


def fail(opm: Opm, *arguments: str, status: int = 1) -> str:
    """Run a command that must fail and return its messages."""
    done = opm.attempt(*arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert "Traceback" not in done.stderr
    return done.stderr


def time_out(opm: Opm, package: str, *arguments: str, causes: Sequence[str]) -> str:
    """Run a command until it times out, and return its messages.

    If ``causes`` are not in the error, the cluster was too slow to find them: the command runs again, longer.
    """
    for seconds in _TIMEOUTS:
        messages = fail(opm, *arguments, "--timeout", f"{seconds}s")
        missing = [cause for cause in causes if cause not in messages.partition("Error: ")[2]]
        if not missing:
            return messages
        opm("cleanup", package)
    raise AssertionError(f"not reported within {_TIMEOUTS[-1]} seconds: {missing}: {messages}")
