"""Credentials in commands: several registries in one run, and no secrets in the output."""

from __future__ import annotations

import base64
import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from tests.imagetools.auth_files import auth, write_json
from tests.kit.content import put_image
from tests.kit.images import small_image
from tests.kit.registry import Registry
from tests.kit.tokenserver import TokenServer
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.opm import Opm

SECRET = "s3cr3t-w0rd"
USERS = ("source", "bundles", "target")


@pytest.fixture
def partitioned() -> Iterator[tuple[Registry, TokenServer]]:
    """Return a registry in which each of USERS may only access the repositories below a path of that name."""
    passwords = {user: f"{user}-secret" for user in (*USERS, "admin")}
    limits = {user: f"{user}/.*" for user in USERS}
    with TokenServer(passwords, limits=limits) as tokens, Registry(tokens=tokens) as registry:
        yield registry, tokens


def test_separate_credentials_for_source_bundles_and_target(
    partitioned: tuple[Registry, TokenServer], opm: Opm, tmp_path: Path
) -> None:
    registry, tokens = partitioned
    host = registry.host
    admin = write_json(tmp_path / "admin.json", auths={host: auth("admin", "admin-secret")})
    opm = replace(opm, flags=("--use-http",), env={"REGISTRY_AUTH_FILE": str(admin)})
    for version in ("0.1.0", "0.2.0"):
        opm.build_bundle(version, f"{host}/bundles/lagoon:{version}", "--push")
    scratch = ("--binary-image", "scratch", "--push")
    opm("index", "add", "--bundles", f"{host}/bundles/lagoon:0.1.0", "--tag", f"{host}/source/catalog:1", *scratch)
    tokens.issued.clear()
    auths = {f"{host}/{user}": auth(user, f"{user}-secret") for user in USERS}
    user_opm = replace(opm, flags=("--use-http", "--authfile", str(write_json(tmp_path / "users.json", auths=auths))))
    arguments = ("--bundles", f"{host}/bundles/lagoon:0.2.0", "--from-index", f"{host}/source/catalog:1")
    user_opm("index", "add", *arguments, "--tag", f"{host}/target/catalog:2", "--push")
    assert {issued.user for issued in tokens.issued} == set(USERS)
    for issued in tokens.issued:
        assert issued.scopes[0].startswith(f"repository:{issued.user}/")
    assert "lagoon-operator.v0.2.0" in opm("alpha", "list", "bundles", f"{host}/target/catalog:2")


def test_mirrors_get_separate_credentials(registry: Registry, opm: Opm, tmp_path: Path) -> None:
    """The credentials of the mirrored registry are not sent to the mirror, which fails without its own."""
    with Registry(users={"mirror-user": "mirror-secret"}) as mirror:
        (tmp_path / "mirrored.conf").write_text(
            f'[[registry]]\nprefix = "registry.test"\nlocation = "{registry.host}/primary"\ninsecure = true\n'
            f'[[registry.mirror]]\nlocation = "{mirror.host}/mirrored"\ninsecure = true\n'
        )
        options = RegistryOptions(plain_http=True)
        primary = small_image(tmp_path, {"a": b"primary"})
        copy_image(primary, RegistryClient(options).repository(Reference(registry.host, "primary/app")), "1")
        mirror_auth = write_json(tmp_path / "mirror.json", auths={mirror.host: auth("mirror-user", "mirror-secret")})
        authorized = RegistryClient(RegistryOptions(plain_http=True, authfile=mirror_auth))
        mirrored = small_image(tmp_path, {"a": b"mirrored"})
        copy_image(mirrored, authorized.repository(Reference(mirror.host, "mirrored/app")), "1")
        environment = {"CONTAINERS_REGISTRIES_CONF": str(tmp_path / "mirrored.conf")}
        primary_auth = write_json(
            tmp_path / "other.json", auths={"registry.test": auth("mirror-user", "mirror-secret")}
        )
        for authfile, expected in ((mirror_auth, mirrored), (primary_auth, primary)):
            opm = replace(opm, env=environment)
            output = opm("image", "inspect", "registry.test/app:1", "--authfile", str(authfile), "--output=json")
            assert json.loads(output)["digest"] == expected.digest
            assert json.loads(output)["name"] == "registry.test/app:1"


def helper(tmp_path: Path, script: str) -> dict[str, str]:
    """Create a credential helper that logs its arguments and runs ``script``; return the environment for it."""
    program = tmp_path / "bin/docker-credential-spy"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f'#!/bin/sh\necho "$*" >> {tmp_path}/called\ncat > /dev/null\n{script}\n')
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:/usr/bin:/bin"}


def test_failing_helper_is_a_warning_and_the_next_file_is_used(
    basic_registry: Registry, opm: Opm, tmp_path: Path
) -> None:
    host = basic_registry.host
    home = tmp_path / "home"
    write_json(home / ".config/containers/auth.json", auths={host: {}}, credHelpers={host: "spy"}, credsStore="absent")
    write_json(home / ".docker/config.json", auths={host: auth("tester", "secret")})
    options = RegistryOptions(plain_http=True, authfile=home / ".docker/config.json")
    digest = put_image(RegistryClient(options).repository(Reference(host, "a")), "1").digest
    environment = {"HOME": str(home), "XDG_RUNTIME_DIR": str(tmp_path / "run")}
    opm = replace(opm, flags=("--use-http",), env=environment | helper(tmp_path, f"echo {SECRET} >&2; exit 2"))
    done = opm.attempt("image", "inspect", f"{host}/a:1")
    assert digest in done.stdout
    assert done.stderr.splitlines() == [
        f"Warning: credential helper docker-credential-spy for {host}: exit code 2",
        f"Warning: credential helper docker-credential-absent for {host}: not found in PATH",
    ]
    assert (tmp_path / "called").read_text() == "get\n"


def test_helper_from_registries_conf(basic_registry: Registry, opm: Opm, tmp_path: Path) -> None:
    host = basic_registry.host
    (tmp_path / "registries.conf").write_text(
        f'credential-helpers = ["spy"]\n[[registry]]\nlocation = "{host}"\ninsecure = true\n'
    )
    environment = {"CONTAINERS_REGISTRIES_CONF": str(tmp_path / "registries.conf")}
    for answer, reason in (
        ('{"Username":"tester","Secret":"secret"}', "not found"),
        ("{}", "no credentials for "),
    ):
        opm = replace(opm, env=environment | helper(tmp_path, f"echo '{answer}'"))
        done = opm.attempt("image", "inspect", f"{host}/missing:1")
        assert reason in done.stderr
    assert (tmp_path / "called").read_text() == "get\nget\n"


FAILURES = {
    "wrong password": {"auths": {"BASIC": auth("tester", SECRET), "TOKEN": auth("tester", SECRET)}},
    "plain password": {"auths": {"BASIC": {"username": "tester", "password": SECRET}}},
    "identity token": {"auths": {"TOKEN": {"identitytoken": SECRET}}},
    "registry token": {"auths": {"TOKEN": {"registrytoken": SECRET}}},
    "no base64": {"auths": {"BASIC": {"auth": f"!{SECRET}"}}},
    "helper": {"auths": {}, "credsStore": "spy"},
    "helper without JSON": {"auths": {}, "credHelpers": {"BASIC": "spy"}},
    "wrong type": {"auths": [SECRET]},
    "broken file": f'{{"auths": {{"BASIC": {{"auth": "{SECRET}"',
}
HELPERS = {
    "helper": f"""echo '{{"Username":"tester","Secret":"{SECRET}"}}'""",
    "helper without JSON": f"echo {SECRET}; echo {SECRET} >&2",
}


@pytest.fixture(scope="module")
def guarded() -> Iterator[dict[str, Registry]]:
    """Return registries that require a password and a token."""
    with (
        TokenServer({"tester": "secret"}) as tokens,
        Registry(users={"tester": "secret"}) as basic,
        Registry(tokens=tokens) as token,
    ):
        yield {"BASIC": basic, "TOKEN": token}


@pytest.mark.parametrize("failure", FAILURES)
def test_output_has_no_secrets(
    guarded: dict[str, Registry],
    opm: Opm,
    tmp_path: Path,
    failure: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = FAILURES[failure]
    text = content if isinstance(content, str) else json.dumps(content)
    used = [registry for name, registry in guarded.items() if name in text] or list(guarded.values())
    for name, registry in guarded.items():
        text = text.replace(name, registry.host)
    authfile = tmp_path / "auth.json"
    authfile.write_text(text)
    environment = {"REGISTRY_AUTH_FILE": str(authfile)} | helper(tmp_path, HELPERS.get(failure, "exit 1"))
    reference = Reference(used[0].host, "team/app", "1")
    done = replace(opm, env=environment).attempt("image", "inspect", str(reference), "--use-http", "--debug")
    assert done.returncode == 1
    output = [done.stdout, done.stderr]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for registry in used:
        client = RegistryClient(RegistryOptions(plain_http=True))
        with caplog.at_level(logging.DEBUG), pytest.raises(ImageToolsError) as caught:
            client.repository(Reference(registry.host, "team/app")).resolve("1")
        output += [caught.value.message, str(caught.value.hint), repr(caught.value)]
    output.append(caplog.text)
    for secret in (SECRET, base64.b64encode(f"tester:{SECRET}".encode()).decode()):
        assert secret not in "".join(output)
    if "helper" in failure:
        assert set((tmp_path / "called").read_text().split()) == {"get"}


def test_output_has_no_query_of_a_redirect(opm: Opm) -> None:
    class Storage(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 (http.server names it)
            self.answer(403, b"denied")

        do_HEAD = do_GET  # noqa: N815

    with WebServer(Storage) as storage:

        class Front(QuietHandler):
            def do_GET(self) -> None:  # noqa: N802
                self.answer(307, headers={"Location": f"http://{storage.host}/blob?signature={SECRET}"})

            do_HEAD = do_GET  # noqa: N815

        with WebServer(Front) as front:
            done = opm.attempt("image", "inspect", f"{front.host}/a:1", "--use-http", "--debug")
    assert done.returncode == 1
    assert "where the registry redirects to" in " ".join(done.stderr.split())
    assert SECRET not in done.stdout + done.stderr
