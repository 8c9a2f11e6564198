"""The pages about pipelines and their examples: the typed commands, and the steps of the pipelines, run as written."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest
import yaml

from tests.kit.bundles import push_image
from tests.kit.command_lines import console_script
from tests.kit.guides import Guide, with_opm
from tests.kit.images import small_image
from tests.kit.installed import ROOT
from tests.kit.pipelines import (
    Runner,
    run_action,
    run_github_job,
    run_gitlab_job,
    run_only_gitlab_job,
    use_base_policy,
)
from tests.kit.tekton_events import PipelinesAsCode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.installed import InstalledOpm
    from tests.kit.registry import Registry

CATALOG = "catalogs/lagoon-operator/catalog.yaml"
BOTH = {"lagoon-operator.v0.1.0", "lagoon-operator.v0.2.0"}


@pytest.fixture
def machine(newcomer: InstalledOpm, tmp_path: Path, registry: Registry, basic_registry: Registry) -> Runner:
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
    return Runner(newcomer.bin, tmp_path, newcomer.directory, env)


@pytest.fixture
def runner(machine: Runner) -> Runner:
    """Return a runner with repositories that take the places of those at GitHub and GitLab."""
    return replace(machine, env={**machine.env, **rewritten_urls(machine.scratch / "origins")})


def rewritten_urls(origins: Path) -> dict[str, str]:
    """Return variables with which git uses bare repositories in a directory instead of GitHub and GitLab."""
    for name in ("opmkit/opmkit", "me/lagoon-operator", "me/opmkit"):
        subprocess.run(["git", "init", "--quiet", "--bare", origins / f"{name}.git"], check=True)
    source = ["git", f"--git-dir={origins}/opmkit/opmkit.git", f"--work-tree={ROOT}"]
    subprocess.run([*source, "add", "--all"], check=True)
    identity = ["-c", "user.name=me", "-c", "user.email=me@example.com"]
    subprocess.run([*source, *identity, "commit", "--quiet", "--message", "opmkit"], check=True)
    rules = [f"https://{host}/" for host in ("github.com", "gitlab.com")]
    variables = {"GIT_CONFIG_COUNT": str(len(rules))}
    for number, url in enumerate(rules):
        variables |= {f"GIT_CONFIG_KEY_{number}": f"url.file://{origins}/.insteadOf", f"GIT_CONFIG_VALUE_{number}": url}
    return variables


def begin(runner: Runner, registry: str, page: str, account: str) -> Guide:
    """Publish the first version and push the repository, as the page says."""
    placeholders = {account: registry, "ACCOUNT:TOKEN": "tester:secret", "ACCOUNT": "me"}
    guide = Guide(runner, ROOT / "docs" / page, placeholders)
    outputs = [guide.follow(number) for number in range(1, 6)]
    assert "lagoon-operator.v0.1.0" in outputs[3].splitlines()[-1]
    return guide


def test_pages_have_the_same_commands_in_common_sections(machine: Runner) -> None:
    """Only the test of GitHub's page installs opm, since that takes long."""
    guides = [Guide(machine, ROOT / "docs" / f"{name}.md", {}) for name in ("github-actions", "gitlab", "tekton")]
    for guide in guides:
        assert guide.commands(*range(1, 10)) == console_script(guide.page), "commands outside of the numbered sections"
    for number in (1, 3, 4, 6, 7, 8, 9):
        assert len({guide.commands(number) for guide in guides}) == 1


def merge(runner: Runner, branch: str) -> None:
    """Merge a pull request."""
    origin = runner.scratch / "origins/me/lagoon-operator.git"
    subprocess.run(["git", "-C", origin, "update-ref", "refs/heads/main", f"refs/heads/{branch}"], check=True)


def bundles(runner: Runner, image: str) -> set[str]:
    done = runner.run(f"opm alpha list bundles {image}")
    assert done.returncode == 0, done.stderr
    return {word for word in done.stdout.split() if word.startswith("lagoon-operator.v")}


@pytest.mark.slow
def test_github_workflows_validate_release_and_publish(
    newcomer: InstalledOpm, runner: Runner, basic_registry: Registry
) -> None:
    registry = f"{basic_registry.host}/me"
    guide = begin(without_opm(newcomer, runner), registry, "github-actions.md", "ghcr.io/ACCOUNT")
    runner = replace(runner, directory=runner.directory / "lagoon-operator")
    guide.follow(6)
    done = run_github_job(runner, "bundle.yaml", "validate")
    assert done.returncode == 0, done.stderr
    assert "sarif=true\ncategory=bundle.sarif\n" in (runner.scratch / "output").read_text()
    merge(runner, "version-0.2.0")
    guide.follow(7)
    done = run_github_job(runner, "bundle.yaml", "release", GITHUB_REF_NAME="v0.2.0")
    assert done.returncode == 0, done.stderr
    assert bundles(runner, f"{registry}/lagoon-preview:latest") == BOTH

    guide.follow(8)
    for job in ("check", "publish"):
        done = run_github_job(runner, "catalog.yaml", job)
        assert done.returncode == 0, done.stderr
    assert "lagoon-operator.v0.2.0" in (runner.scratch / "summary.md").read_text()
    assert all(name in guide.follow(9) for name in BOTH)

    check_rejects_bad_changes(runner, lambda: run_github_job(runner, "catalog.yaml", "check"))
    assert "GATE-BUNDLE-REMOVED" in (runner.scratch / "temp" / "catalog.sarif").read_text()
    (runner.directory / "bundle/manifests/lagoons.water.example.com.crd.yaml").unlink()
    assert run_github_job(runner, "bundle.yaml", "validate").returncode == 1
    assert json.loads((runner.scratch / "temp" / "bundle.sarif").read_text())["runs"][0]["results"]


def without_opm(newcomer: InstalledOpm, runner: Runner) -> Runner:
    """Return a machine on which pip finds the dependencies and the build backend installed, and downloads nothing."""
    tools = runner.scratch / "tools"
    tools.mkdir()
    (tools / "python3").symlink_to(newcomer.bin / "python3")
    (site_packages,) = newcomer.bin.parent.glob("lib/python*/site-packages")
    offline = {"PIP_NO_COMPILE": "1", "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
    return replace(runner, bin=tools, env={**runner.env, "PYTHONPATH": str(site_packages), **offline})


@pytest.mark.long
def test_gitlab_components_validate_release_and_publish(runner: Runner, basic_registry: Registry) -> None:
    registry = f"{basic_registry.host}/me"
    guide = begin(with_opm(runner), registry, "gitlab.md", "registry.gitlab.com/ACCOUNT/lagoon-operator")
    runner = replace(runner, directory=runner.directory / "lagoon-operator")
    predefined = {"CI_REGISTRY": basic_registry.host, "CI_REGISTRY_USER": "tester", "CI_REGISTRY_PASSWORD": "secret"}
    guide.follow(6)
    done = run_gitlab_job(runner, "bundle", "validate-bundle")
    assert done.returncode == 0, done.stderr
    merge(runner, "version-0.2.0")
    guide.follow(7)
    done = run_gitlab_job(runner, "bundle", "release-bundle", CI_COMMIT_TAG="v0.2.0", **predefined)
    assert done.returncode == 0, done.stderr
    assert bundles(runner, f"{registry}/lagoon-preview:latest") == BOTH

    guide.follow(8)
    for job in ("check-catalog", "publish-catalog"):
        done = run_gitlab_job(runner, "catalog", job, **predefined)
        assert done.returncode == 0, done.stderr
    assert all(name in guide.follow(9) for name in BOTH)

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


@pytest.mark.long
def test_tekton_pipelines_validate_release_and_publish(runner: Runner, basic_registry: Registry) -> None:
    registry = f"{basic_registry.host}/me"
    platform = PipelinesAsCode(runner)
    guide = begin(platform.with_kubectl(), registry, "tekton.md", "quay.io/ACCOUNT")
    runner = replace(runner, directory=runner.directory / "lagoon-operator")
    assert platform.repository()["spec"]["url"] == "https://github.com/me/lagoon-operator"
    guide.follow(6)
    done = platform.run("pull_request", "main", "version-0.2.0").done
    assert done.returncode == 0, done.stderr
    merge(runner, "version-0.2.0")
    guide.follow(7)
    released = platform.run("push", "refs/tags/v0.2.0")
    assert released.done.returncode == 0, released.done.stderr
    assert released.results["IMAGE_URL"] == f"{registry}/lagoon-bundle:0.2.0"
    assert bundles(runner, f"{registry}/lagoon-preview:latest") == BOTH

    guide.follow(8)
    merge(runner, "catalog-0.2.0")
    published = platform.run("push", "refs/heads/main")
    assert published.done.returncode == 0, published.done.stderr
    assert bundles(runner, "{IMAGE_URL}@{IMAGE_DIGEST}".format(**published.results)) == BOTH
    assert all(name in guide.follow(9) for name in BOTH)

    check_rejects_bad_changes(runner, lambda: platform.push("pull_request", "main").done)
    assert "the published bundle was removed" in platform.push("push", "refs/heads/main").done.stderr
    (runner.directory / "bundle/manifests/lagoons.water.example.com.crd.yaml").unlink()
    assert platform.push("push", "refs/tags/v0.3.0").done.returncode == 1
    assert runner.run(f"opm image inspect {registry}/lagoon-bundle:0.3.0").returncode != 0


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


@dataclass(frozen=True)
class PullRequest:
    """A repository whose change makes the bundle invalid, and brings a policy that allows everything."""

    runner: Runner
    base: str

    @classmethod
    def create(cls, runner: Runner, policy: str) -> PullRequest:
        """Push a base branch with a policy, or "" for none, and commit the change on top of it."""
        origin = runner.scratch / "origins" / "me" / "lagoon-operator.git"
        for name in ("operator", "gitlab", "github-actions"):
            shutil.copytree(ROOT / "examples" / name, runner.directory, dirs_exist_ok=True)
        file = runner.directory / ".opm-validate.yaml"
        if policy:
            file.write_text(policy)
        (runner.directory / "known.json").write_text('{"version": 1, "findings": []}')
        rule = f"url.file://{runner.scratch}/origins/.insteadOf"
        env = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": rule, "GIT_CONFIG_VALUE_0": "https://github.com/"}
        runner = replace(runner, env={**runner.env, **env})
        commit = "git add --all && git -c user.name=me -c user.email=me@example.com commit --quiet --message change"
        script = (
            f"git init --quiet --bare {origin} && git init --quiet --initial-branch main && {commit}"
            f" && git remote add origin {origin} && git push --quiet origin main && git rev-parse HEAD"
        )
        done = runner.run(script)
        assert done.returncode == 0, done.stderr
        (runner.directory / "bundle/manifests/lagoons.water.example.com.crd.yaml").unlink()
        known = runner.run("opm bundle validate bundle --write-baseline known.json")
        assert known.returncode == 0, known.stderr
        file.write_text("ignore: [{rule: '*', reason: nobody looks}]\n")
        assert runner.run("opm bundle validate bundle").returncode == 0, "the policy of the change turns the gate off"
        assert runner.run(commit).returncode == 0
        return cls(runner, done.stdout.strip())


POLICIES = [("", 1), ("baseline: known.json\n", 1), ("ignore: [{rule: '*', reason: everybody looked}]\n", 0)]


@pytest.mark.parametrize(("policy", "code"), POLICIES)
def test_the_action_uses_the_policy_of_the_base_branch(machine: Runner, policy: str, code: int) -> None:
    change = PullRequest.create(machine, policy)
    done = run_github_job(change.runner, "bundle.yaml", "validate", BASE=change.base)
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize(("policy", "code"), POLICIES)
def test_gitlab_jobs_use_the_policy_of_the_target_branch(machine: Runner, policy: str, code: int) -> None:
    change = PullRequest.create(machine, policy)
    done = run_gitlab_job(change.runner, "bundle", "validate-bundle", **merge_request(machine))
    assert done.returncode == code, done.stderr


def merge_request(machine: Runner) -> dict[str, str]:
    """Return the variables of a pipeline for a merge request into ``main``."""
    return {
        "CI_PIPELINE_SOURCE": "merge_request_event",
        "CI_MERGE_REQUEST_PROJECT_URL": f"file://{machine.scratch}/origins/me/lagoon-operator",
        "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main",
        "CI_JOB_TOKEN": "secret",
    }


@pytest.mark.parametrize("policy", [".opm-validate.yaml", "ci/policy.yaml"])
def test_the_policy_that_is_named_applies_after_the_merge_as_well(machine: Runner, policy: str) -> None:
    """A warning fails the jobs of a tag and of the main branch by that policy alone."""
    for name in ("operator", "gitlab", "github-actions"):
        shutil.copytree(ROOT / "examples" / name, machine.directory, dirs_exist_ok=True)
    (machine.directory / policy).parent.mkdir(exist_ok=True)
    (machine.directory / policy).write_text("severity: {CSV-NO-EXAMPLES: error}\n")
    csv = machine.directory / "bundle/manifests/lagoon-operator.clusterserviceversion.yaml"
    csv.write_text(csv.read_text().replace("alm-examples:", "examples:"))
    variables = use_base_policy(machine, "", policy)
    done = machine.run("opm bundle validate bundle", variables)
    assert done.returncode == 1, done.stdout
    settings = machine.directory / ".gitlab-ci.yml"
    settings.write_text(
        settings.read_text().replace("bundle-image:", f"policy: {policy}\n      fail-on: error\n      bundle-image:")
    )
    done = run_gitlab_job(machine, "bundle", "validate-bundle", CI_PIPELINE_SOURCE="push", CI_COMMIT_TAG="v1.0.0")
    assert done.returncode == 1, done.stderr


STRICT = "fail-on: warning\n"


@pytest.mark.parametrize("component", ["bundle", "catalog"])
def test_gitlab_policies_are_those_of_the_target_project(machine: Runner, component: str) -> None:
    """Neither a link, nor the branch of a fork, nor attributes have an effect."""
    (machine.directory / ".gitattributes").write_text("* export-ignore\n")
    change = PullRequest.create(machine, STRICT)
    fork = machine.scratch / "fork.git"
    archive = machine.directory / f"{component}-policy.tar"
    archive.symlink_to(machine.scratch / "elsewhere")
    assert change.runner.run(f"git init --quiet --bare {fork} && git remote set-url origin {fork}").returncode == 0
    assert change.runner.run("git push --quiet origin HEAD:main").returncode == 0
    done = run_gitlab_job(change.runner, component, f"{component}-policy", **merge_request(machine))
    assert done.returncode == 0, done.stderr
    assert not archive.is_symlink()
    with tarfile.open(archive) as tar:
        policy = tar.extractfile("./.opm-validate.yaml")
        assert policy is not None
        assert policy.read().decode() == STRICT
    assert not (machine.scratch / "elsewhere").exists()


@pytest.mark.parametrize("target", ["evil.tar", "/dev/null", None, "file"])
def test_gitlab_jobs_reject_an_archive_that_is_not_the_policy_job_s(machine: Runner, target: str | None) -> None:
    """A runner can extract the archive through the link that a change has in its place, or not at all."""
    shutil.copy(ROOT / "examples/gitlab/.gitlab-ci.yml", machine.directory)
    archive = machine.directory / "bundle-policy.tar"
    if target == "file":
        archive.write_bytes(b"archive")
    elif target:
        (machine.directory / "evil.tar").write_bytes(b"archive")
        archive.symlink_to(target)
    done = run_only_gitlab_job(machine, "bundle", "validate-bundle", merge_request(machine))
    assert done.returncode == 1
    assert "Error: bundle-policy.tar: not the file of the job bundle-policy" in done.stderr


REPORT = '"$RUNNER_TEMP/a.sarif"'


@pytest.mark.parametrize(("command", "code"), [(f"echo '{{}}' > {REPORT}", 0), (f"echo '{{}}' > {REPORT}; exit 3", 3)])
def test_the_action_uploads_a_report_and_exits_with_the_code_of_the_command(
    machine: Runner, command: str, code: int
) -> None:
    assert run_action(machine, {"run": command, "sarif-file": SARIF_FILE}, {}).returncode == code
    assert (machine.scratch / "output").read_text() == "sarif=true\ncategory=a.sarif\n"


SARIF_FILE = "${{ runner.temp }}/a.sarif"


@pytest.mark.parametrize("command", [f"> {REPORT}; exit 3", f"false | cat; echo '{{}}' > {REPORT}", "echo $UNDEFINED"])
def test_the_action_fails_without_a_report(machine: Runner, command: str) -> None:
    assert run_action(machine, {"run": command, "sarif-file": SARIF_FILE}, {}).returncode != 0
    assert not (machine.scratch / "output").exists()


@pytest.mark.parametrize("report", ["a.sarif", "directory/a.sarif", "/elsewhere/a.sarif"])
def test_the_action_uploads_no_file_of_the_checkout(machine: Runner, report: str) -> None:
    (machine.directory / "directory").symlink_to(machine.scratch)
    done = run_action(machine, {"run": "touch run", "sarif-file": report}, {})
    assert done.returncode == 1
    assert f"Error: {report}: not below runner.temp" in done.stderr
    assert not (machine.directory / "run").exists()


PROGRAM, SAME_SIZE_AND_CRC = "theprogramthattheactionhasinstalledbefore", "TheproGraMThatthEactIONhASiNStALLedbefore"


@pytest.mark.parametrize("name", ["bin/opm", "venv/__pycache__/a.pyc", "base/.opm-validate.yaml"])
@pytest.mark.parametrize("content", ["", SAME_SIZE_AND_CRC])
def test_the_action_fails_if_a_link_of_the_checkout_leads_to_the_program(
    machine: Runner, name: str, content: str
) -> None:
    program = machine.scratch / "temp" / "opmkit" / name
    program.parent.mkdir(parents=True)
    program.write_text(PROGRAM)
    (machine.directory / "a.txt").symlink_to(program)
    done = run_action(machine, {"run": f"printf '{content}' > a.txt", "sarif-file": ""}, {})
    assert done.returncode == 1
    assert "the command changed the installed program or the policy" in done.stderr


def test_gitlab_reports_are_not_written_through_links(machine: Runner) -> None:
    for name in ("operator", "gitlab"):
        shutil.copytree(ROOT / "examples" / name, machine.directory, dirs_exist_ok=True)
    program = machine.scratch / "program"
    program.write_text("program")
    report = machine.directory / "bundle.junit.xml"
    report.symlink_to(program)
    done = run_gitlab_job(machine, "bundle", "validate-bundle", CI_PIPELINE_SOURCE="push")
    assert done.returncode == 0, done.stderr
    assert program.read_text() == "program"
    ElementTree.parse(report)
