"""Tasks of the Tekton example, run with their parameters."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.kit.installed import ROOT
from tests.kit.pipelines import Runner, write_offline_python
from tests.kit.tekton import load_objects, run_example_task, run_task
from tests.kit.traps import Traps

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.installed import InstalledOpm

TASK = "run-opm-command"
RENDER = ["render", "catalog", "-o", "yaml"]
IDMS = """\
apiVersion: config.openshift.io/v1
kind: ImageDigestMirrorSet
metadata: {name: mirrors}
spec:
  imageDigestMirrors:
  - {source: registry.redhat.io/reef, mirrors: [quay.io/me]}
  - {source: registry.redhat.io/reef/special, mirrors: [quay.io/me/a.b]}
"""


@pytest.fixture
def runner(newcomer: InstalledOpm, tmp_path: Path) -> Runner:
    """Return a runner with a catalog in the workspace."""
    shutil.copytree(ROOT / "fixtures" / "catalogs" / "valid", newcomer.directory / "catalog")
    return Runner(newcomer.bin, tmp_path, newcomer.directory, {})


def test_the_output_is_written_to_the_file(runner: Runner) -> None:
    done = run_example_task(runner, TASK, OPM_ARGS=RENDER, OPM_OUTPUT_PATH="v4.18/out put/catalog.yaml")
    assert done.returncode == 0, done.stderr
    assert "schema: olm.package" in (runner.directory / "v4.18/out put/catalog.yaml").read_text()


def test_a_failed_command_leaves_the_file(runner: Runner) -> None:
    (runner.directory / "catalog.yaml").write_text("before")
    done = run_example_task(runner, TASK, OPM_ARGS=["render", "missing"], OPM_OUTPUT_PATH="catalog.yaml")
    assert done.returncode == 1
    assert "missing" in done.stderr
    assert (runner.directory / "catalog.yaml").read_text() == "before"


@pytest.mark.parametrize("path", ["/tmp/catalog.yaml", "../catalog.yaml", "a/../../b"])
def test_paths_outside_the_workspace_are_rejected(runner: Runner, path: str) -> None:
    done = run_example_task(runner, TASK, OPM_ARGS=RENDER, OPM_OUTPUT_PATH=path)
    assert done.returncode == 2
    assert f"Error: {path}: not a relative path in the workspace" in done.stderr


@pytest.mark.parametrize("path", ["secret/", "d//f", "link", "d/f", "d/", "d/.", "d/./f"])
@pytest.mark.parametrize("param", ["OPM_OUTPUT_PATH", "FILE_TO_UPDATE_PULLSPEC", "IDMS_PATH"])
def test_nothing_is_written_through_links_of_the_checkout(runner: Runner, param: str, path: str) -> None:
    secret = runner.scratch / "secret"
    secret.mkdir()
    (secret / "f").write_text("secret")
    (runner.directory / "link").symlink_to(secret / "f")
    (runner.directory / "d").symlink_to(secret)
    given = {"OPM_OUTPUT_PATH": "version", param: path}
    done = run_example_task(runner, TASK, OPM_ARGS=["version"], **given)
    assert done.returncode == 2
    assert f"Error: {path}: " in done.stderr
    assert [each.read_text() for each in secret.iterdir()] == ["secret"]


def test_a_link_next_to_the_output_is_not_followed(runner: Runner) -> None:
    (runner.scratch / "secret").write_text("secret")
    (runner.directory / "version.new").symlink_to(runner.scratch / "secret")
    done = run_example_task(runner, TASK, OPM_ARGS=["version"], OPM_OUTPUT_PATH="version")
    assert done.returncode == 0, done.stderr
    assert (runner.scratch / "secret").read_text() == "secret"
    assert (runner.directory / "version").stat().st_mode & 0o444 == 0o444


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("kind: ImageDigestMirrorSet\n", "expected spec.imageDigestMirrors"),
        ("spec: {imageDigestMirrors: [{source: a, mirrors: [[b]]}]}", "expected spec.imageDigestMirrors"),
        ("spec: {imageDigestMirrors: [{source: a, mirrors: b}]}", "expected spec.imageDigestMirrors"),
        ("spec: [", "invalid YAML"),
    ],
)
def test_an_invalid_mirror_set_is_an_error_before_the_output_is_written(
    runner: Runner, content: str, message: str
) -> None:
    (runner.directory / "mirrors.yaml").write_text(content)
    done = run_example_task(
        runner,
        TASK,
        OPM_ARGS=["version"],
        OPM_OUTPUT_PATH="version",
        FILE_TO_UPDATE_PULLSPEC="version",
        IDMS_PATH="mirrors.yaml",
    )
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: mirrors.yaml: {message}")
    assert not (runner.directory / "version").exists()


@pytest.mark.parametrize(("arguments", "path"), [([], "catalog.yaml"), (RENDER, "")])
def test_nothing_is_run_without_arguments_or_output(runner: Runner, arguments: list[str], path: str) -> None:
    done = run_example_task(runner, TASK, OPM_ARGS=arguments, OPM_OUTPUT_PATH=path)
    assert done.returncode == 0
    assert not (runner.directory / "catalog.yaml").exists()


def test_mirrors_are_replaced_by_their_sources(newcomer: InstalledOpm, runner: Runner) -> None:
    traps = Traps.add(runner.directory, newcomer.site_packages, runner.scratch / "sprung")
    (runner.directory / ".tekton").mkdir()
    (runner.directory / ".tekton" / "images-mirror-set.yaml").write_text(IDMS)
    template = runner.directory / "template.yaml"
    template.write_text(
        "- quay.io/me/x:1\n- quay.io/me/a.b:1\n- quay.io/me/aXb:1\n- quay.io/mend/x:1\n- my.quay.io/me/x\n"
    )
    done = run_example_task(
        runner, TASK, OPM_ARGS=["version"], OPM_OUTPUT_PATH="version", FILE_TO_UPDATE_PULLSPEC="template.yaml"
    )
    assert done.returncode == 0, done.stderr
    assert template.read_text().split("\n- ") == [
        "- registry.redhat.io/reef/x:1",
        "registry.redhat.io/reef/special:1",
        "registry.redhat.io/reef/aXb:1",
        "quay.io/mend/x:1",
        "my.quay.io/me/x\n",
    ]
    assert traps.sprung() == set()


def test_opm_is_installed_if_the_image_lacks_it(newcomer: InstalledOpm, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "examples" / "operator" / "bundle", newcomer.directory / "bundle")
    tools = tmp_path / "tools"
    tools.mkdir()
    write_offline_python(newcomer.bin, tools)
    env = {"TMPDIR": str(tmp_path), "PIP_NO_COMPILE": "1", "PIP_NO_INDEX": "1"}
    runner = Runner(tools, tmp_path, newcomer.directory, env)
    assert runner.run("command -v opm").returncode == 1
    traps = Traps.add(newcomer.directory, newcomer.site_packages, tmp_path / "sprung")
    lock = str(ROOT / "requirements.lock")
    requirement = f"opmkit @ {ROOT.as_uri()}"
    traps.add_requirement(requirement)
    done = run_example_task(runner, "check-bundle", REQUIREMENT=requirement, LOCK=lock)
    assert (done.returncode, traps.sprung()) == (0, set()), done.stderr
    (newcomer.directory / "bundle/manifests/lagoons.water.example.com.crd.yaml").unlink()
    assert run_example_task(replace(runner, bin=newcomer.bin), "check-bundle").returncode == 1


@pytest.mark.parametrize("revision", ["main", "v0.1.0", "HEAD~1"])
def test_a_revision_is_checked_out_with_the_credentials(runner: Runner, revision: str) -> None:
    origin, commit = create_repository(runner.scratch / "origin", revision)
    secret, source = runner.scratch / "secret", runner.scratch / "source"
    secret.mkdir()
    source.mkdir()
    (secret / ".git-credentials").write_text("https://me:password@git.example.com\n")
    (secret / ".gitconfig").write_text("[credential]\n\thelper = store\n[user]\n\tname = me\n")
    params = {"URL": f"file://{origin}", "REVISION": commit if "~" in revision else revision}
    params |= {"IMAGE": "", "BASE_REVISION": ""}
    task = load_objects()["Task", "checkout"]
    for _ in range(2):  # a retry finds the files of the first attempt
        done = run_task(runner, task, params, {"source": source, "git-credentials": secret}).done
        assert done.returncode == 0, done.stderr
    assert git(source, "rev-parse", "HEAD") == commit
    (credentials,) = {path.read_text() for path in runner.scratch.glob("pod-checkout-*/home/.git-credentials")}
    assert "me:password" in credentials
    assert run_task(runner, task, {**params, "REVISION": "missing"}, {"source": source}).done.returncode != 0


@pytest.mark.parametrize("policy", ["fail-on: warning\n", None])
def test_the_policy_of_the_base_branch_is_checked_out(
    newcomer: InstalledOpm, tmp_path: Path, policy: str | None
) -> None:
    origin, _ = create_repository(tmp_path / "origin", "main")
    if policy:
        (origin / ".opm-validate.yaml").write_text(policy)
    (origin / "keys").write_text("of the base branch\n")
    git(origin, "add", "--all")
    git(origin, "commit", "--quiet", "--message", "base")
    git(origin, "switch", "--quiet", "--create", "change")
    (origin / ".opm-validate.yaml").write_text("fail-on: error\n")
    (origin / ".gitattributes").write_text("* eol=crlf\n")
    (tmp_path / "elsewhere").mkdir()
    (origin / ".opm-base").symlink_to(tmp_path / "elsewhere")
    git(origin, "add", "--all")
    git(origin, "commit", "--quiet", "--message", "change")
    git(origin, "tag", "main")
    source = tmp_path / "source"
    source.mkdir()
    params = {"URL": f"file://{origin}", "REVISION": "change", "IMAGE": "", "BASE_REVISION": "main"}
    runner = Runner(newcomer.bin, tmp_path, newcomer.directory, {})
    for _ in range(2):
        done = run_task(runner, load_objects()["Task", "checkout"], params, {"source": source}).done
        assert done.returncode == 0, done.stderr
    base = source / ".opm-base"
    assert (base / ".opm-validate.yaml").read_text() == (policy or "{}\n")
    assert (base / "keys").read_bytes() == b"of the base branch\n"
    assert not (base / ".gitattributes").exists()
    assert not list((tmp_path / "elsewhere").iterdir())


@pytest.mark.parametrize("policy", ["", ".opm-base/.opm-validate.yaml"])
def test_the_policy_of_a_task_applies(newcomer: InstalledOpm, tmp_path: Path, policy: str) -> None:
    runner = Runner(newcomer.bin, tmp_path, newcomer.directory, {})
    shutil.copytree(ROOT / "examples" / "operator" / "bundle", newcomer.directory / "bundle")
    (newcomer.directory / "bundle/manifests/lagoons.water.example.com.crd.yaml").unlink()
    (newcomer.directory / ".opm-base").mkdir()
    (newcomer.directory / ".opm-base" / ".opm-validate.yaml").write_text("{}\n")
    (newcomer.directory / ".opm-validate.yaml").write_text("ignore: [{rule: '*', reason: nobody looks}]\n")
    done = run_example_task(runner, "check-bundle", POLICY=policy)
    assert done.returncode == bool(policy), done.stderr


def git(directory: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=me", "-c", "user.email=me@example.com"]
    argv = ["git", "-C", str(directory), *identity, *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def create_repository(directory: Path, revision: str) -> tuple[Path, str]:
    """Create a repository with two commits, and return the commit of a revision."""
    directory.mkdir()
    git(directory, "init", "--quiet", "--initial-branch", "main")
    git(directory, "config", "uploadpack.allowReachableSHA1InWant", "true")  # as GitHub and GitLab do
    git(directory, "commit", "--quiet", "--allow-empty", "--message", "first")
    git(directory, "commit", "--quiet", "--allow-empty", "--message", "second")
    git(directory, "tag", "v0.1.0")
    return directory, git(directory, "rev-parse", revision)
