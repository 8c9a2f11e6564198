"""Kubeconfig files."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from opmkit.kube import Cluster, ClusterError
from opmkit.kube.kubeconfig import load_kubeconfig

if TYPE_CHECKING:
    from pathlib import Path


def config(name: str, *, user: Any = None, current: Any = True, **cluster: Any) -> dict[str, Any]:
    """Return a kubeconfig with one cluster, one user and one context of the same name."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        **({"current-context": name} if current else {}),
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.test:6443", **cluster}}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"ns-{name}"}}],
    }


def write(path: Path, content: Any) -> str:
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_text(yaml.safe_dump(content))
    return str(path)


def test_several_files_are_merged(tmp_path: Path) -> None:
    first = write(tmp_path / "a", {**config("one", current=False)})
    second = write(tmp_path / "b", config("two"))
    third = write(tmp_path / "c", {**config("one", **{"insecure-skip-tls-verify": True}), "current-context": "one"})
    empty = tmp_path / "empty"
    empty.write_text("")
    paths = f"{first}:{tmp_path / 'missing'}::{second}:{third}:{empty}"
    assert load_kubeconfig(paths).server.url == "https://two.test:6443"
    one = load_kubeconfig(paths, "one")
    assert (one.server.url, one.server.verify_tls, one.namespace) == ("https://one.test:6443", True, "ns-one")
    with pytest.raises(ClusterError, match="context 'x' does not exist") as failure:
        load_kubeconfig(paths, "x")
    assert "one, two" in str(failure.value.hint)


def test_query_of_a_server_is_ignored(tmp_path: Path) -> None:
    """As by client-go; messages name the server, and it can be a secret."""
    path = write(tmp_path / "c", config("one", server="https://one.test/path?token=secret#fragment"))
    assert load_kubeconfig(path).server.url == "https://one.test/path"


def test_paths_are_relative_to_their_file(tmp_path: Path) -> None:
    (tmp_path / "first" / "pki").mkdir(parents=True)
    for name in ("ca", "crt", "key", "token"):
        (tmp_path / "first" / "pki" / name).write_text(name)
    user = {"client-certificate": "pki/crt", "client-key": "pki/key", "tokenFile": "pki/token"}
    first = write(tmp_path / "first" / "config", config("one", user=user, **{"certificate-authority": "pki/ca"}))
    second = write(tmp_path / "second" / "config", config("two", user={"exec": {"command": "./plugin"}}))
    one = load_kubeconfig(f"{first}:{second}")
    assert one.server.authorities == "ca"
    assert one.user.certificate is not None
    assert (one.user.certificate.certificate, one.user.certificate.key) == ("crt", "key")
    assert one.user.token_file == tmp_path / "first" / "pki" / "token"
    plugin = load_kubeconfig(f"{first}:{second}", "two").user.plugin
    assert plugin is not None
    assert plugin.command == str(tmp_path / "second" / "plugin")


def test_settings(tmp_path: Path) -> None:
    data = {f"{name}-data": base64.b64encode(name.encode()).decode() for name in ("client-certificate", "client-key")}
    user = {**data, "token": "t", "as": "admin", "as-groups": ["a", "b"], "username": "u", "password": "p"}
    cluster: dict[str, Any] = {
        "tls-server-name": "api",
        "proxy-url": "http://proxy.test:3128",
        "insecure-skip-tls-verify": True,
    }
    found = load_kubeconfig(write(tmp_path / "c", config("one", user=user, **cluster)))
    assert (found.server.tls_name, found.server.proxy, found.server.verify_tls) == ("api", cluster["proxy-url"], False)
    assert (found.user.token, found.user.name) == ("t", "u")
    assert found.user.impersonation == (
        *(("Impersonate-User", "admin"), ("Impersonate-Group", "a"), ("Impersonate-Group", "b")),
    )
    assert "'t'" not in repr(found)


def test_credential_plugin_receives_the_cluster(tmp_path: Path) -> None:
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": "plugin",
        "args": ["a"],
        "env": [{"name": "A", "value": "b"}],
        "provideClusterInfo": True,
        "interactiveMode": "Never",
    }
    extension = {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}}
    found = load_kubeconfig(write(tmp_path / "c", config("one", user={"exec": plugin}, extensions=[extension])))
    assert found.user.plugin is not None
    assert (found.user.plugin.command, found.user.plugin.arguments) == ("plugin", ("a",))
    assert (found.user.plugin.environment, found.user.plugin.interactive) == ({"A": "b"}, False)
    assert found.user.plugin.cluster is not None
    assert found.user.plugin.cluster["config"] == {"audience": "x"}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"current-context": 1}, "current-context: not a string"),
        ({"current-context": ""}, "current-context is not set"),
        ({"current-context": "none"}, "context 'none' does not exist"),
        ({"clusters": []}, "context 'one': cluster 'one' does not exist"),
        ({"users": []}, "context 'one': user 'one' does not exist"),
        ({"clusters": [{"name": "one"}]}, "cluster 'one': server is not set"),
        ({"clusters": [{"name": "one", "cluster": []}]}, "server is not set"),
        ({"clusters": [{"name": "one", "cluster": {"server": "x:y"}}]}, "cluster 'one': server: invalid URL$"),
        ({"clusters": [{"name": "one", "cluster": {"server": "http://\x1b"}}]}, "server: invalid URL$"),
        ({"clusters": [{"name": "one", "cluster": {"server": "https://"}}]}, "server: invalid URL$"),
        ({"clusters": [{"name": "one", "cluster": {"server": "x", "proxy-url": "v1"}}]}, "proxy-url: invalid URL"),
        ({"clusters": [{"name": "one", "cluster": "x"}]}, "clusters: not a mapping"),
        ({"clusters": [1]}, "clusters: not a mapping"),
        ({"clusters": [{"name": 1, "cluster": {}}]}, "clusters: name: not a string"),
        ({"users": [{"name": "one", "user": {"token": 5}}]}, "user 'one': token: not a string"),
        ({"users": [{"name": "one", "user": {"client-key": "gone"}}]}, "user 'one': client-key gone: No such file"),
        ({"users": [{"name": "one", "user": {"client-key-data": "\u00fc"}}]}, "client-key: not in PEM format"),
        ({"users": [{"name": "one", "user": {"exec": []}}]}, ""),
        ({"users": [{"name": "one", "user": {"exec": [1]}}]}, "exec: not a mapping"),
        ({"users": [{"name": "one", "user": {"exec": {"args": []}}}]}, "exec: command is not set"),
        ({"users": [{"name": "one", "user": {"exec": {"command": "x", "args": [1]}}}]}, "args: not a string"),
        ({"users": [{"name": "one", "user": {"exec": {"command": "x", "env": "x"}}}]}, "env: not a list"),
        ({"users": [{"name": "one", "user": {"auth-provider": {"name": "gcp"}}}]}, "unsupported auth-provider 'gcp'"),
        ({"users": [{"name": "one", "user": {"as-groups": "x"}}]}, "as-groups: not a list"),
        ({"users": [{"name": "one", "user": {"as-user-extra": {"x": "y"}}}]}, "as-user-extra: x: not a list"),
        ({"users": [{"name": "one", "user": {"as-user-extra": {"x": [1]}}}]}, "as-user-extra: not a string"),
    ],
)
def test_invalid_values(changes: dict[str, Any], problem: str, tmp_path: Path) -> None:
    path = write(tmp_path / "config", {**config("one"), **changes})
    if not problem:
        assert load_kubeconfig(path).user.plugin is None
        return
    with pytest.raises(ClusterError, match=f"^invalid kubeconfig {path}: .*{problem}"):
        load_kubeconfig(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", "config:2:1: did not find expected node content"),
        ("[" * 100_000, "config:1:201: more than 200 levels of nesting"),
        ("\0", "config:1: control characters are not allowed"),
    ],
    ids=["syntax", "nesting", "control character"],
)
def test_invalid_files(text: str, problem: str, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(text)
    with pytest.raises(ClusterError, match=f"^invalid kubeconfig {tmp_path}/{problem}"):
        load_kubeconfig(str(tmp_path / "config"))


def test_token_of_a_removed_provider_is_used(tmp_path: Path) -> None:
    provider = {"name": "oidc", "config": {"id-token": "t"}}
    assert load_kubeconfig(write(tmp_path / "c", config("one", user={"auth-provider": provider}))).user.token == "t"


def test_search_of_the_kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, named, given = (write(tmp_path / name / ".kube" / "config", config(name)) for name in ("home", "env", "flag"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert Cluster.connect().host == "https://home.test:6443"
    monkeypatch.setenv("KUBECONFIG", named)
    assert Cluster.connect().host == "https://env.test:6443"
    flagged = Cluster.connect(given, namespace="mine")
    assert (flagged.host, flagged.namespace) == ("https://flag.test:6443", "mine")
    assert Cluster.connect(home).namespace == "ns-home"
