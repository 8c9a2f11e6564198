"""The objects of the Tekton example fit Tekton's schema, and each other."""

from __future__ import annotations

import copy
import json
import re
from typing import Any

import jsonschema
import pytest
import yaml

from tests.kit.installed import ROOT
from tests.kit.tekton import EXAMPLE, load_objects, matching_runs

OBJECTS = load_objects()
PIPELINES = [name for kind, name in OBJECTS if kind == "Pipeline"]
RUNS = [name for kind, name in OBJECTS if kind == "PipelineRun"]
TASKS = [name for kind, name in OBJECTS if kind == "Task"]
SCHEMA = json.loads((ROOT / "fixtures" / "tekton" / "v1.schema.json").read_text())
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


@pytest.mark.parametrize("key", OBJECTS, ids="-".join)
def test_objects_fit_the_schema(key: tuple[str, str]) -> None:
    VALIDATOR.validate(OBJECTS[key])


@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        ("Task", "build-bundle", {"parameters": []}),
        ("Task", "build-bundle", {"results": [{"name": "IMAGE_URL", "typ": "string"}]}),
        ("Pipeline", "release", {"tasks": [{"name": "build", "taskRef": "build-bundle"}]}),
        ("PipelineRun", "main", {"timeout": "1h"}),
    ],
    ids=["unknown-field", "unknown-nested-field", "wrong-type", "field-of-v1beta1"],
)
def test_the_schema_rejects_mistakes(kind: str, name: str, change: dict[str, Any]) -> None:
    content = copy.deepcopy(OBJECTS[kind, name])
    content["spec"] |= change
    assert not VALIDATOR.is_valid(content)


def names(items: list[dict[str, Any]]) -> set[str]:
    return {item["name"] for item in items}


def required(spec: dict[str, Any], field: str) -> set[str]:
    return {each["name"] for each in spec.get(field, []) if "default" not in each and not each.get("optional")}


def check_given(given: list[dict[str, Any]], spec: dict[str, Any], field: str) -> None:
    """Check that parameters or workspaces are declared, and that none which are required are missing."""
    assert required(spec, field) <= names(given) <= names(spec.get(field, []))


@pytest.mark.parametrize("name", PIPELINES)
def test_pipelines_give_their_tasks_what_they_require(name: str) -> None:
    pipeline = OBJECTS["Pipeline", name]["spec"]
    tasks = {each["name"]: OBJECTS["Task", each["taskRef"]["name"]]["spec"] for each in pipeline["tasks"]}
    for each in pipeline["tasks"]:
        check_given(each.get("params", []), tasks[each["name"]], "params")
        check_given(each["workspaces"], tasks[each["name"]], "workspaces")
        assert {binding["workspace"] for binding in each["workspaces"]} <= names(pipeline["workspaces"])
        assert set(each.get("runAfter", [])) <= tasks.keys()
    text = yaml.safe_dump(pipeline)
    assert set(re.findall(r"\$\(params\.([\w-]+)\)", text)) == names(pipeline["params"])
    for task, result in re.findall(r"\$\(tasks\.([\w-]+)\.results\.(\w+)\)", text):
        assert result in names(tasks[task]["results"])


@pytest.mark.parametrize("name", RUNS)
def test_pipeline_runs_give_their_pipeline_what_it_requires(name: str) -> None:
    run = OBJECTS["PipelineRun", name]["spec"]
    pipeline = OBJECTS["Pipeline", run["pipelineRef"]["name"]]["spec"]
    check_given(run["params"], pipeline, "params")
    check_given(run["workspaces"], pipeline, "workspaces")


@pytest.mark.parametrize("name", TASKS)
def test_tasks_use_every_parameter_workspace_and_result(name: str) -> None:
    task = OBJECTS["Task", name]["spec"]
    steps = yaml.safe_dump(task["steps"])
    for field, suffix in (("params", ""), ("workspaces", ".path"), ("results", ".path")):
        used = re.findall(rf"\$\({field}\.([\w-]+)(?:\[\*\])?{suffix}\)", steps)
        assert set(used) == names(task.get(field, []))
    for each in [*task["params"], *task["workspaces"], *task.get("results", [])]:
        assert each["description"]


@pytest.mark.parametrize("kind", ["bundle", "catalog"])
def test_pushed_images_are_results_of_task_and_pipeline(kind: str) -> None:
    """Tekton Chains signs the images that these results name."""
    task, pipeline = {"bundle": ("build-bundle", "release"), "catalog": ("publish-catalog", "publish")}[kind]
    for key in (("Task", task), ("Pipeline", pipeline)):
        assert names(OBJECTS[key]["spec"]["results"]) == {"IMAGE_URL", "IMAGE_DIGEST"}


@pytest.mark.parametrize(
    ("event", "ref", "runs"),
    [
        ("pull_request", "main", ["pull-request"]),
        ("pull_request", "release-1", []),
        ("push", "refs/heads/main", ["main"]),
        ("push", "refs/heads/topic", []),
        ("push", "refs/tags/v0.2.0", ["tag"]),
        ("push", "refs/tags/nightly", []),
    ],
    ids=lambda value: str(value).replace("/", "-"),
)
def test_each_event_has_its_pipeline_run(event: str, ref: str, runs: list[str]) -> None:
    assert list(matching_runs(EXAMPLE, event, ref)) == runs
