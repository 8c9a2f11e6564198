"""Lazily created values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


T = TypeVar("T")


def call_once(create: Callable[[], T]) -> Callable[[], T]:
    """Return a thread-safe function that calls ``create`` the first time, and returns the same value each time."""
    lock, cached = Lock(), functools.cache(create)

    def get() -> T:
        with lock:
            return cached()

    return get


def lazy_exports(package: str, modules: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return the function ``__getattr__`` of a package that exports names of its modules."""
    module_of = {name: module for module, names in modules.items() for name in names}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{module_of[name]}"), name)

    return get
