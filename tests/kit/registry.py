"""docker-registry on a free loopback port."""

from __future__ import annotations

import re
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import yaml

from tests.kit.certificates import Certificate, certificate_authority, client_certificate, server_certificate
from tests.kit.requirements import require

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.kit.tokenserver import TokenServer

_ACCESS = re.compile(r'"(?P<method>[A-Z]+) (?P<path>\S+) HTTP/[\d.]+" (?P<status>\d+) (?P<size>\d+)')


@dataclass(frozen=True)
class Access:
    """A request in the access log; ``size`` is the number of bytes of the response body."""

    method: str
    path: str
    status: int
    size: int


class Registry:
    """A registry with its own empty storage, as a context manager.

    ``users`` (name to password) requires basic authentication, and ``tokens`` bearer tokens of that server. ``tls``
    enables HTTPS with a certificate of a private authority (``ca_file``), and ``known_clients`` requires client
    certificates of that authority (``client``). Without ``deletes`` it deletes nothing. ``program`` is another release
    of it.
    """

    def __init__(
        self,
        *,
        users: Mapping[str, str] | None = None,
        tls: bool = False,
        known_clients: bool = False,
        tokens: TokenServer | None = None,
        deletes: bool = True,
        program: Path | None = None,
    ) -> None:
        self._program = program or require("docker-registry")
        self._users = users
        self._tls = tls
        self._known_clients = known_clients
        self._tokens = tokens
        self._deletes = deletes
        self._port = 0
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._directory = tempfile.TemporaryDirectory(prefix="opmkit-registry-", ignore_cleanup_errors=True)
        try:
            self._configuration = self._configure()
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._directory.cleanup()

    @property
    def path(self) -> Path:
        return Path(self._directory.name)

    @property
    def pid(self) -> int:
        """The process id while it runs, else 0."""
        return self._process.pid if self._process else 0

    @property
    def host(self) -> str:
        """``127.0.0.1:PORT``, as in an image reference."""
        return f"127.0.0.1:{self._port}"

    @property
    def url(self) -> str:
        return f"{'https' if self._tls else 'http'}://{self.host}"

    @property
    def ca_file(self) -> Path:
        """The authority's certificate, with ``tls``."""
        return self.path / "ca.pem"

    @property
    def client(self) -> Certificate:
        """The client certificate, with ``known_clients``."""
        return Certificate(self.path / "client.cert", self.path / "client.key")

    def requests(self) -> list[Access]:
        """Return all requests so far, oldest first, including the readiness checks of this class."""
        matches = _ACCESS.finditer((self.path / "access.log").read_text())
        return [Access(m["method"], m["path"], int(m["status"]), int(m["size"])) for m in matches]

    def start(self) -> None:
        """Start the process, after :meth:`stop` with the same port and storage."""
        log = self.path / "registry.log"
        self._configuration["http"]["addr"] = f"127.0.0.1:{self._port}"
        (self.path / "config.yml").write_text(yaml.safe_dump(self._configuration))
        with log.open("wb") as errors, (self.path / "access.log").open("ab") as accesses:
            self._process = subprocess.Popen(
                [self._program, "serve", str(self.path / "config.yml")], stdout=accesses, stderr=errors
            )
        deadline = time.monotonic() + 30
        while not self._answers(log):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"docker-registry did not start: {log.read_text()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """Kill the process as a power failure does; the storage remains."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self, log: Path) -> bool:
        listening = re.search(r"listening on 127\.0\.0\.1:(\d+)", log.read_text())
        if listening is None:
            return False
        self._port = int(listening[1])
        context = ssl._create_unverified_context() if self._tls else None
        if context and self._known_clients:
            context.load_cert_chain(self.client.certificate, self.client.key)
        with suppress(urllib.error.HTTPError), urllib.request.urlopen(f"{self.url}/v2/", timeout=5, context=context):
            pass
        return True

    def _configure(self) -> dict[str, dict[str, object]]:
        configuration: dict[str, dict[str, object]] = {
            "storage": {"filesystem": {"rootdirectory": str(self.path / "data")}, "delete": {"enabled": self._deletes}},
            "http": {},
        }
        if self._tls:
            authority = certificate_authority(self.path)
            certificate = server_certificate(self.path, authority)
            tls: dict[str, object] = {"certificate": str(certificate.certificate), "key": str(certificate.key)}
            if self._known_clients:
                client_certificate(self.path, authority)
                tls["clientcas"] = [str(authority.certificate)]
            configuration["http"]["tls"] = tls
        if self._users is not None:
            configuration["auth"] = {"htpasswd": {"realm": "tests", "path": str(self._password_file(self._users))}}
        if self._tokens is not None:
            configuration["auth"] = {"token": self._tokens.registry_configuration}
        return {"version": 0.1, "log": {"level": "info"}, **configuration}  # type: ignore[dict-item]

    def _password_file(self, users: Mapping[str, str]) -> Path:
        lines = [
            subprocess.run(
                [require("htpasswd"), "-niBC", "4", name], input=password.encode(), check=True, capture_output=True
            ).stdout.strip()
            for name, password in users.items()
        ]
        path = self.path / "htpasswd"
        path.write_bytes(b"\n".join(lines) + b"\n")
        return path
