"""Rounds of random tests: a sample in each run, all of them with ``--all``."""

from __future__ import annotations

from typing import Any

import pytest


def rounds(count: int, sampled: int) -> list[Any]:
    """Return the seeds of ``count`` rounds; those after the first ``sampled`` are long tests."""
    return [*range(sampled), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(sampled, count))]
