"""``opm bundle permissions``, and dangerous permissions in the gate, differences and plans."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path
    from subprocess import CompletedProcess

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

KELP = FIXTURES / "kelp-operator"
OLD, NEW, NEWEST = (f"kelp-operator.v0.{number}.0" for number in (1, 2, 3))
SECRETS = "kelp-operator may now read all secrets in every namespace (secrets)"
BIND = "kelp-operator may now bind roles named kelp-viewer in every namespace (bind)"


@pytest.fixture
def site(opm: Opm) -> Opm:
    """Return the command next to two versions of a bundle, in ``old`` and ``new``."""
    for name, version in (("old", "0.1.0"), ("new", "0.2.0")):
        shutil.copytree(KELP / version, opm.directory / name)
    return opm


def csv_of(site: Opm, name: str) -> Path:
    """Return the file of the ClusterServiceVersion."""
    return site.directory / name / "manifests" / "kelp-operator.clusterserviceversion.yaml"


def test_permissions_of_a_bundle(site: Opm) -> None:
    lines = site("bundle", "permissions", "./new").splitlines()
    assert lines[:6] == [
        f"{NEW}: dangerous permissions",
        "KIND       SUBJECT        MAY",
        "secrets    kelp-operator  read all secrets in every namespace",
        "wildcard   kelp-operator  do everything with all resources of water.example.com in every namespace",
        "bind       kelp-operator  bind roles named kelp-viewer in every namespace",
        "workloads  kelp-operator  run pods in every namespace",
    ]
    assert lines[7] == "All permissions (install modes: AllNamespaces, OwnNamespace, SingleNamespace)"
    assert lines[14:] == [
        "",
        "All objects",
        "KIND                      NAMES",
        "ClusterServiceVersion     kelp-operator.v0.2.0",
        "CustomResourceDefinition  kelps.water.example.com",
        "Deployment                kelp-operator",
    ]
    report = json.loads(site("bundle", "permissions", "./new", "-o", "json"))
    assert [danger["kind"] for danger in report["dangers"]] == ["secrets", "wildcard", "bind", "workloads"]
    assert report["own_groups"] == ["water.example.com"]
    markdown = site("bundle", "permissions", "./new", "-o", "markdown")
    assert "| `secrets` | `kelp-operator` | `read all secrets in every namespace` |\n" in markdown


def test_the_difference_between_versions(site: Opm) -> None:
    text = site("bundle", "permissions", "./new", "--from", "./old")
    assert text.startswith(f"{NEW} may now, dangerously\nKIND     SUBJECT        MAY\nsecrets  ")
    assert "workloads" not in text
    back = site("bundle", "permissions", "./old", "--from", "./new", "--fail-on", "any")
    assert back.startswith(f"{OLD} may no longer, dangerously\n")
    assert site("bundle", "permissions", "./old", "--from", "./old") == f"{OLD} may do the same as {OLD}\n"
    diff = json.loads(site("bundle", "permissions", "./new", "--from", "./old", "-o", "json"))
    assert list(diff) == ["old", "new", "gained", "gained_dangers", "lost", "lost_dangers"]
    markdown = site("bundle", "permissions", "./old", "--from", "./old", "-o", "markdown")
    assert markdown == f"**`{OLD} may do the same as {OLD}`**\n"


@pytest.mark.parametrize(
    ("flags", "lines"),
    [
        (("--from", "./old", "--fail-on", "any"), [SECRETS, BIND, "Error: 2 new dangerous permissions"]),
        (("--from", "./old", "--fail-on", "bind,nodes"), [BIND, "Error: 1 new dangerous permission"]),
        (("--from", "./old", "--fail-on", "workloads"), []),
        (
            ("--fail-on", "workloads"),
            ["kelp-operator may run pods in every namespace (workloads)", "Error: 1 dangerous permission"],
        ),
        (("--fail-on", "nodes,exec"), []),
    ],
)
def test_exit_codes(site: Opm, flags: tuple[str, ...], lines: list[str]) -> None:
    done = site.attempt("bundle", "permissions", "./new", *flags)
    assert (done.returncode, done.stderr.splitlines()) == (1 if lines else 0, lines)
    assert done.stdout


def test_images(site: Opm, registry: Registry) -> None:
    names = [f"{registry.host}/permissions/kelp:{name}" for name in ("old", "new")]
    for name, image in zip(("old", "new"), names, strict=True):
        site("bundle", "build", "-d", f"{name}/manifests", "-t", image, "--push", "--use-http")
    arguments = ("bundle", "permissions", names[1], "--from", names[0], "--use-http")
    assert site(*arguments) == site("bundle", "permissions", "./new", "--from", "./old")
    done = site.attempt("bundle", "permissions", f"{registry.host}/permissions/kelp:none", "--use-http")
    assert (done.returncode, done.stdout) == (1, "")


def test_errors(site: Opm) -> None:
    done = site.attempt("bundle", "permissions", "./new", "--fail-on", "secret")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: invalid value of --fail-on: secret\n")
    done = site.attempt("bundle", "permissions", "./none")
    assert (done.returncode, done.stdout) == (1, "")
    path = csv_of(site, "new")
    path.write_text(path.read_text().replace("verbs: [get, list, watch]\n", "verbs: get\n", 1))
    done = site.attempt("bundle", "permissions", "./old", "--from", "./new")
    assert (done.returncode, done.stdout) == (1, "")
    field = "spec.install.spec.permissions[0].rules[1].verbs is a string, not a list"
    place = "manifests/kelp-operator.clusterserviceversion.yaml:1"
    assert done.stderr.startswith(f"Error: ./new: {place}: ClusterServiceVersion: {field}\n")


def test_hostile_names_are_escaped(site: Opm) -> None:
    binding = {
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "x"},
        "roleRef": {"kind": "ClusterRole", "name": "cluster-admin\x1b[2J\n|"},
        "subjects": [{"kind": "User", "name": "\u202eme`\r"}],
    }
    (site.directory / "new" / "manifests" / "binding.yaml").write_text(json.dumps(binding))
    for output in ("text", "json", "markdown"):
        done = site.attempt("bundle", "permissions", "./new", "--from", "./old", "-o", output, "--fail-on", "any")
        assert done.returncode == 1
        assert not {"\x1b", "\r", "\u202e"} & set(done.stdout + done.stderr)
        assert "cluster-admin" in done.stdout


def write_catalog(site: Opm, name: str, *bundles: str, images: dict[str, str] | None = None) -> None:
    """Write a catalog of the bundles in directories; their images replace the objects, or are added to them."""
    entries = [{"name": OLD}, {"name": NEW, "replaces": OLD}, {"name": NEWEST, "replaces": NEW, "skipRange": "<0.3.0"}]
    documents: list[dict[str, object]] = [
        {"schema": "olm.package", "name": "kelp-operator", "defaultChannel": "stable"},
        {"schema": "olm.channel", "package": "kelp-operator", "name": "stable", "entries": entries[: len(bundles)]},
    ]
    for bundle in bundles:
        document = json.loads(site("render", f"./{bundle}", "--output", "json"))
        documents.append({**document, **({"image": images[bundle]} if images else {})})
    directory = site.directory / name
    directory.mkdir()
    (directory / "catalog.yaml").write_text(yaml.safe_dump_all(documents))


def gate(site: Opm, *flags: str) -> tuple[list[str], CompletedProcess[str]]:
    """Validate a catalog, and return the messages about permissions."""
    done = site.attempt("validate", "catalog", "--against", "published", "-o", "json", *flags)
    findings = json.loads(done.stdout).get("findings", []) if done.stdout else []
    return [each["message"] for each in findings if each["rule"] == "GATE-PERMISSIONS"], done


def test_gate(site: Opm) -> None:
    write_catalog(site, "published", "old")
    write_catalog(site, "catalog", "old", "new")
    update = f"{OLD} to {NEW}: "
    assert gate(site)[1].returncode == 0
    for none in ("none", ""):
        found, done = gate(site, "--allowed-permissions", none)
        assert (found, done.returncode) == ([update + SECRETS, update + BIND], 1)
    assert gate(site, "--allowed-permissions", "secrets,kelp-operator/bind")[1].returncode == 0
    assert gate(site, "--allowed-permissions", "secrets,other/bind")[0] == [update + BIND]
    (site.directory / ".opm-validate.yaml").write_text("catalog: {allowed-permissions: [bind]}\n")
    assert gate(site)[0] == [update + SECRETS]
    policy = "catalog: {allowed-permissions: [bind]}\nignore: [{rule: GATE-PERMISSIONS, bundle: '*0.2.0', reason: x}]\n"
    (site.directory / ".opm-validate.yaml").write_text(policy)
    assert gate(site)[1].returncode == 0
    done = site.attempt("validate", "catalog")
    assert (done.returncode, done.stdout) == (1, "")
    assert "allowed-permissions in a policy, require --against" in done.stderr
    done = site.attempt("validate", "catalog", "--against", "published", "--allowed-permissions", "none,secrets")
    assert "invalid value of --allowed-permissions: none\n" in done.stderr


def test_gate_reports_what_the_last_update_adds(site: Opm) -> None:
    shutil.copytree(site.directory / "new", site.directory / "newest")
    text = csv_of(site, "newest").read_text().replace("0.2.0", "0.3.0").replace(OLD, NEW)
    csv_of(site, "newest").write_text(text)
    write_catalog(site, "published", "old", "new")
    write_catalog(site, "catalog", "old", "new", "newest")
    found, done = gate(site, "--allowed-permissions", "none")
    assert (found, done.returncode) == ([], 0)
    csv_of(site, "newest").write_text(text.replace("[secrets]", "[secrets, pods/exec]"))
    (site.directory / "catalog").rename(site.directory / "before")
    write_catalog(site, "catalog", "old", "new", "newest")
    assert [each.partition(":")[0] for each in gate(site, "--allowed-permissions", "none")[0]] == [f"{NEW} to {NEWEST}"]


def test_gate_differences_and_plans_read_the_images(site: Opm, registry: Registry) -> None:
    images = {name: f"{registry.host}/permissions/{name}:1" for name in ("old", "new")}
    shutil.copytree(site.directory / "new", site.directory / "hidden")
    role = "kind: RoleBinding\nmetadata: {name: x}\nroleRef: {kind: ClusterRole, name: cluster-admin}\n"
    subject = "subjects: [{kind: ServiceAccount, name: kelp-operator}]\n"
    with csv_of(site, "hidden").open("a") as file:
        file.write(f"---\n{role}{subject}")  # OLM v1 applies the second document of a file
    for name, source in (("old", "old"), ("new", "hidden")):
        site("bundle", "build", "-d", f"{source}/manifests", "-t", images[name], "--push", "--use-http")
    shutil.rmtree(site.directory / "new")
    shutil.copytree(KELP / "0.1.0", site.directory / "new")
    path = csv_of(site, "new")
    path.write_text(path.read_text().replace("0.1.0", "0.2.0"))  # objects without permissions
    write_catalog(site, "published", "old", images=images)
    write_catalog(site, "catalog", "old", "new", images=images)
    update = f"{OLD} to {NEW}: "
    everything = "kelp-operator may now do everything in its own namespace (everything)"
    found, _ = gate(site, "--allowed-permissions", "none", "--use-http")
    assert found == [update + everything, update + SECRETS, update + BIND]

    arguments = ("index", "diff", "published", "catalog", "--fail-on", "gained-permission")
    assert "may now" not in site(*arguments)
    done = site.attempt(*arguments, "--pull-bundles", "--use-http")
    assert done.returncode == 1
    assert f"! {update}{everything}\n" in done.stdout
    assert done.stderr.count("gained permission: ") == 3

    plan = ("index", "plan", "catalog", "--from", "published", "--permissions")
    assert "may now" not in site(*plan)
    text = site(*plan, "--pull-bundles", "--use-http")
    assert f"Permissions: {update}{everything}\n" in text
    (change,) = json.loads(site(*plan, "--pull-bundles", "--use-http", "-o", "json"))["permissions"]
    assert [danger["kind"] for danger in change["gained"]] == ["everything", "secrets", "bind"]
    done = site.attempt(*plan[:-1], "--fail-on", "permissions", "--pull-bundles", "--use-http", "-o", "markdown")
    assert done.returncode == 1
    assert "| package | new permissions |" in done.stdout


def test_unreadable_images_fail_the_gate(site: Opm, registry: Registry) -> None:
    images = {name: f"{registry.host}/permissions/unreadable:{name}" for name in ("old", "new")}
    write_catalog(site, "published", "old", images=images)
    write_catalog(site, "catalog", "old", "new", images=images)
    found, done = gate(site, "--allowed-permissions", "secrets,bind", "--use-http")
    assert (found, done.returncode) == ([], 1)
    assert f"{images['old']}" in done.stderr
    path = csv_of(site, "new")
    path.write_text(path.read_text().replace("clusterPermissions:", "ClusterPermissions:"))
    for name in ("old", "new"):
        site("bundle", "build", "-d", f"{name}/manifests", "-t", images[name], "--push", "--use-http")
    found, done = gate(site, "--allowed-permissions", "secrets,bind", "--use-http")
    assert done.returncode == 1
    (message,) = found
    assert "spec.install.spec.ClusterPermissions is not a field: OLM v0 reads it as clusterPermissions" in message
