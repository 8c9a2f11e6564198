"""Images in a real registry, through `RegistryRepository`."""

from __future__ import annotations

import io
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, BinaryIO

import pytest

from opmkit.core.errors import LimitExceeded
from opmkit.imagetools.errors import DigestMismatch, ImageToolsError, InsecureTransport, NotFound, RegistryUnavailable
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions, RegistryRepository, RetryPolicy
from opmkit.imagetools.spec import (
    MAX_CONFIG_SIZE,
    Descriptor,
    IndexManifest,
    Manifest,
    Platform,
    media_types,
    sha256_digest,
)
from tests.kit.content import CONFIG, described, noise, put, put_image
from tests.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

HTTP = RegistryOptions(plain_http=True)
NO_WAIT = RetryPolicy(sleep=lambda _: None)


def unread() -> BinaryIO:
    raise AssertionError("the blob was opened")


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """Return the name of a repository for this test only."""
    return f"registry/{request.node.name.lower().partition('[')[0]}"


@pytest.fixture
def client() -> RegistryClient:
    return RegistryClient(HTTP, retry=NO_WAIT)


@pytest.fixture
def repository(client: RegistryClient, registry: Registry, name: str) -> RegistryRepository:
    return client.repository(Reference(registry.host, name))


def test_round_trip(repository: RegistryRepository) -> None:
    layer = noise(3 << 20)
    manifest = put_image(repository, "1.0", layer)
    assert repository.resolve("1.0") == manifest.descriptor
    assert repository.resolve(manifest.digest) == manifest.descriptor
    assert repository.get_manifest("1.0") == manifest
    assert repository.get_manifest(manifest.digest) == manifest
    assert repository.get_config(manifest.config) == CONFIG
    with repository.open_blob(manifest.layers[0]) as stream:
        assert stream.read() == layer
    assert repository.has_blob(manifest.layers[0])
    assert not repository.has_blob(described(b"another"))
    assert list(repository.tags()) == ["1.0"]


def test_media_types_are_preserved(repository: RegistryRepository) -> None:
    config = put(repository, CONFIG, media_types.DOCKER_CONFIG)
    manifest = Manifest.build(config, [], media_type=media_types.DOCKER_MANIFEST)
    assert repository.put_manifest(manifest) == manifest.descriptor
    entry = Descriptor(manifest.media_type, manifest.digest, len(manifest.raw), Platform("linux", "amd64"))
    for media_type in (media_types.OCI_INDEX, media_types.DOCKER_LIST):
        index = IndexManifest.build([entry], media_type=media_type)
        repository.put_manifest(index, "multi")
        assert repository.resolve("multi") == index.descriptor
        assert repository.get_manifest("multi") == index
    assert repository.resolve(manifest.digest).media_type == media_types.DOCKER_MANIFEST


def test_move_tag(repository: RegistryRepository) -> None:
    first, second = put_image(repository, "latest", b"one"), put_image(repository, "latest", b"two")
    assert first.digest != second.digest
    assert repository.resolve("latest") == second.descriptor
    assert repository.get_manifest(first.digest) == first


def test_existing_blob_is_not_sent(repository: RegistryRepository, client: RegistryClient) -> None:
    descriptor = put(repository, noise(100_000))
    written = client.transfer_stats.written
    repository.put_blob(descriptor, unread)
    assert client.transfer_stats.written == written


@pytest.mark.parametrize("size", [0, 1, 1 << 20, (1 << 20) + 1])
@pytest.mark.parametrize("chunked_above", [-1, 1 << 30])
def test_blob_sizes(registry: Registry, name: str, size: int, chunked_above: int) -> None:
    options = RegistryOptions(plain_http=True, chunked_above=chunked_above, chunk_size=300_000)
    client = RegistryClient(options, retry=NO_WAIT)
    repository = client.repository(Reference(registry.host, f"{name}/{size}-{int(chunked_above > 0)}"))
    data = noise(size, seed=7)
    descriptor = put(repository, data)
    with repository.open_blob(descriptor) as stream:
        assert stream.read() == data
    assert client.transfer_stats.written == size
    assert client.transfer_stats.read == size


def test_large_blobs_are_sent_in_chunks(registry: Registry, name: str) -> None:
    options = RegistryOptions(plain_http=True, chunked_above=1000, chunk_size=400)
    repository = RegistryClient(options).repository(Reference(registry.host, name))
    put(repository, noise(1000, seed=1))
    assert count_patches(registry, name) == 0
    put(repository, noise(1001, seed=2))
    assert count_patches(registry, name) == 3


def count_patches(registry: Registry, name: str) -> int:
    return sum(seen.method == "PATCH" and f"/{name}/" in seen.path for seen in registry.requests())


def test_mount(registry: Registry, client: RegistryClient, name: str) -> None:
    source, target = (client.repository(Reference(registry.host, f"{name}/{part}")) for part in ("a", "b"))
    descriptor = put(source, noise(50_000, seed=3))
    target.put_blob(descriptor, unread, mount_from=source)
    assert target.has_blob(descriptor)


def test_blob_that_cannot_be_mounted_is_sent(registry: Registry, client: RegistryClient, name: str) -> None:
    source, target = (client.repository(Reference(registry.host, f"{name}/{part}")) for part in ("a", "b"))
    data = noise(50_000, seed=4)
    target.put_blob(described(data), lambda: io.BytesIO(data), mount_from=source)
    assert target.has_blob(described(data))


def test_no_mount_from_another_registry(registry: Registry, client: RegistryClient, name: str) -> None:
    target = client.repository(Reference(registry.host, name))
    other = client.repository(Reference("registry.invalid", name))
    data = noise(1000, seed=5)
    target.put_blob(described(data), lambda: io.BytesIO(data), mount_from=other)
    assert not [seen for seen in registry.requests() if f"/{name}/" in seen.path and "mount=" in seen.path]


@pytest.mark.parametrize("chunked_above", [-1, 1 << 30])
def test_content_with_another_digest_is_rejected(registry: Registry, name: str, chunked_above: int) -> None:
    options = RegistryOptions(plain_http=True, chunked_above=chunked_above)
    repository = RegistryClient(options).repository(Reference(registry.host, name))
    descriptor = Descriptor(media_types.OCI_LAYER, sha256_digest(b"promised"), 8)
    with pytest.raises(DigestMismatch, match="DIGEST_INVALID"):
        repository.put_blob(descriptor, lambda: io.BytesIO(b"PROMISED"))
    assert not repository.has_blob(descriptor)


def test_content_shorter_than_its_descriptor(repository: RegistryRepository) -> None:
    descriptor = Descriptor(media_types.OCI_LAYER, sha256_digest(b"promised"), 8)
    with pytest.raises(DigestMismatch, match="3 bytes too short"):
        repository.put_blob(descriptor, lambda: io.BytesIO(b"promi"))


@pytest.mark.parametrize("size", [5, 50])
def test_blob_of_another_size(repository: RegistryRepository, size: int) -> None:
    descriptor = put(repository, b"nine byte")
    wrong = Descriptor(descriptor.media_type, descriptor.digest, size)
    with pytest.raises(DigestMismatch, match=f"size mismatch: .* expected {size} bytes"):
        repository.open_blob(wrong)


def test_large_configuration_is_rejected(repository: RegistryRepository) -> None:
    with pytest.raises(LimitExceeded, match="exceeds the limit"):
        repository.get_config(Descriptor(media_types.OCI_CONFIG, sha256_digest(b""), MAX_CONFIG_SIZE + 1))


@pytest.mark.parametrize(
    "read",
    [
        lambda repository: repository.resolve("absent"),
        lambda repository: repository.get_manifest("absent"),
        lambda repository: repository.get_manifest(sha256_digest(b"absent")),
        lambda repository: repository.open_blob(described(b"absent")),
        lambda repository: repository.get_config(described(b"absent")),
        lambda repository: list(repository.tags()),
    ],
)
def test_not_found(repository: RegistryRepository, read: Callable[[RegistryRepository], object]) -> None:
    with pytest.raises(NotFound) as caught:
        read(repository)
    assert repository.name in caught.value.message


def test_manifest_without_its_blobs(repository: RegistryRepository) -> None:
    manifest = Manifest.build(described(CONFIG, media_types.OCI_CONFIG), [])
    with pytest.raises(ImageToolsError, match=f"{repository.name}:x: .* \\(MANIFEST_BLOB_UNKNOWN"):
        repository.put_manifest(manifest, "x")


def test_concurrent_use(registry: Registry, client: RegistryClient, name: str) -> None:
    def round_trip(number: int) -> bytes:
        repository = client.repository(Reference(registry.host, f"{name}/{number % 3}"))
        manifest = put_image(repository, f"t{number}", noise(30_000, seed=number))
        with repository.open_blob(manifest.layers[0]) as stream:
            return stream.read()

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(round_trip, range(24))) == [noise(30_000, seed=number) for number in range(24)]


def test_private_certificate_authority(tls_registry: Registry, name: str) -> None:
    reference = Reference(tls_registry.host, name)
    put_image(RegistryClient(RegistryOptions(ca_file=tls_registry.ca_file)).repository(reference), "1", b"x")
    RegistryClient(RegistryOptions(verify_tls=False)).repository(reference).resolve("1")
    with pytest.raises(InsecureTransport, match="not trusted") as caught:
        RegistryClient().repository(reference).resolve("1")
    assert "ca_file" in str(caught.value.hint)
    assert "skip_tls_verify" in str(caught.value.hint)


def test_certificate_authorities_of_the_system(
    tls_registry: Registry, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tls_registry.ca_file))
    put_image(RegistryClient().repository(Reference(tls_registry.host, name)), "1", b"x")


def test_http_to_an_https_registry(tls_registry: Registry, name: str) -> None:
    repository = RegistryClient(HTTP).repository(Reference(tls_registry.host, name))
    with pytest.raises(InsecureTransport, match="requires HTTPS") as caught:
        repository.resolve("1")
    assert "plain_http" in str(caught.value.hint)
    with pytest.raises(ImageToolsError) as caught_by_push:
        put(repository, b"x")
    assert "plain_http" in str(caught_by_push.value.hint)


def test_https_to_an_http_registry(registry: Registry, name: str) -> None:
    with pytest.raises(InsecureTransport, match="does not support HTTPS") as caught:
        RegistryClient().repository(Reference(registry.host, name)).resolve("1")
    assert "plain_http" in str(caught.value.hint)


@pytest.mark.parametrize(("content", "reason"), [("no certificate", "not a PEM certificate"), (None, "No such file")])
def test_invalid_ca_file(tmp_path: Path, content: str | None, reason: str) -> None:
    ca_file = tmp_path / "ca.pem"
    if content:
        ca_file.write_text(content)
    with pytest.raises(ImageToolsError, match=reason) as caught:
        RegistryClient(RegistryOptions(ca_file=ca_file))
    assert str(ca_file) in caught.value.message


def test_connection_refused(client: RegistryClient, name: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
        with pytest.raises(RegistryUnavailable, match=r"connection refused; gave up after 3 attempts"):
            client.repository(Reference(host, name)).resolve("1")


def test_unknown_host(client: RegistryClient) -> None:
    with pytest.raises(RegistryUnavailable, match="unknown host"):
        client.repository(Reference.parse("registry.invalid/a/b")).resolve("1")


def test_registry_restarts(name: str) -> None:
    with Registry() as registry:
        restart = RetryPolicy(sleep=lambda _: registry.start())
        repository = RegistryClient(HTTP, retry=restart).repository(Reference(registry.host, name))
        manifest = put_image(repository, "1", b"x")
        registry.stop()
        assert repository.get_manifest("1") == manifest


def test_context_manager_and_repr(registry: Registry) -> None:
    with RegistryClient(HTTP) as client:
        assert repr(client.repository(Reference(registry.host, "a/b"))) == f"RegistryRepository('{registry.host}/a/b')"
