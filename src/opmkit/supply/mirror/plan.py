"""Planning of a mirror: read the manifests of the images that the target lacks."""

from __future__ import annotations

import os
import tempfile
import threading
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Self

from msgspec import Struct
from msgspec.structs import replace

from opmkit.core.errors import DiskError, LimitExceeded, OpmkitError
from opmkit.core.files import disk_errors
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.workers import WorkerPool
from opmkit.imagetools.errors import (
    AuthenticationFailed,
    ImageToolsError,
    InvalidReference,
    NotFound,
    RegistryUnavailable,
    UnsupportedImage,
)
from opmkit.imagetools.repository import DIGEST_TAG
from opmkit.imagetools.spec import Descriptor, IndexManifest, is_digest, media_types, parse_manifest
from opmkit.supply.mirror.model import (
    MirrorFailure,
    MirrorPlan,
    PlannedImage,
    PlannedManifest,
    digest_tag,
    is_digest_tag,
)
from opmkit.supply.mirror.record import is_record_tag

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opmkit.imagetools.repository import ImageSource, Repository
    from opmkit.imagetools.spec import Manifest, Platform
    from opmkit.supply.mirror.model import MirrorRequest
    from opmkit.supply.mirror.target import MirrorSource, MirrorTarget


DEFAULT_WORKERS = 8
_MAX_DEPTH = 4
_MAX_OUTAGES = 3
"""Failures of a registry, without a success in between, after which it is not asked for further images."""
_MAX_MANIFESTS = 2048
"""Manifests of one image, including those of nested indexes."""
_SUBJECT = "vnd.docker.reference.digest"
"""Annotation of a build attestation in an index: the digest of the image that it describes."""


class MirrorPlanOptions(Struct, frozen=True):
    """Options of a plan.

    Attributes:
        platforms: The platforms to copy of each index, all if there are none. The index itself is copied unchanged, so
            that its digest is too; images for a single platform are always copied.
        measure: Whether to determine how many bytes of each image the target lacks, with a request for each blob.
        workers: The number of images that are read at the same time.
    """

    platforms: tuple[Platform, ...] = ()
    measure: bool = False
    workers: int = DEFAULT_WORKERS


def plan_mirror(
    requests: Sequence[MirrorRequest],
    source: MirrorSource,
    target: MirrorTarget,
    spool: ManifestSpool,
    options: MirrorPlanOptions | None = None,
    *,
    progress: Progress = NO_PROGRESS,
) -> MirrorPlan:
    """Find out which images the target lacks, and read their manifests.

    An image is present if its tag in the target names its digest; its source is then not read, unless it is known by
    tag only. Two images with the same name in the target are a failure.

    Args:
        requests: The images.
        source: Where the images are read from.
        target: Where they are to be copied to.
        spool: Receives the manifests, for `copy_images`.
        options: Platforms and concurrency.
        progress: A receiver of progress reports.

    Returns:
        The plan, with a failure for each image that cannot be read, or that has no valid name in the target.

    Raises:
        ImageToolsError: The target cannot be read.
    """
    options = options or MirrorPlanOptions()
    return combine_planned(plan_requests(requests, source, target, spool, options, progress=progress))


def plan_requests(
    requests: Sequence[MirrorRequest],
    source: MirrorSource,
    target: MirrorTarget,
    spool: ManifestSpool,
    options: MirrorPlanOptions,
    *,
    progress: Progress = NO_PROGRESS,
) -> list[PlannedImage | MirrorFailure]:
    """Return the planned image or the failure of each request, in their order; see `plan_mirror`.

    Raises:
        ImageToolsError: The target cannot be read.
    """
    planner = _Planner(source, target, spool, options)
    progress.begin("Reading manifests", len(requests), "images")
    try:
        with WorkerPool(options.workers, "plan") as pool:
            results = []
            for future in [pool.submit(planner.plan, request) for request in requests]:
                results.append(future.result())
                progress.advance(1)
    except _TargetError as error:
        raise error.error from error
    finally:
        progress.end()
    return results


class _TargetError(Exception):
    """A failure to read the target, which is not one of the image that was looked for there."""

    def __init__(self, error: OpmkitError) -> None:
        super().__init__(error)
        self.error = error


class _Planner:
    def __init__(
        self, source: MirrorSource, target: MirrorTarget, spool: ManifestSpool, options: MirrorPlanOptions
    ) -> None:
        self.options = options
        self._source = source
        self._target = target
        self._spool = spool
        self._descriptors: dict[str, Descriptor] = {}
        self._outages: dict[str, list[RegistryUnavailable]] = defaultdict(list)

    def plan(self, request: MirrorRequest) -> PlannedImage | MirrorFailure:
        """Plan an image; a registry that keeps failing is not asked again."""
        outages = self._outages[request.reference.registry]
        if len(outages) >= _MAX_OUTAGES:
            return _failure(request, outages[-1])
        try:
            planned = self._plan(request)
        except (ImageToolsError, LimitExceeded, DiskError) as error:
            if isinstance(error, RegistryUnavailable):
                outages.append(error)
            return _failure(request, error)
        if not planned.is_present:
            outages.clear()
        return planned

    def _plan(self, request: MirrorRequest) -> PlannedImage:
        reference = request.reference
        name, repository = self._target.name(request.target_name), self._target.repository(request.target_name)
        source = self._source.repository(reference)
        identifier = reference.identifier
        if not (request.is_admitted or request.attached_to):
            identifier = self._source.admit(reference, source, identifier)
        digest = identifier if is_digest(identifier) else source.resolve(identifier).digest
        if not digest.startswith("sha256:"):
            raise UnsupportedImage(f"{reference}: unsupported digest algorithm: only sha256 is supported")
        default_tag = digest_tag(digest, self.options.platforms) if reference.digest else reference.identifier
        tag = request.tag or default_tag
        is_named_by_image = not (request.tag or request.attached_to)
        check_target_tag(f"{name}:{tag}", tag, digest, is_named_by_image=is_named_by_image)
        current = self._resolve(repository, tag)
        is_partial = bool(self.options.platforms)
        planned = PlannedImage(request, digest, tag, name, is_partial=is_partial, replaces=current)
        if current == digest and (is_digest_tag(tag) or self._is_present(repository, digest)):
            return planned
        manifests = tuple(self._read_manifests(source, digest))
        if self.options.measure:
            return replace(planned, manifests=manifests, missing=self._missing(repository, manifests))
        return replace(planned, manifests=manifests, existing=self._existing(repository, manifests))

    def _existing(self, repository: Repository, manifests: Iterable[PlannedManifest]) -> tuple[str, ...]:
        if self._target.shares_blobs:
            return ()
        return tuple(each.digest for each in manifests if self._resolve(repository, each.digest))

    def _resolve(self, repository: Repository, identifier: str) -> str:
        try:
            return resolve_in_target(repository, identifier)
        except (ImageToolsError, LimitExceeded, DiskError) as error:
            raise _TargetError(error) from error

    def _is_present(self, repository: Repository, digest: str) -> bool:
        try:
            return self._is_complete(repository, digest)
        except (NotFound, AuthenticationFailed):
            return False
        except (ImageToolsError, LimitExceeded, DiskError) as error:
            raise _TargetError(error) from error

    def _is_complete(self, repository: Repository, digest: str, depth: int = 1) -> bool:
        """Return whether the target has the selected images of an index; raise NotFound if it lacks one."""
        manifest = repository.get_manifest(digest)
        if isinstance(manifest, IndexManifest) and depth < _MAX_DEPTH:
            for child in self._selected(manifest):
                if child.media_type in media_types.INDEXES:
                    self._is_complete(repository, child.digest, depth + 1)
                else:
                    repository.resolve(child.digest)
        return True

    def _read_manifests(self, source: ImageSource, digest: str) -> Iterable[PlannedManifest]:
        """Return the manifests of an image, children first, each once."""
        planned: dict[str, PlannedManifest] = {}
        self._read_tree(source, digest, planned, 1)
        return planned.values()

    def _read_tree(self, source: ImageSource, digest: str, planned: dict[str, PlannedManifest], depth: int) -> None:
        if depth > _MAX_DEPTH or len(planned) >= _MAX_MANIFESTS:
            raise LimitExceeded(
                f"image index {digest}: exceeds the limit of {_MAX_DEPTH} levels and {_MAX_MANIFESTS} manifests"
            )
        manifest = self._spool.get(digest) or source.get_manifest(digest)
        self._spool.add(manifest)
        if isinstance(manifest, IndexManifest):
            for child in self._selected(manifest):
                if child.digest not in planned:
                    self._read_tree(source, child.digest, planned, depth + 1)
        planned[digest] = PlannedManifest(digest, len(manifest.raw), self._blobs(manifest))

    def _blobs(self, manifest: Manifest | IndexManifest) -> tuple[Descriptor, ...]:
        """Return the blobs of a manifest; equal descriptors are one object, because many images share layers."""
        if isinstance(manifest, IndexManifest):
            return ()
        blobs = (
            Descriptor(blob.media_type, blob.digest, blob.size)
            for blob in manifest.children
            if not media_types.is_foreign(blob.media_type)
        )
        return tuple(self._descriptors.setdefault(blob.digest, blob) for blob in blobs)

    def _selected(self, index: IndexManifest) -> Sequence[Descriptor]:
        """Return the children of the selected platforms with their attestations; raise NotFound if there is none."""
        if not self.options.platforms:
            return index.manifests
        selected = {
            child.digest
            for child in index.images
            if child.media_type in media_types.INDEXES
            or (child.platform and any(child.platform.satisfies(wanted) for wanted in self.options.platforms))
        }
        if not selected:
            available = ", ".join(sorted({str(image.platform) for image in index.images if image.platform})) or "none"
            raise NotFound(
                f"image index {index.digest}: has no image for the selected platforms",
                hint=f"its platforms are: {available}",
            )
        return [
            child
            for child in index.manifests
            if child.digest in selected or child.annotations.get(_SUBJECT) in selected
        ]

    def _missing(self, repository: Repository, manifests: Iterable[PlannedManifest]) -> int:
        blobs = {blob.digest: blob for manifest in manifests for blob in manifest.blobs}
        absent = sum(blob.size for blob in blobs.values() if not _has_blob(repository, blob))
        return absent + sum(manifest.size for manifest in manifests)


def check_target_tag(name: str, tag: str, digest: str, *, is_named_by_image: bool = False) -> None:
    """Raise InvalidReference if an image must not have a tag in the target, because it is reserved.

    Args:
        name: The name with the tag, for messages.
        tag: The tag.
        digest: The digest of the image.
        is_named_by_image: Whether a bundle names the tag, so that it must not be one of signatures and other artifacts.
    """
    if is_record_tag(tag):
        purpose = "the records of mirrors"
    elif is_digest_tag(tag) and not tag.endswith(digest.replace(":", "-")):
        purpose = "another digest"
    elif is_named_by_image and DIGEST_TAG.fullmatch(tag):
        purpose = "signatures and other artifacts"
    else:
        return
    raise InvalidReference(f"{name}: this tag is reserved for {purpose}", hint="use another tag")


def resolve_in_target(repository: Repository, identifier: str) -> str:
    """Return the digest that a tag or digest names in the target, "" if it does not exist."""
    try:
        return repository.resolve(identifier).digest
    except (NotFound, AuthenticationFailed):  # some registries deny access to repositories that do not exist
        return ""


def _has_blob(repository: Repository, blob: Descriptor) -> bool:
    try:
        return repository.has_blob(blob)
    except AuthenticationFailed:
        return False
    except (ImageToolsError, LimitExceeded, DiskError) as error:
        raise _TargetError(error) from error


def _failure(request: MirrorRequest, error: OpmkitError) -> MirrorFailure:
    return MirrorFailure(str(request.reference), error, request.needed_by)


def combine_planned(results: Iterable[PlannedImage | MirrorFailure]) -> MirrorPlan:
    """Return the plan, with a failure for each image that has the name of another one in the target."""
    named: dict[tuple[str, str], PlannedImage] = {}
    images: list[PlannedImage] = []
    failures: list[MirrorFailure] = []
    for result in results:
        if isinstance(result, MirrorFailure):
            failures.append(result)
            continue
        other = named.setdefault((result.target, result.tag), result)
        if other.digest == result.digest:
            images.append(result)
        else:
            failures.append(_conflict(result, other))
    return MirrorPlan(tuple(images), tuple(failures))


def _conflict(image: PlannedImage, other: PlannedImage) -> MirrorFailure:
    reference = image.request.reference
    error = ImageToolsError(
        f"{reference}: {image.target}:{image.tag} is the name of another image, {other.request.reference}",
        hint="refer to one of both images by digest",
    )
    return _failure(image.request, error)


class ManifestSpool:
    """Manifests by digest in an unnamed temporary file, because those of thousands of images need much memory.

    Thread-safe; as a context manager it removes the file. Raises DiskError if the file cannot be written.
    """

    def __init__(self) -> None:
        """Create the file."""
        with disk_errors(Path(tempfile.gettempdir())):
            self._file = tempfile.TemporaryFile(prefix="opm-manifests-", buffering=0)  # noqa: SIM115 - see close
        self._entries: dict[str, tuple[int, int, str]] = {}
        self._end = 0
        self._lock = threading.Lock()

    def add(self, manifest: Manifest | IndexManifest) -> None:
        """Store a manifest, unless it is stored."""
        digest = manifest.digest
        with self._lock, disk_errors(Path(tempfile.gettempdir())):
            if digest not in self._entries:
                os.pwrite(self._file.fileno(), manifest.raw, self._end)
                self._entries[digest] = (self._end, len(manifest.raw), manifest.media_type)
                self._end += len(manifest.raw)

    def get(self, digest: str) -> Manifest | IndexManifest | None:
        """Return a manifest, None if it is not stored."""
        entry = self._entries.get(digest)
        if entry is None:
            return None
        offset, size, media_type = entry
        return parse_manifest(os.pread(self._file.fileno(), size, offset), media_type)

    def close(self) -> None:
        """Remove the file."""
        self._file.close()

    def __enter__(self) -> Self:
        """Return the spool."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the file."""
        self.close()
