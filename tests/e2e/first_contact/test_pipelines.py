"""The example repositories and their page: the commands and the steps of the pipelines, run as written."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
import yaml

from tests.kit.bundles import push_image
from tests.kit.command_lines import console_script
from tests.kit.images import small_image
from tests.kit.installed import ROOT
from tests.kit.pipelines import (
    Runner,
    run_action,
    run_github_job,
    run_gitlab_job,
)
from tests.kit.tekton import RunResult, matching_runs, run_pipeline_run

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.installed import InstalledOpm
    from tests.kit.registry import Registry

PAGE = ROOT / "docs" / "pipelines.md"
CATALOG = "catalogs/lagoon-operator/catalog.yaml"
BOTH = {"lagoon-operator.v0.1.0", "lagoon-operator.v0.2.0"}


@pytest.fixture
def runner(newcomer: InstalledOpm, tmp_path: Path, registry: Registry, basic_registry: Registry) -> Runner:
    """Return a runner with a logged-in user, and the default base image in place of that of operator-registry."""
    push_image(f"{registry.host}/base/opm:v1.73.0", small_image(tmp_path, {"bin/opm": b""}))
    settings = tmp_path / "registries.conf"
    settings.write_text(
        f'[[registry]]\nlocation = "{basic_registry.host}"\ninsecure = true\n'
        f'[[registry]]\nprefix = "quay.io/operator-framework"\nlocation = "{registry.host}/base"\ninsecure = true\n'
    )
    (newcomer.home / ".docker").mkdir()
    (newcomer.home / ".docker" / "config.json").write_text(
        json.dumps({"auths": {basic_registry.host: {"auth": "dGVzdGVyOnNlY3JldA=="}}})
    )
    env = {"CONTAINERS_REGISTRIES_CONF": str(settings), "TMPDIR": str(tmp_path)}
    (newcomer.directory / "opmkit").symlink_to(ROOT)
    return Runner(newcomer.bin, tmp_path, newcomer.directory, env)


def follow_page(runner: Runner, registry: str, system: str) -> Runner:
    """Create the repository and publish the first version with the commands of the page."""
    script = console_script(PAGE, "Create the repository", "Publish the first version")
    assert script.count("opm ") > 5
    done = runner.run(script.replace("ghcr.io/me", registry).replace("github-actions", system))
    assert done.returncode == 0, done.stderr
    assert "lagoon-operator.v0.1.0" in done.stdout.splitlines()[-1]
    return replace(runner, directory=runner.directory / "lagoon-operator")


def develop_next_version(runner: Runner) -> None:
    """Set the version of the bundle."""
    csv = runner.directory / "bundle/manifests/lagoon-operator.clusterserviceversion.yaml"
    content = csv.read_text().replace("0.1.0", "0.2.0")
    csv.write_text(content.replace("\n  version:", "\n  replaces: lagoon-operator.v0.1.0\n  version:"))


def add_to_template(runner: Runner, registry: str) -> None:
    done = runner.run(console_script(PAGE, "Release a version"), {"REGISTRY": registry})
    assert done.returncode == 0, done.stderr


def bundles(runner: Runner, image: str) -> set[str]:
    done = runner.run(f"opm alpha list bundles {image}")
    assert done.returncode == 0, done.stderr
    return {word for word in done.stdout.split() if word.startswith("lagoon-operator.v")}


@pytest.mark.slow
def test_github_workflows_validate_release_and_publish(runner: Runner, basic_registry: Registry) -> None:
    registry = f"{basic_registry.host}/me"
    runner = follow_page(runner, registry, "github-actions")
    develop_next_version(runner)
    done = run_github_job(runner, "bundle.yaml", "validate")
    assert done.returncode == 0, done.stderr
    assert "sarif=true" in (runner.scratch / "output").read_text()
    done = run_github_job(runner, "bundle.yaml", "release", GITHUB_REF_NAME="v0.2.0")
    assert done.returncode == 0, done.stderr
    assert bundles(runner, f"{registry}/lagoon-preview:latest") == BOTH

    add_to_template(runner, registry)
    for job in ("check", "publish"):
        done = run_github_job(runner, "catalog.yaml", job)
        assert done.returncode == 0, done.stderr
    assert "lagoon-operator.v0.2.0" in (runner.scratch / "summary.md").read_text()
    assert bundles(runner, f"{registry}/lagoon-catalog:latest") == BOTH

    check_rejects_bad_changes(runner, lambda: run_github_job(runner, "catalog.yaml", "check"))
    assert "GATE-BUNDLE-REMOVED" in (runner.directory / "catalog.sarif").read_text()
    (runner.directory / "bundle/manifests/lagoons.water.example.com.crd.yaml").unlink()
    assert run_github_job(runner, "bundle.yaml", "validate").returncode == 1
    assert json.loads((runner.directory / "bundle.sarif").read_text())["runs"][0]["results"]


@pytest.mark.slow
def test_gitlab_components_validate_release_and_publish(runner: Runner, basic_registry: Registry) -> None:
    registry = f"{basic_registry.host}/me"
    runner = follow_page(runner, registry, "gitlab")
    predefined = {"CI_REGISTRY": basic_registry.host, "CI_REGISTRY_USER": "tester", "CI_REGISTRY_PASSWORD": "secret"}
    develop_next_version(runner)
    done = run_gitlab_job(runner, "bundle", "validate-bundle")
    assert done.returncode == 0, done.stderr
    done = run_gitlab_job(runner, "bundle", "release-bundle", CI_COMMIT_TAG="v0.2.0", **predefined)
    assert done.returncode == 0, done.stderr
    assert bundles(runner, f"{registry}/lagoon-preview:latest") == BOTH

    add_to_template(runner, registry)
    for job in ("check-catalog", "publish-catalog"):
        done = run_gitlab_job(runner, "catalog", job, **predefined)
        assert done.returncode == 0, done.stderr
    assert bundles(runner, f"{registry}/lagoon-catalog:latest") == BOTH

    for line in hook_commands(runner):
        done = runner.run(line)
        assert done.returncode == 0, done.stderr
    check_rejects_bad_changes(runner, lambda: run_gitlab_job(runner, "catalog", "check-catalog", **predefined))
    assert "GATE-BUNDLE-REMOVED" in (runner.directory / "catalog.junit.xml").read_text()
    ElementTree.parse(runner.directory / "bundle.junit.xml")
    anonymous = {**predefined, "CI_REGISTRY_PASSWORD": "wrong"}
    assert run_gitlab_job(runner, "catalog", "publish-catalog", **anonymous).returncode == 1
    (runner.directory / "bundle/manifests/lagoons.water.example.com.crd.yaml").unlink()
    (runner.directory / CATALOG).write_text("schema: olm.bundle\n")
    for line in hook_commands(runner):
        assert runner.run(line).returncode == 1, line


@pytest.mark.slow
def test_tekton_pipelines_validate_release_and_publish(runner: Runner, basic_registry: Registry) -> None:
    registry = f"{basic_registry.host}/me"
    runner = follow_page(runner, registry, "tekton")
    platform = PipelinesAsCode(runner)
    develop_next_version(runner)
    assert platform.push("pull_request", "main").done.returncode == 0
    released = platform.push("push", "refs/tags/v0.2.0")
    assert released.done.returncode == 0, released.done.stderr
    assert released.results["IMAGE_URL"] == f"{registry}/lagoon-bundle:0.2.0"
    assert bundles(runner, f"{registry}/lagoon-preview:latest") == BOTH

    add_to_template(runner, registry)
    published = platform.push("push", "refs/heads/main")
    assert published.done.returncode == 0, published.done.stderr
    assert bundles(runner, "{IMAGE_URL}@{IMAGE_DIGEST}".format(**published.results)) == BOTH

    check_rejects_bad_changes(runner, lambda: platform.push("pull_request", "main").done)
    assert "the published bundle was removed" in platform.push("push", "refs/heads/main").done.stderr
    (runner.directory / "bundle/manifests/lagoons.water.example.com.crd.yaml").unlink()
    assert platform.push("push", "refs/tags/v0.3.0").done.returncode == 1
    assert runner.run(f"opm image inspect {registry}/lagoon-bundle:0.3.0").returncode != 0


class PipelinesAsCode:
    """Pipelines as Code for the repository in the directory of a runner, with the credentials of its registry."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._secrets = {name: runner.scratch / name for name in ("registry-credentials", "git-auth")}
        for directory in self._secrets.values():
            directory.mkdir()
        shutil.copy(runner.scratch / "home/.docker/config.json", self._secrets["registry-credentials"])
        for name in (".git-credentials", ".gitconfig"):
            (self._secrets["git-auth"] / name).touch()
        self._git("init --quiet --initial-branch main")

    def push(self, event: str, ref: str) -> RunResult:
        """Commit everything, and run the pipeline of an event."""
        self._git("add --all")
        self._git("-c user.name=me -c user.email=me@example.com commit --quiet --allow-empty --message change")
        variables = {
            "repo_url": f"file://{self._runner.directory}",
            "revision": self._git("rev-parse HEAD"),
            "source_branch": ref,
            "git_auth_secret": "git-auth",
        }
        (name,) = matching_runs(self._runner.directory / ".tekton", event, ref)
        return run_pipeline_run(self._runner, name, variables, self._secrets)

    def _git(self, command: str) -> str:
        done = self._runner.run(f"git {command}")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


def hook_commands(runner: Runner) -> list[str]:
    """Return the command lines of the pre-commit hooks in the example."""
    hooks = {hook["id"]: hook for hook in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    used = yaml.safe_load((runner.directory / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert {hook["id"] for hook in used} == set(hooks)
    chosen = [(hooks[hook["id"]], hook.get("args")) for hook in used]
    return [" ".join([hook["entry"], *(arguments or hook["args"])]) for hook, arguments in chosen]


def check_rejects_bad_changes(runner: Runner, check: Callable[[], subprocess.CompletedProcess[str]]) -> None:
    """Check that a job fails if the catalog is edited by hand, and if a published bundle is removed."""
    catalog, template = runner.directory / CATALOG, runner.directory / "templates/lagoon-operator.yaml"
    rendered = catalog.read_text()
    catalog.write_text(f"{rendered}---\nschema: extra\n")
    done = check()
    assert done.returncode == 1
    assert CATALOG in done.stdout + done.stderr
    catalog.write_text(rendered)
    content = yaml.safe_load(template.read_text())
    content["entries"] = [
        entry for entry in content["entries"] if not entry.get("image", "").endswith("lagoon-bundle:0.1.0")
    ]
    for entry in content["entries"]:
        if entry["schema"] == "olm.channel":
            entry["entries"] = [{"name": "lagoon-operator.v0.2.0"}]
    template.write_text(yaml.safe_dump(content))
    assert runner.run("opm template render templates --output-dir catalogs").returncode == 0
    assert check().returncode == 1


@pytest.mark.parametrize(("command", "code"), [("echo '{}' > a.sarif", 0), ("echo '{}' > a.sarif; exit 3", 3)])
def test_the_action_uploads_a_report_and_exits_with_the_code_of_the_command(
    runner: Runner, command: str, code: int
) -> None:
    assert run_action(runner, {"run": command, "sarif-file": "a.sarif"}, {}).returncode == code
    assert (runner.scratch / "output").read_text() == "sarif=true\n"


@pytest.mark.parametrize("command", ["> a.sarif; exit 3", "false | cat; echo '{}' > a.sarif", "echo $UNDEFINED"])
def test_the_action_fails_without_a_report(runner: Runner, command: str) -> None:
    assert run_action(runner, {"run": command, "sarif-file": "a.sarif"}, {}).returncode != 0
    assert not (runner.scratch / "output").exists()
