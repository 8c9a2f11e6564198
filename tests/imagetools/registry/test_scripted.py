"""What Debian's registry doesn't do, from small servers that do: paging, redirects, and answers of ill will."""

from __future__ import annotations

import base64
import io
import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.auth import Credentials, Keychain
from opmkit.imagetools.errors import (
    AuthenticationFailed,
    DigestMismatch,
    ImageToolsError,
    LimitExceeded,
    RegistryUnavailable,
)
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions, RegistryRepository, RetryPolicy
from opmkit.imagetools.registry.access import Access
from opmkit.imagetools.registry.authenticator import Authenticator
from opmkit.imagetools.registry.retry import Deadline
from opmkit.imagetools.registry_config import RepositoryLocation
from opmkit.imagetools.spec import Manifest, media_types
from tests.kit.content import described, noise
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from opmkit.imagetools.registry.messages import Answer, Request

Reply = tuple[int, dict[str, str], bytes]
BLOB = noise(100_000)


@dataclass
class Script:
    """A server that answers by a function of the request, and keeps what it was asked."""

    reply: Callable[[str, str], Reply] = lambda method, path: (404, {}, b"")
    asked: list[tuple[str, str, str | None]] = field(default_factory=list)
    connections: int = 0
    host: str = ""

    def authorizations(self) -> set[str | None]:
        return {authorization for _, _, authorization in self.asked}


def serving(script: Script) -> WebServer:
    class Handler(QuietHandler):
        def setup(self) -> None:
            script.connections += 1
            super().setup()

        def _serve(self) -> None:
            self.request_body()
            script.asked.append((self.command, self.path, self.headers.get("Authorization")))
            status, headers, body = script.reply(self.command, self.path)
            self.answer(status, body, headers)

        do_GET = do_HEAD = do_POST = do_PUT = _serve  # noqa: N815

    return WebServer(Handler)


@pytest.fixture
def main() -> Iterator[Script]:
    script = Script()
    with serving(script) as server:
        script.host = server.host
        yield script


@pytest.fixture
def other() -> Iterator[Script]:
    script = Script()
    with serving(script) as server:
        script.host = server.host
        yield script


@pytest.fixture
def repository(main: Script, tmp_path: Path) -> RegistryRepository:
    """A repository of ``main``, with credentials for it."""
    authfile = tmp_path / "auth.json"
    entry = {"auth": base64.b64encode(b"tester:s3cret").decode()}
    authfile.write_text(json.dumps({"auths": {main.host: entry}}))
    options = RegistryOptions(plain_http=True, authfile=authfile)
    client = RegistryClient(options, retry=RetryPolicy(sleep=lambda _: None))
    return client.repository(Reference(main.host, "team/app"))


def basic(reply: Callable[[str, str], Reply], script: Script) -> Callable[[str, str], Reply]:
    """Answer only requests with credentials."""

    def guarded(method: str, path: str) -> Reply:
        if script.asked[-1][2] is None:
            return 401, {"WWW-Authenticate": 'Basic realm="x"'}, b""
        return reply(method, path)

    return guarded


def test_tags_come_in_pages(main: Script, repository: RegistryRepository) -> None:
    def reply(method: str, path: str) -> Reply:
        if "last=" not in path:
            link = {"Link": '</v2/team/app/tags/list?n=1000&last=b>; rel="next"'}
            return 200, link, b'{"name":"team/app","tags":["a","b"]}'
        return 200, {}, b'{"name":"team/app","tags":["c",7]}'

    main.reply = reply
    assert list(repository.tags()) == ["a", "b", "c"]
    assert [path for _, path, _ in main.asked] == [
        "/v2/team/app/tags/list?n=1000",
        "/v2/team/app/tags/list?n=1000&last=b",
    ]


def test_no_tags(main: Script, repository: RegistryRepository) -> None:
    main.reply = lambda method, path: (200, {}, b'{"name":"team/app","tags":null}')
    assert list(repository.tags()) == []


def test_a_list_of_tags_without_end(main: Script, repository: RegistryRepository) -> None:
    page = json.dumps({"tags": ["x" * 10] * 100_000}).encode()
    main.reply = lambda method, path: (200, {"Link": '</v2/team/app/tags/list?again>; rel="next"'}, page)
    with pytest.raises(LimitExceeded, match="more than 1000000 tags"):
        repository.tags()


def test_a_page_of_tags_that_is_too_long(main: Script, repository: RegistryRepository) -> None:
    main.reply = lambda method, path: (200, {}, b" " * (5 << 20))
    with pytest.raises(LimitExceeded, match="longer than"):
        repository.tags()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"", b"[" * 100_000])
def test_an_answer_that_is_no_json_object(main: Script, repository: RegistryRepository, body: bytes) -> None:
    main.reply = lambda method, path: (200, {}, body)
    with pytest.raises(RegistryUnavailable, match="no JSON object"):
        repository.tags()


def test_the_next_page_nowhere(main: Script, repository: RegistryRepository) -> None:
    main.reply = lambda method, path: (200, {"Link": '<http://[::1>; rel="next"'}, b'{"tags":["a"]}')
    with pytest.raises(RegistryUnavailable, match="goes on nowhere"):
        repository.tags()


def test_the_next_page_elsewhere_gets_no_credentials(
    main: Script, other: Script, repository: RegistryRepository
) -> None:
    link = {"Link": f'<http://{other.host}/v2/team/app/tags/list>; rel="next"'}
    main.reply = basic(lambda method, path: (200, link, b'{"tags":["a"]}'), main)
    other.reply = lambda method, path: (200, {}, b'{"tags":["b"]}')
    assert list(repository.tags()) == ["a", "b"]
    assert other.authorizations() == {None}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_blob_in_other_storage_gets_no_credentials(
    main: Script, other: Script, repository: RegistryRepository, status: int
) -> None:
    location = {"Location": f"http://{other.host}/storage?signature=s3cret"}
    main.reply = basic(lambda method, path: (status, location, b""), main)
    other.reply = lambda method, path: (200, {}, BLOB)
    with repository.open_blob(described(BLOB)) as stream:
        assert stream.read() == BLOB
    assert other.authorizations() == {None}
    assert main.authorizations() == {None, f"Basic {base64.b64encode(b'tester:s3cret').decode()}"}


def test_a_redirect_within_the_registry_keeps_the_credentials(main: Script, repository: RegistryRepository) -> None:
    def reply(method: str, path: str) -> Reply:
        return (200, {}, BLOB) if path == "/moved" else (307, {"Location": "/moved"}, b"")

    main.reply = basic(reply, main)
    with repository.open_blob(described(BLOB)) as stream:
        assert stream.read() == BLOB


@pytest.mark.parametrize("challenge", ['Basic realm="give"', 'Bearer realm="http://127.0.0.1:1/token"'])
def test_other_storage_can_not_ask_for_credentials(
    main: Script, other: Script, repository: RegistryRepository, challenge: str
) -> None:
    main.reply = lambda method, path: (307, {"Location": f"http://{other.host}/x?signature=s3cret"}, b"")
    other.reply = lambda method, path: (401, {"WWW-Authenticate": challenge}, b"")
    with pytest.raises(RegistryUnavailable, match=f"{other.host}, where the registry redirects to, denies") as caught:
        repository.open_blob(described(BLOB))
    assert other.authorizations() == {None}
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("location", ["file:///etc/passwd", "http://[::1", "ftp://x/y", "http://*.x/", "//"])
def test_a_redirect_to_nowhere(main: Script, repository: RegistryRepository, location: str) -> None:
    main.reply = lambda method, path: (307, {"Location": location}, b"")
    with pytest.raises(RegistryUnavailable):
        repository.open_blob(described(BLOB))


def test_a_redirect_without_end(main: Script, repository: RegistryRepository) -> None:
    """The body of a redirect is not read."""
    main.reply = lambda method, path: (
        (200, {}, BLOB) if path == "/moved" else (307, {"Location": "/moved", "Content-Length": "1000000000"}, b"")
    )
    with repository.open_blob(described(BLOB)) as stream:
        assert stream.read() == BLOB


def test_a_ring_of_redirects(main: Script, repository: RegistryRepository) -> None:
    main.reply = lambda method, path: (307, {"Location": path}, b"")
    with pytest.raises(RegistryUnavailable, match="redirects more than 5 times"):
        repository.resolve("1")
    assert len(main.asked) == 5


def test_an_upload_that_leads_elsewhere_takes_no_credentials(
    main: Script, other: Script, repository: RegistryRepository
) -> None:
    def reply(method: str, path: str) -> Reply:
        location = {"Location": f"http://{other.host}/upload?state=s3cret"}
        return (202, location, b"") if method == "POST" else (404, {}, b"")

    main.reply = basic(reply, main)
    other.reply = lambda method, path: (201, {}, b"")
    repository.put_blob(described(BLOB), lambda: io.BytesIO(BLOB))
    assert other.asked == [("PUT", f"/upload?state=s3cret&digest=sha256%3A{described(BLOB).digest[7:]}", None)]


def test_an_upload_that_leads_nowhere(main: Script, repository: RegistryRepository) -> None:
    main.reply = lambda method, path: (202 if method == "POST" else 404, {}, b"")
    with pytest.raises(RegistryUnavailable, match="where to send"):
        repository.put_blob(described(BLOB), lambda: io.BytesIO(BLOB))


@pytest.mark.parametrize(
    ("challenge", "message"),
    [
        ('Bearer realm="ftp://x/token"', "address that can't be used"),
        ('Bearer realm="http://[::1"', "address that can't be used"),
        ("Bearer", "address that can't be used"),
        ("Negotiate", "not known here"),
        ("", "not known here"),
    ],
)
def test_a_challenge_that_can_not_be_met(
    main: Script, repository: RegistryRepository, challenge: str, message: str
) -> None:
    main.reply = lambda method, path: (401, {"WWW-Authenticate": challenge}, b"")
    with pytest.raises((AuthenticationFailed, RegistryUnavailable), match=message):
        repository.resolve("1")


@pytest.mark.parametrize(
    "body", [b'{"token":""}', b'{"token":7}', b'{"token":"a\\r\\nX-Evil: 1"}', '{"token":"\u00e9"}'.encode(), b"{}"]
)
def test_a_token_that_is_none(main: Script, other: Script, repository: RegistryRepository, body: bytes) -> None:
    main.reply = lambda method, path: (401, {"WWW-Authenticate": f'Bearer realm="http://{other.host}/t"'}, b"")
    other.reply = lambda method, path: (200, {}, body)
    with pytest.raises(AuthenticationFailed, match="gives no token"):
        repository.resolve("1")


@pytest.mark.parametrize("status", [400, 401, 403])
def test_a_token_server_that_refuses(main: Script, other: Script, repository: RegistryRepository, status: int) -> None:
    main.reply = lambda method, path: (401, {"WWW-Authenticate": f'Bearer realm="http://{other.host}/t"'}, b"")
    other.reply = lambda method, path: (status, {}, b'{"error":"invalid_grant"}')
    with pytest.raises(AuthenticationFailed, match="the token server refuses access"):
        repository.resolve("1")
    assert len(other.asked) == 1


def test_a_token_server_that_leads_elsewhere(main: Script, other: Script, repository: RegistryRepository) -> None:
    main.reply = lambda method, path: (
        (307, {"Location": f"http://{other.host}/steal"}, b"")
        if path.startswith("/token")
        else (401, {"WWW-Authenticate": f'Bearer realm="http://{main.host}/token"'}, b"")
    )
    with pytest.raises(RegistryUnavailable, match="another host"):
        repository.resolve("1")
    assert other.asked == []


def test_an_access_token_and_a_scope_of_another_kind(
    main: Script, other: Script, repository: RegistryRepository
) -> None:
    realm = f"http://{other.host}/t?client=7"
    challenge = {"WWW-Authenticate": f'Bearer realm="{realm}",service="s",scope="aws repository:x:pull"'}

    def reply(method: str, path: str) -> Reply:
        if main.asked[-1][2] != "Bearer good":
            return 401, challenge, b""
        return 200, {}, b'{"tags":["a"]}'

    main.reply = reply
    other.reply = lambda method, path: (200, {}, b'{"access_token":"good","expires_in":"never"}')
    assert list(repository.tags()) == ["a"]
    ((_, path, authorization),) = other.asked
    assert path == "/t?client=7&service=s&scope=repository%3Ateam%2Fapp%3Apull&scope=aws"
    assert authorization == f"Basic {base64.b64encode(b'tester:s3cret').decode()}"


def test_no_credentials_without_encryption_to_the_token_server_of_a_https_registry() -> None:
    class Known(Keychain):
        def find(self, registry: str, repository: str) -> Credentials | None:
            return Credentials("tester", "s3cret")

    def fetch(request: Request, deadline: Deadline) -> Answer:
        raise AssertionError(request)

    authenticator = Authenticator(Known(), fetch, lambda: 0.0, plain_http=False)
    with pytest.raises(AuthenticationFailed, match="not sent without encryption"):
        authenticator.answer(
            'Bearer realm="http://x/t"', Access(RepositoryLocation("x", "a")), None, Deadline(9, lambda: 0.0)
        )


def test_connections_are_used_again(main: Script, repository: RegistryRepository) -> None:
    def reply(method: str, path: str) -> Reply:
        if path.endswith("/elsewhere"):
            return 200, {}, BLOB
        if "/blobs/sha256" in path and method == "GET":
            return 307, {"Location": "/elsewhere"}, b""
        return {"HEAD": (404, {}, b""), "POST": (202, {"Location": "/u"}, b""), "PUT": (201, {}, b"")}[method]

    main.reply = basic(reply, main)
    for _ in range(3):
        repository.put_blob(described(BLOB), lambda: io.BytesIO(BLOB))
        assert not repository.has_blob(described(BLOB))
        with repository.open_blob(described(BLOB)) as stream:
            assert stream.read() == BLOB
    assert main.connections == 1


def test_proxies_come_from_the_environment(
    main: Script, repository: RegistryRepository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://{main.host}")
    monkeypatch.setenv("no_proxy", "away.invalid")
    client = RegistryClient(RegistryOptions(plain_http=True), retry=RetryPolicy(attempts_unreachable=1))
    main.reply = lambda method, path: (200, {}, b'{"tags":["a"]}')
    assert list(client.repository(Reference("registry.invalid", "a")).tags()) == ["a"]
    assert main.asked == [("GET", "http://registry.invalid/v2/a/tags/list?n=1000", None)]
    with pytest.raises(RegistryUnavailable):
        client.repository(Reference("away.invalid", "a")).tags()


def test_no_secret_in_the_log(
    main: Script, other: Script, repository: RegistryRepository, caplog: pytest.LogCaptureFixture
) -> None:
    location = {"Location": f"http://{other.host}/storage?signature=s3cret"}
    main.reply = basic(lambda method, path: (307, location, b""), main)
    other.reply = lambda method, path: (503, {}, b"")
    with caplog.at_level(logging.DEBUG, logger="opmkit"), pytest.raises(ImageToolsError) as caught:
        repository.open_blob(described(BLOB))
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("opmkit")]
    assert lines
    assert "s3cret" not in "".join(lines) + str(caught.value) + repr(caught.value)
    assert caught.value.__cause__ is None


def stores(digest: str | None, media_type: str = media_types.OCI_MANIFEST) -> Callable[[str, str], Reply]:
    """Accept every manifest, and have that of ``digest`` or none there; name no digest in the answer to the PUT."""

    def reply(method: str, path: str) -> Reply:
        if method == "PUT":
            return 201, {}, b""
        headers = {"Docker-Content-Digest": digest or "", "Content-Type": media_type, "Content-Length": "2"}
        return (200 if digest else 404), headers, b""

    return reply


OTHER_DIGEST = f"sha256:{'1' * 64}"
PUSHED = Manifest.build(described(BLOB), ())


@pytest.mark.parametrize("tag", ["1", None])
def test_a_manifest_that_the_registry_accepts_and_does_not_store(
    main: Script, repository: RegistryRepository, tag: str | None
) -> None:
    main.reply = stores(None)
    with pytest.raises(DigestMismatch, match=f"accepted the manifest {PUSHED.digest} but did not store it"):
        repository.put_manifest(PUSHED, tag)
    assert [method for method, _, _ in main.asked] == ["PUT", "HEAD"]


def test_a_tag_that_names_another_manifest_after_the_push(main: Script, repository: RegistryRepository) -> None:
    main.reply = stores(OTHER_DIGEST)
    with pytest.raises(DigestMismatch, match=f"team/app:1: .* {PUSHED.digest} but has {OTHER_DIGEST} there"):
        repository.put_manifest(PUSHED, "1")


@pytest.mark.parametrize("named", [OTHER_DIGEST, "", "nonsense"])
def test_a_push_is_verified_unless_the_answer_names_the_digest(
    main: Script, repository: RegistryRepository, named: str
) -> None:
    stored = stores(PUSHED.digest)

    def reply(method: str, path: str) -> Reply:
        return (201, {"Docker-Content-Digest": named}, b"") if method == "PUT" else stored(method, path)

    main.reply = reply
    assert repository.put_manifest(PUSHED, "1") == PUSHED.descriptor
    assert [method for method, _, _ in main.asked] == ["PUT", "HEAD"]
    main.asked.clear()
    main.reply = lambda method, path: (201, {"Docker-Content-Digest": PUSHED.digest}, b"")
    assert repository.put_manifest(PUSHED, "1") == PUSHED.descriptor
    assert [method for method, _, _ in main.asked] == ["PUT"]


@pytest.mark.parametrize("digits", [1, 400, 4000])
def test_a_token_with_a_lifetime_beyond_any_clock(
    main: Script, other: Script, repository: RegistryRepository, digits: int
) -> None:
    def reply(method: str, path: str) -> Reply:
        if main.asked[-1][2] != "Bearer good":
            return 401, {"WWW-Authenticate": f'Bearer realm="http://{other.host}/t"'}, b""
        return 200, {}, b'{"tags":["a"]}'

    main.reply = reply
    other.reply = lambda method, path: (200, {}, b'{"token":"good","expires_in":%s}' % (b"9" * digits))
    assert list(repository.tags()) == ["a"]
    assert list(repository.tags()) == ["a"]
    assert len(other.asked) == 1
