"""Lazily created values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import Lock
from typing import TypeVar

T = TypeVar("T")


def call_once(create: Callable[[], T]) -> Callable[[], T]:
    """Return a thread-safe function that calls ``create`` the first time, and returns the same value each time."""
    lock, cached = Lock(), functools.cache(create)

    def get() -> T:
        with lock:
            return cached()

    return get
