"""The example service, over HTTP."""

from __future__ import annotations

import http.client
import io
import json
import subprocess
import sys
import tarfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from opmkit import Opm
from tests.kit.opm import FIXTURES, LAGOON

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SERVICE = FIXTURES.parent / "examples" / "service" / "service.py"


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the service and return its address."""
    process = subprocess.Popen(
        [sys.executable, SERVICE, "0"],
        cwd=tmp_path_factory.mktemp("service"),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert process.stdout
        yield urlsplit(process.stdout.readline().strip()).netloc
    finally:
        process.terminate()
        process.communicate()


def post(address: str, body: bytes, path: str = "/validate", **headers: str) -> tuple[int, Any]:
    """Upload a body and return the status and the parsed response."""
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.request("POST", path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    response = connection.getresponse()
    return response.status, json.loads(response.read())


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Generate the bundle directory of the sample operator."""
    directory = tmp_path_factory.mktemp("generated")
    Opm(store=directory / "store").build_bundle(
        LAGOON / "0.1.0" / "manifests",
        f"oci:{directory}/image:1",
        package="lagoon-operator",
        channels=["alpha"],
        output=directory / "bundle",
    )
    return directory / "bundle"


def archive(directory: Path, name: str = ".", *more: tarfile.TarInfo) -> bytes:
    """Archive a directory, and add members without content."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        tar.add(directory, name)
        for member in more:
            tar.addfile(member)
    return stream.getvalue()


def zipped(directory: Path, prefix: str = "", *more: tuple[zipfile.ZipInfo | str, bytes]) -> bytes:
    """Archive a directory as a zip file, and add entries."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(directory.rglob("*")):
            file.write(path, prefix + path.relative_to(directory).as_posix())
        for entry, content in more:
            file.writestr(entry, content)
    return stream.getvalue()


def link(name: str, target: str) -> tarfile.TarInfo:
    """Return a symbolic link."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname = tarfile.SYMTYPE, target
    return member


@pytest.mark.parametrize("name", [".", "lagoon"])
def test_uploads_are_validated(address: str, bundle: Path, name: str) -> None:
    status, result = post(address, archive(bundle, name))
    (expected,) = Opm().validate_bundles([str(bundle)])
    assert (status, result) == (200, {**expected.to_dict(), "target": "upload"})
    assert (result["passed"], result["name"]) == (True, "lagoon-operator.v0.1.0")
    assert result["findings"]


@pytest.mark.parametrize("prefix", ["", "lagoon/"], ids=["root", "directory"])
def test_zip_archives_are_validated(address: str, bundle: Path, prefix: str) -> None:
    assert post(address, zipped(bundle, prefix)) == post(address, archive(bundle))


def test_invalid_bundles_have_findings(address: str, bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests" / "a.yaml").write_text("a: [")
    status, result = post(address, archive(tmp_path))
    assert (status, result["passed"]) == (200, False)
    assert str(tmp_path) not in json.dumps(result)


def test_uploads_are_validated_concurrently(address: str, bundle: Path) -> None:
    content = archive(bundle)
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: post(address, content), range(4)))
    assert results == [results[0]] * 4
    assert results[0][0] == 200


def bomb() -> bytes:
    """Return an archive of a few kilobytes with a file of 65 MiB."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as tar:
        member = tarfile.TarInfo("manifests/a.yaml")
        member.size = 65 << 20
        tar.addfile(member, io.BytesIO(bytes(member.size)))
    return stream.getvalue()


def test_hostile_archives_are_rejected(address: str, bundle: Path, tmp_path: Path) -> None:
    outside = tarfile.TarInfo("../../outside")
    (tmp_path / "empty").mkdir()
    for content, message in [
        (b"not an archive", "upload: "),
        (archive(bundle)[:-200], "upload: "),
        (archive(bundle, ".", outside), "upload: "),
        (archive(tmp_path / "empty"), "the archive contains no bundle"),
        (bomb(), "exceeds the limit"),
    ]:
        status, result = post(address, content)
        assert status == 400, message
        assert message in result["error"]["message"]


def zip_entry(name: str, mode: int = 0o100644) -> tuple[zipfile.ZipInfo, bytes]:
    """Return an entry with a name that ``zipfile`` would change, or with a type."""
    entry = zipfile.ZipInfo("name")
    entry.filename, entry.external_attr, entry.create_system = name, mode << 16, 3
    return entry, b"/etc/passwd"


def damaged_zip(content: bytes) -> bytes:
    """Return a zip archive whose last file has another checksum."""
    start = content.rindex(b"PK\x01\x02") + 16
    return content[:start] + bytes(4) + content[start + 4 :]


def lying_zip(content: bytes) -> bytes:
    """Return a zip archive whose last file declares one byte."""
    start = content.rindex(b"PK\x01\x02") + 24
    return content[:start] + b"\1\0\0\0" + content[start + 4 :]


def encrypted_zip(content: bytes) -> bytes:
    """Return a zip archive whose last file is marked as encrypted."""
    start = content.rindex(b"PK\x01\x02") + 8
    return content[:start] + b"\1\0" + content[start + 2 :]


HOSTILE_ZIPS: list[tuple[str, list[tuple[zipfile.ZipInfo | str, bytes]], str]] = [
    ("parent", [zip_entry("../outside")], "invalid path '../outside'"),
    ("inner-parent", [zip_entry("manifests/../../outside")], "invalid path"),
    ("absolute", [zip_entry("/tmp/outside")], "invalid path '/tmp/outside'"),
    ("backslash", [zip_entry("..\\outside")], "invalid path"),
    ("symlink", [zip_entry("manifests/link.yaml", 0o120777)], "links are unsupported"),
    ("device", [zip_entry("manifests/device", 0o020666)], "neither a file nor a directory"),
    ("twice", [zip_entry("twice"), zip_entry("twice")], "duplicate path 'twice'"),
    ("file-and-directory", [zip_entry("a"), zip_entry("a/b")], "duplicate path 'a'"),
    ("long-name", [zip_entry("a" * 300)], "bytes per name"),
    ("long-path", [zip_entry("a/" * 300 + "a")], "bytes per path"),
    ("deep", [zip_entry("a/" * 200 + "a")], "components per path"),
    ("many", [(f"manifests/{number}", b"") for number in range(2_001)], "2000 entries"),
    ("large-file", [("manifests/a", bytes(17 << 20))], "bytes per file"),
    ("large", [(f"manifests/{number}", bytes(15 << 20)) for number in range(5)], "extracted bytes"),
    ("bomb", [("manifests/a", bytes(15 << 20))], "per byte of the archive"),
]


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("entries", "message"), [case[1:] for case in HOSTILE_ZIPS], ids=[case[0] for case in HOSTILE_ZIPS]
)
def test_hostile_zip_archives_are_rejected(
    address: str, bundle: Path, entries: list[tuple[zipfile.ZipInfo | str, bytes]], message: str
) -> None:
    status, result = post(address, zipped(bundle, "", *entries))
    assert status == 400
    assert message in result["error"]["message"]
    assert result["error"]["message"].startswith("upload: ")


def test_damaged_zip_archives_are_rejected(address: str, bundle: Path, tmp_path: Path) -> None:
    content = zipped(bundle)
    (tmp_path / "empty").mkdir()
    for broken, message in [
        (content[:-30], "damaged zip archive"),
        (damaged_zip(content), "damaged zip archive: Bad CRC-32"),
        (lying_zip(content), "damaged zip archive"),
        (encrypted_zip(content), "encrypted entries are unsupported"),
        (zipped(tmp_path / "empty"), "the archive contains no bundle"),
    ]:
        status, result = post(address, broken)
        assert status == 400, message
        assert message in result["error"]["message"]


def test_links_do_not_lead_out_of_the_archive(address: str, bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.yaml").write_text("kind: Secret\nsecret: [")
    content = archive(bundle, ".", link("manifests/secret.yaml", str(tmp_path / "secret.yaml")))
    _, result = post(address, content)
    assert "kind: Secret" not in json.dumps(result)
    assert not [finding for finding in result.get("findings", ()) if "secret" in finding["message"]]


def test_requests_are_limited(address: str) -> None:
    assert post(address, b"", Content_Length=str(1 << 30))[0] == 413
    assert post(address, b"", Content_Length="9" * 30)[0] == 413
    assert post(address, b"", Content_Length="x")[0] == 411
    assert post(address, b"", path="/other")[0] == 404
