"""Authentication against real registries, with passwords and with tokens."""

from __future__ import annotations

import base64
import io
import json
import logging
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import AuthenticationFailed, ImageToolsError, NotFound
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions, RetryPolicy
from tests.kit.content import described, noise, put, put_image
from tests.kit.faults import Answer, Fault, FaultProxy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.registry import Registry
    from tests.kit.tokenserver import TokenServer

PUSH_A = ("repository:team/a:pull,push",)
PULL_A = ("repository:team/a:pull",)


@pytest.fixture
def login(tmp_path: Path) -> Callable[..., RegistryClient]:
    """Return a function that creates a client with credentials for a host, by default those of the only user."""

    def create(host: str, password: str = "secret", **entry: str) -> RegistryClient:
        entry = entry or {"auth": base64.b64encode(f"tester:{password}".encode()).decode()}
        authfile = tmp_path / "auth.json"
        authfile.write_text(json.dumps({"auths": {host: entry}}))
        options = RegistryOptions(plain_http=True, authfile=authfile)
        return RegistryClient(options, retry=RetryPolicy(sleep=lambda _: None))

    return create


def anonymous() -> RegistryClient:
    return RegistryClient(RegistryOptions(plain_http=True))


def test_basic(basic_registry: Registry, login: Callable[..., RegistryClient]) -> None:
    repository = login(basic_registry.host).repository(Reference(basic_registry.host, "team/a"))
    manifest = put_image(repository, "1", noise(1000))
    assert repository.resolve("1") == manifest.descriptor
    assert list(repository.tags()) == ["1"]
    unauthorized = [seen for seen in basic_registry.requests() if seen.status == 401 and seen.path != "/v2/"]
    assert len(unauthorized) == 1


def test_missing_credentials(basic_registry: Registry) -> None:
    with pytest.raises(AuthenticationFailed, match=r"no credentials for .* in .*auth.json, .*config.json") as caught:
        anonymous().repository(Reference(basic_registry.host, "team/a")).resolve("1")
    assert str(caught.value.hint) == f"log in with `podman login {basic_registry.host}`"


def test_wrong_password(
    basic_registry: Registry, login: Callable[..., RegistryClient], caplog: pytest.LogCaptureFixture
) -> None:
    client = login(basic_registry.host, password="wr0ng-w0rd")
    with (
        caplog.at_level(logging.DEBUG),
        pytest.raises(AuthenticationFailed, match=r"\(user tester\) with .*auth\.json") as caught,
    ):
        client.repository(Reference(basic_registry.host, "team/a")).resolve("1")
    output = f"{caught.value!r} {caught.value.hint!s} {caplog.text}"
    assert "wr0ng-w0rd" not in output
    assert base64.b64encode(b"tester:wr0ng-w0rd").decode() not in output


def test_invalid_credentials_file(basic_registry: Registry, tmp_path: Path) -> None:
    authfile = tmp_path / "auth.json"
    authfile.write_text("{")
    client = RegistryClient(RegistryOptions(plain_http=True, authfile=authfile))
    with pytest.raises(ImageToolsError, match=str(authfile)):
        client.repository(Reference(basic_registry.host, "team/a")).resolve("1")


def test_push_requests_one_token_for_all_actions(
    token_registry: Registry, token_server: TokenServer, login: Callable[..., RegistryClient]
) -> None:
    repository = login(token_registry.host).repository(Reference(token_registry.host, "team/a"))
    manifest = put_image(repository, "1", noise(1000))
    assert repository.get_manifest("1") == manifest
    assert [(issued.user, issued.scopes) for issued in token_server.issued] == [("tester", PUSH_A)]


def test_pull_requests_no_push_access(
    token_registry: Registry, token_server: TokenServer, login: Callable[..., RegistryClient]
) -> None:
    put_image(login(token_registry.host).repository(Reference(token_registry.host, "team/a")), "1")
    token_server.issued.clear()
    repository = login(token_registry.host).repository(Reference(token_registry.host, "team/a"))
    repository.get_manifest("1")
    assert list(repository.tags()) == ["1"]
    assert [issued.scopes for issued in token_server.issued] == [PULL_A]


def test_second_repository_has_its_own_token(
    token_registry: Registry, token_server: TokenServer, login: Callable[..., RegistryClient]
) -> None:
    client = login(token_registry.host)
    for name in ("a", "b"):
        put_image(client.repository(Reference(token_registry.host, f"team/{name}")), "1")
    assert [issued.scopes for issued in token_server.issued] == [PUSH_A, ("repository:team/b:pull,push",)]
    unauthorized = [seen for seen in token_registry.requests() if seen.status == 401 and seen.path != "/v2/"]
    assert len(unauthorized) == 1


def test_mount_requests_access_to_the_source(
    token_registry: Registry, token_server: TokenServer, login: Callable[..., RegistryClient]
) -> None:
    client = login(token_registry.host)
    source, target = (client.repository(Reference(token_registry.host, f"team/{name}")) for name in ("a", "b"))
    descriptor = put(source, noise(1000))
    token_server.issued.clear()
    target.put_blob(descriptor, lambda: io.BytesIO(b""), mount_from=source)
    assert target.has_blob(descriptor)
    assert token_server.issued[-1].scopes == ("repository:team/b:pull,push", "repository:team/a:pull")


def test_anonymous_pull_of_a_public_repository(
    token_registry: Registry, token_server: TokenServer, login: Callable[..., RegistryClient]
) -> None:
    reference = Reference(token_registry.host, "public/a")
    manifest = put_image(login(token_registry.host).repository(reference), "1")
    assert anonymous().repository(reference).get_manifest("1") == manifest
    assert token_server.issued[-1].user == ""
    with pytest.raises(AuthenticationFailed, match="no credentials"):
        put(anonymous().repository(reference), b"x")


def test_anonymous_pull_of_a_private_repository(token_registry: Registry) -> None:
    with pytest.raises(AuthenticationFailed, match=r"team/a:1: .*UNAUTHORIZED.*; no credentials for "):
        anonymous().repository(Reference(token_registry.host, "team/a")).get_manifest("1")


def test_wrong_password_for_the_token_server(token_registry: Registry, login: Callable[..., RegistryClient]) -> None:
    client = login(token_registry.host, password="wr0ng-w0rd")
    with pytest.raises(AuthenticationFailed, match="access denied by the token server") as caught:
        client.repository(Reference(token_registry.host, "team/a")).resolve("1")
    assert "wr0ng-w0rd" not in str(caught.value)


def test_identity_token(token_registry: Registry, login: Callable[..., RegistryClient]) -> None:
    client = login(token_registry.host, identitytoken="identity")
    put_image(client.repository(Reference(token_registry.host, "team/a")), "1")
    client = login(token_registry.host, identitytoken="invalid-token")
    with pytest.raises(AuthenticationFailed) as caught:
        client.repository(Reference(token_registry.host, "team/a")).resolve("1")
    assert "invalid-token" not in str(caught.value)


def test_registry_token_is_sent_unchanged(
    token_registry: Registry, token_server: TokenServer, login: Callable[..., RegistryClient]
) -> None:
    put_image(login(token_registry.host).repository(Reference(token_registry.host, "team/a")), "1")
    token = json.loads(token_server.issue("tester", list(PULL_A)))["token"]
    token_server.issued.clear()
    login(token_registry.host, registrytoken=token).repository(Reference(token_registry.host, "team/a")).resolve("1")
    assert token_server.issued == []
    client = login(token_registry.host, registrytoken="invalid-token")
    with pytest.raises(AuthenticationFailed) as caught:
        client.repository(Reference(token_registry.host, "team/a")).resolve("1")
    assert "invalid-token" not in str(caught.value)


def test_token_that_expires_early_is_replaced(
    token_registry: Registry, token_server: TokenServer, login: Callable[..., RegistryClient]
) -> None:
    repository = login(token_registry.host).repository(Reference(token_registry.host, "team/a"))
    token_server.lifetime = -58  # two seconds, as the registry allows a clock skew of sixty
    repository.has_blob(described(b"x"))
    time.sleep(2.1)
    token_server.lifetime = 300
    assert not repository.has_blob(described(b"x"))
    assert len(token_server.issued) == 2


def test_upload_continues_with_a_new_token(
    token_registry: Registry, token_server: TokenServer, login: Callable[..., RegistryClient]
) -> None:
    """The token expires between the start of the upload and the request with the content."""
    expired = Answer(401, {"WWW-Authenticate": f'Bearer realm="{token_server.realm}",service="registry-tests"'})
    with FaultProxy(token_registry.host, Fault("PUT", r"/v2/team/a/blobs", expired)) as proxy:
        repository = login(proxy.host).repository(Reference(proxy.host, "team/a"))
        descriptor = put(repository, noise(300_000))
        assert repository.has_blob(descriptor)
        assert len(token_server.issued) == 2


def test_expired_token_is_not_sent(token_registry: Registry, token_server: TokenServer, tmp_path: Path) -> None:
    now = [1000.0]
    authfile = tmp_path / "auth.json"
    authfile.write_text(json.dumps({"auths": {token_registry.host: {"username": "tester", "password": "secret"}}}))
    retry = RetryPolicy(clock=lambda: now[0])
    client = RegistryClient(RegistryOptions(plain_http=True, authfile=authfile), retry=retry)
    repository = client.repository(Reference(token_registry.host, "team/a"))
    put_image(repository, "1")
    for passed, tokens in ((260, 1), (20, 2)):
        now[0] += passed
        repository.has_blob(described(b"x"))
        assert len(token_server.issued) == tokens


def test_rejected_new_token_is_not_replaced(
    token_registry: Registry, token_server: TokenServer, login: Callable[..., RegistryClient]
) -> None:
    token_server.stale = 99
    with pytest.raises(AuthenticationFailed):
        login(token_registry.host).repository(Reference(token_registry.host, "team/a")).resolve("1")
    assert len(token_server.issued) == 1


def test_threads_share_tokens(
    token_registry: Registry, token_server: TokenServer, login: Callable[..., RegistryClient]
) -> None:
    client = login(token_registry.host)

    def push(number: int) -> str:
        repository = client.repository(Reference(token_registry.host, f"team/{number % 2}"))
        manifest = put_image(repository, f"t{number}", noise(5000, seed=number))
        return repository.resolve(f"t{number}").digest if manifest else ""

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(push, range(16)))) == 16
    assert len(token_server.issued) == 2


def test_docker_hub_host(login: Callable[..., RegistryClient]) -> None:
    repository = anonymous().repository(Reference.parse("alpine"))
    assert repository.name == "docker.io/library/alpine"
    assert repository._endpoint.manifest("latest") == "http://registry-1.docker.io/v2/library/alpine/manifests/latest"


def test_missing_image_with_access_is_not_found(token_registry: Registry, login: Callable[..., RegistryClient]) -> None:
    with pytest.raises(NotFound, match=r"MANIFEST_UNKNOWN|NAME_UNKNOWN"):
        login(token_registry.host).repository(Reference(token_registry.host, "team/missing")).get_manifest("1")


def test_netrc_is_ignored(
    basic_registry: Registry,
    login: Callable[..., RegistryClient],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login other password nonsense\n")
    monkeypatch.setenv("NETRC", str(netrc))
    put_image(login(basic_registry.host).repository(Reference(basic_registry.host, "team/a")), "1")
