"""Publish index images without losing updates of other writers.

A tag is moved only from the index that it referred to when the run began. An OCI layout supports this atomically. A
registry does not: the tag is read immediately before it is moved, and after a tag was updated in place it must remain
unchanged for some seconds. Each index image is annotated with its parent, the one it was made from. If a writer then
finds another index under the tag, the parents show whether that one includes its own update. If not, someone who had
read the tag earlier moved it later, and the update is lost: :class:`IndexMoved` is raised as for any other conflict,
and the run can be repeated on the tag's current index.

This works as long as no writer takes longer from reading to moving a tag than the others wait, because whoever moves it
later has then read the new index. Processes of one user on one machine are serialized by a lock, without such a limit.
"""

from __future__ import annotations

import logging
import random
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from msgspec import Struct

from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.core.locks import NamedLocks
from opmkit.core.scratch import ScratchDirectory
from opmkit.core.workers import WorkerPool
from opmkit.imagetools.errors import AuthenticationFailed, ImageToolsError, NotFound, TagMoved
from opmkit.imagetools.reference import DEFAULT_TAG, LayoutReference, Reference
from opmkit.imagetools.repository import TAG_MOVE_WINDOW
from opmkit.index.errors import IndexMoved
from opmkit.index.image.base import parent_digest
from opmkit.index.modes import OnConflict

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from opmkit.core.progress import Progress
    from opmkit.imagetools.image import Image, ImageIndex
    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.repository import Repository
    from opmkit.imagetools.tools.registry import RegistryTool

    T = TypeVar("T")
    BuildFunction = Callable[[ImageReference | None, Path, Callable[[], object]], tuple[Image | ImageIndex, T]]

MAX_ATTEMPTS = 30
_MAX_STEPS = 100
"""Parents that are followed, and moves of a tag that are observed, at most."""
_FIRST_DELAY, _MAX_DELAY = 0.1, 3.0
_TaggedReference = Reference | LayoutReference
_log = logging.getLogger(__name__)


class PublishTarget(Struct, frozen=True):
    """A name for the new index.

    If its tag is guarded, ``repository`` contains it and ``replacing`` is the digest it is moved from, or "" if the tag
    does not exist. ``in_place`` means that the new index is made from the one with this tag.
    """

    reference: ImageReference
    repository: Repository | None = None
    tag: str = ""
    replacing: str | None = None
    in_place: bool = False


class Publisher(Struct, frozen=True):
    """Publication of new indexes under ``references``.

    With ``push`` they are pushed to registries, else stored in the embedded store or in layouts. ``settle`` is in
    seconds.
    """

    tool: RegistryTool
    references: Sequence[ImageReference]
    push: bool = False
    on_conflict: OnConflict = OnConflict.FAIL
    settle: float = TAG_MOVE_WINDOW

    def publish(
        self, start: ImageReference | None, build: BuildFunction[T], progress: Progress
    ) -> tuple[Image | ImageIndex, T]:
        """Build an index from ``start``, publish it, and return what ``build`` returns.

        ``build`` is called with the index to start from, a directory for its files, and a function to call when the old
        index is read, which raises if a tag cannot be; to rebase it is called again with the tag that has moved.

        Raises:
            IndexMoved: A tag has moved, and rebasing is not enabled or failed MAX_ATTEMPTS times.
            DiskError: A lock was not released in time.
        """
        locks = NamedLocks(map(str, self.references if self._is_guarded else ()))
        for attempts_left in reversed(range(MAX_ATTEMPTS)):
            try:
                # Further attempts hold the locks from the start, so that writers do not overtake each other forever.
                with nullcontext() if attempts_left == MAX_ATTEMPTS - 1 else locks.acquire():
                    targets, built = self._attempt(start, build, locks, progress)
                self._await_settled(targets, built[0].digest)
                return built
            except IndexMoved as moved:
                if self.on_conflict is not OnConflict.REBASE or not attempts_left:
                    raise
                _log.info("%s: rebasing on it", moved.message)
                start = moved.reference
            time.sleep(_retry_delay(MAX_ATTEMPTS - attempts_left))
        raise AssertionError  # the last attempt returns or raises

    @property
    def _is_guarded(self) -> bool:
        """Whether tags in registries are checked before they are moved."""
        return self.push and self.on_conflict is not OnConflict.OVERWRITE

    def _attempt(
        self, start: ImageReference | None, build: BuildFunction[T], locks: NamedLocks, progress: Progress
    ) -> tuple[list[PublishTarget], tuple[Image | ImageIndex, T]]:
        with WorkerPool(1, "tags") as pool, ScratchDirectory("opm-index-") as scratch:
            resolved = pool.submit(self._resolve_targets, start)  # while the old index is read
            if any(_is_in_place(reference, start) for reference in self.references):
                start = _pin(start, resolved.result())
            try:
                built = build(start, Path(scratch), resolved.result)
            except Exception:
                resolved.result()  # the error of a tag is the one to report
                raise
            targets = resolved.result()
            with locks.acquire():
                self._put_all(built[0], targets, progress)
        return targets, built

    def _resolve_targets(self, start: ImageReference | None) -> list[PublishTarget]:
        targets = [self._resolve_target(reference, start) for reference in self.references]
        return sorted(targets, key=lambda target: not target.in_place)

    def _resolve_target(self, reference: ImageReference, start: ImageReference | None) -> PublishTarget:
        """Return the target for a name, with the current digest of its tag if the tag is guarded."""
        is_guarded = self._is_guarded or isinstance(reference, LayoutReference)
        is_checked = is_guarded and self.on_conflict is not OnConflict.OVERWRITE
        if not is_checked or not isinstance(reference, _TaggedReference):
            return PublishTarget(reference)
        repository, tag = self.tool.destination(reference), _pushed_tag(reference)
        if not tag:
            return PublishTarget(reference)
        in_place = _is_in_place(reference, start)
        if in_place and isinstance(start, _TaggedReference) and start.digest:
            return PublishTarget(reference, repository, tag, start.digest, in_place)
        try:
            current = _digest(repository, tag)
        except AuthenticationFailed:  # write-only access: the tag cannot be compared
            return PublishTarget(reference)
        return PublishTarget(reference, repository, tag, current, in_place and bool(current))

    def _put_all(self, image: Image | ImageIndex, targets: Sequence[PublishTarget], progress: Progress) -> None:
        if len(targets) > 1:  # all content is pushed before the first tag is moved
            for reference in self.references:
                if isinstance(reference, _TaggedReference):
                    self._put(image, PublishTarget(replace(reference, tag=None, digest=image.digest)), progress)
        for target in targets:
            try:
                self._put(image, target, progress)
            except TagMoved as error:
                # The registry may have applied a request that failed here, and another writer may have built on it.
                if target.repository is None or not _includes(
                    target.repository, target.tag, {image.digest}, target.replacing
                ):
                    raise IndexMoved(target.reference, error.message) from error

    def _put(self, image: Image | ImageIndex, target: PublishTarget, progress: Progress) -> None:
        if self.push or isinstance(target.reference, LayoutReference):
            self.tool.push(image, target.reference, replacing=target.replacing, progress=progress)
        else:
            self.tool.save(image, target.reference, progress=progress)

    def _await_settled(self, targets: Sequence[PublishTarget], digest: str) -> None:
        """Watch the tags in registries that were updated in place, or that several writers rebase on."""
        for target in targets:
            is_watched = target.in_place or self.on_conflict is OnConflict.REBASE
            if is_watched and target.repository and isinstance(target.reference, Reference) and self.settle:
                try:
                    self._await_tag(target, target.repository, digest)
                except (
                    ImageToolsError,
                    LimitExceeded,
                    DiskError,
                ) as error:  # the index is published, so this must not look like a failure
                    _log.warning("%s was moved, but not checked for other writers: %s", target.reference, error)
                    return

    def _await_tag(self, target: PublishTarget, repository: Repository, digest: str) -> None:
        """Wait until a tag remains unchanged; raises IndexMoved if it moves to an index that does not include ours."""
        seen = [digest]
        for _ in range(_MAX_STEPS):  # if others keep building on this index, it is safely included
            time.sleep(self.settle)
            current = _digest(repository, target.tag)
            if current == seen[-1]:
                return
            if not _includes(repository, current, seen, target.replacing):
                moved_to = current or "nothing"
                problem = f"another writer moved the tag at the same time, to {moved_to}: this update was lost"
                raise IndexMoved(target.reference, problem)
            seen.append(current)


def _digest(repository: Repository, tag: str) -> str:
    """Return the digest of a tag, or "" if it does not exist."""
    try:
        return repository.resolve(tag).digest
    except NotFound:
        return ""


def _includes(repository: Repository, identifier: str, known: Collection[str], before: str | None) -> bool:
    """Return whether a tag or digest has one of the ``known`` indexes, made from ``before``, among its parents."""
    for _ in range(_MAX_STEPS):
        if identifier in ("", before):
            return False
        try:
            manifest = repository.get_manifest(identifier)
        except NotFound:
            return False
        if manifest.digest in known:
            return True
        identifier = parent_digest(manifest)
    return False


def _pin(start: ImageReference | None, targets: Sequence[PublishTarget]) -> ImageReference | None:
    """Return the index to start from; if its tag is to be moved, by the digest that the tag is moved from."""
    digests = [target.replacing for target in targets if target.in_place]
    return replace(start, digest=digests[0]) if isinstance(start, _TaggedReference) and digests else start


def _pushed_tag(reference: Reference | LayoutReference) -> str:
    """Return the tag that a push to the reference moves, or "" if there is none."""
    if reference.digest or reference.tag:
        return reference.tag or ""
    return DEFAULT_TAG if isinstance(reference, Reference) else ""


def _is_in_place(reference: ImageReference, start: ImageReference | None) -> bool:
    """Return whether both names have the same tag, so that the new index replaces the one to start from."""
    if not isinstance(reference, _TaggedReference) or not isinstance(start, _TaggedReference):
        return False
    return _by_tag(reference) == _by_tag(start)


def _by_tag(reference: Reference | LayoutReference) -> Reference | LayoutReference:
    return replace(reference, tag=_pushed_tag(reference) or None, digest=None)


def _retry_delay(attempt: int) -> float:
    """Return a random number of seconds up to a limit that grows with each attempt, so that writers do not collide."""
    return random.uniform(0, min(_FIRST_DELAY * 2**attempt, _MAX_DELAY))  # noqa: S311 (not for security)
