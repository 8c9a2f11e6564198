"""Signatures, attestations and other artifacts of mirrored images: under cosign's tags, and as referrers."""

from __future__ import annotations

import logging
from collections import defaultdict
from typing import TYPE_CHECKING, TypeVar

from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.core.hints import Hint
from opmkit.core.progress import NO_PROGRESS, Progress
from opmkit.core.workers import WorkerPool
from opmkit.imagetools.errors import ImageToolsError, NotFound
from opmkit.imagetools.hint_terms import ImageSetting
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry.mirrors import MirroredRepository
from opmkit.imagetools.registry.repository import RegistryRepository
from opmkit.imagetools.repository import DIGEST_TAG, digest_tag
from opmkit.imagetools.spec import IndexManifest
from opmkit.supply.mirror.model import MirrorFailure, MirrorRequest
from opmkit.supply.mirror.plan import DEFAULT_WORKERS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from opmkit.imagetools.repository import ImageSource
    from opmkit.supply.mirror.model import PlannedImage
    from opmkit.supply.mirror.target import MirrorSource

T = TypeVar("T")
_log = logging.getLogger(__name__)
SUFFIXES = (".sig", ".att", ".sbom")
"""The suffixes of the tags in which cosign stores signatures, attestations and SBOMs."""


def attached_requests(
    images: Iterable[PlannedImage],
    source: MirrorSource,
    *,
    workers: int = DEFAULT_WORKERS,
    progress: Progress = NO_PROGRESS,
) -> tuple[list[MirrorRequest], list[MirrorFailure]]:
    """Return requests for the artifacts of images, and of the images in an index.

    The tags of each repository are listed once, or looked for one by one if the registry refuses to list them.
    Referrers are listed for each image, unless the registry only lists them in tags, and has no such tag for it.

    Args:
        images: The images.
        source: Where they are read from.
        workers: The number of repositories that are read at the same time.
        progress: A receiver of progress reports.

    Returns:
        The requests, and a failure for each image whose artifacts cannot be listed.
    """
    groups = group_by_repository(images)
    progress.begin("Looking for signatures", len(groups), "repositories")
    found = []
    try:
        with WorkerPool(workers, "attached") as pool:
            apis: dict[str, bool] = {}
            for future in [pool.submit(search_repository, group, source, apis) for group in groups]:
                found.append(future.result())
                progress.advance(1)
    finally:
        progress.end()
    return combine_attached(found)


def group_by_repository(images: Iterable[PlannedImage]) -> list[list[PlannedImage]]:
    """Return the images of each source repository."""
    groups: dict[str, list[PlannedImage]] = defaultdict(list)
    for image in images:
        groups[image.request.reference.name].append(image)
    return list(groups.values())


def combine_attached(
    found: Iterable[tuple[Sequence[MirrorRequest], Sequence[MirrorFailure]]],
) -> tuple[list[MirrorRequest], list[MirrorFailure]]:
    """Return the requests of all repositories, each once, and the failures."""
    requests: dict[tuple[str, str], MirrorRequest] = {}
    failures: list[MirrorFailure] = []
    for wanted, failed in found:
        requests.update({(str(each.reference), str(each.target_name)): each for each in wanted})
        failures += failed
    return list(requests.values()), failures


def search_repository(
    images: Sequence[PlannedImage], source: MirrorSource, apis: dict[str, bool]
) -> tuple[list[MirrorRequest], list[MirrorFailure]]:
    """Return the requests for the artifacts of images in one repository.

    Args:
        images: The images.
        source: Where they are read from.
        apis: Whether a registry must be asked for referrers, by its host; updated.
    """
    reference = images[0].request.reference
    repository = source.repository(reference)
    if reference.registry not in apis:
        apis[reference.registry] = _has_referrers_api(repository, images[0].digest)
    search = _RepositorySearch(repository, has_api=apis[reference.registry])
    requests: list[MirrorRequest] = []
    failures: list[MirrorFailure] = []
    for image in images:
        try:
            requests += search.requests(image)
        except (ImageToolsError, LimitExceeded, DiskError) as error:
            hint = Hint.all_of(
                error.hint, Hint("mirror the images without signatures with {}", ImageSetting.SIGNATURES)
            )
            failed = type(error)(error.message, hint=hint)
            failures.append(MirrorFailure(f"signatures of {image.request.reference}", failed, image.request.needed_by))
    return requests, failures


class _RepositorySearch:
    """The search for artifacts in one repository of a source."""

    def __init__(self, repository: ImageSource, *, has_api: bool) -> None:
        self._repository = repository
        self._tags = _list_tags(repository)
        self._has_api = has_api
        self._is_source_lost = False

    def _read(self, read: Callable[[ImageSource], T]) -> T:
        """Read from the repository; if it cannot be read and has mirrors, from these alone, here and from now on."""
        try:
            return read(self._repository)
        except NotFound:
            raise
        except (ImageToolsError, LimitExceeded, DiskError) as error:
            if self._is_source_lost or not isinstance(self._repository, MirroredRepository):
                raise
            _log.warning("%s; looking for signatures in the mirrors of %s only", error.message, self._repository.name)
            self._is_source_lost, self._repository = True, self._repository.without_source()
            return read(self._repository)

    def requests(self, image: PlannedImage) -> Iterator[MirrorRequest]:
        """Yield a request for each artifact of an image and of its children."""
        if self._tags is not None and not self._tags and not self._has_api:
            return
        reference = image.request.reference
        needed_by = (f"the verification of {reference}",)
        name = image.request.target_name
        for digest in self._digests(image):
            for tag in self._artifact_tags(digest):
                artifact = Reference(reference.registry, reference.repository, tag)
                yield MirrorRequest(artifact, needed_by, name, tag, attached_to=image.digest)
            for referrer in self._referrers(digest):
                yield MirrorRequest(reference.with_digest(referrer), needed_by, name, attached_to=image.digest)

    def _digests(self, image: PlannedImage) -> Iterable[str]:
        """Return the digests of an image and of the images in it."""
        if image.manifests:
            return [manifest.digest for manifest in image.manifests]
        manifest = self._repository.get_manifest(image.digest)
        children = manifest.images if isinstance(manifest, IndexManifest) else ()
        return [image.digest, *(child.digest for child in children)]

    def _artifact_tags(self, digest: str) -> Sequence[str]:
        if self._tags is not None:
            return [tag for tag in self._tags.get(digest_tag(digest), ()) if tag != digest_tag(digest)]
        return [tag for tag in (digest_tag(digest, suffix) for suffix in SUFFIXES) if self._exists(tag)]

    def _referrers(self, digest: str) -> Sequence[str]:
        if (
            not self._has_api
            and self._tags is not None
            and digest_tag(digest) not in self._tags.get(digest_tag(digest), ())
        ):
            return ()
        try:
            return [referrer.digest for referrer in self._read(lambda repository: repository.referrers(digest))]
        except NotFound:
            return ()

    def _exists(self, tag: str) -> bool:
        try:
            self._read(lambda repository: repository.resolve(tag))
        except NotFound:
            return False
        return True


def _list_tags(repository: ImageSource) -> Mapping[str, Sequence[str]] | None:
    """Return the tags that begin with a digest, by that beginning; None if the registry refuses to list tags."""
    found: dict[str, list[str]] = defaultdict(list)
    try:
        for tag in repository.tags():
            if DIGEST_TAG.fullmatch(tag):
                found[tag.partition(".")[0]].append(tag)
    except (ImageToolsError, LimitExceeded, DiskError):
        return None
    return found


def _has_referrers_api(repository: ImageSource, digest: str) -> bool:
    """Return whether referrers must be asked for, because the tags do not show that the image has no referrers."""
    if not isinstance(repository, RegistryRepository):
        return True
    try:
        return repository.has_referrers_api(digest)
    except (ImageToolsError, LimitExceeded, DiskError):
        return True
