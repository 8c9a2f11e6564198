"""Lookup of credentials in one file, and its errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.credentials import Credentials, Keychain
from opmkit.imagetools.errors import ImageToolsError
from tests.imagetools.auth_files import auth, write_json

if TYPE_CHECKING:
    from pathlib import Path


def keychain_of(tmp_path: Path, **content: object) -> Keychain:
    return Keychain(write_json(tmp_path / "auth.json", **content))


def test_longest_path_takes_precedence(tmp_path: Path) -> None:
    keychain = keychain_of(
        tmp_path,
        auths={
            "quay.io": auth("host", "1"),
            "quay.io/team": auth("team", "2"),
            "quay.io/team/app": auth("app", "3"),
        },
    )
    repositories = ("other", "team/x", "team/app", "team/app/x", "teamwork")
    credentials = {repository: keychain.find("quay.io", repository) for repository in repositories}
    users = {repository: match.username for repository, match in credentials.items() if match}
    assert users == {"other": "host", "team/x": "team", "team/app": "app", "team/app/x": "app", "teamwork": "host"}
    assert keychain.find("quay.io.example.com", "team/app") is None


@pytest.mark.parametrize(
    ("key", "registry"),
    [
        ("https://index.docker.io/v1/", "docker.io"),
        ("index.docker.io/v1/", "docker.io"),
        ("docker.io", "docker.io"),
        ("registry-1.docker.io", "docker.io"),
        ("https://quay.io", "quay.io"),
        ("http://localhost:5000/", "localhost:5000"),
        ("https://quay.io/v2/", "quay.io"),
    ],
)
def test_legacy_keys(tmp_path: Path, key: str, registry: str) -> None:
    credentials = keychain_of(tmp_path, auths={key: auth("user", "secret")}).find(registry, "library/x")
    assert credentials is not None
    assert credentials.username == "user"


def test_forms_of_entries(tmp_path: Path) -> None:
    keychain = keychain_of(
        tmp_path,
        auths={
            "colon": auth("u", "a:b"),
            "plain": {"username": "u", "password": "p"},
            "identity": {**auth("u", ""), "identitytoken": "tok"},
            "registry": {"registrytoken": "bearer"},
            "empty": {},
            "no-object": "x",
        },
    )
    names = ("colon", "plain", "identity", "registry", "empty", "no-object", "other")
    credentials = {name: keychain.find(name, "x") for name in names}
    source = str(tmp_path / "auth.json")
    assert credentials == {
        "colon": Credentials("u", "a:b", source=source),
        "plain": Credentials("u", "p", source=source),
        "identity": Credentials("u", "", "tok", source=source),
        "registry": Credentials("", registry_token="bearer", source=source),
        "empty": None,
        "no-object": None,
        "other": None,
    }


def test_credential_helpers_and_store(tmp_path: Path, secrets: Path) -> None:
    (secrets / "quay.io").write_text('{"ServerURL":"quay.io","Username":"q","Secret":"s"}')
    (secrets / "quay.io_team").write_text('{"Username":"<token>","Secret":"identity"}')
    (secrets / "https:__index.docker.io_v1_").write_text('{"Username":"hub","Secret":"h"}')
    keychain = keychain_of(
        tmp_path,
        auths={"quay.io": {}, "docker.io": {}, "file.io": auth("file", "w")},
        credHelpers={"quay.io": "test", "quay.io/team": "test", "gone.io": "absent"},
        credsStore="test",
    )
    source = "docker-credential-test"
    assert keychain.find("quay.io", "x") == Credentials("q", "s", source=source)
    assert keychain.find("quay.io", "team/x") == Credentials("", "", "identity", source=source)
    assert keychain.find("docker.io", "library/x") == Credentials("hub", "h", source=source)
    assert keychain.find("other.io", "x") is None
    credentials = keychain.find("file.io", "x")
    assert credentials is not None
    assert credentials.username == "file"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"auths": {\n"quay.io": {"auth": "c2VjcmV0"', "invalid JSON in line 2"),
        (b"\xff\xfe", "invalid JSON"),
        (b"[]", "expected a JSON object"),
        (b"[" * 100_000, "invalid JSON"),
        (b'{"auths": ["x"]}', '"auths" is not a JSON object'),
        (b'{"auths": {"quay.io": {"auth": "s3cret!"}}}', '"auth" for quay.io is not base64'),
        ('{"auths": {"quay.io": {"auth": "s3cr\u00e9t"}}}'.encode(), '"auth" for quay.io is not base64'),
        (b'{"auths": {"quay.io": {"username": "\\ud800", "password": "s3cret"}}}', "quay.io contains lone surrogates"),
        (b'{"auths": {"quay.io": {"registrytoken": "s3cret\\n"}}}', '"registrytoken" for quay.io is not a token'),
    ],
)
def test_errors_name_the_file_but_quote_none_of_it(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ImageToolsError, match=reason) as caught:
        Keychain(path).find("quay.io", "x")
    assert str(path) in caught.value.message
    assert "s3cret" not in caught.value.message
    assert "c2VjcmV0" not in caught.value.message


def test_directory_instead_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(ImageToolsError, match="directory"):
        Keychain(tmp_path).find("quay.io", "x")
