"""Planning and copying, from image layouts to a directory, and between repositories of a registry."""

from __future__ import annotations

import io
import os
import random
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, BinaryIO

import pytest
from msgspec import structs
from tests.kit.content import CONFIG, described, noise
from tests.kit.images import multi_image, small_image

from opmkit.core.errors import DiskError
from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.errors import ImageToolsError, NotFound, RegistryUnavailable
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.spec import Descriptor, IndexManifest, Manifest, Platform, media_types, sha256_digest
from opmkit.imagetools.store import LayoutRepository
from opmkit.supply.mirror.copy import MAX_TARGET_FAILURES, CopyOptions, MirrorCopy
from opmkit.supply.mirror.errors import MirrorFailed, TargetFailed
from opmkit.supply.mirror.locations import DirectoryTarget, RegistryTarget
from opmkit.supply.mirror.model import MirrorPlan, MirrorReport, MirrorRequest
from opmkit.supply.mirror.plan import ManifestSpool, MirrorPlanOptions, plan_mirror
from opmkit.supply.mirror.target import RegistryLocation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tests.kit.registry import Registry

    from opmkit.imagetools.repository import BlobOpener, ImageSource, Repository


@dataclass
class Source:
    """Images in a layout, with the names of the repositories that were asked for."""

    path: Path
    asked: list[str] = field(default_factory=list)
    failure: ImageToolsError | None = None

    def repository(self, reference: Reference) -> ImageSource:
        self.asked.append(reference.name)
        if self.failure:
            raise self.failure
        return self.writable(reference)

    def admit(self, _reference: Reference, _source: ImageSource, identifier: str, /) -> str:
        return identifier

    def writable(self, reference: Reference) -> LayoutRepository:
        return LayoutRepository(self.path / "source", reference.name)

    def add(self, name: str, platforms: Sequence[str] = ("linux/amd64",)) -> MirrorRequest:
        """Add an image with layers that differ from those of other names, and return a request for it."""
        images = [
            small_image(self.path, {f"{name}-{platform}": noise(300, len(name))}, platform=platform)
            for platform in platforms
        ]
        image = images[0] if len(images) == 1 else multi_image(images)
        reference = Reference.parse(f"quay.io/{name}:1")
        copy_image(image, self.writable(reference), "1")
        return MirrorRequest(reference.with_digest(image.digest), (f"bundle {name}",))

    def add_manifest(self, name: str, manifest: Manifest | IndexManifest) -> MirrorRequest:
        reference = Reference.parse(f"quay.io/{name}").with_digest(manifest.digest)
        self.writable(reference).put_blob(manifest.descriptor, lambda: io.BytesIO(manifest.raw))
        return MirrorRequest(reference)


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path)


@pytest.fixture
def target(tmp_path: Path) -> DirectoryTarget:
    return DirectoryTarget(tmp_path / "target")


@pytest.fixture
def spool() -> Iterator[ManifestSpool]:
    with ManifestSpool() as opened:
        yield opened


def plan(
    source: Source, requests: Sequence[MirrorRequest], spool: ManifestSpool, options: MirrorPlanOptions | None = None
) -> MirrorPlan:
    return plan_mirror(requests, source, DirectoryTarget(source.path / "target"), spool, options)


def mirror(source: Source, requests: Sequence[MirrorRequest], spool: ManifestSpool) -> MirrorReport:
    target = DirectoryTarget(source.path / "target")
    return MirrorCopy(plan_mirror(requests, source, target, spool), source, target, spool).run()


def stored(path: Path, name: str) -> LayoutRepository:
    return LayoutRepository(path / "target", f"quay.io/{name}")


def test_present_images_are_not_read(source: Source, spool: ManifestSpool) -> None:
    requests = [source.add("a", ("linux/amd64", "linux/arm64")), source.add("b")]
    first = mirror(source, requests, spool)
    assert sorted(image.target for image in first.copied) == ["quay.io/a", "quay.io/b"]
    for request in requests:
        digest = str(request.reference.digest)
        tag = f"mirrored-{digest.replace(':', '-')}"
        assert stored(source.path, request.reference.repository).resolve(tag).digest == digest
    (source.path / "source" / "index.json").unlink()
    again = mirror(source, requests, spool)
    assert (again.copied, len(again.present), again.transferred) == ((), 2, 0)


def test_files_of_killed_processes_are_removed_from_directories(source: Source, spool: ManifestSpool) -> None:
    ingest = source.path / "target" / "ingest"
    ingest.mkdir(parents=True)
    for name, age in (("old", 7200.0), ("new", 60.0)):
        (ingest / name).write_bytes(b"part")
        os.utime(ingest / name, (time.time() - age,) * 2)
    mirror(source, [source.add("a")], spool)
    assert [path.name for path in ingest.iterdir()] == ["new"]


def test_tags_are_resolved_and_moved(source: Source, spool: ManifestSpool) -> None:
    old = source.add("a")
    by_tag = MirrorRequest(Reference.parse("quay.io/a:1"))
    mirror(source, [by_tag], spool)
    assert stored(source.path, "a").resolve("1").digest == old.reference.digest
    image = small_image(source.path, {"new": b""})
    copy_image(image, source.writable(by_tag.reference), "1")
    assert len(mirror(source, [by_tag], spool).copied) == 1
    assert stored(source.path, "a").resolve("1").digest == image.digest


def test_equal_images_are_copied_once_and_conflicting_ones_reported(source: Source, spool: ManifestSpool) -> None:
    request, other = source.add("a"), source.add("b")
    twice = MirrorRequest(replace(request.reference, tag="9"), ("bundle x",))
    report = mirror(source, [request, twice], spool)
    assert sorted(image.request.needed_by for image in report.copied) == [("bundle a",), ("bundle x",)]
    assert report.transferred == sum(blob.size for blob in report.copied[0].blobs.values())
    renamed = [MirrorRequest(each.reference, (), Reference.parse("quay.io/c"), "1") for each in (request, other)]
    planned = plan(source, renamed, spool)
    assert len(planned.images) == 1
    (failure,) = planned.failures
    assert failure.image == str(other.reference)
    assert f"is the name of another image, {request.reference}" in failure.error.message


def test_sizes_count_shared_content_once(source: Source, spool: ManifestSpool) -> None:
    requests = [source.add("a", ("linux/amd64", "linux/arm64"))]
    requests.append(MirrorRequest(requests[0].reference, (), Reference.parse("quay.io/copy")))
    copy_image(small_image(source.path, {}), source.writable(Reference.parse("quay.io/copy")), None)
    planned = plan(source, requests, spool, MirrorPlanOptions(measure=True))
    first, second = planned.images
    assert first.size == second.size == planned.size == first.missing
    content = {blob.digest: blob.size for blob in first.blobs.values()}
    assert planned.size == sum(content.values()) + sum(manifest.size for manifest in first.manifests)


def test_selected_platforms_are_copied_with_the_whole_index(source: Source, spool: ManifestSpool) -> None:
    request = source.add("a", ("linux/amd64", "linux/arm64"))
    platforms = (Platform.parse("linux/arm64"),)
    planned = plan(source, [request], spool, MirrorPlanOptions(platforms))
    target = DirectoryTarget(source.path / "target")
    MirrorCopy(planned, source, target, spool).run()
    index = stored(source.path, "a").get_manifest(str(request.reference.digest))
    assert isinstance(index, IndexManifest)
    sizes = [target.repository(request.reference).has_blob(child) for child in index.manifests]
    assert sizes == [False, True]
    assert plan(source, [request], spool, MirrorPlanOptions(platforms)).absent == ()
    assert len(plan(source, [request], spool).absent) == 1
    missing = plan(source, [request], spool, MirrorPlanOptions((Platform.parse("linux/s390x"),)))
    assert "no image for the selected platforms" in missing.failures[0].error.message


def test_attestations_of_selected_platforms_are_copied(source: Source, spool: ManifestSpool) -> None:
    request = source.add("a")
    (image,) = plan(source, [request], spool).images
    config = Descriptor(media_types.OCI_CONFIG, sha256_digest(CONFIG), len(CONFIG))
    attestation, unstored = (Manifest.build(config, (), {"name": name}) for name in ("attestation", "unstored"))
    source.add_manifest("a", attestation)
    subjects = {image.digest: attestation, f"sha256:{'0' * 64}": unstored}
    described = [
        structs.replace(
            manifest.descriptor,
            platform=Platform("unknown", "unknown"),
            annotations={"vnd.docker.reference.type": "attestation-manifest", "vnd.docker.reference.digest": subject},
        )
        for subject, manifest in subjects.items()
    ]
    child = Descriptor(media_types.OCI_MANIFEST, image.digest, image.manifests[0].size, Platform("linux", "amd64"))
    index = source.add_manifest("a", IndexManifest.build([child, *described]))
    planned = plan(source, [index], spool, MirrorPlanOptions((Platform.parse("linux/amd64"),)))
    assert [manifest.digest for manifest in planned.images[0].manifests][:2] == [image.digest, attestation.digest]


def test_unreadable_images_are_failures_of_the_plan(source: Source, spool: ManifestSpool) -> None:
    absent = MirrorRequest(Reference.parse(f"quay.io/lost@sha256:{'0' * 64}"), ("bundle lost",))
    other_digest = MirrorRequest(Reference.parse(f"quay.io/a@sha512:{'0' * 128}"))
    long_name = MirrorRequest(source.add("a").reference, (), tag="1")
    inner = source.add_manifest("nested", IndexManifest.build([]))
    for _ in range(4):
        descriptor = Descriptor(media_types.OCI_INDEX, str(inner.reference.digest), 1)
        size = source.writable(inner.reference).layout.blob_size(descriptor.digest)
        inner = source.add_manifest("nested", IndexManifest.build([structs.replace(descriptor, size=size or 0)]))
    planned = plan(source, [absent, other_digest, long_name, inner], spool)
    assert len(planned.images) == 1
    messages = [failure.error.message for failure in planned.failures]
    assert [failure.needed_by for failure in planned.failures] == [("bundle lost",), (), ()]
    for message, part in zip(messages, ("not found", "unsupported digest algorithm", "limit of 4 levels"), strict=True):
        assert part in message


def test_unavailable_registry_is_not_asked_for_all_images(source: Source, spool: ManifestSpool) -> None:
    requests = [source.add(f"image-{number}") for number in range(9)]
    source.failure = RegistryUnavailable("quay.io: connection refused")
    planned = plan(source, requests, spool, MirrorPlanOptions(workers=1))
    assert (len(planned.failures), len(source.asked)) == (9, 3)


def test_images_that_a_registry_fails_to_send_do_not_affect_others(source: Source, spool: ManifestSpool) -> None:
    requests = [source.add(f"image-{number}") for number in range(12)]

    class Unreliable(Source):
        def repository(self, reference: Reference) -> ImageSource:
            if int(reference.repository.rpartition("-")[2]) % 2:
                raise RegistryUnavailable("quay.io: internal server error")
            return super().repository(reference)

    planned = plan(Unreliable(source.path), requests, spool, MirrorPlanOptions(workers=1))
    assert (len(planned.images), len(planned.failures)) == (6, 6)


class BrokenTarget(DirectoryTarget):
    """A directory whose repositories raise an error when a blob is put, or a tag is looked up."""

    def __init__(self, path: Path, *, on_read: bool = False) -> None:
        super().__init__(path)
        self.on_read = on_read
        self.puts = 0

    def repository(self, source: Reference) -> Repository:
        outer = self

        class Broken(LayoutRepository):
            def resolve(self, identifier: str) -> Descriptor:
                if outer.on_read:
                    raise DiskError("disk: input/output error")
                raise NotFound("absent")

            def put_blob(
                self, descriptor: Descriptor, opener: BlobOpener, *, mount_from: ImageSource | None = None
            ) -> None:
                outer.puts += 1
                raise DiskError("disk: no space left on device")

        return Broken(self.path)


def test_unreadable_target_ends_planning(source: Source, spool: ManifestSpool) -> None:
    target = BrokenTarget(source.path / "target", on_read=True)
    with pytest.raises(DiskError, match="input/output error"):
        plan_mirror([source.add("a")], source, target, spool)


def test_target_that_keeps_failing_ends_copying(source: Source, spool: ManifestSpool) -> None:
    requests = [source.add(f"image-{number}") for number in range(MAX_TARGET_FAILURES + 20)]
    target = BrokenTarget(source.path / "target")
    planned = plan_mirror(requests, source, target, spool)
    copy = MirrorCopy(planned, source, target, spool, CopyOptions(continue_on_errors=True, workers=1))
    with pytest.raises(TargetFailed, match=r"the target keeps failing: .*no space left"):
        copy.run()
    assert len(copy.report().failures) == MAX_TARGET_FAILURES
    assert target.puts < len(requests)


class LossySource(Source):
    """A source whose blobs cannot be read in repositories with one name."""

    lossy = "quay.io/lossy"

    def writable(self, reference: Reference) -> LayoutRepository:
        class Lossy(LayoutRepository):
            def open_blob(self, descriptor: Descriptor) -> BinaryIO:
                raise NotFound(f"blob {descriptor.digest} not found")

        return (Lossy if reference.name == self.lossy else LayoutRepository)(self.path / "source", reference.name)


@pytest.mark.parametrize("workers", [1, 4])
def test_shared_blobs_are_read_from_another_source_after_a_failure(
    tmp_path: Path, spool: ManifestSpool, workers: int
) -> None:
    source = LossySource(tmp_path)
    intact = source.add("intact")
    lossy = MirrorRequest(Reference.parse("quay.io/lossy").with_digest(str(intact.reference.digest)), ("bundle x",))
    target = DirectoryTarget(tmp_path / "target")
    planned = plan_mirror([lossy, intact], source, target, spool)
    copy = MirrorCopy(planned, source, target, spool, CopyOptions(continue_on_errors=True, workers=workers))
    report = copy.run()
    assert intact in [image.request for image in report.copied]
    assert all(failure.needed_by == ("bundle x",) for failure in report.failures)


def test_first_failure_ends_copying_and_the_last_images_are_not_copied(tmp_path: Path, spool: ManifestSpool) -> None:
    source = LossySource(tmp_path)
    requests = [structs.replace(source.add("catalog"), last=True), source.add("lossy"), source.add("other")]
    target = DirectoryTarget(tmp_path / "target")
    planned = plan_mirror(requests, source, target, spool)
    copy = MirrorCopy(planned, source, target, spool)
    with pytest.raises(MirrorFailed) as raised:
        copy.run()
    assert raised.value.lines[1:] == ("  needed by bundle lossy",)
    assert requests[0] not in [image.request for image in copy.report().copied]
    continued = MirrorCopy(planned, source, target, spool, CopyOptions(continue_on_errors=True)).run()
    assert [image.request for image in continued.copied] == [requests[2], requests[0]]


def test_blobs_are_mounted_from_other_repositories_of_the_target(
    registry: Registry, tmp_path: Path, spool: ManifestSpool
) -> None:
    source = Source(tmp_path)
    first = source.add("a")
    copied = MirrorRequest(Reference.parse("quay.io/b").with_digest(str(first.reference.digest)))
    with RegistryClient(RegistryOptions(plain_http=True)) as client:
        target = RegistryTarget(client, RegistryLocation(registry.host, "mounts"))
        for requests in ([first], [first, copied]):
            planned = plan_mirror(requests, source, target, spool)
            report = MirrorCopy(planned, source, target, spool).run()
    assert (len(report.copied), report.transferred) == (1, 0)
    mounts = [each for each in registry.requests() if "from=mounts%2Fa" in each.path]
    assert [each.status for each in mounts] == [201, 201]


class UnreliableSource(Source):
    """A source in which a lost blob, and a quarter of the other pairs of repository and blob, cannot be read."""

    seed = 0
    lost = ""

    def writable(self, reference: Reference) -> LayoutRepository:
        seed, lost = self.seed, self.lost

        class Unreliable(LayoutRepository):
            def open_blob(self, descriptor: Descriptor) -> BinaryIO:
                if (
                    descriptor.digest == lost
                    or random.Random(f"{seed} {reference.name} {descriptor.digest}").random() < 0.25
                ):
                    raise RegistryUnavailable("connection reset")
                return super().open_blob(descriptor)

        return Unreliable(self.path / "source", reference.name)


@pytest.mark.parametrize("seed", range(6))
def test_every_image_is_copied_or_reported_once(
    tmp_path: Path, spool: ManifestSpool, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = UnreliableSource(tmp_path)
    layers = [described(noise(200, number)) for number in range(12)]
    for number, layer in enumerate(layers):
        source.writable(Reference.parse("quay.io/a")).put_blob(layer, partial(io.BytesIO, noise(200, number)))
    config = described(CONFIG, media_types.OCI_CONFIG)
    source.writable(Reference.parse("quay.io/a")).put_blob(config, partial(io.BytesIO, CONFIG))
    rng = random.Random(seed)
    requests = [
        source.add_manifest(
            f"image-{number % 15}", Manifest.build(config, rng.sample(layers, 4), {"number": f"{number}"})
        )
        for number in range(40)
    ]
    source.seed, source.lost = seed, layers[0].digest
    target = DirectoryTarget(tmp_path / "target")
    monkeypatch.setattr(target, "shares_blobs", bool(seed % 2), raising=False)
    planned = plan_mirror(requests, source, target, spool)
    copy = MirrorCopy(planned, source, target, spool, CopyOptions(continue_on_errors=True))
    report = copy.run()
    done = [*(str(image.request.reference) for image in report.copied), *(each.image for each in report.failures)]
    assert sorted(done) == sorted(str(request.reference) for request in requests)
    assert report.copied
    assert report.failures
    for image in report.copied:
        repository = LayoutRepository(tmp_path / "target", image.target)
        assert repository.resolve(image.tag).digest == image.digest
        assert all(map(repository.has_blob, image.blobs.values()))
