"""Options and results of mirroring an index."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from opmkit.imagetools.registry_config.mirror_rules import MirrorScope
from opmkit.supply.mirror.mirror import IndexMirror
from opmkit.supply.mirror.target import ArchiveLocation, RegistryLocation

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from opmkit.core.shard import Shard
    from opmkit.imagetools.worker_options import WorkerExecutor
    from opmkit.supply.mirror.deletion import MirrorDeletion
    from opmkit.supply.mirror.load import MirrorLoad
    from opmkit.supply.mirror.mirror import MirroredCatalog
    from opmkit.supply.mirror.model import MirrorFailure, PlannedImage
    from opmkit.supply.mirror.target import MirrorLocation

NAMESPACE = "openshift-marketplace"
"""Namespace of OpenShift's catalogs."""


@dataclass(frozen=True, slots=True)
class MirrorPolicy:
    """Settings of the manifests.

    Attributes:
        scope: Whether a rule covers a namespace or a single repository.
        never_contact_source: Whether the cluster never pulls an image from its source if the mirror lacks it.
        namespace: Namespace of the CatalogSources.
    """

    scope: MirrorScope = MirrorScope.NAMESPACE
    never_contact_source: bool = False
    namespace: str = NAMESPACE


@dataclass(frozen=True, slots=True)
class MirrorOptions:
    """Options of mirroring an index.

    Attributes:
        filters: Packages, channels and versions to mirror, ``PACKAGE[:CHANNEL,...][@RANGE]``; none for the whole index.
        platforms: Platforms of image indexes to copy, such as ``linux/amd64``; none for all.
        default_channels: Channels for packages whose default channel is not mirrored.
        with_dependencies: Whether to mirror packages that mirrored bundles depend on.
        target_catalog: Name of the catalog in the target, ``NAME[:TAG]``; "" for that of the index.
        binary_image: Base of a new catalog image, or ``scratch``; None for that of the index.
        signatures: Whether to copy signatures, attestations and other artifacts of the images as well.
        continue_on_errors: Whether to copy the other images if some cannot be copied.
        max_nested_paths: Components of a repository name in the target; None for any number.
        have: Record of what earlier archives contain, which is created or updated, for an archive; None for none.
        workers: Blobs to transfer at the same time.
        shard: Part of the images to mirror, without the catalog, in a registry; None for all.
        executor: Workers that plan and copy the images, to a registry; None for this process.
        manifests: Directory to write manifests for clusters to, which pull from a registry; None for none.
        policy: Settings of the manifests.
        index_only: Whether to reject a mirror in a directory or archive.
        prune: Whether to delete from a registry what only the replaced versions of the catalogs need.
        keep: Indexes whose images are not pruned, in addition to the catalogs of the registry.
        search: Whether to look for catalogs to keep in all repositories of the target, see `DeletionOptions`.
        overwrite_tags: Whether to move tags of the target that name other images, which this mirror has not set
            according to its records.
    """

    filters: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    default_channels: Mapping[str, str] = field(default_factory=dict)
    with_dependencies: bool = False
    target_catalog: str = ""
    binary_image: str | None = None
    signatures: bool = True
    continue_on_errors: bool = False
    max_nested_paths: int | None = None
    have: Path | None = None
    workers: int = 8
    shard: Shard | None = None
    executor: WorkerExecutor | None = None
    manifests: Path | None = None
    policy: MirrorPolicy | None = None
    index_only: bool = False
    prune: bool = False
    keep: tuple[str, ...] = ()
    search: bool = True
    overwrite_tags: bool = False

    @property
    def needs_index(self) -> bool:
        """Whether an option does not apply to a mirror in a directory or archive."""
        selected = self.filters or self.platforms or self.default_channels or self.with_dependencies
        others = self.target_catalog or self.binary_image or self.have or self.executor or self.index_only
        return bool(selected or others) or not self.signatures

    @property
    def selects(self) -> bool:
        """Whether an option selects or names what an image set selects and names itself."""
        return bool(self.filters or self.default_channels or self.with_dependencies or self.target_catalog)

    def check_target(self, location: MirrorLocation) -> None:
        """Raise ValueError for an option that does not apply to a target."""
        if self.have and not isinstance(location, ArchiveLocation):
            raise ValueError("the option have requires an archive as the target")
        if (self.shard or self.executor or self.manifests) and not isinstance(location, RegistryLocation):
            raise ValueError("the options shard, executor and manifests require a registry as the target")
        if self.prune and (self.shard or not isinstance(location, RegistryLocation)):
            raise ValueError("the option prune requires a registry as the target, and excludes the option shard")
        if self.shard and self.manifests:
            raise ValueError("the options shard and manifests exclude each other: the manifests cover all images")


@dataclass(frozen=True, slots=True)
class ImageTransfer:
    """An image of a mirror.

    Attributes:
        source: Reference in the source.
        target: Reference in the target by tag.
        digest: Digest in both.
        status: ``present`` if the target had it before, ``copied``, or ``absent``.
        needed_by: Descriptions of what needs the image.
        size: Bytes of its manifests and blobs; 0 if the target had it.
        missing: Bytes that the target lacks, None if that was not determined.
    """

    source: str
    target: str
    digest: str
    status: str
    needed_by: tuple[str, ...] = ()
    size: int = 0
    missing: int | None = None

    @classmethod
    def from_plan(cls, image: PlannedImage, *, is_copied: bool) -> ImageTransfer:
        """Return the status of a planned image."""
        status = "present" if image.is_present else "copied" if is_copied else "absent"
        target, request = f"{image.target}:{image.tag}", image.request
        source = str(request.reference)
        return cls(source, target, image.digest, status, request.needed_by, image.size, image.missing)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in JSON types, without sizes that do not apply."""
        size = {} if self.status == "present" else {"size": self.size}
        missing = {} if self.missing is None else {"missing": self.missing}
        return {
            "source": self.source,
            "target": self.target,
            "digest": self.digest,
            "status": self.status,
            "needed_by": list(self.needed_by),
            **size,
            **missing,
        }


@dataclass(frozen=True, slots=True)
class MirrorResult:
    """The images of a mirror or of a plan for one.

    Attributes:
        catalogs: The catalogs in the target, usually one.
        images: The images.
        failures: The images that could not be mirrored.
        size: Bytes of the images that the target lacked; what they share is counted once.
        transferred: Bytes of blobs that were read from the sources.
        warnings: Warnings about the filtered catalogs, and about settings of an image set that have no effect.
        has_changed: Whether an archive, or the description of a directory, was written.
        manifests: Names of the manifests that were written.
        pruned: What was deleted because only the replaced catalogs need it, or what would be; None without `prune`.
    """

    catalogs: tuple[MirroredCatalog, ...]
    images: tuple[ImageTransfer, ...]
    failures: tuple[MirrorFailure, ...] = ()
    size: int = 0
    transferred: int = 0
    warnings: tuple[str, ...] = ()
    has_changed: bool = False
    manifests: tuple[str, ...] = ()
    pruned: MirrorDeletion | None = None

    @classmethod
    def from_mirror(cls, opened: IndexMirror | MirrorLoad) -> MirrorResult:
        """Return the result of a mirror so far, that of the plan if it was not run."""
        report = opened.report
        copied = {id(image) for image in report.copied}
        return cls(
            tuple(opened.catalogs),
            tuple(ImageTransfer.from_plan(image, is_copied=id(image) in copied) for image in opened.plan.images),
            report.failures,
            opened.plan.size,
            report.transferred,
            opened.warnings if isinstance(opened, IndexMirror) else (),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the result in JSON types, without warnings and the names of files."""
        catalogs = [
            {"source": catalog.source, "target": f"{catalog.name}:{catalog.tag}", "digest": catalog.digest}
            for catalog in self.catalogs
        ]
        failures = [
            {"image": failure.image, **failure.error.to_dict(), "needed_by": list(failure.needed_by)}
            for failure in self.failures
        ]
        return {
            "catalog": catalogs[-1] if catalogs else None,
            "catalogs": catalogs,
            "images": [image.to_dict() for image in self.images],
            "failures": failures,
            "size": self.size,
            "transferred": self.transferred,
            **({"pruned": self.pruned.to_dict()} if self.pruned else {}),
        }
