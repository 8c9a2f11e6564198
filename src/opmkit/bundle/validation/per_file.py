"""Checks of single files, whose results are stored with the content, so that equal files are checked once."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.bundle_view import BundleView, Manifest
    from opmkit.bundle.validation.rule import Check

    FileCheck: TypeAlias = Callable[[Manifest], Iterable[Finding]]
    FileSelector: TypeAlias = Callable[[BundleView], Iterable[Manifest]]


def each_file(select: FileSelector) -> Callable[[FileCheck], Check]:
    """Return a decorator that turns a check of a file into one of a bundle's files.

    The check must depend only on the content of the file. ``file`` of its findings is filled in here.
    """

    def decorate(check_file: FileCheck) -> Check:
        @wraps(check_file)
        def check(bundle: BundleView) -> Iterator[Finding]:
            for manifest in select(bundle):
                for finding in _findings(manifest, check_file):
                    yield replace(finding, file=manifest.path)

        return cast("Check", check)

    return decorate


def _findings(manifest: Manifest, check_file: FileCheck) -> tuple[Finding, ...]:
    memo = manifest.content.memo
    if check_file not in memo:
        memo[check_file] = tuple(check_file(manifest))
    return cast("tuple[Finding, ...]", memo[check_file])
