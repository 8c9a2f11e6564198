"""New index images under their tags, so that no update that another writer made is lost.

A tag is moved only from the index that it named when the run began. A layout does this in one step. A registry has no
such step: it is asked right before the tag is moved, and a tag updated in place has then to stand for a while. Each
index names the one that it was made from, so a writer who finds another index under the tag by then sees whether that
one goes back to its own. If it doesn't, someone who had asked before moved the tag after it, and the update is lost:
that is an :class:`IndexMoved` like any other, and the run can be repeated on what the tag names now.

This is sound while no writer takes longer from asking to moving than the others let their tags stand, for whoever moves
a tag later has seen the index that stood. Processes of one user on one machine take turns, and need no such bound.
"""

from __future__ import annotations

import logging
import random
import time
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from opmkit.imagetools.errors import AuthenticationFailed, ImageToolsError, NotFound, TagMoved
from opmkit.imagetools.reference import DEFAULT_TAG, LayoutReference, Reference
from opmkit.imagetools.repository import TAG_MOVE_WINDOW
from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.imagetools.store.locks import NamedLocks
from opmkit.index.errors import IndexMoved
from opmkit.index.image.base import made_from
from opmkit.index.modes import OnConflict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from opmkit.imagetools.image import Image, ImageIndex
    from opmkit.imagetools.progress import Progress
    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.repository import Repository
    from opmkit.imagetools.tools.registry import RegistryTool

    T = TypeVar("T")
    Make = Callable[[ImageReference | None, Path], tuple[Image | ImageIndex, T]]

SETTLE = TAG_MOVE_WINDOW
"""Seconds for which a tag that was updated in place has to stand."""
TRIES = 30
_STEPS = 100  # the most that are gone back, or waited for
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 3.0
Tagged = Reference | LayoutReference
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Target:
    """A name for the new index.

    If its tag is guarded, ``place`` is where that is, and ``replacing`` the digest that it is to be moved from, ""
    where there was no tag. ``in_place`` is whether the index is made from the one of this tag.
    """

    reference: ImageReference
    place: Repository | None = None
    tag: str = ""
    replacing: str | None = None
    in_place: bool = False


@dataclass(frozen=True, slots=True)
class Publisher:
    """Puts new indexes under ``references``, in registries with ``push``, else in the embedded store or in layouts.

    ``settle`` is in seconds.
    """

    tool: RegistryTool
    references: Sequence[ImageReference]
    push: bool = False
    on_conflict: OnConflict = OnConflict.FAIL
    settle: float = SETTLE

    def publish(self, start: ImageReference | None, make: Make[T], progress: Progress) -> tuple[Image | ImageIndex, T]:
        """Put under the names what ``make`` makes of the index to start from; it gets a directory for its files.

        To rebase, it is called again, with the tag that has moved to start from. Raises IndexMoved where that is not
        wanted or happens TRIES times, StoreError for a lock that doesn't come free, and what else goes wrong.
        """
        locks = NamedLocks(map(str, self.references if self._guards else ()))
        for tries_left in reversed(range(TRIES)):
            try:
                # Those who come again take turns from the beginning, so that they don't overtake each other for ever.
                with nullcontext() if tries_left == TRIES - 1 else locks.held():
                    targets, made = self._attempt(start, make, locks, progress)
                self._await_standing(targets, made[0].digest)
                return made
            except IndexMoved as moved:
                if self.on_conflict is not OnConflict.REBASE or not tries_left:
                    raise
                _log.info("%s; starting again from there", moved.message)
                start = moved.reference
            time.sleep(_wait(TRIES - tries_left))
        raise AssertionError  # the last try returns or raises

    @property
    def _guards(self) -> bool:
        """Whether registries are written to with care."""
        return self.push and self.on_conflict is not OnConflict.OVERWRITE

    def _attempt(
        self, start: ImageReference | None, make: Make[T], locks: NamedLocks, progress: Progress
    ) -> tuple[list[Target], tuple[Image | ImageIndex, T]]:
        targets = sorted(
            (self._survey(reference, start) for reference in self.references), key=lambda target: not target.in_place
        )
        with ScratchDirectory("opm-index-") as scratch:
            made = make(_pinned(start, targets), Path(scratch))
            with locks.held():
                self._put_everywhere(made[0], targets, progress)
        return targets, made

    def _survey(self, reference: ImageReference, start: ImageReference | None) -> Target:
        """Look where a tag points as the run begins, if it is to be moved with care."""
        guarded = self._guards or isinstance(reference, LayoutReference)
        if not guarded or self.on_conflict is OnConflict.OVERWRITE or not isinstance(reference, Tagged):
            return Target(reference)
        place, tag = self.tool.destination(reference), _tag(reference)
        if not tag:
            return Target(reference)
        in_place = isinstance(start, Tagged) and _by_tag(start) == _by_tag(reference)
        if in_place and isinstance(start, Tagged) and start.digest:
            return Target(reference, place, tag, start.digest, in_place)
        try:
            now = _named(place, tag)
        except AuthenticationFailed:  # may be written, but not read: nobody can update what is there
            return Target(reference)
        return Target(reference, place, tag, now, in_place and bool(now))

    def _put_everywhere(self, image: Image | ImageIndex, targets: Sequence[Target], progress: Progress) -> None:
        if len(targets) > 1:  # the content is everywhere before the first tag moves
            for reference in self.references:
                if isinstance(reference, Tagged):
                    self._put(image, Target(replace(reference, tag=None, digest=image.digest)), progress)
        for target in targets:
            try:
                self._put(image, target, progress)
            except TagMoved as error:
                # Of an attempt that failed only to our eyes another writer may have seen the outcome before us.
                if target.place is None or not _includes(target.place, target.tag, {image.digest}, target.replacing):
                    raise IndexMoved(target.reference, error.message) from error

    def _put(self, image: Image | ImageIndex, target: Target, progress: Progress) -> None:
        if self.push or isinstance(target.reference, LayoutReference):
            self.tool.push(image, target.reference, replacing=target.replacing, progress=progress)
        else:
            self.tool.save(image, target.reference, progress=progress)

    def _await_standing(self, targets: Sequence[Target], digest: str) -> None:
        """See the registry's tags stand still that were updated in place, or that several writers are known to move."""
        for target in targets:
            watched = target.in_place or self.on_conflict is OnConflict.REBASE
            if watched and target.place and isinstance(target.reference, Reference) and self.settle:
                try:
                    self._await_tag(target, target.place, digest)
                except ImageToolsError as error:  # it can't be said that nothing was changed
                    _log.warning("%s was moved, but not seen to stand for a while: %s", target.reference, error)
                    return

    def _await_tag(self, target: Target, place: Repository, digest: str) -> None:
        """Raises IndexMoved where another writer has moved the tag to what this index is not in."""
        seen = [digest]
        for _ in range(_STEPS):  # no longer: if others go on from this index all the time, it is well in there
            time.sleep(self.settle)
            now = _named(place, target.tag)
            if now == seen[-1]:
                return
            if not _includes(place, now, seen, target.replacing):
                problem = f"another writer moved the tag at the same time, to {now or 'nothing'}: this update was lost"
                raise IndexMoved(target.reference, problem)
            seen.append(now)


def _named(repository: Repository, tag: str) -> str:
    """The digest of what a tag names, or ""."""
    try:
        return repository.resolve(tag).digest
    except NotFound:
        return ""


def _includes(repository: Repository, identifier: str, known: Collection[str], before: str | None) -> bool:
    """Whether what a tag or digest names goes back to one of the ``known`` indexes, which were made from ``before``."""
    for _ in range(_STEPS):
        if identifier in ("", before):
            return False
        try:
            manifest = repository.get_manifest(identifier)
        except NotFound:
            return False
        if manifest.digest in known:
            return True
        identifier = made_from(manifest)
    return False


def _pinned(start: ImageReference | None, targets: Sequence[Target]) -> ImageReference | None:
    """The index to start from, by the digest that was seen under its tag where this is to be moved."""
    seen = [target.replacing for target in targets if target.in_place]
    return replace(start, digest=seen[0]) if isinstance(start, Tagged) and seen else start


def _tag(reference: Reference | LayoutReference) -> str:
    """The tag that a push to the reference moves, or ""."""
    if reference.digest or reference.tag:
        return reference.tag or ""
    return DEFAULT_TAG if isinstance(reference, Reference) else ""


def _by_tag(reference: Reference | LayoutReference) -> Reference | LayoutReference:
    return replace(reference, tag=_tag(reference) or None, digest=None)


def _wait(attempt: int) -> float:
    """Seconds before the next attempt: longer each time, and by chance, so that writers don't meet again."""
    return random.uniform(0, min(_FIRST_WAIT * 2**attempt, _LONGEST_WAIT))  # noqa: S311 (no secret)
