"""Caches of validation results, of bundles and of single files, keyed by digest."""

from __future__ import annotations

from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from msgspec import MsgspecError, Struct, convert, json, structs, to_builtins

from opmkit.bundle.finding import Finding  # noqa: TC001 - read by the decoder
from opmkit.bundle.validation.cache_key import CACHE, code_versions, extension_digests
from opmkit.bundle.validation.cross_bundle import LOCATED_FIELDS, ComparedBundle
from opmkit.bundle.validation.result import ValidationResult
from opmkit.core.cache import ResultCache  # noqa: TC001 - a field
from opmkit.core.hints import Hint
from opmkit.imagetools.store.directory import open_cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from opmkit.bundle.validation.bundle_view import BundleView, ManifestView
    from opmkit.bundle.validation.rule import Check

    FileCheck: TypeAlias = Callable[[ManifestView], Iterable[Finding]]
    FileSelector: TypeAlias = Callable[[BundleView], Iterable[ManifestView]]


class ValidationCache(Struct, frozen=True):
    """On-disk cache of validation results."""

    results: ResultCache

    @classmethod
    def open(cls, store: Path | None, options: Iterable[str]) -> ValidationCache | None:
        """Return the cache in an embedded store, by default that of the user.

        The results are those of the rules of this installation with ``options``: profile, mode, optional validators.
        None if it is unknown which code the rules are.
        """
        extensions = extension_digests()
        if extensions is None:
            return None
        return cls(open_cache(CACHE, [*code_versions(), *extensions, "", *options], store))

    def get(self, content: str, target: str) -> ValidationResult | None:
        """Return the result for the bundle with this digest, under the name ``target``, or None."""
        try:
            return _DECODER.decode(self.results.get(content) or b"").restore(target)
        except (MsgspecError, ValueError):
            return None

    def put(self, content: str, result: ValidationResult) -> None:
        """Store a result, unless it is an error."""
        if not result.error:
            self.results.put(content, json.encode(_StoredResult.from_result(result)))


class _StoredResult(Struct, frozen=True):
    """A result without its name on the command line and its error."""

    name: str
    package: str
    findings: tuple[Finding, ...]
    summary: ComparedBundle | None

    @classmethod
    def from_result(cls, result: ValidationResult) -> _StoredResult:
        return cls(result.name, result.package, result.findings, result.summary)

    def restore(self, target: str, *, error: str = "", hint: Hint | None = None) -> ValidationResult:
        """Return the result; raise ValueError if it is damaged."""
        summary = self.summary and structs.replace(self.summary, target=target)
        if summary and len(summary.locations) not in (0, len(LOCATED_FIELDS)):
            raise ValueError("locations of other fields")
        return ValidationResult(
            target, self.findings, self.name, error, hint or Hint(), package=self.package, summary=summary
        )


_DECODER = json.Decoder(_StoredResult)


def encode_result(result: ValidationResult) -> dict[str, Any]:
    """Return the result in JSON types, without its name on the command line and its error."""
    encoded: dict[str, Any] = to_builtins(_StoredResult.from_result(result))
    return encoded


def decode_result(
    value: Mapping[str, Any], target: str, *, error: str = "", hint: Hint | None = None
) -> ValidationResult:
    """Return the result that `encode_result` wrote, for a name on the command line and with an error.

    Raises:
        ValueError: The value is damaged.
    """
    try:
        return convert(value, _StoredResult).restore(target, error=error, hint=hint)
    except MsgspecError as cause:
        raise ValueError(str(cause)) from cause


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


def _findings(manifest: ManifestView, check_file: FileCheck) -> tuple[Finding, ...]:
    memo = manifest.content.memo
    if check_file not in memo:
        memo[check_file] = tuple(check_file(manifest))
    return cast("tuple[Finding, ...]", memo[check_file])
