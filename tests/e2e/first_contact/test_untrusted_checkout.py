"""Commands and pipelines run nothing from a checkout that has a module or program for each name that they use."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
import yaml

from opmkit.cli.help.content import describe_command
from tests.cli.test_help import commands
from tests.e2e.test_docs_examples import ALIASES
from tests.kit.example_reasons import NOT_RUN
from tests.kit.example_run import Example, ExampleRun, entry
from tests.kit.example_site import ExampleSite
from tests.kit.installed import ROOT, SYSTEM_PATH
from tests.kit.pipelines import Runner, run_action, run_gitlab_job, run_only_gitlab_job, write_offline_python
from tests.kit.registry import Registry
from tests.kit.traps import Traps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.forkserver import ForkServer
    from tests.kit.installed import InstalledOpm


@dataclass(frozen=True)
class InstalledSite(ExampleSite):
    """A site in which each example is a new process of the installed program."""

    def run(self, line: str) -> tuple[int, str]:
        return self._run_shell(self.local(line))


@pytest.fixture
def traps(newcomer: InstalledOpm, tmp_path: Path) -> Traps:
    """Return the traps in the working directory, next to a bundle."""
    shutil.copytree(ROOT / "examples" / "operator" / "bundle", newcomer.directory / "bundle")
    return Traps.add(newcomer.directory, newcomer.site_packages, tmp_path / "sprung")


def first_examples() -> Iterator[Example]:
    """Yield the first example of each command that a test can run."""
    for path, command in commands().items():
        if f"{path} ".startswith(ALIASES):
            continue
        content = describe_command(command.make_context(path, [], resilient_parsing=True))
        examples = (Example("help", text) for text in content.examples)
        if example := next((each for each in examples if entry(NOT_RUN, each) is None), None):
            yield example


@pytest.fixture
def trapped_site(newcomer: InstalledOpm, tmp_path: Path, forkserver: ForkServer) -> Iterator[tuple[ExampleRun, Traps]]:
    """Return the site of the examples with traps in it, and the installed program."""
    with Registry() as registry:
        prepared = ExampleSite.create(tmp_path, registry, forkserver)
        site = InstalledSite(prepared.root, registry, forkserver, dict(prepared.env))
        site.env["PATH"] = f"{tmp_path / 'bin'}:{newcomer.bin}:{SYSTEM_PATH}"
        traps = Traps.add(tmp_path / "prepared-site", newcomer.site_packages, tmp_path / "sprung")
        run = ExampleRun(site)
        yield run, traps
        run.stop()


@pytest.mark.parametrize(
    "step", [10, pytest.param(1, marks=[pytest.mark.long, pytest.mark.timeout(1200)])], ids=["sample", "all"]
)
def test_commands_import_nothing_from_the_working_directory(trapped_site: tuple[ExampleRun, Traps], step: int) -> None:
    run, traps = trapped_site
    for example in list(first_examples())[::step]:
        run.site.reset()
        if example.text.startswith("opm catalog "):
            run.run(Example("help", "opm serve ./catalog"))
        run.run(example)
        assert not traps.sprung(), example
    assert not run.problems, chr(10).join(run.problems)


@pytest.fixture
def bundles(newcomer: InstalledOpm) -> list[str]:
    """Return the directories of bundles, more than one process validates."""
    directory = newcomer.directory / "bundle"
    for number in range(2, 18):
        copy = newcomer.directory / "bundles" / str(number)
        shutil.copytree(directory, copy)
        for path in (copy / "manifests").iterdir():
            path.write_text(path.read_text().replace("0.1.0", f"0.{number}.0"))
    return [f"bundles/{number}" for number in range(2, 18)]


@pytest.mark.parametrize("pythonpath", [None, "", ".", ":", "CHECKOUT", "CHECKOUT/lib"])
def test_helpers_import_nothing_from_the_working_directory(
    newcomer: InstalledOpm, traps: Traps, bundles: list[str], pythonpath: str | None
) -> None:
    """What Python itself imports from PYTHONPATH before the first line of opm cannot be prevented."""
    (newcomer.directory / "lib").symlink_to(".")
    user = newcomer
    if pythonpath is not None:
        user = newcomer.with_env(PYTHONPATH=pythonpath.replace("CHECKOUT", str(newcomer.directory)))
    if pythonpath:
        for name in (*imported_at_start(newcomer), "opmkit", "sitecustomize", "usercustomize"):
            (newcomer.directory / f"{name}.py").unlink(missing_ok=True)
    for arguments in (["--no-cache"], ["--executor", "processes:2"]):
        done = user.attempt("bundle", "validate", *bundles, *arguments)
        assert (done.returncode, done.stderr, traps.sprung()) == (0, "", set())


def imported_at_start(user: InstalledOpm) -> list[str]:
    """Return the modules that the interpreter and the script of the command import before they call opm."""
    code = "import re, sys; from opmkit.cli.entry import opm; print(*sys.modules)"
    return user.shell_out([str(user.bin / "python"), "-I", "-c", code]).stdout.split()


KUBECONFIG = """
current-context: one
clusters: [{name: one, cluster: {server: "https://HOST"}}]
contexts: [{name: one, context: {cluster: one, user: one}}]
users: [{name: one, user: {exec: {apiVersion: client.authentication.k8s.io/v1, command: kube-trap}}}]
"""
CHART = """
apiVersion: mirror.openshift.io/v2alpha1
kind: ImageSetConfiguration
mirror: {helm: {local: [{name: tide, path: chart}]}}
"""
CONTRIBUTION = """
schema: olm.composite
components:
- name: one
  destination: {path: out}
  strategy:
    name: custom
    template: {schema: olm.builder.custom, config: {command: ext-trap, args: [], output: x.yaml}}
"""
CATALOGS = """
schema: olm.composite.catalogs
catalogs: [{name: one, destination: {workingDir: .}, builders: [olm.builder.custom]}]
"""


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("image inspect HOST/a:1", "credential helper docker-credential-trap for HOST: not found in PATH"),
        ("image inspect HOST/path/a:1", "credential helper docker-credential-d/trap for HOST/path: not found in PATH"),
        ("olm status --kubeconfig kubeconfig", "credential plugin kube-trap: not found in PATH"),
        ("bundle validate bundle --alpha-select-external ext-trap", "ext-trap: not found in PATH"),
        ("mirror --config charts.yaml --to oci:target", "helm is not installed"),
        ("image inspect containers-storage:localhost/a:1", "is installed"),
        ("index add --bundles HOST/a:1 --tag a:1 --container-tool buildah", "not found in PATH"),
        ("index add --bundles HOST/a:1 --tag a:1 --container-tool podman", "podman"),
        ("alpha render-template composite -f catalogs.yaml -c contribution.yaml --allow-programs", "not found in PATH"),
        (
            "alpha render-template composite -f catalogs.yaml -c path.yaml --allow-programs",
            "refusing to run ./ext-trap",
        ),
    ],
    ids=lambda value: value.split(" ")[-1] if value[0].islower() else None,
)
def test_programs_are_not_found_in_the_working_directory(
    newcomer: InstalledOpm, traps: Traps, basic_registry: Registry, command: str, message: str
) -> None:
    settings = newcomer.home / "registries.conf"
    settings.write_text(f'[[registry]]\nlocation = "{basic_registry.host}"\ninsecure = true\n')
    files = {
        "kubeconfig": KUBECONFIG,
        "charts.yaml": CHART,
        "contribution.yaml": CONTRIBUTION,
        "path.yaml": CONTRIBUTION.replace("ext-trap", "./ext-trap"),
        "catalogs.yaml": CATALOGS,
    }
    for name, text in files.items():
        (newcomer.directory / name).write_text(text.replace("HOST", basic_registry.host))
    (newcomer.directory / "chart").mkdir()
    (newcomer.directory / "docker-credential-d").mkdir()
    shutil.copy(newcomer.directory / "docker-credential-trap", newcomer.directory / "docker-credential-d" / "trap")
    (newcomer.home / ".docker").mkdir()
    helpers = {"credsStore": "trap", "credHelpers": {f"{basic_registry.host}/path": "d/trap"}}
    (newcomer.home / ".docker" / "config.json").write_text(json.dumps(helpers))
    user = newcomer.with_env(PATH=f".::{newcomer.bin}:", CONTAINERS_REGISTRIES_CONF=str(settings))
    done = user.attempt(*command.replace("HOST", basic_registry.host).split())
    assert message.replace("HOST", basic_registry.host) in done.stderr
    assert (done.returncode, traps.sprung()) == (1, set())


def test_a_plugin_next_to_the_kubeconfig_is_run(newcomer: InstalledOpm, traps: Traps) -> None:
    """As kubectl does: a command with a slash is relative to the kubeconfig that the user names."""
    kubeconfig = KUBECONFIG.replace("kube-trap", "./kube-trap").replace("HOST", "127.0.0.1:1")
    (newcomer.directory / "config").write_text(kubeconfig)
    newcomer.attempt("olm", "status", "--kubeconfig", "config")
    assert traps.sprung() == {"kube-trap"}


@pytest.mark.slow
def test_the_action_imports_nothing_from_the_checkout(newcomer: InstalledOpm, traps: Traps, tmp_path: Path) -> None:
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    (install,) = (step for step in steps if step.get("id") == "install")
    write_offline_python(newcomer.bin, tmp_path)
    env = {name: str(tmp_path / name.lower()) for name in ("GITHUB_PATH", "GITHUB_OUTPUT", "RUNNER_TEMP")}
    env |= {"PYTHON": str(tmp_path / "python"), "ACTION_PATH": str(ROOT), "EXTRAS": "", "PYTHONPATH": "."}
    runner = Runner(tmp_path, tmp_path, newcomer.directory, {"PIP_NO_COMPILE": "1", "PIP_NO_INDEX": "1", **env})
    done = runner.run(install["run"])
    assert (done.returncode, traps.sprung()) == (0, set()), done.stderr
    runner = replace(runner, bin=tmp_path / "runner_temp" / "opmkit" / "bin")
    done = run_action(runner, {"run": "opm bundle validate bundle", "sarif-file": ""}, {})
    assert (done.returncode, traps.sprung()) == (0, set()), done.stderr
    directory = tmp_path / "runner_temp" / "opmkit"
    installed = [path for path in directory.glob("[bv]*/**/*") if not path.is_symlink()]
    assert not [path for path in installed if path.stat().st_mode & 0o222]
    script = directory / "venv" / "bin" / "opm"
    script.chmod(0o755)
    script.write_text("")
    done = runner.run("opm version")
    assert done.returncode == 1
    assert done.stderr.endswith("venv/bin/opm: empty file\n")


def test_gitlab_jobs_import_nothing_from_the_checkout(newcomer: InstalledOpm, traps: Traps, tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples/gitlab/.gitlab-ci.yml", newcomer.directory)
    runner = Runner(newcomer.bin, tmp_path, newcomer.directory, {"PIP_NO_INDEX": "1"})
    done = run_gitlab_job(runner, "bundle", "validate-bundle", CI_PIPELINE_SOURCE="push")
    assert (done.returncode, traps.sprung()) == (0, set()), done.stdout + done.stderr


def test_a_directory_with_the_name_of_an_image_does_not_replace_it(newcomer: InstalledOpm) -> None:
    shutil.copytree(ROOT / "fixtures" / "catalogs" / "valid", newcomer.directory / "catalogs")
    published = newcomer.directory / "registry.example.com" / "me" / "catalog:latest"
    published.parent.mkdir(parents=True)
    published.symlink_to("../../catalogs")
    name = "registry.example.com/me/catalog:latest"
    for command in (
        ("validate", "catalogs", "--against", name),
        ("index", "diff", name, "catalogs", "--fail-on", "removed"),
        ("index", "plan", "catalogs", "--from", name),
        ("render", name),
        ("bundle", "validate", name),
        ("alpha", "list", "packages", name),
        ("index", "add", "-b", "", "--from-index", name, "--dry-run"),
        ("serve", name),
    ):
        done = newcomer.attempt(*command)
        assert done.returncode == 1, command
        assert f"{name}: both an image and a file or directory have this name" in done.stderr


@pytest.mark.parametrize("component", ["bundle", "catalog"])
def test_gitlab_jobs_install_no_package_of_the_checkout(
    newcomer: InstalledOpm, traps: Traps, tmp_path: Path, component: str
) -> None:
    requirement = "opmkit @ file:///missing/opmkit.tar.gz"
    traps.add_requirement(requirement)
    shutil.copy(ROOT / "examples/gitlab/.gitlab-ci.yml", newcomer.directory)
    runner = Runner(newcomer.bin, tmp_path, newcomer.directory, {"PIP_NO_INDEX": "1"})
    job = {"bundle": "validate-bundle", "catalog": "check-catalog"}[component]
    done = run_only_gitlab_job(runner, component, job, {"CI_PIPELINE_SOURCE": "push"}, requirement)
    assert (done.returncode, traps.sprung()) == (1, set()), done.stdout + done.stderr
    assert "/missing/opmkit.tar.gz" in done.stderr


@pytest.mark.parametrize("name", [".opm-validate.yaml", "policy.yaml", "known.json"])
def test_policies_of_a_checkout_are_regular_files(newcomer: InstalledOpm, name: str) -> None:
    (newcomer.directory / ".opm-validate.yaml").write_text("baseline: known.json\n")
    (newcomer.directory / name).unlink(missing_ok=True)
    os.mkfifo(newcomer.directory / "pipe")
    (newcomer.directory / name).symlink_to("pipe")
    user = newcomer.with_env(OPM_POLICY=name) if name == "policy.yaml" else newcomer
    done = user.attempt("bundle", "validate", str(ROOT / "examples" / "operator" / "bundle"))
    assert done.returncode == 1
    assert f"{name}: not a regular file" in done.stderr


POLICY_ERRORS = {
    "fail-on: error\n...\nfail-on: warning\n": "policy.yaml:3:1: several documents",
    '{"fail-on": "warning", "fail-on": "error"}': "policy.yaml:1:24: duplicate key 'fail-on'",
    "catalog: {against: ./published}": "base/published: no such file or directory",
    "catalog: {against: 127.0.0.1:1/a:1}": "127.0.0.1:1",
}


@pytest.mark.parametrize("policy", POLICY_ERRORS)
def test_policies_of_the_base_branch_have_effect(newcomer: InstalledOpm, policy: str) -> None:
    """The checkout contains a catalog in place of the published one."""
    catalog = ROOT / "fixtures" / "catalogs" / "valid"
    for name in ("catalog", "published", "127.0.0.1:1/a:1"):
        shutil.copytree(catalog, newcomer.directory / name)
    (newcomer.directory / "base").mkdir()
    (newcomer.directory / "base" / "policy.yaml").write_text(policy)
    done = newcomer.with_env(OPM_POLICY="base/policy.yaml").attempt("validate", "catalog")
    assert done.returncode == 1
    assert POLICY_ERRORS[policy] in done.stderr


@pytest.mark.parametrize("link", ["manifests/zz.yaml", "metadata"])
def test_links_out_of_a_bundle_are_refused_by_name(newcomer: InstalledOpm, link: str) -> None:
    """The image must contain what was validated, and no file of the user."""
    shutil.copytree(ROOT / "examples" / "operator" / "bundle", newcomer.directory / "bundle")
    outside = newcomer.directory / "outside"
    shutil.copytree(ROOT / "examples" / "operator" / "bundle" / "metadata", outside)
    path = newcomer.directory / "bundle" / link
    shutil.rmtree(path, ignore_errors=True)
    path.symlink_to(outside / ("annotations.yaml" if path.suffix else ""))
    for arguments in (
        ["bundle", "validate", "bundle"],
        ["bundle", "build", "--directory", "bundle/manifests", "--tag", "store:a:1"],
        ["bundle", "generate", "--directory", "bundle/manifests", "--output-dir", "other"],
        ["bundle", "permissions", "./bundle"],
        ["bundle", "render", "./bundle", "--namespace", "a"],
        ["bundle", "unpack", "./bundle", "--out", "unpacked"],
        ["render", "./bundle"],
        ["index", "add", "--bundles", "./bundle", "--tag", "store:index:1", "--binary-image", "scratch"],
    ):
        done = newcomer.attempt(*arguments)
        output = done.stdout + done.stderr
        assert done.returncode, arguments
        assert f"bundle/{link}: refusing to follow a symbolic link that leads out of" in output, (arguments, output)


def test_links_in_a_bundle_are_validated_and_built(newcomer: InstalledOpm) -> None:
    bundle = newcomer.directory / "bundle"
    shutil.copytree(ROOT / "examples" / "operator" / "bundle", bundle)
    (bundle / "shared.yaml").write_text("kind: [")
    (bundle / "manifests" / "zz.yaml").symlink_to("../shared.yaml")
    assert "manifests/zz.yaml" in newcomer.attempt("bundle", "validate", "bundle").stdout
    (bundle / "shared.yaml").write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: zz}\n")
    newcomer("bundle", "build", "--directory", "bundle/manifests", "--tag", "store:a:1")
    newcomer("bundle", "unpack", "store:a:1", "--out", "unpacked")
    assert (newcomer.directory / "unpacked/manifests/zz.yaml").read_text() == (bundle / "shared.yaml").read_text()


def test_a_removed_directory_is_not_looked_up_as_an_image(newcomer: InstalledOpm) -> None:
    """Anybody could own its name on Docker Hub."""
    (newcomer.directory / "operators").mkdir()
    name = "operators/lagoon/0.1.0"
    for command in (
        ("bundle", "validate", name),
        ("bundle", "validate", "./operators", name),
        ("bundle", "unpack", name),
        ("bundle", "permissions", name),
        ("render", name),
        ("validate", name),
        ("index", "diff", name, name),
        ("index", "add", "--bundles", name, "--dry-run"),
    ):
        done = newcomer.attempt(*command)
        assert done.returncode == 1, command
        hint = f"check the path, or write docker://{name} for the image"
        assert done.stderr.endswith(f"Error: {name}: no such file or directory\n  hint: {hint}\n"), done.stderr


@pytest.mark.parametrize("command", [("bundle", "validate"), ("render",)])
def test_an_empty_list_of_targets_is_an_error(newcomer: InstalledOpm, command: tuple[str, ...]) -> None:
    (newcomer.directory / "list.txt").write_text("# nothing\n")
    done = newcomer.attempt(*command, "@list.txt")
    assert (done.returncode, done.stdout) == (1, "")
    assert "Error: list.txt: empty list" in done.stderr
