"""Run Tekton tasks and pipelines of a repository as Tekton and Pipelines as Code do, without containers."""

from __future__ import annotations

import re
import shlex
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from tests.kit.installed import ROOT

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping

    from tests.kit.pipelines import Runner

EXAMPLE = ROOT / "examples" / "tekton" / ".tekton"
Object = dict[str, Any]
Value = str | list[str]

_VARIABLE = re.compile(r"\$\(([\w.-]+)\)")
_EVENT_VARIABLE = re.compile(r"\{\{ (\w+) \}\}")


@dataclass(frozen=True)
class RunResult:
    """The failed or else the last process of a run, and the results of the task or pipeline."""

    done: subprocess.CompletedProcess[str]
    results: Mapping[str, str] = field(default_factory=dict)


def load_objects(directory: Path = EXAMPLE, event: Mapping[str, str] | None = None) -> dict[tuple[str, str], Object]:
    """Return the objects below a directory by kind and name; ``event`` provides the variables in double braces."""
    objects = {}
    for path in sorted(directory.rglob("*.yaml")):
        text = path.read_text()
        if event is not None:
            text = _EVENT_VARIABLE.sub(lambda match: event[match[1]], text)
        for content in yaml.safe_load_all(text):
            key = (content["kind"], content["metadata"]["name"])
            assert key not in objects, f"{key} is there twice"
            objects[key] = content
    return objects


def matching_runs(directory: Path, event: str, ref: str) -> Iterator[str]:
    """Yield the names of the pipeline runs for an event, ``pull_request`` or ``push``, with its target."""
    prefix = "pipelinesascode.tekton.dev/on"
    for (kind, name), content in load_objects(directory).items():
        annotations = content["metadata"].get("annotations", {})
        if kind == "PipelineRun" and annotations[f"{prefix}-event"] == f"[{event}]":
            pattern = annotations[f"{prefix}-target-branch"].strip("[]")
            if Path(ref).match(pattern) or ref == f"refs/heads/{pattern}":
                yield name


def run_pipeline_run(runner: Runner, name: str, event: Mapping[str, str], secrets: Mapping[str, Path]) -> RunResult:
    """Run the tasks of a pipeline run in their order until one fails, with a new volume for each claim."""
    objects = load_objects(runner.directory / ".tekton", event)
    run = objects["PipelineRun", name]["spec"]
    pipeline = objects["Pipeline", run["pipelineRef"]["name"]]["spec"]
    volumes = {each["name"]: _volume(runner, each, secrets) for each in run["workspaces"]}
    values = _given_values(pipeline, run["params"], {})
    variables = {f"params.{key}": value for key, value in values.items()}
    finished: set[str] = set()
    result = None
    for each in pipeline["tasks"]:
        assert finished >= set(each.get("runAfter", [])), f"{each['name']} is listed before its predecessors"
        task = objects["Task", each["taskRef"]["name"]]
        workspaces = {binding["name"]: volumes[binding["workspace"]] for binding in each["workspaces"]}
        result = run_task(runner, task, _given_values(task["spec"], each.get("params", []), variables), workspaces)
        if result.done.returncode:
            return RunResult(result.done)
        finished.add(each["name"])
        variables |= {f"tasks.{each['name']}.results.{key}": value for key, value in result.results.items()}
    assert result is not None
    results = {each["name"]: _substitute(each["value"], variables) for each in pipeline.get("results", [])}
    return RunResult(result.done, results)


def run_task(runner: Runner, task: Object, params: Mapping[str, Value], workspaces: Mapping[str, Path]) -> RunResult:
    """Run the step of a task in its workspace ``source``, with a new ``HOME``."""
    spec, name = task["spec"], task["metadata"]["name"]
    declared = {each["name"]: each.get("optional", False) for each in spec["workspaces"]}
    assert workspaces.keys() <= declared.keys()
    assert all(optional or name in workspaces for name, optional in declared.items())
    pod = Path(tempfile.mkdtemp(prefix=f"pod-{name}-", dir=runner.scratch))
    variables = {f"params.{key}": value for key, value in params.items() if isinstance(value, str)}
    variables |= {f"workspaces.{key}.path": str(workspaces.get(key, "")) for key in declared}
    variables |= {f"results.{each['name']}.path": str(pod / each["name"]) for each in spec.get("results", [])}
    (step,) = spec["steps"]
    env = {each["name"]: _substitute(each["value"], variables) for each in step["env"]}
    assert env.pop("HOME") == "/tekton/home"
    directory = Path(_substitute(step["workingDir"], variables))
    script = pod / "script"
    script.write_text(step["script"])
    script.chmod(0o755)
    arguments = _arguments(step.get("args", []), params)
    done = runner.run(shlex.join([str(script), *arguments]), env, home=f"{pod.name}/home", directory=directory)
    written = {each["name"]: pod / each["name"] for each in spec.get("results", [])}
    return RunResult(done, {key: path.read_text() for key, path in written.items() if path.exists()})


def run_example_task(runner: Runner, name: str, **params: Value) -> subprocess.CompletedProcess[str]:
    """Run a task of the example with the runner's directory as its workspace."""
    task = load_objects()["Task", name]
    given = [{"name": key, "value": value} for key, value in params.items()]
    return run_task(runner, task, _given_values(task["spec"], given, {}), {"source": runner.directory}).done


def _given_values(spec: Object, given: list[Object], variables: Mapping[str, str]) -> dict[str, Any]:
    """Return the values of all parameters that a task or pipeline declares."""
    values = {each["name"]: each["default"] for each in spec["params"] if "default" in each}
    for each in given:
        value = each["value"]
        values[each["name"]] = _substitute(value, variables) if isinstance(value, str) else value
    assert values.keys() == {each["name"] for each in spec["params"]}
    return values


def _substitute(text: str, variables: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: variables[match[1]], text)


def _arguments(arguments: list[str], params: Mapping[str, Value]) -> list[str]:
    expanded: list[str] = []
    for argument in arguments:
        array = re.fullmatch(r"\$\(params\.(\w+)\[\*\]\)", argument)
        expanded += params[array[1]] if array else [argument]
    return expanded


def _volume(runner: Runner, workspace: Object, secrets: Mapping[str, Path]) -> Path:
    if "secret" in workspace:
        return secrets[workspace["secret"]["secretName"]]
    assert workspace["volumeClaimTemplate"]["spec"]["resources"]["requests"]["storage"]
    return Path(tempfile.mkdtemp(prefix="volume-", dir=runner.scratch))
