"""Checks that judge each file by its content alone, so that contents which repeat are judged once."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.bundle_view import BundleView, Manifest
    from opmkit.bundle.validation.rule import Check

    Judge: TypeAlias = Callable[[Manifest], Iterable[Finding]]
    Choice: TypeAlias = Callable[[BundleView], Iterable[Manifest]]


def each_file(files: Choice) -> Callable[[Judge], Check]:
    """Make a check of a function that judges one file; ``files`` says which of a bundle's it is to judge.

    The function sees nothing but the file, whose name it must not use, and leaves the ``file`` of its faults open.
    """

    def decorate(judge: Judge) -> Check:
        @wraps(judge)
        def check(bundle: BundleView) -> Iterator[Finding]:
            for manifest in files(bundle):
                for finding in _judged(manifest, judge):
                    yield replace(finding, file=manifest.path)

        return cast("Check", check)

    return decorate


def _judged(manifest: Manifest, judge: Judge) -> tuple[Finding, ...]:
    memo = manifest.content.memo
    if judge not in memo:
        memo[judge] = tuple(judge(manifest))
    return cast("tuple[Finding, ...]", memo[judge])
