"""Copying of the images of a plan: concurrently over images and blobs, as streams that can be stopped."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import TYPE_CHECKING, BinaryIO, ParamSpec, Self, cast

from msgspec import Struct

from opmkit.core.errors import DiskError, LimitExceeded, OpmkitError
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.workers import WorkerPool
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.spec import IndexManifest
from opmkit.supply.mirror.errors import MirrorFailed, TargetFailed, partial_copy_error
from opmkit.supply.mirror.model import MirrorFailure, MirrorReport, is_digest_tag
from opmkit.supply.mirror.plan import DEFAULT_WORKERS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from concurrent.futures import ThreadPoolExecutor

    from opmkit.core.progress import Progress
    from opmkit.imagetools.reference import Reference
    from opmkit.imagetools.repository import ImageSource, Repository
    from opmkit.imagetools.spec import Descriptor, Manifest
    from opmkit.supply.mirror.model import MirrorPlan, PlannedImage, PlannedManifest
    from opmkit.supply.mirror.plan import ManifestSpool
    from opmkit.supply.mirror.target import MirrorSource, MirrorTarget


P = ParamSpec("P")

MAX_TARGET_FAILURES = 5
"""Consecutive failures of the target after which no further images are tried."""


class CopyOptions(Struct, frozen=True):
    """Options of a copy.

    Attributes:
        continue_on_errors: Whether to copy the other images after a failure.
        workers: The number of blobs that are transferred at the same time.
    """

    continue_on_errors: bool = False
    workers: int = DEFAULT_WORKERS


@dataclass(eq=False, slots=True)
class _ImageCopy:
    """An image that is being copied; ``pending`` counts its unfinished transfers."""

    image: PlannedImage
    source: ImageSource
    repository: Repository
    blob_space: str
    """The repositories with equal values have the same blobs."""
    absent: list[PlannedManifest] = field(default_factory=list)
    pending: int = 1
    error: OpmkitError | None = None
    is_target_error: bool = False


class MirrorCopy:
    """The copying of the images of a plan. `report` may be called at any time, also after an error."""

    def __init__(
        self,
        plan: MirrorPlan,
        source: MirrorSource,
        target: MirrorTarget,
        spool: ManifestSpool,
        options: CopyOptions | None = None,
        *,
        mount_sources: Mapping[str, Repository] | None = None,
        progress: Progress = NO_PROGRESS,
    ) -> None:
        """Prepare to copy the images of ``plan`` that the target lacks.

        Args:
            plan: The plan, whose manifests are in ``spool``.
            source: Where the images are read from.
            target: Where they are copied to.
            spool: The manifests.
            options: Concurrency, and what to do after a failure.
            mount_sources: Repositories of the target that are known to have a blob, by its digest.
            progress: A receiver of progress reports.
        """
        self._plan = plan
        self._source = source
        self._target = target
        self._spool = spool
        self._options = options or CopyOptions()
        self._progress = progress
        self._meter = TransferMeter(progress)
        self._copied: list[PlannedImage] = []
        self._failures: list[MirrorFailure] = []
        self._target_failures = 0
        self._finished: SimpleQueue[_ImageCopy | BaseException] = SimpleQueue()
        self._lock = threading.Lock()
        self._stored: set[tuple[str, str]] = set()
        self._holders: dict[str, Repository] = {}
        self._mount_sources: Mapping[str, Repository] = mount_sources or {}
        self._waiting: dict[tuple[str, str], list[tuple[_ImageCopy, Descriptor]]] = {}

    def report(self) -> MirrorReport:
        """Return what was done so far."""
        failures = (*self._plan.failures, *self._failures)
        return MirrorReport(tuple(self._copied), self._plan.present, failures, self._meter.transferred)

    def run(self) -> MirrorReport:
        """Copy the images, those that are last after the others, and return the report.

        Nothing has a tag in the target before all of its content is there, so that an interrupted copy can be
        repeated: images and blobs that the target has are not read again.

        The images in `report` are complete after an error, too.

        Raises:
            MirrorFailed: An image cannot be copied, and `CopyOptions.continue_on_errors` is not set.
            TargetFailed: The target keeps failing.
        """
        absent = self._plan.absent
        blobs = {digest: blob.size for image in absent for digest, blob in image.blobs.items()}
        try:
            with WorkerPool(self._options.workers, "mirror") as self._pool:
                try:
                    if not self._target.shares_blobs:
                        found = find_mount_sources(self._plan.present, self._target, blobs, self._pool)
                        mounts = {digest: self._target.repository(name) for digest, name in found.items()}
                        self._mount_sources = {**self._mount_sources, **mounts}
                    self._progress.begin("Copying", sum(blobs.values()))
                    self._copy(image for image in absent if not image.request.last)
                    self._copy(image for image in absent if image.request.last)
                except BaseException:
                    self._meter.stop()
                    raise
        finally:
            self._progress.end()
            self._target.finish()
        return self.report()

    def _copy(self, images: Iterable[PlannedImage]) -> None:
        """Copy images, so many at a time that all workers are busy."""
        running = 0
        for image in images:
            if running >= 2 * self._options.workers:
                self._await_image()
                running -= 1
            source = self._source.repository(image.request.reference)
            space = "" if self._target.shares_blobs else image.target
            copy = _ImageCopy(image, source, self._target.repository(image.request.target_name), space)
            self._submit(self._start, copy)
            running += 1
        for _ in range(running):
            self._await_image()

    def _await_image(self) -> None:
        """Wait for any image, and record the result; raise MirrorFailed if that ends the copying."""
        finished = self._finished.get()
        if isinstance(finished, BaseException):
            raise finished
        if finished.error is None:
            self._copied.append(finished.image)
            self._target_failures = 0
            return
        request = finished.image.request
        failure = MirrorFailure(
            str(request.reference), finished.error, request.needed_by, is_target_error=finished.is_target_error
        )
        if isinstance(finished.error, Stopped):
            self._await_image()  # the image that failed first follows
            return
        self._failures.append(failure)
        self._target_failures = self._target_failures + 1 if finished.is_target_error else 0
        if not self._options.continue_on_errors:
            raise MirrorFailed([failure])
        if self._target_failures >= MAX_TARGET_FAILURES:
            raise TargetFailed(failure)

    def _submit(self, function: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call a function in a worker; an unexpected error ends the copying."""

        def call() -> None:
            try:
                function(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - raised again by the main thread
                self._finished.put(error)

        self._pool.submit(call)

    def _start(self, copy: _ImageCopy) -> None:
        """Request the blobs of the manifests that the target lacks."""
        blobs = self._absent_blobs(copy)
        copy.pending += len(blobs)
        for blob in blobs.values():
            self._request(copy, blob)
        self._complete(copy)

    def _absent_blobs(self, copy: _ImageCopy) -> dict[str, Descriptor]:
        *children, root = copy.image.manifests
        # A directory lists none as existing: blobs may be damaged if a power failure interrupted an earlier copy.
        copy.absent = [child for child in children if child.digest not in copy.image.existing]
        copy.absent.append(root)
        return {blob.digest: blob for manifest in copy.absent for blob in manifest.blobs}

    def _request(self, copy: _ImageCopy, blob: Descriptor) -> None:
        """Store a blob for an image: at once, or after a transfer of the same blob that is in progress."""
        with self._lock:
            is_stored = (copy.blob_space, blob.digest) in self._stored
            # Once a repository of the target has the blob, others can mount it independently of each other.
            key = (copy.blob_space if blob.digest in self._holders else "", blob.digest)
            if not is_stored and key in self._waiting:
                self._waiting[key].append((copy, blob))
                return
            if not is_stored:
                self._waiting[key] = []
        if is_stored:
            self._complete(copy)
        else:
            self._submit(self._store, copy, blob, key)

    def _store(self, copy: _ImageCopy, blob: Descriptor, key: tuple[str, str]) -> None:
        """Store a blob, then have those stored that have waited for it."""
        is_stored = False
        if copy.error is None:
            is_stored = self._put(copy, blob)
        with self._lock:
            waiting = self._waiting.pop(key)
            if is_stored:
                self._stored.add((copy.blob_space, blob.digest))
                self._holders.setdefault(blob.digest, copy.repository)
        self._complete(copy)
        for other, descriptor in waiting:
            self._request(other, descriptor)

    def _put(self, copy: _ImageCopy, blob: Descriptor) -> bool:
        holder = self._holders.get(blob.digest)
        transfer = BlobTransfer(blob, copy.source, self._meter, is_reported=holder is None)
        mount_from = holder or self._mount_sources.get(blob.digest) or copy.source
        try:
            copy.repository.put_blob(blob, transfer.open, mount_from=mount_from)
        except SourceFailed as failed:
            self._fail(copy, failed.error, is_target_error=False)
            return False
        except OpmkitError as error:
            self._fail(copy, error, is_target_error=True)
            return False
        transfer.finish()
        return True

    def _complete(self, copy: _ImageCopy) -> None:
        """Record that a transfer of an image is finished; after the last one put its manifests."""
        with self._lock:
            copy.pending -= 1
            if copy.pending:
                return
        if copy.error is None:
            try:
                self._put_manifests(copy)
            except OpmkitError as error:
                reported = partial_copy_error(error) if copy.image.is_partial else error
                self._fail(copy, reported, is_target_error=True)
        self._finished.put(copy)

    def _put_manifests(self, copy: _ImageCopy) -> None:
        self._meter.count(0)
        *children, root = copy.absent
        for child in children:
            copy.repository.put_manifest(self._manifest(child))
        tag, replaces = copy.image.tag, copy.image.replaces
        is_shared = not (self._target.shares_blobs or is_digest_tag(tag))  # others may move it in the meantime
        copy.repository.put_manifest(self._manifest(root), tag, replacing=replaces if is_shared else None)

    def _manifest(self, planned: PlannedManifest) -> Manifest | IndexManifest:
        manifest = self._spool.get(planned.digest)
        if manifest is None:
            raise ValueError(f"manifest {planned.digest} is not stored: plan and spool do not belong together")
        return manifest

    def _fail(self, copy: _ImageCopy, error: OpmkitError, *, is_target_error: bool) -> None:
        """Record the first error of an image, and stop the other transfers unless copying is to continue."""
        with self._lock:
            if copy.error is None or isinstance(copy.error, Stopped):
                copy.error, copy.is_target_error = error, is_target_error
        if not self._options.continue_on_errors:
            self._meter.stop()


_MAX_MANIFESTS = 16
"""Manifests of an index that are read."""


def find_mount_sources(
    present: Sequence[PlannedImage], target: MirrorTarget, wanted: Collection[str], pool: ThreadPoolExecutor
) -> dict[str, Reference]:
    """Return repositories of a target that have some of the ``wanted`` blobs, by digest, as names for the target.

    Only one image of each repository is read, since images of a repository usually share layers; a blob that is not
    found is transferred.
    """
    if not wanted:
        return {}
    chosen = {image.target: image for image in present}.values()
    futures = [(each, pool.submit(_wanted_blobs, target, each, wanted)) for each in chosen]
    return {digest: each.request.target_name for each, future in futures for digest in future.result()}


def _wanted_blobs(target: MirrorTarget, image: PlannedImage, wanted: Collection[str]) -> frozenset[str]:
    repository = target.repository(image.request.target_name)
    try:
        manifest = repository.get_manifest(image.digest)
        manifests = [manifest]
        if isinstance(manifest, IndexManifest):
            manifests = [repository.get_manifest(child.digest) for child in manifest.images[:_MAX_MANIFESTS]]
    except (ImageToolsError, LimitExceeded, DiskError):  # the images are only read to save transfers
        return frozenset()
    return frozenset(blob.digest for each in manifests for blob in each.children if blob.digest in wanted)


class Stopped(ImageToolsError):
    """Another image has failed, so that this one is not copied."""


class SourceFailed(Exception):
    """A failure to read from the source; targets pass it on, while they may handle their own errors.

    Attributes:
        error: The failure.
    """

    def __init__(self, error: OpmkitError) -> None:
        """Wrap a failure."""
        super().__init__(error)
        self.error = error


class TransferMeter:
    """The progress of all transfers, and the switch that stops them. Thread-safe."""

    def __init__(self, progress: Progress) -> None:
        """Report to ``progress``."""
        self._progress = progress
        self._lock = threading.Lock()
        self.is_stopped = False
        self.transferred = 0
        """Bytes read from the sources."""

    def stop(self) -> None:
        """Let all transfers fail."""
        self.is_stopped = True

    def count(self, size: int) -> None:
        """Count bytes that were read; raise Stopped."""
        if self.is_stopped:
            raise Stopped("stopped after another image failed")
        with self._lock:
            self.transferred += size

    def advance(self, size: int) -> None:
        """Report that ``size`` more bytes are done."""
        self._progress.advance(size)


class BlobTransfer:
    """The transfer of one blob; a retry opens it again. Its streams raise SourceFailed."""

    def __init__(self, descriptor: Descriptor, source: ImageSource, meter: TransferMeter, *, is_reported: bool) -> None:
        """Prepare to read a blob; ``is_reported`` is false if its bytes have been reported before."""
        self._descriptor = descriptor
        self._source = source
        self._meter = meter
        self._is_reported = is_reported
        self._sent = 0

    def open(self) -> BinaryIO:
        """Open the blob, which is verified when read to its end."""
        self._advance(-self._sent)
        self._sent = 0
        self._meter.count(0)
        try:
            stream = self._source.open_blob(self._descriptor)
        except OpmkitError as error:
            raise SourceFailed(error) from error
        return cast("BinaryIO", _Stream(stream, self))

    def finish(self) -> None:
        """Report the bytes that did not have to be read."""
        self._advance(self._descriptor.size - self._sent)

    def read(self, stream: BinaryIO, size: int) -> bytes:
        """Read from the opened blob."""
        try:
            data = stream.read(size)
        except OpmkitError as error:
            raise SourceFailed(error) from error
        self._meter.count(len(data))
        self._sent += len(data)
        self._advance(len(data))
        return data

    def _advance(self, size: int) -> None:
        if self._is_reported and size:
            self._meter.advance(size)


class _Stream:
    """The part of BinaryIO that repositories use to store blobs."""

    def __init__(self, stream: BinaryIO, transfer: BlobTransfer) -> None:
        self._stream = stream
        self._transfer = transfer

    def read(self, size: int = -1, /) -> bytes:
        return self._transfer.read(self._stream, size)

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
