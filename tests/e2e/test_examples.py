"""The pipeline files and examples pass the checks of their CI systems' tools."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kit import golang
from tests.kit.installed import ROOT
from tests.kit.pipelines import YAML_BLOCK, documented_workflows
from tests.kit.tekton import load_objects

GITHUB = ROOT / "examples" / "github-actions"
COMPONENTS = sorted((ROOT / "templates").glob("*.yml"))
WORKFLOWS = sorted((GITHUB / ".github" / "workflows").iterdir())
OWN_WORKFLOWS = sorted((ROOT / ".github" / "workflows").iterdir())
PLACEHOLDER = "registry.example.com/water"


def check(program: str | Path, *arguments: str | Path, directory: Path = ROOT) -> None:
    """Run a checker of the development dependencies, or another program, which must find nothing."""
    argv = [Path(sys.executable).parent / program, *arguments]
    done = subprocess.run(argv, cwd=directory, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def workflows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a repository with all workflows: those of the example, of the project and of the documentation."""
    repository = tmp_path_factory.mktemp("workflows")
    shutil.copytree(GITHUB, repository, dirs_exist_ok=True)
    for path in OWN_WORKFLOWS:
        shutil.copy(path, repository / ".github" / "workflows")
    (repository / "documented").mkdir()
    for page in (ROOT / "docs").glob("*.md"):
        for number, workflow in enumerate(documented_workflows(page), start=1):
            (repository / "documented" / f"{page.stem}-{number}.yaml").write_text(workflow)
    subprocess.run(["git", "init", "--quiet", repository], check=True)
    return repository


def files_in(directory: Path) -> list[Path]:
    paths = sorted(directory.iterdir())
    assert len(paths) > 2
    return paths


def documented_block(page: str, key: str) -> str:
    """Return the YAML block of a page that has a line with the key."""
    text = (ROOT / "docs" / page).read_text()
    (block,) = (block for block in YAML_BLOCK.findall(text) if key in block.splitlines())
    return str(block)


def load(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


def test_actionlint_accepts_the_workflows(workflows: Path, pytestconfig: pytest.Config) -> None:
    program = golang.actionlint(pytestconfig.cache.mkdir("opmkit-go"))
    paths = [path for name in (".github/workflows", "documented") for path in files_in(workflows / name)]
    check(program, "-shellcheck=", "-pyflakes=", *paths, directory=workflows)


def test_zizmor_finds_nothing_in_the_workflows_and_the_action(workflows: Path) -> None:
    config = ("--offline", "--config", workflows / ".github" / "zizmor.yml")
    check("zizmor", *config, "--persona", "pedantic", *files_in(workflows / ".github" / "workflows"))
    check("zizmor", *config, "--persona", "pedantic", ROOT / "action.yml")
    check("zizmor", *config, *files_in(workflows / "documented"))


def test_files_match_the_published_schemas(workflows: Path, tmp_path: Path) -> None:
    program = "check-jsonschema"
    paths = [*files_in(workflows / ".github" / "workflows"), *files_in(workflows / "documented")]
    check(program, "--builtin-schema", "vendor.github-workflows", *paths)
    check(program, "--builtin-schema", "vendor.github-actions", ROOT / "action.yml")
    pipelines = [ROOT / "examples/gitlab/.gitlab-ci.yml", tmp_path / "documented.yml"]
    pipelines[1].write_text(documented_block("gitlab.md", "include:"))
    for component in COMPONENTS:  # the schema describes the part below the inputs
        pipelines.append(tmp_path / component.name)
        pipelines[-1].write_text(component.read_text().split("\n---\n")[1])
    check(program, "--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci", *pipelines)


def test_pre_commit_accepts_the_hooks_and_the_example(tmp_path: Path) -> None:
    check("pre-commit", "validate-manifest", ROOT / ".pre-commit-hooks.yaml")
    documented = tmp_path / "documented.yaml"
    documented.write_text(documented_block("pre-commit.md", "repos:"))
    check("pre-commit", "validate-config", ROOT / "examples/operator/.pre-commit-config.yaml", documented)


def test_workflows_of_the_project_run_existing_recipes_and_scripts() -> None:
    texts = {path.name: path.read_text() for path in OWN_WORKFLOWS}
    assert set(texts) >= {"test.yml", "nightly.yml", "release.yml"}
    recipes = re.findall(r"^([a-z]+)(?: \*arguments)?:", (ROOT / "justfile").read_text(), re.MULTILINE)
    used = {name: re.findall(r"\bjust ([a-z]+)", text) for name, text in texts.items()}
    assert set(used["test.yml"]) == {"check", "docs", "unit"}
    assert set(used["nightly.yml"]) == {"audit", "lowest", "unit"}
    assert {name for names in used.values() for name in names} <= set(recipes)
    for text in texts.values():
        for script in re.findall(r"(?<!\S)(\.ci/run|scripts/[a-z-]+)", text):
            assert (ROOT / script).stat().st_mode & 0o100, script


def test_long_rounds_set_variables_that_tests_read() -> None:
    read = "".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    variables = set(re.findall(r"OPMKIT_[A-Z_]+", (ROOT / ".github" / "workflows" / "nightly.yml").read_text()))
    scripts = "".join(path.read_text() for path in (ROOT / "scripts").iterdir() if path.is_file())
    assert [name for name in sorted(variables) if name not in read + scripts] == []


def test_action_installs_the_extras_of_each_use_in_a_job(tmp_path: Path) -> None:
    (install,) = (step for step in load(ROOT / "action.yml")[0]["runs"]["steps"] if step.get("id") == "install")
    log, action = tmp_path / "log", tmp_path / "action"
    action.mkdir()
    (action / "requirements-dev.lock").write_text("a==1 ; x \\\n    --hash=sha256:1\nb==2 \\\n    --hash=sha256:2\n")
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\nif [ "$3" = venv ]; then mkdir -p "$4/bin"; cp "$0" "$4/bin/python"; fi\necho "$@" >> {log}\n'
    )
    python.chmod(0o700)
    outputs = {name: str(tmp_path / name.lower()) for name in ("GITHUB_PATH", "GITHUB_OUTPUT", "RUNNER_TEMP")}

    def use(extras: str) -> list[str]:
        log.write_text("")
        env = {**os.environ, **outputs, "PYTHON": str(python), "ACTION_PATH": str(action), "EXTRAS": extras}
        subprocess.run(["bash", "-euo", "pipefail", "-c", install["run"]], env=env, check=True)
        return [line.rpartition(" ")[2].replace(str(action), "/action") for line in log.read_text().splitlines()]

    created = [f"{outputs['RUNNER_TEMP']}/opmkit/venv", "/action/requirements.lock", "/action"]
    assert use("cel") == [*created, "/action[cel]"]
    versions = Path(outputs["RUNNER_TEMP"], "opmkit", "versions.txt").read_text()
    assert versions == "a==1 ; x\nb==2\n"
    assert use("keyless,cel") == ["/action[keyless,cel]"]
    assert use("") == []
    directory = f"{outputs['RUNNER_TEMP']}/opmkit/bin"
    assert Path(outputs["GITHUB_OUTPUT"]).read_text().splitlines() == [f"bin={directory}"] * 3


PIPELINES = (ROOT / "action.yml", *COMPONENTS, *sorted((ROOT / "examples/tekton/.tekton/tasks").iterdir()))


@pytest.mark.parametrize("path", PIPELINES, ids=lambda path: path.name)
def test_pipelines_run_python_isolated_and_install_what_is_pinned(path: Path) -> None:
    """By a URL, since anyone could register the name at a package index; all else by hash."""
    text = path.read_text()
    for arguments in re.findall(r"(?<![\w.])python\"? (-.*)", text):
        assert arguments.startswith("-I "), arguments
    for command in re.findall(r"^.*(?:-m pip .*|\{pip\[@\]\}.*)$", text, re.MULTILINE):
        if "pip=(" not in command:
            assert 'cd "$empty"' in text.partition(command)[0], "pip reads names of requirements as paths"
            assert re.search(r"--require-hashes|--no-build-isolation --(?:no-deps|constraint)", command), command
    for requirement in re.findall(r"default: (opmkit.*)", text):
        assert requirement.startswith("opmkit @ https://github.com/opmkit/opmkit/archive/"), requirement


def test_updates_of_actions_are_configured() -> None:
    check("check-jsonschema", "--builtin-schema", "vendor.dependabot", ROOT / ".github" / "dependabot.yml")


def test_actions_are_pinned_by_commit() -> None:
    texts = [
        path.read_text() for path in [*WORKFLOWS, *OWN_WORKFLOWS, ROOT / "action.yml", *(ROOT / "docs").glob("*.md")]
    ]
    used = [reference for text in texts for reference in re.findall(r"uses: (\S+)", text)]
    foreign = [reference for reference in used if not reference.startswith("opmkit/opmkit@")]
    assert len(foreign) > 4
    for reference in foreign:
        assert re.search(r"@[0-9a-f]{40}$", reference), reference


@pytest.mark.parametrize("path", COMPONENTS, ids=lambda path: path.name)
def test_components_use_every_input_and_declare_each_that_they_use(path: Path) -> None:
    header, _ = load(path)
    used = re.findall(r"\$\[\[ inputs\.([a-z-]+) \]\]", path.read_text())
    assert sorted(used) == sorted(header["spec"]["inputs"])
    page = (ROOT / "docs" / "gitlab.md").read_text()
    for name, spec in header["spec"]["inputs"].items():
        assert spec["description"]
        assert f"`{name}`" in page, f"{name} is not documented"


def test_inputs_of_the_action_hooks_and_tasks_are_documented() -> None:
    (action,) = load(ROOT / "action.yml")
    (hooks,) = load(ROOT / ".pre-commit-hooks.yaml")
    tasks = [task for (kind, _), task in load_objects().items() if kind == "Task"]
    names = {
        "github-actions": [*action["inputs"], *action["outputs"]],
        "pre-commit": [hook["id"] for hook in hooks],
        "tekton": [param["name"] for task in tasks for param in task["spec"]["params"]],
    }
    for page, documented in names.items():
        text = (ROOT / "docs" / f"{page}.md").read_text()
        for name in documented:
            assert f"`{name}`" in text, f"{name} is not documented in {page}.md"


def pipeline_scripts() -> list[str]:
    """Return the scripts of the action, the workflows, the components' jobs and the tasks."""
    (action,) = load(ROOT / "action.yml")
    jobs = [job for path in WORKFLOWS for job in load(path)[0]["jobs"].values()]
    scripts = [step["run"] for steps in [action["runs"], *jobs] for step in steps["steps"] if "run" in step]
    scripts += [step["with"]["run"] for job in jobs for step in job["steps"] if "run" in step.get("with", {})]
    for component in COMPONENTS:
        for job in load(component)[1].values():
            scripts.append("\n".join([*job.get("before_script", []), *job.get("script", [])]))
    tasks = [task for (kind, _), task in load_objects().items() if kind == "Task"]
    return [*scripts, *(step["script"] for task in tasks for step in task["spec"]["steps"])]


def test_scripts_write_through_no_link_of_the_checkout() -> None:
    written = 0
    for script in pipeline_scripts():
        for path in re.findall(r"(?<![>&0-9])>{1,2} ?([^\s&>/\"$]\S*)", re.sub(r"'[^']*'", "", script)):
            written += 1
            assert f"rm -rf {path.partition('/')[0]}\n" in script.partition(f"> {path}")[0], path
    assert written > 0


def test_scripts_contain_no_expressions() -> None:
    """An expression in a script would run the text of a branch name or input as shell code."""
    scripts = pipeline_scripts()
    assert len(scripts) > 20
    for script in scripts:
        assert not re.search(r"\$\((params|workspaces|results|context)\.", script)
        assert "${{" not in script
        assert "$[[" not in script


@pytest.mark.parametrize(
    ("hook", "path", "runs"),
    [
        ("opm-bundle-validate", "bundle/manifests/csv.yaml", True),
        ("opm-bundle-validate", "bundle/metadata/annotations.yml", True),
        ("opm-bundle-validate", "README.md", False),
        ("opm-validate", "catalogs/lagoon-operator/catalog.yaml", True),
        ("opm-validate", "v4.20/catalog/lagoon-operator/catalog.json", True),
        ("opm-validate", "bundle/manifests/csv.yaml", False),
        ("opm-template-render", "templates/lagoon-operator.yaml", True),
        ("opm-template-render", "catalog.lock", True),
        ("opm-template-render", "src/catalog.py", False),
    ],
)
def test_hooks_run_for_their_files(hook: str, path: str, runs: bool) -> None:
    (hooks,) = load(ROOT / ".pre-commit-hooks.yaml")
    (pattern,) = (each["files"] for each in hooks if each["id"] == hook)
    assert bool(re.search(pattern, path)) == runs


def test_examples_use_one_placeholder_for_the_registry() -> None:
    for path in (ROOT / "examples").rglob("*.y*ml"):
        for host in re.findall(r"\bregistry\.example\.com/\w+", path.read_text()):
            assert host == PLACEHOLDER, path
