"""Select the tags of a repository that are bundles to validate."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from opmkit.bundle.errors import NoMatchingTag
from opmkit.bundle.hint_terms import BundleSetting
from opmkit.core.hints import Hint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from opmkit.imagetools.reference import Reference

_ATTACHMENT = re.compile(r"(?:sha256|sha512)-[0-9a-f]{64,128}(?:\..+)?")
"""The OCI referrers fallback tag ``ALGORITHM-HEX``, and cosign's ``ALGORITHM-HEX.sig``, ``.att`` and ``.sbom``."""
_MAX_SHOWN = 5


def is_attachment(tag: str) -> bool:
    """Return whether a tag names a signature, attestation or SBOM of another image."""
    return _ATTACHMENT.fullmatch(tag) is not None


@dataclass(frozen=True, slots=True)
class SkippedTags:
    """Numbers of tags that are not validated: those of signatures, attestations and SBOMs, and excluded ones."""

    attachments: int = 0
    excluded: int = 0

    @property
    def total(self) -> int:
        """Number of all skipped tags."""
        return self.attachments + self.excluded

    def __add__(self, other: SkippedTags) -> SkippedTags:
        return SkippedTags(self.attachments + other.attachments, self.excluded + other.excluded)

    def __str__(self) -> str:
        counts = (
            (self.attachments, "of signatures, attestations or SBOMs"),
            (self.excluded, "excluded by patterns"),
        )
        return " and ".join(f"{count} tag{'s' * (count != 1)} {reason}" for count, reason in counts if count)


class TagSelector:
    """Lists the tags of repositories to validate, and counts those it skips.

    Without ``include`` patterns, tags of attachments are skipped. With them, exactly the tags that match one are
    selected. Tags that match an ``exclude`` pattern are never selected. Patterns are globs: ``*``, ``?``, ``[...]``.
    """

    def __init__(
        self,
        list_tags: Callable[[Reference], Iterable[str]],
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
    ) -> None:
        """Create a selector; no tags are listed yet."""
        self.skipped = SkippedTags()
        self._list_tags = list_tags
        self._include = tuple(include)
        self._exclude = tuple(exclude)
        self._unmatched = dict.fromkeys(self._include)
        self._listed: dict[str, list[str]] = {}

    def __call__(self, repository: Reference) -> list[str]:
        """Return the selected tags of ``repository``, sorted.

        Raises:
            NoMatchingTag: if the repository has tags, but all of them are skipped.
        """
        tags = sorted(self._list_tags(repository))  # registries list them in no particular order
        self._listed[repository.name] = tags
        for pattern in [pattern for pattern in self._unmatched if _matching([pattern], tags)]:
            del self._unmatched[pattern]
        candidates = [tag for tag in tags if self._is_candidate(tag)]
        excluded = set(_matching(self._exclude, candidates))
        selected = [tag for tag in candidates if tag not in excluded]
        attachments = sum(is_attachment(tag) for tag in set(tags).difference(candidates))
        skipped = SkippedTags(attachments, len(tags) - len(selected) - attachments)
        if tags and not selected and (candidates or not self._include):
            raise NoMatchingTag(
                f"{repository.name}: no bundles found: skipped {skipped}",
                hint=Hint("select at least one tag with {} and {}", BundleSetting.TAGS, BundleSetting.EXCLUDE_TAGS),
            )
        self.skipped += skipped
        return selected

    def _is_candidate(self, tag: str) -> bool:
        return bool(_matching(self._include, [tag])) if self._include else not is_attachment(tag)

    def check_patterns(self) -> None:
        """Raise NoMatchingTag if an ``include`` pattern matched no tag of any repository."""
        for pattern in self._unmatched:
            if not self._listed:
                raise NoMatchingTag(
                    f"tag pattern {pattern}: no matching tag: no repository to validate",
                    hint="name a repository without a tag, such as REGISTRY/REPO, to select among its tags",
                )
            tags = [tag for listed in self._listed.values() for tag in listed if not is_attachment(tag)]
            shown = ", ".join([*tags[:_MAX_SHOWN], *(["..."] if len(tags) > _MAX_SHOWN else [])])
            raise NoMatchingTag(
                f"tag pattern {pattern}: no matching tag in {', '.join(self._listed)}",
                hint=f"choose a pattern for tags that exist, such as {shown}" if tags else "",
            )


def _matching(patterns: Iterable[str], tags: Iterable[str]) -> list[str]:
    return [tag for tag in tags if any(fnmatchcase(tag, pattern) for pattern in patterns)]
