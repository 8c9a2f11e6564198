"""Who is trusted, and who we are: certs.d, --cert-dir and --ca-file, with registries that ask for certificates."""

from __future__ import annotations

import shutil
import ssl
import subprocess
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
def strict() -> Iterator[Registry]:
    """A https registry that lets in who has a certificate of its authority, and nobody else."""
    with Registry(tls=True, known_clients=True) as started:
        yield started


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def client(home: Path, options: RegistryOptions | None = None) -> RegistryClient:
    return RegistryClient(
        options, retry=RetryPolicy(sleep=lambda _: None), settings=RegistrySettings({"HOME": str(home)})
    )


def fill(directory: Path, registry: Registry, *, authority: bool = True, known: bool = True) -> Path:
    """Put the registry's authority and the client's certificate into a directory."""
    directory.mkdir(parents=True)
    if authority:
        shutil.copy(registry.ca_file, directory / "authority.crt")
    if known:
        shutil.copy(registry.client.certificate, directory / "me.cert")
        shutil.copy(registry.client.key, directory / "me.key")
    return directory


def certs_d(home: Path, registry: Registry) -> Path:
    return home / ".config/containers/certs.d" / registry.host


def test_certs_d(strict: Registry, home: Path) -> None:
    fill(certs_d(home, strict), strict)
    repository = client(home).repository(Reference(strict.host, "certs/d"))
    manifest = put_image(repository, "1", noise(1000))
    assert repository.get_manifest("1") == manifest


def test_a_directory_by_flag(strict: Registry, home: Path, tmp_path: Path) -> None:
    """It takes the place of certs.d, as it does for skopeo, and ca_file adds to both."""
    fill(certs_d(home, strict), strict, known=False)
    directory = fill(tmp_path / "certificates", strict)
    repository = client(home, RegistryOptions(cert_dir=directory)).repository(Reference(strict.host, "by/flag"))
    manifest = put_image(repository, "1", noise(1000))
    inspected = skopeo("inspect", "--cert-dir", str(directory), "--format={{.Digest}}", f"docker://{repository.name}:1")
    assert inspected == manifest.digest
    mine = fill(tmp_path / "mine", strict, authority=False)
    options = RegistryOptions(cert_dir=mine, ca_file=strict.ca_file)
    assert client(home, options).repository(Reference(strict.host, "by/flag")).resolve("1") == manifest.descriptor
    with pytest.raises(InsecureTransport, match="not trusted") as caught:
        client(home, RegistryOptions(cert_dir=mine)).repository(Reference(strict.host, "by/flag")).resolve("1")
    assert f"certs.d/{strict.host}" in str(caught.value.hint)


def test_who_we_are_is_also_told_where_nothing_is_checked(strict: Registry, home: Path, tmp_path: Path) -> None:
    options = RegistryOptions(cert_dir=fill(tmp_path / "mine", strict, authority=False), verify_tls=False)
    assert not client(home, options).repository(Reference(strict.host, "a")).has_blob(described(b"x"))


def test_without_a_client_certificate(strict: Registry, home: Path) -> None:
    fill(certs_d(home, strict), strict, known=False)
    with pytest.raises(AuthenticationFailed, match="asks for a client certificate that it knows") as caught:
        client(home).repository(Reference(strict.host, "a")).resolve("1")
    assert "cert_dir" in str(caught.value.hint)


def test_with_a_client_certificate_of_somebody_else(strict: Registry, home: Path, tmp_path: Path) -> None:
    directory = fill(certs_d(home, strict), strict, known=False)
    made = certificate_authority(tmp_path, "Somebody else")
    shutil.copy(made.certificate, directory / "me.cert")
    shutil.copy(made.key, directory / "me.key")
    with pytest.raises(AuthenticationFailed, match="asks for a client certificate that it knows"):
        client(home).repository(Reference(strict.host, "a")).resolve("1")


def test_certificates_of_one_registry_are_not_those_of_another(
    strict: Registry, tls_registry: Registry, home: Path
) -> None:
    fill(certs_d(home, strict), strict)
    shared = client(home)
    assert not shared.repository(Reference(strict.host, "a")).has_blob(described(b"x"))
    with pytest.raises(InsecureTransport, match="not trusted"):
        shared.repository(Reference(tls_registry.host, "a")).has_blob(described(b"x"))


def test_files_that_can_not_be_used(strict: Registry, home: Path, tmp_path: Path) -> None:
    reference = Reference(strict.host, "a")
    directory = fill(certs_d(home, strict), strict)
    encrypted = ["openssl", "rsa", "-aes256", "-passout", "pass:x", "-in", str(strict.client.key)]
    subprocess.run([*encrypted, "-out", str(directory / "me.key")], check=True, capture_output=True)
    with pytest.raises(ImageToolsError, match=r"me\.cert: can't be used with me\.key"):
        client(home).repository(reference).resolve("1")
    (directory / "me.key").unlink()
    with pytest.raises(ImageToolsError, match=r"me\.cert has no me\.key beside it"):
        client(home).repository(reference).resolve("1")
    (directory / "me.cert").unlink()
    (directory / "authority.crt").write_text("no certificate")
    with pytest.raises(ImageToolsError, match=r"authority\.crt: holds no PEM"):
        client(home).repository(reference).resolve("1")
    with pytest.raises(ImageToolsError, match="missing is not there"):
        client(home, RegistryOptions(cert_dir=tmp_path / "missing"))


def test_the_command_takes_the_flag(strict: Registry, opm: Opm, tmp_path: Path) -> None:
    require("openssl")
    directory = fill(tmp_path / "certificates", strict)
    reference = Reference(strict.host, "by/command")
    manifest = put_image(RegistryClient(RegistryOptions(cert_dir=directory)).repository(reference), "1")
    assert manifest.digest in opm("image", "inspect", f"{reference}:1", "--cert-dir", "certificates")
    failed = opm.attempt("image", "inspect", f"{reference}:1", "--cert-dir=nowhere")
    assert failed.returncode == 1
    assert failed.stderr.startswith("Error: certificate directory nowhere is not there\n")


def test_who_we_are_is_not_told_where_a_registry_redirects_to(home: Path, tmp_path: Path) -> None:
    """The registry's authority is trusted there, too, and only the registry gets to see our certificate."""
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
        (authority.certificate, "me.cert"),
        (authority.key, "me.key"),
    ):
        shutil.copy(source, directory / name)
    with WebServer(Handler, context) as storage:
        front = type("Front", (Handler,), {"target": storage.host})
        with WebServer(front, context) as registry:
            repository = client(home, RegistryOptions(cert_dir=directory)).repository(Reference(registry.host, "a"))
            with repository.open_blob(described(b"content")) as stream:
                assert stream.read() == b"content"
    assert seen == [(registry.host, True), (storage.host, False)]
