"""oras-py's client over the transport of this package, for programs that are written with oras-py."""

from __future__ import annotations

import io
import os
import re
from contextlib import contextmanager
from dataclasses import replace
from http.client import responses
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import urlsplit

import oras.defaults
import oras.provider
import requests

from opmkit.imagetools.credentials import Credentials, Keychain
from opmkit.imagetools.errors import AuthenticationFailed, InsecureTransport, NotFound, RegistryUnavailable
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry.access import PULL, PUSH, Access
from opmkit.imagetools.registry.client import RegistryClient
from opmkit.imagetools.registry.messages import Request, location_header, registry_host
from opmkit.imagetools.registry.options import RegistryOptions
from opmkit.imagetools.registry_config import RegistrySettings, RepositoryLocation
from opmkit.imagetools.spec import MAX_MANIFEST_SIZE, Descriptor, check_digest, is_digest

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from os import PathLike

_PATH = re.compile(r"/v2/(?P<repository>.+)/(?P<kind>manifests|blobs|tags|referrers)/(?P<identifier>.+)")
_READS = frozenset({"GET", "HEAD"})
_ACTIONS = {"GET": PULL, "HEAD": PULL, "DELETE": PULL | {"delete"}}
_RETURNED = frozenset(range(200, 500)) - {401, 403, 407, 408, 425, 429}
"""Status codes that oras-py checks itself."""
_DOCKER_HUB = frozenset({"index.docker.io", "registry-1.docker.io"})
_REPLACED_HEADERS = frozenset({"authorization", "content-length", "host"})


class OrasRegistry(oras.provider.Registry):  # type: ignore[misc]
    """A client with the interface of ``oras.provider.Registry``, which oras-py also calls ``OrasClient``.

    Requests run over the transport of `RegistryClient`: credentials of the machine, a token per repository and action,
    registries.conf with mirrors, proxies, retries within a deadline, and limits on responses. Manifests and blobs are
    verified against their digests. It is not thread-safe, as that of oras-py.
    """

    def __init__(
        self,
        hostname: str | None = None,
        insecure: bool = False,
        tls_verify: bool | str = True,
        auth_backend: str = "token",
        *,
        options: RegistryOptions | None = None,
    ) -> None:
        """Create a client, without sending anything yet.

        Args:
            hostname: The registry of names without one.
            insecure: Whether to use HTTP instead of HTTPS.
            tls_verify: Whether to verify certificates, or a file of certificate authorities to trust as well; by
                default the one in ``REQUESTS_CA_BUNDLE`` or ``CURL_CA_BUNDLE``, as in requests.
            auth_backend: Ignored, since the registry's challenge selects the scheme.
            options: Further options.

        Raises:
            ImageToolsError: A certificate file cannot be read or is invalid.
        """
        super().__init__(hostname, insecure, tls_verify)
        options = options or RegistryOptions()
        ca_file = tls_verify if isinstance(tls_verify, str) else options.ca_file or _requests_authorities()
        options = replace(
            options,
            plain_http=options.plain_http or insecure,
            verify_tls=options.verify_tls and bool(tls_verify),
            ca_file=Path(ca_file) if ca_file and tls_verify else None,
        )
        settings = RegistrySettings()
        self.auth = _Logins(options.authfile, hostname or "", settings)
        self._client = RegistryClient(options, settings=settings, keychain=self.auth)

    def do_request(
        self,
        url: str,
        method: str = "GET",
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        json: object = None,
        stream: bool = False,
    ) -> requests.Response:
        """Send a request and return its response, which may have a status such as 404.

        Raises:
            requests.exceptions.SSLError: The registry does not use TLS, or its certificate is not trusted.
            requests.exceptions.ConnectionError: The registry cannot be reached, or keeps failing.
            ValueError: The registry denies access.
            OpmkitError: The content does not match its digest or is too large, or another error.
        """
        sent = requests.Request(method, url, dict(headers or {}), data=data, json=json).prepare()
        target = _PATH.fullmatch(urlsplit(url).path)
        with _errors_of_requests():
            if target and method in _READS and target["kind"] in ("manifests", "blobs"):
                response = self._read(sent, **target.groupdict())
            else:
                response = self._send(sent, target)
            if not stream:
                _ = response.content  # reads and verifies it
            return response

    def upload_blob(
        self,
        blob: str | PathLike[str],
        container: Any,
        layer: dict[str, Any],
        do_chunked: bool = False,
        chunk_size: int = oras.defaults.default_chunksize,
    ) -> requests.Response:
        """Upload a file as a blob unless the registry has it, in constant memory."""
        if do_chunked:
            return cast("requests.Response", super().upload_blob(blob, container, layer, do_chunked, chunk_size))

        def open_file() -> BinaryIO:
            return Path(blob).open("rb")

        container = self.get_container(container)
        descriptor = Descriptor(layer["mediaType"], layer["digest"], layer["size"])
        with _errors_of_requests():
            repository = self._client.target(_reference(container.registry, container.api_prefix))
            repository.put_blob(descriptor, open_file)
        url = f"{self.prefix}://{container.get_blob_url(descriptor.digest)}"
        return _response(requests.Request("PUT", url).prepare(), 201, {"Docker-Content-Digest": descriptor.digest})

    def download_blob(self, container: Any, digest: str, outfile: str) -> str:
        """Download a blob to ``outfile``, which is removed if the content does not match the digest."""
        try:
            return cast("str", super().download_blob(container, digest, outfile))
        except BaseException:
            Path(outfile).unlink(missing_ok=True)
            raise

    def _read(self, sent: requests.PreparedRequest, repository: str, kind: str, identifier: str) -> requests.Response:
        """Get a manifest or blob, or its descriptor, from the first location that has it, and verify it."""
        source = self._client.repository(_reference(urlsplit(str(sent.url)).netloc, repository, identifier))
        content: BinaryIO = io.BytesIO()
        try:
            if kind == "manifests" and sent.method == "GET":
                found = source.fetch_manifest(identifier, sent.headers.get("Accept", "*/*"))
                return _response(sent, 200, found.headers, io.BytesIO(found.body))
            if kind == "manifests":
                descriptor = source.resolve(identifier)
            else:
                descriptor = source.describe_blob(check_digest(identifier))
                content = source.open_blob(descriptor) if sent.method == "GET" else content
        except NotFound as error:
            return _response(sent, 404, {}, io.BytesIO(error.message.encode()))
        headers = {
            "Content-Length": str(descriptor.size),
            "Content-Type": descriptor.media_type,
            "Docker-Content-Digest": descriptor.digest,
        }
        return _response(sent, 200, headers, content)

    def _send(self, sent: requests.PreparedRequest, target: re.Match[str] | None) -> requests.Response:
        """Send a request as it is, to the location that images are written to."""
        method, url, body = str(sent.method), str(sent.url), sent.body
        parts = urlsplit(url)
        location = RepositoryLocation(parts.netloc, "")
        if target:
            location = self._client.target(_reference(parts.netloc, target["repository"])).location
            path = f"/v2/{location.repository}/{target['kind']}/{target['identifier']}"
            url = parts._replace(netloc=registry_host(location.registry), path=path).geturl()
        content = body.encode() if isinstance(body, str) else body
        request = Request(
            method,
            url,
            f"{location.registry}{parts.path}",
            Access(location, _ACTIONS.get(method, PUSH)),
            {name: value for name, value in sent.headers.items() if name.lower() not in _REPLACED_HEADERS},
            None if content is None else lambda: content,
            ok=_RETURNED,
            limit=MAX_MANIFEST_SIZE,
        )
        transport = self._client._transport
        deadline = transport.deadline(len(content or b""))
        if method == "PATCH":  # a chunk must not be sent twice
            response = transport.send_once(request, deadline)
        else:
            response = transport.retry.run(lambda: transport.send_once(request, deadline), deadline)
        headers = dict(response.headers)
        if redirected := location_header(response.headers):
            headers["location"] = transport.next_url(request, url, redirected)
        return _response(sent, response.status, headers, io.BytesIO(response.body))


class _Logins(Keychain):
    """The credentials of logins, then those of the machine; takes the place of oras-py's authentication."""

    def __init__(self, authfile: Path | None, hostname: str, settings: RegistrySettings) -> None:
        super().__init__(authfile, helpers=settings.credential_helpers)
        self._hostname = hostname
        self._login: Credentials | None = None
        self._configs: dict[Path, Keychain] = {}

    def find(self, registry: str, repository: str) -> Credentials | None:
        """Return the credentials for a repository; those of a login are only for the first registry that asks."""
        if self._login:
            self._hostname = self._hostname or registry
            if registry == self._hostname:
                return self._login
        for config in self._configs.values():
            if credentials := config.find(registry, repository):
                return credentials
        return super().find(registry, repository)

    def load_configs(self, _: object, configs: Collection[str | PathLike[str]] | None = None) -> None:
        """Use further credentials files."""
        for path in map(Path, configs or ()):
            self._configs.setdefault(path, Keychain(path))

    def set_basic_auth(self, username: str, password: str) -> None:
        """Log in with a user name and a password."""
        self._login = Credentials(username, password, source="the login")

    def set_token_auth(self, token: str) -> None:
        """Log in with a bearer token."""
        self._login = Credentials("", registry_token=token, source="the login")

    def logout(self, _: str) -> None:
        """Forget the login."""
        self._login = None


def _requests_authorities() -> str:
    """Return the file of authorities that requests trusts by its variables, "" if there is none."""
    path = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or ""
    return path if os.path.isfile(path) else ""  # noqa: PTH113 - "" is no path


@contextmanager
def _errors_of_requests() -> Iterator[None]:
    """Raise the errors that programs written for oras-py expect."""
    try:
        yield
    except InsecureTransport as error:
        raise requests.exceptions.SSLError(error.message) from error
    except RegistryUnavailable as error:
        raise requests.exceptions.ConnectionError(error.message) from error
    except AuthenticationFailed as error:
        raise ValueError(error.message) from error


def _reference(host: str, repository: str, identifier: str = "") -> Reference:
    registry = "docker.io" if host in _DOCKER_HUB else host
    return Reference(registry, repository, digest=identifier if is_digest(identifier) else None)


def _response(
    sent: requests.PreparedRequest, status: int, headers: Mapping[str, str], content: BinaryIO | None = None
) -> requests.Response:
    response = requests.Response()
    response.request, response.url = sent, str(sent.url)
    response.status_code, response.reason = status, responses.get(status, "")
    response.headers.update(headers)
    response.raw = content or io.BytesIO()
    return response
