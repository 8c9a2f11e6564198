"""Faults of a real registry, injected by a proxy."""

from __future__ import annotations

import io
import re
import shutil
import time
from email.utils import formatdate
from typing import TYPE_CHECKING, BinaryIO
from zlib import crc32

import pytest

from opmkit.core.errors import LimitExceeded
from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.errors import DigestMismatch, ImageToolsError, InvalidImage, NotFound, RegistryUnavailable
from opmkit.imagetools.image import load_image_or_index
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions, RegistryRepository, RetryPolicy
from opmkit.imagetools.spec import MAX_MANIFEST_SIZE, Manifest, media_types
from tests.kit.content import described, noise, put, put_image
from tests.kit.faults import (
    Action,
    Answer,
    CallFirst,
    Corrupt,
    CorruptUpload,
    Delay,
    FailAfterwards,
    Fault,
    FaultProxy,
    Reset,
    ResetUpload,
    Rewrite,
    Trickle,
    Truncate,
)
from tests.kit.images import multi_image, small_image

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

NAME = "faults/image"
BLOBS, MANIFESTS = f"/v2/{NAME}/blobs/sha256", f"/v2/{NAME}/manifests/"
LAYER = noise(5 << 20, seed=11)


@pytest.fixture
def proxy(registry: Registry) -> Iterator[FaultProxy]:
    with FaultProxy(registry.host) as started:
        yield started


@pytest.fixture
def waits() -> list[float]:
    """Return the recorded waits between attempts; tests do not wait."""
    return []


@pytest.fixture
def repository(proxy: FaultProxy, waits: list[float]) -> RegistryRepository:
    return client(waits).repository(Reference(proxy.host, NAME))


def client(waits: list[float], chunked_above: int = 1 << 30, chunk_size: int = 1 << 20) -> RegistryClient:
    options = RegistryOptions(plain_http=True, chunked_above=chunked_above, chunk_size=chunk_size)
    return RegistryClient(options, retry=RetryPolicy(sleep=waits.append))


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_transient_failure(proxy: FaultProxy, repository: RegistryRepository, waits: list[float], status: int) -> None:
    manifest = put_image(repository, "1", b"x")
    proxy.faults = [Fault("GET", MANIFESTS, Answer(status), times=2)]
    assert repository.get_manifest("1") == manifest
    assert len(waits) == 2


@pytest.mark.parametrize("kind", ["seconds", "date"])
def test_retry_after(proxy: FaultProxy, repository: RegistryRepository, waits: list[float], kind: str) -> None:
    manifest = put_image(repository, "1", b"x")
    value = "7" if kind == "seconds" else formatdate(time.time() + 3600, usegmt=True)
    proxy.faults = [Fault("HEAD", MANIFESTS, Answer(429, {"Retry-After": value}))]
    assert repository.resolve("1") == manifest.descriptor
    assert waits == [7.0 if kind == "seconds" else 60.0]


@pytest.mark.parametrize("retry_after", ["soon", "-1", "1e9", "٣"])
def test_invalid_retry_after(
    proxy: FaultProxy, repository: RegistryRepository, waits: list[float], retry_after: str
) -> None:
    put_image(repository, "1", b"x")
    header = {"Retry-After": retry_after.encode().decode("latin-1")}
    proxy.faults = [Fault("HEAD", MANIFESTS, Answer(503, header))]
    repository.resolve("1")
    assert len(waits) == 1
    assert waits[0] < 1


def test_permanent_failure_reports_the_registry_message(proxy: FaultProxy, repository: RegistryRepository) -> None:
    body = b'{"errors":[{"code":"UNAVAILABLE","message":"disk \\u001b[31mfull"}]}'
    proxy.faults = [Fault("GET", MANIFESTS, Answer(503, body=body), times=99)]
    with pytest.raises(RegistryUnavailable) as caught:
        repository.get_manifest("1")
    assert caught.value.message == (
        f"{proxy.host}/{NAME}:1: the registry returned 503 (UNAVAILABLE: disk \\x1b[31mfull); gave up after 6 attempts"
    )
    assert proxy.count("GET", MANIFESTS) == 6


@pytest.mark.parametrize("status", [400, 404, 405, 409, 422])
def test_permanent_status_is_not_retried(proxy: FaultProxy, repository: RegistryRepository, status: int) -> None:
    proxy.faults = [Fault("GET", MANIFESTS, Answer(status), times=99)]
    with pytest.raises(ImageToolsError):
        repository.get_manifest("1")
    assert proxy.count("GET") == 1


@pytest.mark.parametrize("action", [Reset(), Reset(after=20), Truncate(after=20)])
def test_truncated_manifest(proxy: FaultProxy, repository: RegistryRepository, action: Action) -> None:
    manifest = put_image(repository, "1", b"x")
    proxy.faults = [Fault("GET", MANIFESTS, action)]
    assert repository.get_manifest("1") == manifest


@pytest.mark.parametrize("identifier", ["tag", "digest"])
def test_corrupted_manifest(proxy: FaultProxy, repository: RegistryRepository, identifier: str) -> None:
    manifest = put_image(repository, "1", b"x")
    proxy.faults = [Fault("GET", MANIFESTS, Corrupt(30))]
    with pytest.raises(DigestMismatch, match=NAME):
        repository.get_manifest("1" if identifier == "tag" else manifest.digest)


@pytest.mark.parametrize("content_type", ["text/html", "application/json; charset=utf-8", "", None])
def test_unspecific_content_type(proxy: FaultProxy, repository: RegistryRepository, content_type: str | None) -> None:
    manifest = put_image(repository, "1", b"x")
    proxy.faults = [Fault("GET", MANIFESTS, Rewrite({"Content-Type": content_type}))]
    assert repository.get_manifest("1") == manifest


@pytest.mark.parametrize("content_type", [media_types.OCI_INDEX, media_types.DOCKER_MANIFEST])
def test_contradicting_content_type(proxy: FaultProxy, repository: RegistryRepository, content_type: str) -> None:
    put_image(repository, "1", b"x")
    proxy.faults = [Fault("GET", MANIFESTS, Rewrite({"Content-Type": content_type}))]
    with pytest.raises(InvalidImage, match=f"{NAME}:1: ambiguous manifest: .* {re.escape(content_type)}"):
        repository.get_manifest("1")


def test_wrong_digest_header(proxy: FaultProxy, repository: RegistryRepository) -> None:
    put_image(repository, "1", b"x")
    proxy.faults = [Fault("GET", MANIFESTS, Rewrite({"Docker-Content-Digest": described(b"y").digest}))]
    with pytest.raises(DigestMismatch, match=f"{NAME}:1"):
        repository.get_manifest("1")


def test_oversized_manifest(proxy: FaultProxy, repository: RegistryRepository) -> None:
    proxy.faults = [Fault("GET", MANIFESTS, Answer(200, body=b" " * (MAX_MANIFEST_SIZE + 1)))]
    with pytest.raises(LimitExceeded, match=NAME):
        repository.get_manifest("1")


@pytest.mark.parametrize("action", [Reset(2_500_000), Truncate(2_500_000), Reset()])
def test_download_resumes(proxy: FaultProxy, repository: RegistryRepository, action: Action) -> None:
    descriptor = put(repository, LAYER)
    proxy.faults = [Fault("GET", BLOBS, action, times=2)]
    with repository.open_blob(descriptor) as stream:
        assert stream.read() == LAYER
    ranges = [seen.headers.get("Range") for seen in proxy.seen if seen.method == "GET"]
    assert len(ranges) == 3
    assert ranges[0] is None
    if action != Reset():
        assert [int(text.removeprefix("bytes=").rstrip("-")) > 0 for text in ranges[1:] if text] == [True, True]


def test_download_starts_over_if_ranges_are_unsupported(proxy: FaultProxy, repository: RegistryRepository) -> None:
    descriptor = put(repository, LAYER)
    complete = Answer(200, body=LAYER)
    proxy.faults = [Fault("GET", BLOBS, Truncate(3_000_000)), Fault("GET", BLOBS, complete)]
    with repository.open_blob(descriptor) as stream:
        assert stream.read() == LAYER


def test_download_with_a_wrong_range(proxy: FaultProxy, repository: RegistryRepository) -> None:
    descriptor = put(repository, LAYER)
    other = Answer(206, {"Content-Range": f"bytes 5-{len(LAYER) - 1}/{len(LAYER)}"}, LAYER[5:])
    proxy.faults = [Fault("GET", BLOBS, Truncate(3_000_000)), Fault("GET", BLOBS, other)]
    with pytest.raises(DigestMismatch), repository.open_blob(descriptor) as stream:
        stream.read()


def test_corrupted_download(proxy: FaultProxy, repository: RegistryRepository) -> None:
    descriptor = put(repository, LAYER)
    proxy.faults = [Fault("GET", BLOBS, Corrupt(4_000_000))]
    with pytest.raises(DigestMismatch, match="digest"), repository.open_blob(descriptor) as stream:
        stream.read()


@pytest.mark.parametrize("content", [LAYER[:-1], LAYER + b"!", b""])
def test_download_of_another_size(proxy: FaultProxy, repository: RegistryRepository, content: bytes) -> None:
    descriptor = put(repository, LAYER)
    proxy.faults = [Fault("GET", BLOBS, Answer(200, body=content), times=99)]
    with pytest.raises(DigestMismatch, match=descriptor.digest), repository.open_blob(descriptor) as stream:
        stream.read()


def test_download_that_always_fails(proxy: FaultProxy, repository: RegistryRepository, waits: list[float]) -> None:
    descriptor = put(repository, LAYER)
    proxy.faults = [Fault("GET", BLOBS, Truncate(0), times=99)]
    with pytest.raises(RegistryUnavailable, match="gave up"), repository.open_blob(descriptor) as stream:
        stream.read()


def test_slow_response(proxy: FaultProxy, repository: RegistryRepository) -> None:
    manifest = put_image(repository, "1", b"x")
    proxy.faults = [Fault("GET", MANIFESTS, Delay(0.3))]
    assert repository.get_manifest("1") == manifest


def test_silent_registry(proxy: FaultProxy, waits: list[float]) -> None:
    client_with_deadline = RegistryClient(
        RegistryOptions(plain_http=True, deadline=0.5), retry=RetryPolicy(sleep=waits.append)
    )
    proxy.faults = [Fault("GET", MANIFESTS, Delay(5), times=99)]
    with pytest.raises(RegistryUnavailable, match="timed out"):
        client_with_deadline.repository(Reference(proxy.host, NAME)).get_manifest("1")


def test_trickling_response_within_the_deadline(proxy: FaultProxy, repository: RegistryRepository) -> None:
    data = noise(20_000, seed=14)
    descriptor = put(repository, data)
    manifest = put_image(repository, "1", b"x")
    proxy.faults = [Fault("GET", BLOBS, Trickle(2000, 0.02)), Fault("GET", MANIFESTS, Trickle(50, 0.02))]
    with repository.open_blob(descriptor) as stream:
        assert stream.read() == data
    assert repository.get_manifest("1") == manifest


@pytest.mark.parametrize("path", [BLOBS, MANIFESTS])
def test_trickling_response_beyond_the_deadline(proxy: FaultProxy, waits: list[float], path: str) -> None:
    """Each read is short, but together they exceed the deadline."""
    client_with_deadline = RegistryClient(
        RegistryOptions(plain_http=True, deadline=0.5), retry=RetryPolicy(sleep=waits.append)
    )
    repository = client_with_deadline.repository(Reference(proxy.host, NAME))
    data = noise(20_000, seed=15)
    descriptor = put(repository, data)
    put_image(repository, "1", b"x")
    proxy.faults = [Fault("GET", path, Trickle(10, 0.05), times=99)]
    with pytest.raises(RegistryUnavailable, match=f"{NAME}.*: timed out: the response is too slow"):
        repository.open_blob(descriptor).read() if path == BLOBS else repository.get_manifest("1")
    assert proxy.count("GET", path) == 1


def test_success_after_the_deadline(proxy: FaultProxy, waits: list[float]) -> None:
    """The tag has moved when the response arrives, so that the command must not report a failure."""
    late = RegistryClient(RegistryOptions(plain_http=True, deadline=3), retry=RetryPolicy(sleep=waits.append))
    repository = late.repository(Reference(proxy.host, NAME))
    put_image(repository, "late", b"x")
    proxy.faults = [Fault("PUT", f"{MANIFESTS}late", Delay(5))]
    manifest = put_image(repository, "late", b"y")
    assert repository.resolve("late") == manifest.descriptor
    assert (proxy.count("PUT", f"{MANIFESTS}late"), waits) == (2, [])


def test_nothing_is_sent_after_the_deadline(proxy: FaultProxy, waits: list[float]) -> None:
    now = 0.0

    def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds + 120
        waits.append(seconds)

    retry = RetryPolicy(sleep=sleep, clock=lambda: now)
    repository = RegistryClient(RegistryOptions(plain_http=True), retry=retry).repository(Reference(proxy.host, NAME))
    proxy.faults = [Fault("GET", MANIFESTS, Answer(503), times=99)]
    with pytest.raises(RegistryUnavailable, match="timed out"):
        repository.get_manifest("1")
    assert (proxy.count("GET", MANIFESTS), len(waits)) == (1, 1)


@pytest.mark.parametrize("method", ["HEAD", "POST", "PUT"])
@pytest.mark.parametrize("action", [Answer(503), Reset(), ResetUpload(100_000)])
def test_upload_restarts(
    proxy: FaultProxy, repository: RegistryRepository, method: str, action: Action, request: pytest.FixtureRequest
) -> None:
    if isinstance(action, ResetUpload) and method != "PUT":
        action = Reset()
    data = noise(400_000, seed=crc32(request.node.name.encode()))
    proxy.faults = [Fault(method, f"/v2/{NAME}/blobs", action, times=2)]
    descriptor = put(repository, data)
    assert repository.has_blob(descriptor)
    assert proxy.count(method, f"/v2/{NAME}/blobs") >= 3


@pytest.mark.parametrize("action", [Answer(502), Reset(), ResetUpload(10_000)])
def test_chunked_upload_restarts(
    proxy: FaultProxy, waits: list[float], action: Action, request: pytest.FixtureRequest
) -> None:
    repository = client(waits, chunked_above=0, chunk_size=100_000).repository(Reference(proxy.host, NAME))
    data = noise(350_000, seed=crc32(request.node.name.encode()))
    proxy.faults = [Fault("PATCH", f"/v2/{NAME}/blobs", action, skip=2)]
    descriptor = put(repository, data)
    assert repository.has_blob(descriptor)
    assert proxy.count("PATCH") == 3 + 4


def remove_uploads(registry: Registry) -> None:
    """Remove upload sessions, as a registry that restarts or cleans up."""
    shutil.rmtree(registry.path / f"data/docker/registry/v2/repositories/{NAME}/_uploads")


@pytest.mark.parametrize("chunked", [False, True])
def test_lost_upload_session(registry: Registry, proxy: FaultProxy, waits: list[float], chunked: bool) -> None:
    repository = client(waits, chunked_above=0 if chunked else 1 << 30).repository(Reference(proxy.host, NAME))
    data = noise(3 << 20, seed=16 + chunked)
    method = "PATCH" if chunked else "PUT"
    proxy.faults = [Fault(method, f"/v2/{NAME}/blobs", CallFirst(lambda: remove_uploads(registry)), skip=chunked)]
    descriptor = put(repository, data)
    with repository.open_blob(descriptor) as stream:
        assert stream.read() == data
    assert proxy.count("POST", f"/v2/{NAME}/blobs") == 2


def test_upload_session_that_is_always_lost(proxy: FaultProxy, repository: RegistryRepository) -> None:
    proxy.faults = [Fault("PUT", f"/v2/{NAME}/blobs", Answer(404), times=99)]
    with pytest.raises(RegistryUnavailable, match=f"{NAME}@sha256:.*: upload session lost; gave up after 6 attempts"):
        put(repository, noise(1000, seed=18))


def test_upload_of_content_that_does_not_exist(
    proxy: FaultProxy, repository: RegistryRepository, waits: list[float]
) -> None:
    def missing() -> BinaryIO:
        raise NotFound("quay.io/a/b: not found")

    with pytest.raises(NotFound, match=r"^quay\.io/a/b: not found$"):
        repository.put_blob(described(b"absent"), missing)
    assert waits == []


def test_corrupted_upload(proxy: FaultProxy, repository: RegistryRepository) -> None:
    manifest = put_image(repository, "stable", b"old")
    proxy.faults = [Fault("PUT", f"/v2/{NAME}/blobs", CorruptUpload(70_000))]
    with pytest.raises(DigestMismatch, match=f"{NAME}@sha256:.*the registry returned 400"):
        put_image(repository, "stable", noise(100_000, seed=19))
    assert repository.resolve("stable") == manifest.descriptor


@pytest.mark.parametrize("status", [405, 413])
def test_chunked_upload_if_a_monolithic_one_is_refused(
    proxy: FaultProxy, repository: RegistryRepository, request: pytest.FixtureRequest, status: int
) -> None:
    data = noise(1000, seed=crc32(request.node.name.encode()))
    proxy.faults = [Fault("PUT", f"/v2/{NAME}/blobs", Answer(status))]
    descriptor = put(repository, data)
    assert repository.has_blob(descriptor)
    assert proxy.count("PATCH") == 1


def test_failed_upload_leaves_the_tag_unchanged(proxy: FaultProxy, repository: RegistryRepository) -> None:
    manifest = put_image(repository, "stable", b"old")
    proxy.faults = [Fault("PUT", f"/v2/{NAME}/blobs", ResetUpload(1000), times=99)]
    with pytest.raises(RegistryUnavailable):
        put_image(repository, "stable", noise(50_000, seed=12))
    assert repository.resolve("stable") == manifest.descriptor


def test_manifest_whose_blob_is_being_written(proxy: FaultProxy, repository: RegistryRepository) -> None:
    body = b'{"errors":[{"code":"DIGEST_INVALID","message":"provided digest did not match uploaded content"}]}'
    proxy.faults = [Fault("PUT", MANIFESTS, Answer(400, body=body))]
    manifest = put_image(repository, "racing", b"x")
    assert repository.resolve("racing") == manifest.descriptor


@pytest.mark.parametrize("status", [200, 202, 204])
def test_manifest_that_is_accepted_with_another_status(
    registry: Registry, proxy: FaultProxy, opm: Opm, tmp_path: Path, status: int
) -> None:
    """The command checks what is stored, and succeeds or says what is missing."""
    source = small_image(tmp_path, {"a": b"x"})
    copy_image(source, client([]).repository(Reference(registry.host, NAME)), f"accepted{status}")
    target = f"{proxy.host}/{NAME}-copy:{status}"
    copy = ("image", "copy", f"{registry.host}/{NAME}:accepted{status}", target, "--use-http")
    manifests = f"/v2/{NAME}-copy/manifests/"
    proxy.faults = [Fault("PUT", manifests, Answer(status))]
    done = opm.attempt(*copy)
    assert done.returncode == 1
    assert f"the registry accepted the manifest {source.digest} but did not store it" in " ".join(done.stderr.split())
    proxy.faults = [Fault("PUT", manifests, FailAfterwards(lambda: None, status))]
    opm(*copy)
    assert source.digest in opm("image", "inspect", target, "--use-http")


@pytest.mark.parametrize(
    "location", ["/v2/caf\u00e9?x=\u00fc", "/v2/uploads/1?state=a#fragment", "/v2/uploads/1\r\nLocation: /v2/other"]
)
def test_location_of_an_upload(proxy: FaultProxy, repository: RegistryRepository, location: str) -> None:
    """A URL in raw UTF-8, with a fragment, and a second one."""
    header = {"Location": location.encode().decode("latin-1")}
    paths = f"/v2/{NAME}/blobs/uploads/"
    proxy.faults = [Fault("POST", paths, Answer(202, header)), Fault("PUT", "/v2/", Answer(201))]
    content = described(noise(1000, seed=crc32(location.encode())))
    repository.put_blob(content, lambda: io.BytesIO(bytes(content.size)))
    (put,) = [seen.path for seen in proxy.seen if seen.method == "PUT"]
    path, _, query = put.partition("?")
    digest = content.digest.replace(":", "%3A")
    assert (path, query) in [
        ("/v2/caf%C3%A9", f"x=%C3%BC&digest={digest}"),
        ("/v2/uploads/1", f"state=a&digest={digest}"),
        ("/v2/uploads/1", f"digest={digest}"),
    ]


def test_denied_mount(proxy: FaultProxy, repository: RegistryRepository, waits: list[float]) -> None:
    source = client(waits).repository(Reference(proxy.host, "faults/source"))
    data = noise(1000, seed=13)
    proxy.faults = [Fault("POST", r".*mount=", Answer(403))]
    repository.put_blob(described(data), lambda: io.BytesIO(data), mount_from=source)
    assert repository.has_blob(described(data))


@pytest.mark.parametrize("missing", ["Docker-Content-Digest", "Content-Type"])
def test_head_without_required_headers(proxy: FaultProxy, repository: RegistryRepository, missing: str) -> None:
    manifest = put_image(repository, "1", b"x")
    proxy.faults = [Fault("HEAD", MANIFESTS, Rewrite({missing: None}))]
    assert repository.resolve("1") == manifest.descriptor
    assert proxy.count("GET", MANIFESTS) == 1


@pytest.mark.parametrize("status", [204, 403, 405])
def test_head_not_allowed(proxy: FaultProxy, repository: RegistryRepository, status: int) -> None:
    manifest = put_image(repository, "1", b"x")
    proxy.faults = [Fault("HEAD", MANIFESTS, Answer(status), times=2)]
    assert repository.resolve("1") == manifest.descriptor
    with pytest.raises(NotFound):
        repository.resolve("2")


def test_head_with_a_wrong_digest_header(proxy: FaultProxy, repository: RegistryRepository) -> None:
    manifest = put_image(repository, "1", b"x")
    proxy.faults = [Fault("HEAD", MANIFESTS, Rewrite({"Docker-Content-Digest": described(b"y").digest}))]
    with pytest.raises(DigestMismatch):
        repository.resolve(manifest.digest)


def test_connection_closed_while_idle(proxy: FaultProxy, repository: RegistryRepository) -> None:
    manifest = put_image(repository, "1", b"x")
    proxy.faults = [Fault("GET", MANIFESTS, Reset())]
    assert repository.get_manifest("1") == manifest
    assert repository.get_manifest("1") == manifest


def test_manifest_with_a_missing_layer(repository: RegistryRepository) -> None:
    old = put_image(repository, "stable", b"old")
    manifest = Manifest.build(old.config, [described(noise(1000, seed=20))])
    with pytest.raises(ImageToolsError, match=f"{NAME}:stable: .*BLOB_UNKNOWN"):
        repository.put_manifest(manifest, "stable")
    assert repository.resolve("stable") == old.descriptor


def test_index_with_a_missing_image(proxy: FaultProxy, repository: RegistryRepository, tmp_path: Path) -> None:
    images = [
        small_image(tmp_path, {"a": name.encode()}, platform=f"linux/{name}") for name in ("amd64", "arm64", "s390x")
    ]
    index = multi_image(images)
    copy_image(index, repository, "many")
    assert load_image_or_index(repository, "many").digest == index.digest
    missing = images[1].digest
    proxy.faults = [Fault("GET", f"{MANIFESTS}{missing}", Answer(404), times=99)]
    with pytest.raises(NotFound, match=f"{NAME}@{missing}: not found"):
        load_image_or_index(repository, "many")
