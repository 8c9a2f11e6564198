"""Credentials from docker's and podman's files and from helper programs."""

from __future__ import annotations

import base64
import json
import logging
import os
from pathlib import Path

import pytest

from opmkit.imagetools.auth import Credentials, Keychain
from opmkit.imagetools.auth.helpers import ask_helper
from opmkit.imagetools.errors import ImageToolsError


def auth(user: str, password: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


def write(path: Path, **content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path


def one_file(tmp_path: Path, **content: object) -> Keychain:
    return Keychain(write(tmp_path / "auth.json", **content))


@pytest.fixture
def helper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A helper ``test`` that answers what stands in the file of that server's name, and counts its calls."""
    program = tmp_path / "bin" / "docker-credential-test"
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\nread -r server\necho $server >> {tmp_path}/calls\n"
        f'file={tmp_path}/secrets/$(echo "$server" | tr / _)\n'
        '[ -f "$file" ] || { echo "credentials not found in native keychain"; exit 1; }\ncat "$file"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    return secrets


def test_places_in_order(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path / "home"), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    places = [
        tmp_path / "run/containers/auth.json",
        tmp_path / "home/.config/containers/auth.json",
        tmp_path / "home/.docker/config.json",
        tmp_path / "home/.dockercfg",
    ]
    assert list(Keychain(environ=environ).places) == places
    for place in reversed(places):
        entries = {"quay.io": auth(place.parent.name, "secret")}
        write(place, **entries) if place.name == ".dockercfg" else write(place, auths=entries)
        found = Keychain(environ=environ).find("quay.io", "a")
        assert found == Credentials(place.parent.name, "secret", source=str(place))


@pytest.mark.parametrize(
    ("variables", "places"),
    [
        ({"REGISTRY_AUTH_FILE": "/named", "DOCKER_CONFIG": "/d"}, ["/named"]),
        ({"DOCKER_CONFIG": "/d", "XDG_RUNTIME_DIR": "/r"}, ["/d/config.json"]),
        (
            {"XDG_CONFIG_HOME": "/c", "HOME": "/h"},
            [
                f"/run/containers/{os.getuid()}/auth.json",
                "/c/containers/auth.json",
                "/h/.docker/config.json",
                "/h/.dockercfg",
            ],
        ),
    ],
)
def test_places_by_variables(variables: dict[str, str], places: list[str]) -> None:
    assert [str(place) for place in Keychain(environ=variables).places] == places


def test_a_user_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("pathlib.Path.home", no_home)
    assert Keychain(environ={"XDG_RUNTIME_DIR": "/r"}).places == (Path("/r/containers/auth.json"),)


def test_an_empty_file_says_nothing(tmp_path: Path) -> None:
    for environ in ({"REGISTRY_AUTH_FILE": "/dev/null"}, {"REGISTRY_AUTH_FILE": str(tmp_path / "missing")}):
        assert Keychain(environ=environ).find("quay.io", "a") is None


def test_a_file_of_somebody_else_is_passed_by(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    locked = write(tmp_path / "run/containers/auth.json", auths={"quay.io": auth("they", "secret")})
    # The tests may be run by root, whom no mode of a file keeps out.
    monkeypatch.setattr(os, "access", lambda path, mode: path != locked or mode == os.F_OK)
    write(tmp_path / ".docker/config.json", auths={"quay.io": auth("me", "secret")})
    found = Keychain(environ=environ).find("quay.io", "a")
    assert found is not None
    assert found.username == "me"
    assert "can't be read and is left out" in caplog.text


def test_helpers_of_the_machine(tmp_path: Path, helper: Path) -> None:
    """They are asked in their order, by the registry alone; an explicit file excludes them."""
    (helper / "quay.io").write_text('{"Username":"kept","Secret":"s"}')
    file = write(tmp_path / "auth.json", auths={"quay.io": auth("written", "w"), "gone.io": auth("written", "w")})
    environ = {"REGISTRY_AUTH_FILE": str(file)}

    def users(*helpers: str, authfile: Path | None = None) -> list[str]:
        keychain = Keychain(authfile, environ, helpers=lambda: helpers)
        found = [keychain.find(registry, "team/x") for registry in ("quay.io", "gone.io")]
        return [each.username if each else "" for each in found]

    assert users("test", "containers-auth.json") == ["kept", "written"]
    assert users("containers-auth.json", "test") == ["written", "written"]
    assert users("absent", "test") == ["kept", ""]
    assert users("test", authfile=file) == ["written", "written"]


def test_an_explicit_file_is_the_only_one(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    write(tmp_path / ".docker/config.json", auths={"quay.io": auth("docker", "secret")})
    explicit = write(tmp_path / "auth.json", auths={})
    assert Keychain(explicit, environ).find("quay.io", "a") is None
    missing = tmp_path / "missing.json"
    with pytest.raises(ImageToolsError, match=r"missing\.json: credentials file does not exist") as caught:
        Keychain(missing, environ).find("quay.io", "a")
    assert "podman login --authfile" in str(caught.value.hint)


def test_a_missing_file_of_the_environment_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keychain = Keychain(None, {"REGISTRY_AUTH_FILE": str(tmp_path / "missing.json"), "HOME": str(tmp_path)})
    assert [keychain.find("quay.io", name) for name in ("a", "b")] == [None, None]
    (record,) = caplog.records
    assert record.getMessage().startswith(
        f"REGISTRY_AUTH_FILE: credentials file {tmp_path}/missing.json does not exist"
    )


def test_the_longest_path_wins(tmp_path: Path) -> None:
    keychain = one_file(
        tmp_path,
        auths={
            "quay.io": auth("host", "1"),
            "quay.io/team": auth("team", "2"),
            "quay.io/team/app": auth("app", "3"),
        },
    )
    names = {name: keychain.find("quay.io", name) for name in ("other", "team/x", "team/app", "team/app/x", "teamwork")}
    users = {name: found.username for name, found in names.items() if found}
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
def test_old_forms_of_keys(tmp_path: Path, key: str, registry: str) -> None:
    found = one_file(tmp_path, auths={key: auth("user", "secret")}).find(registry, "library/x")
    assert found is not None
    assert found.username == "user"


def test_forms_of_entries(tmp_path: Path) -> None:
    keychain = one_file(
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
    found = {name: keychain.find(name, "x") for name in names}
    source = str(tmp_path / "auth.json")
    assert found == {
        "colon": Credentials("u", "a:b", source=source),
        "plain": Credentials("u", "p", source=source),
        "identity": Credentials("u", "", "tok", source=source),
        "registry": Credentials("", registry_token="bearer", source=source),
        "empty": None,
        "no-object": None,
        "other": None,
    }


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"auths": {\n"quay.io": {"auth": "c2VjcmV0"', "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"[]", "no JSON object"),
        (b"[" * 100_000, "no JSON"),
        (b'{"auths": ["x"]}', '"auths" that is no JSON object'),
        (b'{"auths": {"quay.io": {"auth": "s3cret!"}}}', 'an "auth" for quay.io that is not base64'),
    ],
)
def test_a_broken_file_is_named_and_not_quoted(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(ImageToolsError, match=reason) as caught:
        Keychain(path).find("quay.io", "x")
    assert str(path) in caught.value.message
    assert "s3cret" not in caught.value.message
    assert "c2VjcmV0" not in caught.value.message


def test_a_folder_in_place_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(ImageToolsError, match="directory"):
        Keychain(tmp_path).find("quay.io", "x")


def test_helpers(tmp_path: Path, helper: Path) -> None:
    (helper / "quay.io").write_text('{"ServerURL":"quay.io","Username":"q","Secret":"s"}')
    (helper / "quay.io_team").write_text('{"Username":"<token>","Secret":"identity"}')
    (helper / "https:__index.docker.io_v1_").write_text('{"Username":"hub","Secret":"h"}')
    keychain = one_file(
        tmp_path,
        auths={"quay.io": {}, "docker.io": {}, "written.io": auth("written", "w")},
        credHelpers={"quay.io": "test", "quay.io/team": "test", "gone.io": "absent"},
        credsStore="test",
    )
    source = "docker-credential-test"
    assert keychain.find("quay.io", "x") == Credentials("q", "s", source=source)
    assert keychain.find("quay.io", "team/x") == Credentials("", "", "identity", source=source)
    assert keychain.find("docker.io", "library/x") == Credentials("hub", "h", source=source)
    assert keychain.find("other.io", "x") is None
    written = keychain.find("written.io", "x")
    assert written is not None
    assert written.username == "written"


def test_a_helper_is_asked_once(tmp_path: Path, helper: Path) -> None:
    (helper / "quay.io").write_text('{"Username":"q","Secret":"s"}')
    keychain = one_file(tmp_path, credsStore="test")
    for name in ("a", "b", "c"):
        assert keychain.find("quay.io", name)
    assert (tmp_path / "calls").read_text() == "quay.io\n"


def test_a_helper_that_has_nothing_is_no_trouble(helper: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert ask_helper("test", "quay.io") is None
    assert not caplog.records


@pytest.mark.parametrize(
    ("script", "warning"),
    [
        (None, "No such file"),
        ("exit 3", "exit code 3"),
        ("echo s3cret", "not the JSON"),
        ('echo \'{"Username":"u"}\'', "not the JSON"),
        ("echo '[]'", "not the JSON"),
        ("sleep 20", "no answer in 0.2 s"),
    ],
)
def test_a_broken_helper_is_a_warning(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    script: str | None,
    warning: str,
) -> None:
    if script:
        program = tmp_path / "docker-credential-broken"
        program.write_text(f"#!/bin/sh\nexec {script}\n" if script.startswith("sleep") else f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with caplog.at_level(logging.WARNING):
        assert ask_helper("broken", "quay.io", timeout=0.2 if warning.startswith("no answer") else 30) is None
    assert warning in caplog.text
    assert "s3cret" not in caplog.text


def test_no_secret_in_repr() -> None:
    text = repr(Credentials("user", "pass-secret", "identity-secret", "registry-secret"))
    assert "user" in text
    assert "secret" not in text


def test_basic_header() -> None:
    assert Credentials("Aladdin", "open sesame").basic() == "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
