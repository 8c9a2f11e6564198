"""Checks that judge each file by its content alone, so that contents which repeat are judged once."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opmkit.bundle.validation.bundle_view import BundleView, Manifest
    from opmkit.bundle.validation.rule import Check, Fault

    Judge: TypeAlias = Callable[[Manifest], Iterable[Fault]]
    Choice: TypeAlias = Callable[[BundleView], Iterable[Manifest]]


def each_file(files: Choice) -> Callable[[Judge], Check]:
    """Make a check of a function that judges one file; ``files`` says which of a bundle's it is to judge.

    The function sees nothing but the file, whose name it must not use, and leaves the ``file`` of its faults open.
    """

    def decorate(judge: Judge) -> Check:
        @wraps(judge)
        def check(bundle: BundleView) -> Iterator[Fault]:
            for manifest in files(bundle):
                for fault in _judged(manifest, judge):
                    yield replace(fault, file=manifest.path)

        return cast("Check", check)

    return decorate


def _judged(manifest: Manifest, judge: Judge) -> tuple[Fault, ...]:
    memo = manifest.content.memo
    if judge not in memo:
        memo[judge] = tuple(judge(manifest))
    return cast("tuple[Fault, ...]", memo[judge])
