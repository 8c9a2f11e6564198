"""Credentials: token files and credential plugins."""

from __future__ import annotations

import base64
import json
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from opmkit.kube import Cluster, ClusterError
from opmkit.kube.api import NAMESPACE
from tests.kit.certificates import certificate_authority, server_certificate
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from tests.kit.apiserver import ApiServer

V1 = "client.authentication.k8s.io/v1"


def connect(server: ApiServer, tmp_path: Path, user: dict[str, Any]) -> Cluster:
    """Return a client with the credentials of ``user``."""
    path = server.kubeconfig(tmp_path / "config")
    content = yaml.safe_load(path.read_text())
    content["users"][0]["user"] = user
    path.write_text(yaml.safe_dump(content))
    return Cluster.connect(str(path))


def plugin(tmp_path: Path, script: str, **settings: Any) -> dict[str, Any]:
    """Return a user with a credential plugin that runs a shell script."""
    (tmp_path / "plugin").write_text(f"#!/bin/sh\n{script}\n")
    (tmp_path / "plugin").chmod(0o755)
    return {"exec": {"apiVersion": V1, "command": "./plugin", "interactiveMode": "IfAvailable", **settings}}


def credential(**status: str) -> str:
    """Return a shell command that prints an ExecCredential."""
    document = {"apiVersion": V1, "kind": "ExecCredential", "status": status}
    return f"cat <<'END'\n{json.dumps(document)}\nEND"


def test_token_file_is_read_again(server: ApiServer, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(f"{server.token}\n")
    cluster = connect(server, tmp_path, {"tokenFile": "token"})
    assert cluster.list(NAMESPACE)
    server.token = "renewed"  # an attribute of this server only
    token.write_text("renewed")
    assert cluster.list(NAMESPACE)
    token.unlink()
    server.token = "again"
    with pytest.raises(ClusterError, match=f"token file {token}: No such file"):
        cluster.list(NAMESPACE)


def test_plugin_is_run_when_its_token_is_rejected_or_expires(server: ApiServer, tmp_path: Path) -> None:
    log = tmp_path / "log"
    script = f'echo "$KUBERNETES_EXEC_INFO $GREETING $1" >> {log}\n'
    environment = [{"name": "GREETING", "value": "x"}]
    user = plugin(tmp_path, script + credential(token=server.token), args=["a"], env=environment)
    cluster = connect(server, tmp_path, user)
    assert cluster.list(NAMESPACE)
    assert cluster.list(NAMESPACE)
    (line,) = log.read_text().splitlines()
    information, *rest = line.rsplit(" ", 2)
    assert json.loads(information) == {"apiVersion": V1, "kind": "ExecCredential", "spec": {"interactive": False}}
    assert rest == ["x", "a"]
    server.token = "renewed"
    plugin(tmp_path, credential(token="renewed", expirationTimestamp="2020-01-01T00:00:00Z"))
    assert cluster.list(NAMESPACE)
    server.token = "third"
    plugin(tmp_path, credential(token="third"))
    before = len(server.requests)
    assert cluster.list(NAMESPACE)  # the expired token is not sent
    assert len(server.requests) == before + 1


def test_plugin_with_a_client_certificate(server: ApiServer, tmp_path: Path) -> None:
    user = yaml.safe_load(server.kubeconfig(tmp_path / "c", auth="certificate").read_text())["users"][0]["user"]
    files = {"client-certificate": "clientCertificateData", "client-key": "clientKeyData"}
    status = {name: Path(user[key]).read_text() for key, name in files.items()}
    assert connect(server, tmp_path, plugin(tmp_path, credential(**status))).list(NAMESPACE)
    assert server.requests[-1].user == "client"


@pytest.mark.parametrize(
    ("script", "settings", "problem"),
    [
        ("exit 3", {}, "exit status 3"),
        ("echo hello", {}, "output is not an ExecCredential"),
        ("echo '{\"status\": 1}'", {}, "output is not an ExecCredential"),
        ('echo \'{"status": {"token": 1}}\'', {}, "output is not an ExecCredential"),
        ("echo '{\"status\": {}}'", {}, "returned no credentials"),
        ("", {"apiVersion": "v1"}, "unsupported apiVersion 'v1'"),
        ("", {"command": "opmkit-no-such-plugin", "installHint": "install it so"}, "not found in PATH"),
    ],
)
def test_failing_plugins(
    script: str, settings: dict[str, Any], problem: str, server: ApiServer, tmp_path: Path
) -> None:
    cluster = connect(server, tmp_path, plugin(tmp_path, script, **settings))
    with pytest.raises(ClusterError, match=f"credential plugin .*: {problem}") as failure:
        cluster.list(NAMESPACE)
    assert str(failure.value.hint) == "install it so" if "installHint" in settings else True


def test_basic_authentication_and_impersonation(server: ApiServer, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="Unauthorized"):
        connect(server, tmp_path, {"username": "u", "password": "p"}).list(NAMESPACE)
    user = {"token": server.token, "as": "admin", "as-groups": ["a", "b"]}
    connect(server, tmp_path, user).list(NAMESPACE)
    assert server.requests[-1].headers["impersonate-user"] == "admin"


@pytest.mark.parametrize("name", ["client-certificate-data", "certificate-authority-data"])
def test_invalid_certificates(name: str, server: ApiServer, tmp_path: Path) -> None:
    broken = {name: base64.b64encode(b"not a certificate").decode()}
    path = server.kubeconfig(tmp_path / "config", **(broken if "authority" in name else {}))
    content = yaml.safe_load(path.read_text())
    content["users"][0]["user"] |= broken
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(ClusterError, match=r"^invalid (client certificate|certificate authorities) in the "):
        Cluster.connect(str(path)).list(NAMESPACE)


@pytest.mark.parametrize("token", ["secret\nX-Other: 1", "secret\xe9"])
def test_token_that_is_not_a_header_is_not_printed(token: str, server: ApiServer, tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="invalid credentials for the API server https://") as failure:
        connect(server, tmp_path, {"token": token}).list(NAMESPACE)
    assert "secret" not in f"{failure.value.message} {failure.value.hint}"
    assert not server.requests


def test_all_groups_of_the_impersonated_user_are_sent(server: ApiServer, tmp_path: Path) -> None:
    seen: list[tuple[str, str]] = []

    class Handler(QuietHandler):
        def do_GET(self) -> None:  # noqa: N802 (http.server names it)
            seen.extend((name, value) for name, value in self.headers.items() if name.startswith(("Impers", "Author")))
            self.answer(200, b'{"items": [], "metadata": {"resourceVersion": "1"}}')

    certificate = server_certificate(tmp_path, certificate_authority(tmp_path))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate.certificate, certificate.key)
    user = {"token": "t", "as": "ann", "as-groups": ["a", "b, c"], "as-user-extra": {"example.com/x": ["1", "2"]}}
    with WebServer(Handler, tls) as web:
        path = server.kubeconfig(tmp_path / "config", server=f"https://{web.host}")
        content = yaml.safe_load(path.read_text())
        content["users"][0]["user"] = user
        del content["clusters"][0]["cluster"]["certificate-authority-data"]
        content["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
        path.write_text(yaml.safe_dump(content))
        assert Cluster.connect(str(path)).list(NAMESPACE) == []
    assert seen == [
        ("Impersonate-User", "ann"),
        *(("Impersonate-Group", "a"), ("Impersonate-Group", "b, c")),
        *(("Impersonate-Extra-example.com%2Fx", "1"), ("Impersonate-Extra-example.com%2Fx", "2")),
        ("Authorization", "Bearer t"),
    ]
