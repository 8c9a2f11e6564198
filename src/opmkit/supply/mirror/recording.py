"""The records that a mirror writes to its target, and the tags that it may move according to them."""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from opmkit.imagetools.reference import Reference
from opmkit.imagetools.spec import sha256_digest
from opmkit.imagetools.spec.fields import dump_json
from opmkit.supply.mirror.errors import TagConflict
from opmkit.supply.mirror.model import MirrorFailure, MirrorPlan, is_digest_tag
from opmkit.supply.mirror.plan import resolve_in_target
from opmkit.supply.mirror.record import (
    MirrorRecord,
    NamedRecord,
    RecordedImage,
    RecordSubject,
    catalog_subject,
    list_subject,
    read_record,
    record_tag,
    update_record,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from opmkit.supply.mirror.catalog import MirrorCatalog
    from opmkit.supply.mirror.model import MirrorRequest, PlannedImage
    from opmkit.supply.mirror.target import MirrorTarget


class SubjectImages(Struct, frozen=True):
    """A subject of a record with the planned images that it needs."""

    subject: RecordSubject
    images: tuple[PlannedImage, ...]


def group_by_subject(
    catalogs: Iterable[tuple[MirrorCatalog, Sequence[MirrorRequest]]],
    others: Sequence[MirrorRequest],
    planned: Sequence[PlannedImage],
) -> list[SubjectImages]:
    """Return the planned images of each catalog, and those of the other requests; an image can be in several groups.

    Args:
        catalogs: The catalogs with the requests for them and for the images of their bundles.
        others: The additional images, and those of charts.
        planned: The images, with signatures and other artifacts, which belong to the images that they refer to.
    """
    pairs = tuple(catalogs)
    key = configuration_key(((each.name, each.tag) for each, _ in pairs), others)
    groups = [
        SubjectImages(
            RecordSubject(catalog.name.name, catalog_subject(catalog.tag), catalog.digest, key),
            _select(planned, requests),
        )
        for catalog, requests in pairs
    ]
    if others:
        home = list_home([each.name for each, _ in pairs], others)
        groups.append(SubjectImages(RecordSubject(home.name, list_subject(key), key, key), _select(planned, others)))
    return groups


def configuration_key(catalogs: Iterable[tuple[Reference, str]], others: Iterable[MirrorRequest]) -> str:
    """Return a key for what one command mirrors: catalogs, by name and tag in the target, and other images.

    A tag that stands for the digest of a catalog does not count.
    """
    names = [f"{name.repository}:{'' if is_digest_tag(tag) else tag}" for name, tag in catalogs]
    images = [f"{each.reference} {each.target_name.repository}:{each.tag}" for each in others]
    return sha256_digest(dump_json([sorted(names), sorted(images)])).removeprefix("sha256:")[:16]


def list_home(catalogs: Iterable[Reference], others: Iterable[MirrorRequest]) -> Reference:
    """Return the name whose repository has the record of images that are not those of a catalog."""
    names = {each.repository: each for each in catalogs} or {
        each.target_name.repository: each.target_name for each in others
    }
    return names[min(names)]


def _select(planned: Iterable[PlannedImage], requests: Iterable[MirrorRequest]) -> tuple[PlannedImage, ...]:
    wanted = {request.identity for request in requests}
    images = [image for image in planned if image.request.identity in wanted]
    owners = {(image.target, image.digest) for image in images}
    images += [image for image in planned if (image.target, image.request.attached_to) in owners]
    return tuple(images)


class MirrorRecording:
    """The records of one mirror. A directory or archive has none.

    Attributes:
        groups: The images of each subject.
    """

    def __init__(self, target: MirrorTarget, groups: Sequence[SubjectImages], *, overwrite_tags: bool = False) -> None:
        """Record the images of ``groups``; with ``overwrite_tags`` tags that others have set are moved as well."""
        self._target = target
        self.groups = groups
        self._is_checked = not (overwrite_tags or target.shares_blobs)
        self._records: dict[tuple[str, str], MirrorRecord] = {}
        self._all_records: tuple[NamedRecord, ...] | None = None
        self._written: list[tuple[RecordSubject, MirrorRecord, str]] = []
        """What was written for each subject, and the digest of the artifact."""

    def without_conflicts(self, plan: MirrorPlan) -> MirrorPlan:
        """Return the plan with a failure for each image whose tag names another image that no mirror of it has put.

        These are not recorded.

        Raises:
            TagConflict: The image is a catalog.
            ImageToolsError: A record cannot be read.
        """
        conflicts = {id(image) for image in plan.images if self._conflicts(image)}
        images = tuple(image for image in plan.images if id(image) not in conflicts)
        self.groups = [
            replace(group, images=tuple(image for image in group.images if id(image) not in conflicts))
            for group in self.groups
        ]
        failures = []
        for image in plan.images:
            if id(image) in conflicts:
                error = TagConflict(f"{image.target}:{image.tag}", image.replaces)
                if image.request.last:
                    raise error
                failures.append(MirrorFailure(str(image.request.reference), error, image.request.needed_by))
        return MirrorPlan(images, (*plan.failures, *failures))

    def check(self, catalog: PlannedImage) -> None:
        """Raise TagConflict if a catalog must not replace what its tag names."""
        if self._conflicts(catalog):
            raise TagConflict(f"{catalog.target}:{catalog.tag}", catalog.replaces)

    def write(self, catalogs: Iterable[PlannedImage] = ()) -> None:
        """Write what is about to be put, and what the target has, with ``catalogs`` that are not in the groups."""
        if self._target.shares_blobs:
            return
        built: dict[tuple[str, str], list[PlannedImage]] = defaultdict(list)
        for image in catalogs:
            built[image.target, catalog_subject(image.tag)].append(image)
        for group in self.groups:
            subject = group.subject
            name = Reference.parse(subject.name)
            images = (*group.images, *built[self._target.name(name), subject.title])
            record = MirrorRecord(
                (subject.version,),
                (subject.configuration,),
                tuple(recorded_image(image, subject.version) for image in images),
            )
            change = partial(MirrorRecord.merge, other=record)
            digest = update_record(self._target.repository(name), subject.title, change)
            self._written.append((subject, record, digest))

    def confirm(self) -> None:
        """Write what another mirror at the same time has replaced in the meantime.

        Registries cannot compare and move a tag in one request, so a slow writer may replace a record unnoticed.

        Raises:
            TagMoved: Other writers keep replacing it.
            ImageToolsError: It cannot be read or written.
        """
        for subject, record, digest in self._written:
            repository = self._target.repository(Reference.parse(subject.name))
            if resolve_in_target(repository, record_tag(subject.title)) != digest:
                update_record(repository, subject.title, partial(MirrorRecord.include, other=record))

    def _conflicts(self, image: PlannedImage) -> bool:
        if not self._is_checked or image.replaces in ("", image.digest):
            return False
        own = [self._read(each.subject) for each in self.groups if self._is_in(each, image)]
        recorded = [each for record in own for each in record.images if _set_tag(each, image)]
        if recorded:
            return image.request.last and all(self._is_namesake(each, image) for each in recorded)
        source = image.request.reference.name
        return not any(
            _set_tag(each, image) and Reference.parse(each.source).name == source
            for named in self._search()
            if self._is_related(named, image)
            for each in named.record.images
        )

    def _is_in(self, group: SubjectImages, image: PlannedImage) -> bool:
        name = self._target.name(Reference.parse(group.subject.name))
        is_catalog = (name, group.subject.title) == (image.target, catalog_subject(image.tag))
        return is_catalog or image in group.images

    def _is_namesake(self, recorded: RecordedImage, image: PlannedImage) -> bool:
        """Return whether an image has the name of a recorded one in the target only because their paths are equal."""
        sources = {Reference.parse(recorded.source).name, image.request.reference.name}
        return len(sources) > 1 and {self._target.name(Reference.parse(each)) for each in sources} == {image.target}

    def _is_related(self, named: NamedRecord, image: PlannedImage) -> bool:
        """Return whether the tags that another subject has set may be those of an earlier mirror of the same content.

        A signature belongs to its image, whatever has brought it; a list gets another name when its configuration is
        edited; and the repository of a catalog has its other tags and digests.
        """
        subjects = [group.subject for group in self.groups if self._is_in(group, image)]
        return bool(image.request.attached_to) or any(
            named.is_list
            if each.is_list
            else not named.is_list and self._target.name(Reference.parse(each.name)) == named.repository
            for each in subjects
        )

    def _search(self) -> tuple[NamedRecord, ...]:
        if self._all_records is None:
            self._all_records = tuple(self._target.records())
        return self._all_records

    def _read(self, subject: RecordSubject) -> MirrorRecord:
        key = subject.name, subject.title
        if key not in self._records:
            self._records[key] = read_record(self._target.repository(Reference.parse(subject.name)), subject.title)
        return self._records[key]


def _set_tag(recorded: RecordedImage, image: PlannedImage) -> bool:
    """Return whether the mirror of a recorded image has set the tag of ``image`` to what it names."""
    place = (_path(image.target), image.tag, image.replaces)
    return recorded.is_tag_set and place == (recorded.repository, recorded.tag, recorded.digest)


def recorded_image(image: PlannedImage, version: str) -> RecordedImage:
    """Return what the record of a version of a subject says about a planned image."""
    put = tuple(each.digest for each in image.manifests if each.digest not in image.existing)
    return RecordedImage(
        str(image.request.reference.with_digest(image.digest)),
        _path(image.target),
        image.tag,
        image.digest,
        (version,),
        put,
        is_tag_set=image.replaces != image.digest,
    )


def _path(name: str) -> str:
    """Return the name of a repository without its registry, which may have several names."""
    return Reference.parse(name).repository
