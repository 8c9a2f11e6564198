"""Order of credentials files and credential helpers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from opmkit.imagetools.credentials import Credentials, Keychain
from opmkit.imagetools.errors import ImageToolsError
from tests.imagetools.auth_files import auth, write_json


def test_order_of_files(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path / "home"), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    paths = [
        tmp_path / "run/containers/auth.json",
        tmp_path / "home/.config/containers/auth.json",
        tmp_path / "home/.docker/config.json",
        tmp_path / "home/.dockercfg",
    ]
    assert list(Keychain(environ=environ).paths) == paths
    for path in reversed(paths):
        entries = {"quay.io": auth(path.parent.name, "secret")}
        write_json(path, **entries) if path.name == ".dockercfg" else write_json(path, auths=entries)
        credentials = Keychain(environ=environ).find("quay.io", "a")
        assert credentials == Credentials(path.parent.name, "secret", source=str(path))


@pytest.mark.parametrize(
    ("environ", "paths"),
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
def test_environment_variables(environ: dict[str, str], paths: list[str]) -> None:
    assert [str(path) for path in Keychain(environ=environ).paths] == paths


def test_user_without_a_home_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr("pathlib.Path.home", no_home)
    assert Keychain(environ={"XDG_RUNTIME_DIR": "/r"}).paths == (Path("/r/containers/auth.json"),)


def test_empty_and_missing_files_have_no_credentials(tmp_path: Path) -> None:
    for environ in ({"REGISTRY_AUTH_FILE": "/dev/null"}, {"REGISTRY_AUTH_FILE": str(tmp_path / "missing")}):
        assert Keychain(environ=environ).find("quay.io", "a") is None


def test_unreadable_file_is_skipped_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    unreadable = write_json(tmp_path / "run/containers/auth.json", auths={"quay.io": auth("they", "secret")})
    # Root, who may run the tests, can read files of any mode.
    monkeypatch.setattr(os, "access", lambda path, mode: path != unreadable or mode == os.F_OK)
    write_json(tmp_path / ".docker/config.json", auths={"quay.io": auth("me", "secret")})
    credentials = Keychain(environ=environ).find("quay.io", "a")
    assert credentials is not None
    assert credentials.username == "me"
    assert f"credentials file {unreadable}: permission denied; skipping it" in caplog.text


def test_credential_helpers_of_registries_conf(tmp_path: Path, secrets: Path) -> None:
    """They are tried in order, with the registry as the server; an explicit file excludes them."""
    (secrets / "quay.io").write_text('{"Username":"helper","Secret":"s"}')
    authfile = write_json(tmp_path / "auth.json", auths={"quay.io": auth("file", "w"), "gone.io": auth("file", "w")})
    environ = {"REGISTRY_AUTH_FILE": str(authfile)}

    def users(*helpers: str, authfile: Path | None = None) -> list[str]:
        keychain = Keychain(authfile, environ, helpers=lambda: helpers)
        credentials = [keychain.find(registry, "team/x") for registry in ("quay.io", "gone.io")]
        return [match.username if match else "" for match in credentials]

    assert users("test", "containers-auth.json") == ["helper", "file"]
    assert users("containers-auth.json", "test") == ["file", "file"]
    assert users("absent", "test") == ["helper", ""]
    assert users("test", authfile=authfile) == ["file", "file"]


def test_explicit_file_is_the_only_one(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path)}
    write_json(tmp_path / ".docker/config.json", auths={"quay.io": auth("docker", "secret")})
    explicit = write_json(tmp_path / "auth.json", auths={})
    assert Keychain(explicit, environ).find("quay.io", "a") is None
    missing = tmp_path / "missing.json"
    with pytest.raises(ImageToolsError, match=r"missing\.json: credentials file does not exist") as caught:
        Keychain(missing, environ).find("quay.io", "a")
    assert "podman login --authfile" in str(caught.value.hint)


def test_missing_file_of_the_environment_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keychain = Keychain(None, {"REGISTRY_AUTH_FILE": str(tmp_path / "missing.json"), "HOME": str(tmp_path)})
    assert [keychain.find("quay.io", name) for name in ("a", "b")] == [None, None]
    (record,) = caplog.records
    assert record.getMessage().startswith(
        f"REGISTRY_AUTH_FILE: credentials file {tmp_path}/missing.json does not exist"
    )


def test_helper_runs_once_per_registry(tmp_path: Path, secrets: Path) -> None:
    (secrets / "quay.io").write_text('{"Username":"q","Secret":"s"}')
    keychain = Keychain(write_json(tmp_path / "auth.json", credsStore="test"))
    for name in ("a", "b", "c"):
        assert keychain.find("quay.io", name)
    assert (tmp_path / "calls").read_text() == "quay.io\n"
