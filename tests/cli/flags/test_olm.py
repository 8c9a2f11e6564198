"""Durations in the format of Go."""

from __future__ import annotations

import pytest

from opmkit.author.run.session import format_seconds
from opmkit.cli.flags.olm import parse_duration
from opmkit.cli.output.errors import UsageError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("2m0s", 120), ("90s", 90), ("1h30m", 5400), ("1.5s", 1.5), (".5m", 30), ("100ms", 0.1), ("1µs", 1e-6)],
)
def test_durations_are_parsed_as_in_go(text: str, seconds: float) -> None:
    assert parse_duration(text, "--timeout") == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "0", "0s", "5", "-5s", "5 s", "s", "1d", "5sm", "1e9s", "٣s", "9" * 400 + "h"])
def test_invalid_durations_are_usage_errors(text: str) -> None:
    with pytest.raises(UsageError, match="invalid duration"):
        parse_duration(text, "--timeout")


@pytest.mark.parametrize(
    ("seconds", "text"), [(120, "2m0s"), (90, "1m30s"), (45, "45s"), (0.5, "0.5s"), (3723, "1h2m3s")]
)
def test_durations_are_written_as_in_go(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
