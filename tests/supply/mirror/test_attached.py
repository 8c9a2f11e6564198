"""The search for signatures and other artifacts of images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from tests.kit.content import put, put_image

from opmkit.imagetools.errors import RegistryUnavailable
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.repository import digest_tag
from opmkit.imagetools.spec import Manifest, media_types
from opmkit.imagetools.store import LayoutRepository
from opmkit.supply.mirror.attached import attached_requests
from opmkit.supply.mirror.model import MirrorRequest, PlannedImage, PlannedManifest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opmkit.imagetools.repository import ImageSource
    from opmkit.imagetools.spec import Descriptor


class ListedRepository(LayoutRepository):
    """A repository with the referrers API; ``refuses_list`` makes it refuse to list its tags."""

    refuses_list = False

    def tags(self) -> Iterator[str]:
        if self.refuses_list:
            raise RegistryUnavailable("refused")
        return super().tags()

    def resolve(self, identifier: str) -> Descriptor:
        refuses_list, self.refuses_list = self.refuses_list, False  # the hint of NotFound lists the tags
        try:
            return super().resolve(identifier)
        finally:
            self.refuses_list = refuses_list


@dataclass(frozen=True)
class Source:
    content: ListedRepository

    def repository(self, _: Reference, /) -> ListedRepository:
        return self.content

    def admit(self, _reference: Reference, _source: ImageSource, identifier: str, /) -> str:
        return identifier


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(ListedRepository(tmp_path / "layout"))


def planned(digest: str, *children: str) -> PlannedImage:
    reference = Reference("quay.io", "me/app", None, digest)
    manifests = tuple(PlannedManifest(each, 1) for each in (*children, digest))
    return PlannedImage(MirrorRequest(reference, ("bundle a",)), digest, "1", "target/me/app", manifests)


def add_referrer(repository: LayoutRepository, subject: Manifest, content: bytes) -> str:
    layer, config = put(repository, content), put(repository, b"{}", media_types.OCI_EMPTY)
    manifest = Manifest.build(config, [layer], artifact_type="application/x", subject=subject.descriptor)
    return repository.put_manifest(manifest).digest


@pytest.mark.parametrize("refuses_list", [False, True])
def test_tags_and_referrers_of_images_and_their_children(source: Source, refuses_list: bool) -> None:
    repository = source.content
    image, child = put_image(repository, "1", b"a"), put_image(repository, "2", b"b")
    for suffix in (".sig", ".att"):
        put_image(repository, digest_tag(child.digest, suffix), suffix.encode())
    attached = add_referrer(repository, image, b"sbom")
    repository.refuses_list = refuses_list
    requests, failures = attached_requests([planned(image.digest, child.digest)], source)
    assert failures == []
    assert {(str(each.reference), each.tag) for each in requests} == {
        (f"quay.io/me/app@{attached}", ""),
        *((f"quay.io/me/app:{tag}", tag) for tag in (digest_tag(child.digest, end) for end in (".sig", ".att"))),
    }
    assert all(each.needed_by == (f"the verification of quay.io/me/app@{image.digest}",) for each in requests)


def test_artifacts_that_several_images_share_are_requested_once(source: Source) -> None:
    image = put_image(source.content, "1", b"a")
    put_image(source.content, digest_tag(image.digest, ".sig"), b"s")
    requests, _ = attached_requests([planned(image.digest), planned(image.digest)], source)
    assert len(requests) == 1


def test_failures_name_the_image_and_its_users(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    image = put_image(source.content, "1", b"a")

    def fail(*_: object) -> tuple[Descriptor, ...]:
        raise RegistryUnavailable("broken")

    monkeypatch.setattr(source.content, "referrers", fail)
    requests, (failure,) = attached_requests([planned(image.digest)], source)
    assert (requests, failure.needed_by) == ([], ("bundle a",))
    assert failure.image == f"signatures of quay.io/me/app@{image.digest}"
