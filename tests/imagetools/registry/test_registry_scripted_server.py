"""Pagination, redirects and malicious responses, from scripted servers."""

from __future__ import annotations

import base64
import io
import itertools
import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from opmkit.core.errors import LimitExceeded
from opmkit.http.messages import Deadline
from opmkit.imagetools.credentials import Credentials, Keychain
from opmkit.imagetools.errors import (
    AuthenticationFailed,
    DigestMismatch,
    ImageToolsError,
    InvalidImage,
    RegistryUnavailable,
)
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions, RegistryRepository, RetryPolicy, transport
from opmkit.imagetools.registry.access import Access
from opmkit.imagetools.registry.authenticator import Authenticator
from opmkit.imagetools.registry_config import RepositoryLocation
from opmkit.imagetools.spec import IndexManifest, Manifest, media_types
from tests.kit.content import described, noise
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from opmkit.imagetools.registry.messages import Request, Response

Reply = tuple[int, dict[str, str], bytes]
BLOB = noise(100_000)


@dataclass
class Script:
    """The behaviour of a server: a function from requests to replies, and the requests received."""

    reply: Callable[[str, str], Reply] = lambda method, path: (404, {}, b"")
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    connections: int = 0
    host: str = ""

    def authorizations(self) -> set[str | None]:
        return {authorization for _, _, authorization in self.requests}


def serve(script: Script) -> WebServer:
    class Handler(QuietHandler):
        def setup(self) -> None:
            script.connections += 1
            super().setup()

        def _serve(self) -> None:
            self.request_body()
            script.requests.append((self.command, self.path, self.headers.get("Authorization")))
            status, headers, body = script.reply(self.command, self.path)
            self.answer(status, body, headers)

        do_GET = do_HEAD = do_POST = do_PUT = _serve  # noqa: N815

    return WebServer(Handler)


@pytest.fixture
def main() -> Iterator[Script]:
    script = Script()
    with serve(script) as server:
        script.host = server.host
        yield script


@pytest.fixture
def other() -> Iterator[Script]:
    script = Script()
    with serve(script) as server:
        script.host = server.host
        yield script


@pytest.fixture
def repository(main: Script, tmp_path: Path) -> RegistryRepository:
    """Return a repository of ``main``, with credentials."""
    authfile = tmp_path / "auth.json"
    entry = {"auth": base64.b64encode(b"tester:s3cret").decode()}
    authfile.write_text(json.dumps({"auths": {main.host: entry}}))
    options = RegistryOptions(plain_http=True, authfile=authfile)
    client = RegistryClient(options, retry=RetryPolicy(sleep=lambda _: None))
    return client.repository(Reference(main.host, "team/app"))


def require_basic(reply: Callable[[str, str], Reply], script: Script) -> Callable[[str, str], Reply]:
    """Reply to requests with credentials only."""

    def reply_if_authorized(method: str, path: str) -> Reply:
        if script.requests[-1][2] is None:
            return 401, {"WWW-Authenticate": 'Basic realm="x"'}, b""
        return reply(method, path)

    return reply_if_authorized


def test_tags_in_pages(main: Script, repository: RegistryRepository) -> None:
    def reply(method: str, path: str) -> Reply:
        if "last=" not in path:
            link = {"Link": '</v2/team/app/tags/list?n=1000&last=b>; rel="next"'}
            return 200, link, b'{"name":"team/app","tags":["a","b"]}'
        return 200, {}, b'{"name":"team/app","tags":["c"]}'

    main.reply = reply
    assert list(repository.tags()) == ["a", "b", "c"]
    assert [path for _, path, _ in main.requests] == [
        "/v2/team/app/tags/list?n=1000",
        "/v2/team/app/tags/list?n=1000&last=b",
    ]


def test_no_tags(main: Script, repository: RegistryRepository) -> None:
    main.reply = lambda method, path: (200, {}, b'{"name":"team/app","tags":null}')
    assert list(repository.tags()) == []


@pytest.mark.parametrize(
    "page", [b"{}", b'{"repositories":["a"]}', b'{"tags":{}}', b'{"tags":["a",7]}', b'{"tags":"a"}']
)
def test_later_page_that_is_no_list_of_tags(main: Script, repository: RegistryRepository, page: bytes) -> None:
    link = {"Link": '</v2/team/app/tags/list?n=1000&last=b>; rel="next"'}
    main.reply = lambda method, path: (200, {}, page) if "last=" in path else (200, link, b'{"tags":["a","b"]}')
    with pytest.raises(RegistryUnavailable, match="team/app: invalid response: expected a list of tags"):
        repository.tags()


def test_endless_list_of_tags(main: Script, repository: RegistryRepository) -> None:
    page = json.dumps({"tags": ["x" * 10] * 100_000}).encode()
    main.reply = lambda method, path: (200, {"Link": f'<{path}&again>; rel="next"'}, page)
    with pytest.raises(LimitExceeded, match="more than 1000000 tags"):
        repository.tags()


@pytest.mark.parametrize("path", ["tags/list", "referrers"])
def test_endless_list_with_one_entry_a_page(
    main: Script, repository: RegistryRepository, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    monkeypatch.setattr(transport, "MAX_PAGES", 30)
    entry = described(b"signature", media_types.OCI_MANIFEST)

    def reply(method: str, target: str) -> Reply:
        link = f'<{target.partition("?")[0]}?last={len(main.requests)}>; rel="next"'
        index = IndexManifest.build([replace(entry, artifact_type="a/b")])
        body = index.raw if path == "referrers" else b'{"tags": ["a"]}'
        return 200, {"Link": link, "Content-Type": media_types.OCI_INDEX}, body

    main.reply = reply
    with pytest.raises(LimitExceeded, match=r"team/app.*: more than 30 pages in a list"):
        repository.tags() if path == "tags/list" else repository.referrers(entry.digest)
    assert len(main.requests) == 30


@pytest.mark.parametrize("body", [b"{}", b"[]", b'{"manifests": null}', b'{"errors": []}'])
def test_referrers_that_are_no_list(main: Script, repository: RegistryRepository, body: bytes) -> None:
    main.reply = lambda method, path: (200, {"Content-Type": "application/json"}, body)
    with pytest.raises(InvalidImage, match="list of referrers"):
        repository.referrers(described(b"image", media_types.OCI_MANIFEST).digest)


def test_later_page_that_is_no_list_of_referrers(main: Script, repository: RegistryRepository) -> None:
    index = IndexManifest.build([replace(described(b"signature", media_types.OCI_MANIFEST), artifact_type="a/b")])

    def reply(method: str, path: str) -> Reply:
        link = f'<{path}?last=1>; rel="next"'
        is_first = "last=" not in path
        return (200, {"Content-Type": media_types.OCI_INDEX, "Link": link}, index.raw) if is_first else (404, {}, b"")

    main.reply = reply
    with pytest.raises(RegistryUnavailable, match="invalid response: expected a list of referrers"):
        repository.referrers(described(b"image", media_types.OCI_MANIFEST).digest)


def test_page_for_people_instead_of_referrers(main: Script, repository: RegistryRepository) -> None:
    """GHCR, among others, has no referrers API, but responds to any path."""
    main.reply = lambda method, path: (
        (200, {"Content-Type": "text/html"}, b"<html>") if "/referrers/" in path else (404, {}, b"")
    )
    assert repository.referrers(described(b"image", media_types.OCI_MANIFEST).digest) == ()


def test_list_that_takes_too_long(main: Script, tmp_path: Path) -> None:
    seconds = itertools.count(0, 10)
    retry = RetryPolicy(sleep=lambda _: None, clock=lambda: next(seconds))
    repository = RegistryClient(RegistryOptions(plain_http=True), retry=retry).repository(Reference(main.host, "a"))
    main.reply = lambda method, path: (200, {"Link": f'<{path}&again>; rel="next"'}, b'{"tags": ["a"]}')
    with pytest.raises(RegistryUnavailable, match="timed out"):
        repository.tags()
    assert len(main.requests) < 60


def test_oversized_page_of_tags(main: Script, repository: RegistryRepository) -> None:
    main.reply = lambda method, path: (200, {}, b" " * (5 << 20))
    with pytest.raises(LimitExceeded, match="exceeds the limit"):
        repository.tags()


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"", b"[" * 100_000])
def test_response_that_is_not_a_json_object(main: Script, repository: RegistryRepository, body: bytes) -> None:
    main.reply = lambda method, path: (200, {}, body)
    with pytest.raises(RegistryUnavailable, match="expected a JSON object"):
        repository.tags()


def test_next_page_with_an_invalid_url(main: Script, repository: RegistryRepository) -> None:
    main.reply = lambda method, path: (200, {"Link": '<http://[::1>; rel="next"'}, b'{"tags":["a"]}')
    with pytest.raises(RegistryUnavailable, match="invalid URL"):
        repository.tags()


def test_page_that_was_read_before(main: Script, repository: RegistryRepository) -> None:
    pages = itertools.cycle(["?n=2", "?n=1"])
    main.reply = lambda method, path: (200, {"Link": f'<{next(pages)}>; rel="next"'}, b'{"tags":["a"]}')
    with pytest.raises(RegistryUnavailable, match="a list continues with an earlier page"):
        repository.tags()


@pytest.mark.parametrize(
    "link", ["more", "</v2/team/app/tags/list?last=a>", "/v2/_catalog?last=a; rel=next", "<>; rel=next"]
)
def test_link_that_is_not_understood(main: Script, repository: RegistryRepository, link: str) -> None:
    main.reply = lambda method, path: (200, {"Link": link}, b'{"tags": ["a"], "repositories": ["a"]}')
    with pytest.raises(RegistryUnavailable, match="invalid Link header"):
        repository.tags()
    with pytest.raises(RegistryUnavailable, match="invalid Link header"):
        repository.registry_repositories()


@pytest.mark.parametrize("relation", ['rel="last"', "REL=Next", 'rel="next last"'])
def test_relations_of_links(main: Script, repository: RegistryRepository, relation: str) -> None:
    link = {"Link": f"</v2/team/app/tags/list?last=a>; {relation}"}
    main.reply = lambda method, path: (200, {} if "last" in path else link, b'{"tags": ["a"]}')
    assert list(repository.tags()) == ["a"] * (1 if 'rel="last' in relation else 2)


def test_next_page_on_another_host_gets_no_credentials(
    main: Script, other: Script, repository: RegistryRepository
) -> None:
    link = {"Link": f'<http://{other.host}/v2/team/app/tags/list>; rel="next"'}
    main.reply = require_basic(lambda method, path: (200, link, b'{"tags":["a"]}'), main)
    other.reply = lambda method, path: (200, {}, b'{"tags":["b"]}')
    assert list(repository.tags()) == ["a", "b"]
    assert other.authorizations() == {None}


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirect_to_another_host_gets_no_credentials(
    main: Script, other: Script, repository: RegistryRepository, status: int
) -> None:
    location = {"Location": f"http://{other.host}/storage?signature=s3cret"}
    main.reply = require_basic(lambda method, path: (status, location, b""), main)
    other.reply = lambda method, path: (200, {}, BLOB)
    with repository.open_blob(described(BLOB)) as stream:
        assert stream.read() == BLOB
    assert other.authorizations() == {None}
    assert main.authorizations() == {None, f"Basic {base64.b64encode(b'tester:s3cret').decode()}"}


def test_redirect_within_the_registry_gets_credentials(main: Script, repository: RegistryRepository) -> None:
    def reply(method: str, path: str) -> Reply:
        return (200, {}, BLOB) if path == "/moved" else (307, {"Location": "/moved"}, b"")

    main.reply = require_basic(reply, main)
    with repository.open_blob(described(BLOB)) as stream:
        assert stream.read() == BLOB


@pytest.mark.parametrize("challenge", ['Basic realm="give"', 'Bearer realm="http://127.0.0.1:1/token"'])
def test_challenge_of_another_host_is_ignored(
    main: Script, other: Script, repository: RegistryRepository, challenge: str
) -> None:
    main.reply = lambda method, path: (307, {"Location": f"http://{other.host}/x?signature=s3cret"}, b"")
    other.reply = lambda method, path: (401, {"WWW-Authenticate": challenge}, b"")
    with pytest.raises(
        RegistryUnavailable, match=f"access denied by {other.host}, where the registry redirects to"
    ) as caught:
        repository.open_blob(described(BLOB))
    assert other.authorizations() == {None}
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("location", ["file:///etc/passwd", "http://[::1", "ftp://x/y", "http://*.x/", "//"])
def test_redirect_to_an_invalid_url(main: Script, repository: RegistryRepository, location: str) -> None:
    main.reply = lambda method, path: (307, {"Location": location}, b"")
    with pytest.raises(RegistryUnavailable):
        repository.open_blob(described(BLOB))


def test_body_of_a_redirect_is_not_read(main: Script, repository: RegistryRepository) -> None:
    main.reply = lambda method, path: (
        (200, {}, BLOB) if path == "/moved" else (307, {"Location": "/moved", "Content-Length": "1000000000"}, b"")
    )
    with repository.open_blob(described(BLOB)) as stream:
        assert stream.read() == BLOB


def test_circular_redirects(main: Script, repository: RegistryRepository) -> None:
    main.reply = lambda method, path: (307, {"Location": path}, b"")
    with pytest.raises(RegistryUnavailable, match="more than 10 redirects"):
        repository.resolve("1")
    assert len(main.requests) == 10


def test_upload_to_another_host_gets_no_credentials(
    main: Script, other: Script, repository: RegistryRepository
) -> None:
    def reply(method: str, path: str) -> Reply:
        location = {"Location": f"http://{other.host}/upload?state=s3cret"}
        return (202, location, b"") if method == "POST" else (404, {}, b"")

    main.reply = require_basic(reply, main)
    other.reply = lambda method, path: (201, {}, b"")
    repository.put_blob(described(BLOB), lambda: io.BytesIO(BLOB))
    assert other.requests == [("PUT", f"/upload?state=s3cret&digest=sha256%3A{described(BLOB).digest[7:]}", None)]


def test_upload_without_a_location(main: Script, repository: RegistryRepository) -> None:
    main.reply = lambda method, path: (202 if method == "POST" else 404, {}, b"")
    with pytest.raises(RegistryUnavailable, match="no Location"):
        repository.put_blob(described(BLOB), lambda: io.BytesIO(BLOB))


@pytest.mark.parametrize(
    ("challenge", "message"),
    [
        ('Bearer realm="ftp://x/token"', "invalid URL"),
        ('Bearer realm="http://[::1"', "invalid URL"),
        ('Bearer realm="http://user:a/pw@127.0.0.1:9/x"', "invalid URL"),
        ("Bearer", "invalid URL"),
        ("Negotiate", "unsupported authentication scheme"),
        ("", "unsupported authentication scheme"),
    ],
)
def test_invalid_or_unsupported_challenge(
    main: Script, repository: RegistryRepository, challenge: str, message: str
) -> None:
    main.reply = lambda method, path: (401, {"WWW-Authenticate": challenge}, b"")
    with pytest.raises((AuthenticationFailed, RegistryUnavailable), match=message):
        repository.resolve("1")


@pytest.mark.parametrize(
    "body", [b'{"token":""}', b'{"token":7}', b'{"token":"a\\r\\nX-Evil: 1"}', '{"token":"\u00e9"}'.encode(), b"{}"]
)
def test_invalid_token(main: Script, other: Script, repository: RegistryRepository, body: bytes) -> None:
    main.reply = lambda method, path: (401, {"WWW-Authenticate": f'Bearer realm="http://{other.host}/t"'}, b"")
    other.reply = lambda method, path: (200, {}, body)
    with pytest.raises(AuthenticationFailed, match="sent no valid token"):
        repository.resolve("1")


@pytest.mark.parametrize("status", [400, 401, 403])
def test_token_server_denies_access(main: Script, other: Script, repository: RegistryRepository, status: int) -> None:
    main.reply = lambda method, path: (401, {"WWW-Authenticate": f'Bearer realm="http://{other.host}/t"'}, b"")
    other.reply = lambda method, path: (status, {}, b'{"error":"invalid_grant"}')
    with pytest.raises(AuthenticationFailed, match="access denied by the token server"):
        repository.resolve("1")
    assert len(other.requests) == 1


def test_token_server_redirects_to_another_host(main: Script, other: Script, repository: RegistryRepository) -> None:
    main.reply = lambda method, path: (
        (307, {"Location": f"http://{other.host}/steal"}, b"")
        if path.startswith("/token")
        else (401, {"WWW-Authenticate": f'Bearer realm="http://{main.host}/token"'}, b"")
    )
    with pytest.raises(RegistryUnavailable, match="another host"):
        repository.resolve("1")
    assert other.requests == []


def test_access_token_and_scope_of_another_type(main: Script, other: Script, repository: RegistryRepository) -> None:
    realm = f"http://{other.host}/t?client=7"
    challenge = {"WWW-Authenticate": f'Bearer realm="{realm}",service="s",scope="aws repository:x:pull"'}

    def reply(method: str, path: str) -> Reply:
        if main.requests[-1][2] != "Bearer good":
            return 401, challenge, b""
        return 200, {}, b'{"tags":["a"]}'

    main.reply = reply
    other.reply = lambda method, path: (200, {}, b'{"access_token":"good","expires_in":"never"}')
    assert list(repository.tags()) == ["a"]
    ((_, path, authorization),) = other.requests
    assert path == "/t?client=7&service=s&scope=repository%3Ateam%2Fapp%3Apull&scope=aws"
    assert authorization == f"Basic {base64.b64encode(b'tester:s3cret').decode()}"


def test_no_credentials_over_http_to_the_token_server_of_an_https_registry() -> None:
    class FixedKeychain(Keychain):
        def find(self, registry: str, repository: str) -> Credentials | None:
            return Credentials("tester", "s3cret")

    def send(request: Request, deadline: Deadline) -> Response:
        raise AssertionError(request)

    authenticator = Authenticator(FixedKeychain(), send, lambda: 0.0, plain_http=False)
    with pytest.raises(AuthenticationFailed, match="refusing to send credentials over plain HTTP"):
        authenticator.respond(
            'Bearer realm="http://x/t"', Access(RepositoryLocation("x", "a")), None, Deadline(9, lambda: 0.0)
        )


def test_connections_are_reused(main: Script, repository: RegistryRepository) -> None:
    def reply(method: str, path: str) -> Reply:
        if path.endswith("/other"):
            return 200, {}, BLOB
        if "/blobs/sha256" in path and method == "GET":
            return 307, {"Location": "/other"}, b""
        return {"HEAD": (404, {}, b""), "POST": (202, {"Location": "/u"}, b""), "PUT": (201, {}, b"")}[method]

    main.reply = require_basic(reply, main)
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
    monkeypatch.setenv("no_proxy", "direct.invalid")
    client = RegistryClient(RegistryOptions(plain_http=True), retry=RetryPolicy(max_attempts_unreachable=1))
    main.reply = lambda method, path: (200, {}, b'{"tags":["a"]}')
    assert list(client.repository(Reference("registry.invalid", "a")).tags()) == ["a"]
    assert main.requests == [("GET", "http://registry.invalid/v2/a/tags/list?n=1000", None)]
    with pytest.raises(RegistryUnavailable):
        client.repository(Reference("direct.invalid", "a")).tags()


def test_log_has_no_secrets(
    main: Script, other: Script, repository: RegistryRepository, caplog: pytest.LogCaptureFixture
) -> None:
    location = {"Location": f"http://{other.host}/storage?signature=s3cret"}
    main.reply = require_basic(lambda method, path: (307, location, b""), main)
    other.reply = lambda method, path: (503, {}, b"")
    with caplog.at_level(logging.DEBUG, logger="opmkit"), pytest.raises(ImageToolsError) as caught:
        repository.open_blob(described(BLOB))
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("opmkit")]
    assert lines
    assert "s3cret" not in "".join(lines) + str(caught.value) + repr(caught.value)
    assert caught.value.__cause__ is None


def accept_manifests(digest: str | None, media_type: str = media_types.OCI_MANIFEST) -> Callable[[str, str], Reply]:
    """Accept every manifest without sending its digest, but resolve everything to ``digest``, or to nothing."""

    def reply(method: str, path: str) -> Reply:
        if method == "PUT":
            return 201, {}, b""
        headers = {"Docker-Content-Digest": digest or "", "Content-Type": media_type, "Content-Length": "2"}
        return (200 if digest else 404), headers, b""

    return reply


OTHER_DIGEST = f"sha256:{'1' * 64}"
PUSHED = Manifest.build(described(BLOB), ())


@pytest.mark.parametrize("tag", ["1", None])
def test_manifest_that_is_accepted_but_not_stored(
    main: Script, repository: RegistryRepository, tag: str | None
) -> None:
    main.reply = accept_manifests(None)
    with pytest.raises(DigestMismatch, match=f"accepted the manifest {PUSHED.digest} but did not store it"):
        repository.put_manifest(PUSHED, tag)
    assert [method for method, _, _ in main.requests] == ["PUT", "HEAD"]


def test_tag_names_another_manifest_after_the_push(main: Script, repository: RegistryRepository) -> None:
    main.reply = accept_manifests(OTHER_DIGEST)
    with pytest.raises(DigestMismatch, match=f"team/app:1: .* {PUSHED.digest} but stored {OTHER_DIGEST}"):
        repository.put_manifest(PUSHED, "1")


@pytest.mark.parametrize("sent_digest", [OTHER_DIGEST, "", "nonsense"])
def test_push_is_verified_unless_the_response_has_the_digest(
    main: Script, repository: RegistryRepository, sent_digest: str
) -> None:
    stored = accept_manifests(PUSHED.digest)

    def reply(method: str, path: str) -> Reply:
        return (201, {"Docker-Content-Digest": sent_digest}, b"") if method == "PUT" else stored(method, path)

    main.reply = reply
    assert repository.put_manifest(PUSHED, "1") == PUSHED.descriptor
    assert [method for method, _, _ in main.requests] == ["PUT", "HEAD"]
    main.requests.clear()
    main.reply = lambda method, path: (201, {"Docker-Content-Digest": PUSHED.digest}, b"")
    assert repository.put_manifest(PUSHED, "1") == PUSHED.descriptor
    assert [method for method, _, _ in main.requests] == ["PUT"]


@pytest.mark.parametrize("digits", [1, 400, 4000])
def test_token_with_a_huge_lifetime(main: Script, other: Script, repository: RegistryRepository, digits: int) -> None:
    def reply(method: str, path: str) -> Reply:
        if main.requests[-1][2] != "Bearer good":
            return 401, {"WWW-Authenticate": f'Bearer realm="http://{other.host}/t"'}, b""
        return 200, {}, b'{"tags":["a"]}'

    main.reply = reply
    other.reply = lambda method, path: (200, {}, b'{"token":"good","expires_in":%s}' % (b"9" * digits))
    assert list(repository.tags()) == ["a"]
    assert list(repository.tags()) == ["a"]
    assert len(other.requests) == 1
