"""Run the shell steps of pipelines in ``examples`` as their CI systems do."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from string import Template
from typing import TYPE_CHECKING, Any

import yaml

from tests.kit.installed import ROOT, SYSTEM_PATH

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

YAML_BLOCK = re.compile(r"^```yaml\n(.*?)^```", re.DOTALL | re.MULTILINE)
ACTION = "opmkit/opmkit@"
_INPUT = re.compile(r"\$\[\[ inputs\.([a-z-]+) \]\]")


@dataclass(frozen=True)
class Runner:
    """A machine that runs each job in ``directory`` with a new ``HOME``."""

    bin: Path
    scratch: Path
    directory: Path
    env: Mapping[str, str]

    def run(
        self, script: str, env: Mapping[str, str] | None = None, *, home: str = "home", directory: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a script with bash, which exits on the first failure."""
        (self.scratch / home).mkdir(exist_ok=True)
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=directory or self.directory,
            env={
                "PATH": f"{self.bin}:{SYSTEM_PATH}",
                "HOME": str(self.scratch / home),
                "LANG": "C.UTF-8",
                "CI": "true",
                **self.env,
                **(env or {}),
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )


def write_offline_python(bin_directory: Path, tools: Path) -> None:
    """Write a ``python``, in whose virtual environments pip finds the dependencies installed, and downloads nothing."""
    (site_packages,) = bin_directory.parent.glob("lib/python*/site-packages")
    (tools / "python").write_text(
        f'#!/bin/sh\n{bin_directory}/python3 "$@" || exit\n'
        'case "$*" in *"-m venv "*) for venv; do :; done; set -- "$venv"/lib/python*/site-packages\n'
        f'  echo {site_packages} > "$1/locked.pth" ;;\nesac\n'
    )
    (tools / "python").chmod(0o755)


def documented_workflows(page: Path) -> list[str]:
    """Return the workflows of a page; those of which it shows only jobs or steps are completed."""
    head, job = "on: workflow_dispatch\npermissions: {}\n", "jobs:\n  job:\n    runs-on: ubuntu-24.04\n    steps:\n"
    workflows = []
    for block in YAML_BLOCK.findall(page.read_text()):
        if block.startswith("      - "):
            workflows.append(f"{head}{job}{block}")
        elif block.startswith("jobs:"):
            workflows.append(f"{head}{block}")
        elif "\njobs:\n" in block:
            workflows.append(block)
    return workflows


def run_github_job(runner: Runner, workflow: str, job: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the steps of a job until one fails, and return the result of the last."""
    content = yaml.safe_load((runner.directory / ".github/workflows" / workflow).read_text())
    paths = {"GITHUB_STEP_SUMMARY": str(runner.scratch / "summary.md"), "RUNNER_TEMP": str(runner.scratch / "temp")}
    settings = {**content["env"], **paths, **env}
    done = subprocess.CompletedProcess([], 0, "", "")
    for step in content["jobs"][job]["steps"]:
        if done.returncode and step.get("if") != "always()":
            continue
        if step.get("uses", "").startswith(ACTION):
            settings |= use_base_policy(runner, settings.get("BASE", ""), **policy_input(step))
            following = run_action(runner, step.get("with", {}), settings)
        elif "run" in step:
            following = runner.run(step["run"], settings)
        else:
            continue
        done = done if done.returncode else following
    return done


def policy_input(step: Mapping[str, Any]) -> dict[str, str]:
    """Return the input ``policy`` that a step passes to the action, if any."""
    return {name: value for name, value in step.get("with", {}).items() if name == "policy"}


def run_action(runner: Runner, inputs: Mapping[str, str], env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the command of the action as its step does; opm is installed already."""
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    (step,) = (step for step in steps if step.get("id") == "run")
    temp = runner.scratch / "temp"
    (temp / "opmkit").mkdir(parents=True, exist_ok=True)
    values = {name: inputs.get(name, "").replace("${{ runner.temp }}", str(temp)) for name in ("run", "sarif-file")}
    if not values["run"]:
        return subprocess.CompletedProcess([], 0, "", "")
    given = {name: _github_input(value, values) for name, value in step["env"].items()}
    paths = {"GITHUB_OUTPUT": str(runner.scratch / "output"), "RUNNER_TEMP": str(temp)}
    return runner.run(step["run"], {**env, **given, **paths})


def use_base_policy(runner: Runner, base: str, policy: str = ".opm-validate.yaml") -> dict[str, str]:
    """Run the step of the action with the base of a pull request, or without one; return the variables that it sets."""
    steps = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"]
    (step,) = (step for step in steps if "BASE" in step.get("env", {}))
    (runner.scratch / "temp" / "opmkit").mkdir(parents=True, exist_ok=True)
    env = {"BASE": base, "POLICY": policy, "TOKEN": "secret", "RUNNER_TEMP": str(runner.scratch / "temp")}
    env |= {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "me/lagoon-operator"}
    env["GITHUB_WORKSPACE"] = str(runner.directory)
    variables = runner.scratch / "env"
    variables.touch()
    done = runner.run(f"set -u\n{step['run']}", {**env, "GITHUB_ENV": str(variables)})
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in variables.read_text().splitlines())


def _github_input(expression: str, values: Mapping[str, str]) -> str:
    (name,) = re.findall(r"^\$\{\{ inputs\.([a-z-]+) \}\}$", expression)
    return values[name]


def run_gitlab_job(runner: Runner, component: str, job: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a job of a component after those that it needs; return its result."""
    _, body = yaml.safe_load_all((ROOT / "templates" / f"{component}.yml").read_text())
    if env.get("CI_PIPELINE_SOURCE") == "merge_request_event":
        for needed in body[job].get("needs", ()):
            done = run_only_gitlab_job(runner, component, needed["job"], env)
            if done.returncode:
                return done
            artifacts = body[needed["job"]]["artifacts"]
            variables = (runner.directory / artifacts["reports"]["dotenv"]).read_text()
            env |= dict(line.split("=", 1) for line in variables.splitlines())
    return run_only_gitlab_job(runner, component, job, env)


def run_only_gitlab_job(
    runner: Runner, component: str, job: str, env: Mapping[str, str], requirement: str = "opmkit"
) -> subprocess.CompletedProcess[str]:
    """Run a job of a component with the inputs in ``.gitlab-ci.yml``; return its result."""
    included = yaml.safe_load((runner.directory / ".gitlab-ci.yml").read_text())["include"]
    (given,) = (each["inputs"] for each in included if f"/{component}@" in each["component"])
    header, body = yaml.safe_load_all((ROOT / "templates" / f"{component}.yml").read_text())
    inputs = {name: spec.get("default") for name, spec in header["spec"]["inputs"].items()} | given
    inputs |= {"requirement": requirement, "lock": str(ROOT / "requirements.lock")}  # pip finds them installed
    jobs: dict[str, Any] = yaml.safe_load(_INPUT.sub(lambda match: inputs[match[1]], yaml.safe_dump(body)))
    parent = jobs[jobs[job]["extends"]] if "extends" in jobs[job] else {}
    values = parent.get("variables", {})
    variables = {name: Template(value or "").safe_substitute(env) for name, value in values.items()}
    script = "\n".join([*parent.get("before_script", ()), *jobs[job]["script"]])
    return runner.run(script, {**env, **variables}, home=f"home-{job}")
