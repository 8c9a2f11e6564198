"""Certificate authorities and client certificates: certs.d, --cert-dir and --ca-file."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import time
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import AuthenticationFailed, ImageToolsError, InsecureTransport
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions, RetryPolicy
from opmkit.imagetools.registry_config import RegistrySettings
from tests.kit.certificates import certificate_authority, server_certificate
from tests.kit.content import described, noise, put_image
from tests.kit.engines import skopeo
from tests.kit.registry import Registry
from tests.kit.requirements import require
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.opm import Opm


@pytest.fixture(scope="module")
def mtls_registry() -> Iterator[Registry]:
    """Return an HTTPS registry that requires client certificates of its authority."""
    with Registry(tls=True, known_clients=True) as started:
        yield started


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def client(home: Path, options: RegistryOptions | None = None) -> RegistryClient:
    return RegistryClient(
        options, retry=RetryPolicy(sleep=lambda _: None), settings=RegistrySettings({"HOME": str(home)})
    )


def add_certificates(
    directory: Path, registry: Registry, *, authority: bool = True, client_certificate: bool = True
) -> Path:
    """Copy the certificate authority of a registry and a client certificate into a directory."""
    directory.mkdir(parents=True)
    if authority:
        shutil.copy(registry.ca_file, directory / "authority.crt")
    if client_certificate:
        shutil.copy(registry.client.certificate, directory / "client.cert")
        shutil.copy(registry.client.key, directory / "client.key")
    return directory


def certs_d(home: Path, registry: Registry) -> Path:
    return home / ".config/containers/certs.d" / registry.host


@pytest.mark.slow
def test_certs_d(mtls_registry: Registry, home: Path) -> None:
    add_certificates(certs_d(home, mtls_registry), mtls_registry)
    repository = client(home).repository(Reference(mtls_registry.host, "certs/d"))
    manifest = put_image(repository, "1", noise(1000))
    assert repository.get_manifest("1") == manifest


def test_cert_dir_and_ca_file(mtls_registry: Registry, home: Path, tmp_path: Path) -> None:
    """``cert_dir`` replaces certs.d, as in skopeo; ``ca_file`` adds to both."""
    add_certificates(certs_d(home, mtls_registry), mtls_registry, client_certificate=False)
    directory = add_certificates(tmp_path / "certificates", mtls_registry)
    reference = Reference(mtls_registry.host, "cert/dir")
    repository = client(home, RegistryOptions(cert_dir=directory)).repository(reference)
    manifest = put_image(repository, "1", noise(1000))
    inspected = skopeo("inspect", "--cert-dir", str(directory), "--format={{.Digest}}", f"docker://{repository.name}:1")
    assert inspected == manifest.digest
    client_only = add_certificates(tmp_path / "client", mtls_registry, authority=False)
    options = RegistryOptions(cert_dir=client_only, ca_file=mtls_registry.ca_file)
    assert (
        client(home, options).repository(Reference(mtls_registry.host, "cert/dir")).resolve("1") == manifest.descriptor
    )
    with pytest.raises(InsecureTransport, match="not trusted") as caught:
        client(home, RegistryOptions(cert_dir=client_only)).repository(
            Reference(mtls_registry.host, "cert/dir")
        ).resolve("1")
    assert f"certs.d/{mtls_registry.host}" in str(caught.value.hint)


def test_client_certificate_without_verification(mtls_registry: Registry, home: Path, tmp_path: Path) -> None:
    options = RegistryOptions(
        cert_dir=add_certificates(tmp_path / "client", mtls_registry, authority=False), verify_tls=False
    )
    assert not client(home, options).repository(Reference(mtls_registry.host, "a")).has_blob(described(b"x"))


def test_missing_client_certificate(mtls_registry: Registry, home: Path) -> None:
    add_certificates(certs_d(home, mtls_registry), mtls_registry, client_certificate=False)
    with pytest.raises(AuthenticationFailed, match="requires a client certificate that it trusts") as caught:
        client(home).repository(Reference(mtls_registry.host, "a")).resolve("1")
    assert "cert_dir" in str(caught.value.hint)


def test_client_certificate_of_another_authority(mtls_registry: Registry, home: Path, tmp_path: Path) -> None:
    directory = add_certificates(certs_d(home, mtls_registry), mtls_registry, client_certificate=False)
    other = certificate_authority(tmp_path, "Other authority")
    shutil.copy(other.certificate, directory / "client.cert")
    shutil.copy(other.key, directory / "client.key")
    with pytest.raises(AuthenticationFailed, match="requires a client certificate that it trusts"):
        client(home).repository(Reference(mtls_registry.host, "a")).resolve("1")


def test_client_certificate_refused_before_the_request(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The alert is read although the registry has closed the connection when the request is written."""
    authority = certificate_authority(tmp_path)
    server = server_certificate(tmp_path, authority)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    context.load_cert_chain(server.certificate, server.key)
    context.verify_mode = ssl.CERT_REQUIRED
    other = tmp_path / "other"
    directory = tmp_path / "certificates"
    for path in (other, directory):
        path.mkdir()
    stranger = certificate_authority(other, "Other authority")
    shutil.copy(stranger.certificate, directory / "client.cert")
    shutil.copy(stranger.key, directory / "client.key")
    handshake = ssl.SSLSocket.do_handshake

    def slow_handshake(connection: ssl.SSLSocket, block: bool = False) -> None:
        handshake(connection, block)
        time.sleep(0.2)

    options = RegistryOptions(cert_dir=directory, verify_tls=False)
    with WebServer(QuietHandler, context) as registry:
        monkeypatch.setattr(ssl.SSLSocket, "do_handshake", slow_handshake)
        with pytest.raises(AuthenticationFailed, match="requires a client certificate that it trusts"):
            client(home, options).repository(Reference(registry.host, "a")).resolve("1")


def test_certificates_apply_to_one_registry_only(mtls_registry: Registry, tls_registry: Registry, home: Path) -> None:
    add_certificates(certs_d(home, mtls_registry), mtls_registry)
    shared = client(home)
    assert not shared.repository(Reference(mtls_registry.host, "a")).has_blob(described(b"x"))
    with pytest.raises(InsecureTransport, match="not trusted"):
        shared.repository(Reference(tls_registry.host, "a")).has_blob(described(b"x"))


def test_invalid_files(mtls_registry: Registry, home: Path, tmp_path: Path) -> None:
    reference = Reference(mtls_registry.host, "a")
    directory = add_certificates(certs_d(home, mtls_registry), mtls_registry)
    encrypted = ["openssl", "pkey", "-aes256", "-passout", "pass:x", "-in", str(mtls_registry.client.key)]
    subprocess.run([*encrypted, "-out", str(directory / "client.key")], check=True, capture_output=True)
    with pytest.raises(ImageToolsError, match=r"client\.cert: cannot be loaded with client\.key"):
        client(home).repository(reference).resolve("1")
    (directory / "client.key").unlink()
    with pytest.raises(ImageToolsError, match=r"client\.cert: client\.key not found next to it"):
        client(home).repository(reference).resolve("1")
    (directory / "client.cert").unlink()
    (directory / "authority.crt").write_text("no certificate")
    with pytest.raises(ImageToolsError, match=r"authority\.crt: not a PEM certificate"):
        client(home).repository(reference).resolve("1")
    with pytest.raises(ImageToolsError, match="missing does not exist"):
        client(home, RegistryOptions(cert_dir=tmp_path / "missing"))


def test_cert_dir_flag(mtls_registry: Registry, opm: Opm, tmp_path: Path) -> None:
    require("openssl")
    directory = add_certificates(tmp_path / "certificates", mtls_registry)
    reference = Reference(mtls_registry.host, "cert/flag")
    manifest = put_image(RegistryClient(RegistryOptions(cert_dir=directory)).repository(reference), "1")
    assert manifest.digest in opm("image", "inspect", f"{reference}:1", "--cert-dir", "certificates")
    failed = opm.attempt("image", "inspect", f"{reference}:1", "--cert-dir=nowhere")
    assert failed.returncode == 1
    assert failed.stderr.startswith("Error: certificate directory nowhere does not exist\n")


@pytest.mark.slow
def test_redirect_target_gets_no_client_certificate(home: Path, tmp_path: Path) -> None:
    """The authority of the registry is trusted there, but only the registry gets the client certificate."""
    authority = certificate_authority(tmp_path)
    server = server_certificate(tmp_path, authority)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.certificate)
    context.load_cert_chain(server.certificate, server.key)
    context.verify_mode = ssl.CERT_OPTIONAL
    seen: list[tuple[str, bool]] = []

    class Handler(QuietHandler):
        target = ""

        def do_GET(self) -> None:  # noqa: N802 (http.server names it)
            seen.append((self.headers["Host"], bool(self.connection.getpeercert())))
            if self.target:
                return self.answer(307, headers={"Location": f"https://{self.target}{self.path}"})
            return self.answer(200, b"content")

    directory = tmp_path / "certificates"
    directory.mkdir()
    for source, name in (
        (authority.certificate, "ca.crt"),
        (authority.certificate, "client.cert"),
        (authority.key, "client.key"),
    ):
        shutil.copy(source, directory / name)
    with WebServer(Handler, context) as storage:
        front = type("Front", (Handler,), {"target": storage.host})
        with WebServer(front, context) as registry:
            repository = client(home, RegistryOptions(cert_dir=directory)).repository(Reference(registry.host, "a"))
            with repository.open_blob(described(b"content")) as stream:
                assert stream.read() == b"content"
    assert seen == [(registry.host, True), (storage.host, False)]
