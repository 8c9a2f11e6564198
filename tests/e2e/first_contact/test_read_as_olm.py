"""Manifests that OLM reads differently than they look: commands read them as OLM does, or refuse them."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.kit.opm import LAGOON

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.installed import InstalledOpm
    from tests.kit.registry import Registry

BINDING = """apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: hidden}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: default, namespace: default}]
"""
JSON = (
    '{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "hidden"}, '
    '"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}, '
    '"subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": "default"}]}'
)
CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: shown}\n"


@pytest.fixture
def bundle(newcomer: InstalledOpm) -> Path:
    return shutil.copytree(LAGOON / "0.1.0", newcomer.directory / "bundle")


def read(newcomer: InstalledOpm, bundle: Path, text: str) -> tuple[bool, bool]:
    """Return whether the permissions and the rendered objects contain the binding."""
    (bundle / "manifests" / "more.yaml").write_bytes(text.encode())
    granted = newcomer("bundle", "permissions", "./bundle")
    rendered = newcomer("bundle", "render", "./bundle", "--namespace", "lagoon")
    return "default/default" in granted, "name: hidden" in rendered


@pytest.mark.parametrize(
    "text",
    [
        f"{CONFIG_MAP}---\n{BINDING}",
        f"{CONFIG_MAP}---\r\n{BINDING}",
        f"---\n---\n{BINDING}",
        f"apiVersion: v1\nkind: List\nitems: [{JSON}]\n",
        f"apiVersion: v1\nkind: ConfigMapList\nitems: [null, {JSON}]\n",
        f"kind: ConfigMap\n{BINDING}",
        f"x: &x {{kind: ClusterRoleBinding}}\n{BINDING}<<: *x\n",
        f'{{"apiVersion": "v1", "kind": "ConfigMap"}}{JSON}',
    ],
    ids=["document", "crlf", "empty", "list", "typed-list", "key-twice", "merge-key", "json"],
)
def test_what_olm_applies_is_shown(newcomer: InstalledOpm, bundle: Path, text: str) -> None:
    assert read(newcomer, bundle, text) == (True, True)


@pytest.mark.parametrize(
    "text",
    [
        f"{CONFIG_MAP}...\n{BINDING}",
        f"{CONFIG_MAP}\r---\r{BINDING}",
        f"{CONFIG_MAP}\u2028---\u2028{BINDING}",
        f"---\n...\n{BINDING}",
    ],
    ids=["end", "cr", "line-separator", "end-of-nothing"],
)
def test_what_olm_ignores_is_not_shown(newcomer: InstalledOpm, bundle: Path, text: str) -> None:
    assert read(newcomer, bundle, text) == (False, False)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"{CONFIG_MAP}items: [{JSON}]\n", "1: a ConfigMap with items: OLM v0 reads"),
        (f"{CONFIG_MAP}---\nkind: list\nitems: [{JSON}]\n...\n", "5: a list with items: OLM v0 reads"),
        (f"kind:\n{CONFIG_MAP.replace('ConfigMap', 'Foo')}items: [[{JSON}]]\n", "1: a Foo with items: OLM v0 reads"),
        (f"{CONFIG_MAP}--- {JSON}\n", "4: unexpected"),
        (f"apiVersion: v1\nkind: List\nitems: [{{apiVersion: v1, kind: List, items: [{JSON}]}}]\n", "1: items[0]: a"),
        (f"\ufeff{JSON}{JSON}", "1: byte order mark before JSON"),
        (f"{JSON}\n---\n{CONFIG_MAP}", "2:1: Expecting value"),
        (BINDING.replace("{name: hidden}", "{name: hidden, labels: {a: 1}}"), "1: ClusterRoleBinding hidden: metadata"),
    ],
    ids=["items", "items-of-list", "items-of-foo", "separator", "nested", "mark", "json-then-yaml", "metadata"],
)
@pytest.mark.parametrize("command", ["permissions", "render"])
def test_what_is_read_differently_is_refused(
    newcomer: InstalledOpm, bundle: Path, command: str, text: str, problem: str
) -> None:
    (bundle / "manifests" / "more.yaml").write_bytes(text.encode())
    flags = ("--namespace", "lagoon") if command == "render" else ()
    done = newcomer.attempt("bundle", command, "./bundle", *flags)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"Error: ./bundle: manifests/more.yaml:{problem}")
    assert "hint: " in done.stderr


@pytest.mark.parametrize("key", ["Kind", "ROLEREF", "\u017fubjects"])
def test_keys_that_only_olm_v0_reads_are_refused(newcomer: InstalledOpm, bundle: Path, key: str) -> None:
    (bundle / "manifests" / "more.yaml").write_bytes(f"{BINDING}{key}: null\n".encode())
    done = newcomer.attempt("bundle", "permissions", "./bundle")
    assert done.returncode == 1
    assert f"manifests/more.yaml:1: ClusterRoleBinding: {key} is not a field: OLM v0 reads it as" in done.stderr


def test_file_with_the_name_of_an_incomplete_one_is_read(newcomer: InstalledOpm, bundle: Path) -> None:
    (bundle / "manifests" / ".opm-more.yaml.part").write_text(BINDING)
    assert "default/default" in newcomer("bundle", "permissions", "./bundle")


def test_installer_gets_the_rules_of_all_documents(newcomer: InstalledOpm, bundle: Path, registry: Registry) -> None:
    role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: second}\n"
    rules = "rules: [{apiGroups: [lagoon.example.com], resources: [seconds], verbs: [get]}]\n"
    (bundle / "manifests" / "more.yaml").write_text(f"{CONFIG_MAP}---\n{role}{rules}")
    name = f"{registry.host}/read-as-olm/lagoon"
    build = ("bundle", "build", "-d", "bundle/manifests", "-p", "lagoon-operator", "-c", "alpha")
    newcomer(*build, "--tag", f"{name}:1", "--push", "--use-http")
    add = ("index", "add", "--to-fbc", "-b", f"{name}:1", "-i", "scratch", "-t", f"{name}:catalog", "--push")
    newcomer(*add, "--use-http")
    manifests = newcomer("index", "manifests", f"{name}:catalog", "--olm", "v1", "-p", "lagoon-operator", "--use-http")
    (granted,) = [each for each in yaml.safe_load_all(manifests) if each["kind"] == "ClusterRole"]
    assert {"apiGroups": ["lagoon.example.com"], "resources": ["seconds"], "verbs": ["get"]} in granted["rules"]
