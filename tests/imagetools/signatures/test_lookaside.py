"""Places of signatures outside registries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryOptions
from opmkit.imagetools.signatures.lookaside import MAX_SIGNATURES, Lookaside, LookasideSettings
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from pathlib import Path

DIGEST = "sha256:" + "a" * 64
IMAGE = Reference.parse("quay.io/me/app:1")
SETTINGS = """\
default-docker: {lookaside: file:///default}
docker:
  quay.io: {sigstore: "https://quay/sig/"}
  quay.io/me: {lookaside-staging: file:///staging}
  quay.io/me/app: {lookaside: file:///app, sigstore: file:///old}
  "*.example.com": {lookaside: file:///wild}
"""


def settings(directory: Path, **files: str) -> LookasideSettings:
    path = directory / "containers" / "registries.d"
    path.mkdir(parents=True)
    for name, content in files.items():
        (path / f"{name}.yaml").write_text(content)
    return LookasideSettings.load({"HOME": str(directory / "home")}, directory)


@pytest.mark.parametrize(
    ("image", "location"),
    [
        ("quay.io/me/app:1", "file:///app/me/app"),
        ("quay.io/me/other:1", "https://quay/sig/me/other"),
        ("a.b.example.com/x:1", "file:///wild/x"),
        ("docker.io/library/x:1", "file:///default/library/x"),
    ],
)
def test_location_of_an_image(tmp_path: Path, image: str, location: str) -> None:
    assert settings(tmp_path, own=SETTINGS).location(Reference.parse(image)) == location


def test_without_settings(tmp_path: Path) -> None:
    assert settings(tmp_path).location(IMAGE).endswith("/containers/sigstore/me/app")


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({"a": "docker: ["}, r"a\.yaml"),
        ({"a": "docker: [x]"}, "expected an object"),
        ({"a": "docker: {x: {lookaside: 1}}"}, "expected a string"),
        ({"a": "docker: {x.y: {}}", "b": "docker: {x.y: {}}"}, r"x\.y: also set in another file"),
        ({"a": "default-docker: {}", "b": "default-docker: {}"}, "default-docker: also set"),
    ],
)
def test_invalid_settings(tmp_path: Path, files: dict[str, str], problem: str) -> None:
    with pytest.raises(ImageToolsError, match=problem):
        settings(tmp_path, **files)


def lookaside(directory: Path, location: str) -> Lookaside:
    settings(directory, own=f"default-docker: {{lookaside: '{location}'}}")
    return Lookaside(RegistryOptions(deadline=5), {"HOME": str(directory / "home")}, directory)


def test_signatures_in_files(tmp_path: Path) -> None:
    path = tmp_path / "signatures" / f"me/app@{DIGEST.replace(':', '=')}"
    path.mkdir(parents=True)
    contents = [b"one", b"\x00simple-signing\ntwo", b"\x00sigstore-json\n{}", b"four"]
    for number, content in enumerate(contents, 1):
        (path / f"signature-{number}").write_bytes(content)
    (path / "signature-6").write_bytes(b"not reached")
    found = list(lookaside(tmp_path, f"file://{tmp_path}/signatures").signatures(IMAGE, DIGEST))
    assert found == [b"one", b"two", b"four"]


def test_signatures_on_a_server(tmp_path: Path) -> None:
    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 (http.server names it)
            self.answer(200, self.path.encode())

    with WebServer(Handler) as server:
        found = list(lookaside(tmp_path, f"http://{server.host}/sig").signatures(IMAGE, DIGEST))
    assert len(found) == MAX_SIGNATURES
    assert found[0].decode() == f"/sig/me/app@sha256={'a' * 64}/signature-1"


@pytest.mark.parametrize("location", ["ftp://x/y", "file://host/x", "signatures"])
def test_unsupported_locations(tmp_path: Path, location: str) -> None:
    with pytest.raises(ImageToolsError, match="unsupported location"):
        next(lookaside(tmp_path, location).signatures(IMAGE, DIGEST))
