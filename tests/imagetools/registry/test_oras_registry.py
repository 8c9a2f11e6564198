"""oras-py's interface over the own transport."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import oras.provider
import pytest
import requests

import opmkit
from opmkit.imagetools.errors import DigestMismatch
from opmkit.imagetools.registry.oras_registry import OrasRegistry
from tests.kit.faults import Answer, Corrupt, Fault, FaultProxy, Reset

if TYPE_CHECKING:
    from tests.kit.registry import Registry
    from tests.kit.tokenserver import TokenServer

CONTENT = bytes(range(256)) * 1000


@pytest.fixture
def artifact(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("artifact").write_bytes(CONTENT)
    return "artifact"


def pulled(client: OrasRegistry, target: str, directory: Path) -> bytes:
    """Pull an artifact with one file and return its content."""
    (path,) = client.pull(target, outdir=str(directory / "pulled"))
    return Path(path).read_bytes()


def test_the_class_is_public_and_one_of_oras() -> None:
    assert opmkit.OrasRegistry is OrasRegistry
    assert issubclass(OrasRegistry, oras.provider.Registry)


@pytest.mark.parametrize("chunked", [False, True])
def test_push_and_pull(artifact: str, chunked: bool, registry: Registry, tmp_path: Path) -> None:
    target = f"{registry.host}/oras/plain:{chunked}"
    client = OrasRegistry(insecure=True)
    pushed = client.push(target, files=[artifact], do_chunked=chunked, chunk_size=100_000)
    digest = pushed.headers["Docker-Content-Digest"]
    assert pulled(client, f"{registry.host}/oras/plain@{digest}", tmp_path) == CONTENT
    assert str(chunked) in client.get_tags(target)
    head = client.do_request(f"http://{registry.host}/v2/oras/plain/manifests/{chunked}", "HEAD")
    assert (head.status_code, head.headers["Docker-Content-Digest"]) == (200, digest)


@pytest.mark.parametrize("path", ["manifests/none", f"blobs/sha256:{'0' * 64}", "blobs/uploads/none"])
def test_missing_content_is_a_response(path: str, registry: Registry) -> None:
    method = "PUT" if "uploads" in path else "GET"
    found = OrasRegistry(insecure=True).do_request(f"http://{registry.host}/v2/oras/none/{path}", method)
    assert found.status_code == 404


@pytest.mark.parametrize("kind", ["manifests", "blobs"])
def test_content_is_verified(kind: str, artifact: str, registry: Registry, tmp_path: Path) -> None:
    target = f"{registry.host}/oras/verified:1"
    pushed = OrasRegistry(insecure=True).push(target, files=[artifact])
    digest = pushed.headers["Docker-Content-Digest"]
    with FaultProxy(registry.host, Fault("GET", f"/v2/oras/verified/{kind}/sha256", Corrupt(5), times=9)) as proxy:
        client = OrasRegistry(insecure=True)
        with pytest.raises(DigestMismatch):
            client.pull(f"{proxy.host}/oras/verified@{digest}", outdir=str(tmp_path / "pulled"))
    assert not (tmp_path / "pulled" / "artifact").exists()


def test_broken_downloads_are_continued(artifact: str, registry: Registry, tmp_path: Path) -> None:
    OrasRegistry(insecure=True).push(f"{registry.host}/oras/broken:1", files=[artifact])
    with FaultProxy(registry.host, Fault("GET", "/v2/oras/broken/blobs/", Reset(after=100_000))) as proxy:
        assert pulled(OrasRegistry(insecure=True), f"{proxy.host}/oras/broken:1", tmp_path) == CONTENT


def test_tokens_are_requested_for_each_repository(
    artifact: str, token_registry: Registry, token_server: TokenServer, tmp_path: Path
) -> None:
    client = OrasRegistry(token_registry.host, insecure=True)
    client.auth.set_basic_auth("tester", "secret")
    for repository in ("one", "two"):
        client.push(f"{token_registry.host}/{repository}:1", files=[artifact])
        assert pulled(client, f"{token_registry.host}/{repository}:1", tmp_path / repository) == CONTENT
    scopes = {scope for token in token_server.issued for scope in token.scopes}
    assert scopes == {"repository:one:pull,push", "repository:two:pull,push"}
    reader = OrasRegistry(insecure=True)
    reader.auth.set_basic_auth("tester", "secret")
    assert pulled(reader, f"{token_registry.host}/one:1", tmp_path / "reader") == CONTENT
    assert token_server.issued[-1].scopes == ("repository:one:pull",)
    with pytest.raises(ValueError, match="access denied"):
        OrasRegistry(insecure=True).push(f"{token_registry.host}/three:1", files=[artifact])


def test_logins_are_not_sent_to_other_registries(basic_registry: Registry, artifact: str) -> None:
    client = OrasRegistry("registry.example", insecure=True)
    client.auth.set_basic_auth("tester", "secret")
    with pytest.raises(ValueError, match="requires credentials"):
        client.get_tags(f"{basic_registry.host}/one")
    client = OrasRegistry(insecure=True)
    client.auth.set_basic_auth("tester", "secret")
    assert client.push(f"{basic_registry.host}/one:1", files=[artifact]).status_code == 201
    assert client.get_tags(f"{basic_registry.host}/one") == ["1"]
    with FaultProxy("none:1", Fault(".*", "/", Answer(401, {"WWW-Authenticate": "Basic"}), times=9)) as other:
        with pytest.raises(ValueError, match="requires credentials"):
            client.get_tags(f"{other.host}/one")
        assert all("Authorization" not in seen.headers for seen in other.seen)


def test_certificates_are_verified(tls_registry: Registry, artifact: str) -> None:
    target = f"{tls_registry.host}/one:1"
    with pytest.raises(requests.exceptions.SSLError, match="not trusted"):
        OrasRegistry().get_tags(target)
    for verify in (False, str(tls_registry.ca_file)):
        assert OrasRegistry(tls_verify=verify).push(target, files=[artifact]).status_code == 201


@pytest.mark.slow
def test_unreachable_registries_are_reported_soon() -> None:
    started = time.monotonic()
    with pytest.raises(requests.exceptions.ConnectionError, match="connection refused"):
        OrasRegistry(insecure=True).get_tags("127.0.0.1:1/one")
    assert time.monotonic() - started < 20


def test_mirrors_are_read(artifact: str, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    OrasRegistry(insecure=True).push(f"{registry.host}/oras/mirrored:1", files=[artifact])
    settings = tmp_path / ".config/containers/registries.conf"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        f'[[registry]]\nprefix = "registry.test/team"\nlocation = "127.0.0.1:1/team"\ninsecure = true\n'
        f'[[registry.mirror]]\nlocation = "{registry.host}/oras"\ninsecure = true\n'
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    assert pulled(OrasRegistry(), "registry.test/team/mirrored:1", tmp_path) == CONTENT
