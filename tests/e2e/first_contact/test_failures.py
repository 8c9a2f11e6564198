"""Errors for invalid command lines and missing files, as text and JSON."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    from tests.kit.installed import InstalledOpm

BUNDLES = ("0.1.0", "0.2.0", "0.3.0")


@pytest.mark.parametrize(
    "command",
    [
        "validate nowhere --output json",
        "bundle validate ./nowhere -o json",
        "render ./nowhere -ojson",
        "index add --bundles ./nowhere --binary-image scratch --output=json",
        "index rm --from-index oci:nowhere:1 --operators x --bogus --output json",
        "registry rm --database gone/x.db --packages x --output json",
        "alpha list packages oci:nowhere:1 -o=json",
        "image inspect oci:nowhere:1 -o json",
        "catalog list packages --address 127.0.0.1:1 --timeout 1 --output json",
    ],
)
def test_errors_are_json_with_output_json(newcomer: InstalledOpm, command: str) -> None:
    done = newcomer.attempt(*command.split())
    assert done.stdout == ""
    document = json.loads(done.stderr.splitlines()[0])
    error = document["error"]
    assert done.returncode == error["exit_code"] == 1
    assert f"Error: {error['message']}" in done.stderr.splitlines()[:3]
    assert set(error) == {"message", "hint", "exit_code"}
    assert (f"  hint: {error['hint']}" in done.stderr) or not error["hint"]
    assert document.get("passed") is (False if "validate" in command else None)


def test_json_of_an_invalid_catalog_equals_that_of_go_opm(newcomer: InstalledOpm) -> None:
    shutil.copytree(FIXTURES / "catalogs" / "valid", newcomer.directory / "catalog", dirs_exist_ok=True)
    (newcomer.directory / "catalog" / "x.yaml").write_text("schema: olm.channel\nname: x\npackage: unknown\n")
    done = newcomer.attempt("validate", "catalog", "--output", "json")
    ours = json.loads(done.stdout)
    assert (done.returncode, ours["passed"]) == (1, False)
    assert set(ours["error"]) == {"message"}
    if go := os.environ.get("OPMKIT_REFERENCE_OPM_NEWEST"):
        argv = [go, "validate", "catalog", "-o", "json"]
        theirs = subprocess.run(argv, cwd=newcomer.directory, capture_output=True, check=False, timeout=60).stdout
        assert {key: type(value) for key, value in json.loads(theirs).items()} == {"passed": bool, "error": dict}
        assert set(json.loads(theirs)["error"]) == set(ours["error"])


@pytest.mark.parametrize(
    ("command", "error", "question"),
    [
        ("valdate x", 'unknown command "valdate" for "opm"', "did you mean 'opm validate'?"),
        ("alpha lst", 'unknown command "lst" for "opm alpha"', "did you mean 'opm alpha list'?"),
        ("index adds", 'unknown command "adds" for "opm index"', "did you mean 'opm index add'?"),
        ("pull x", 'unknown command "pull" for "opm"', "did you mean 'opm image pull'?"),
        (
            "add x",
            'unknown command "add" for "opm"',
            "did you mean 'opm index add', 'opm template add' or 'opm registry add'?",
        ),
        ("index ls", 'unknown command "ls" for "opm index"', "did you mean 'opm image ls'?"),
        ("index add --bundle x", "unknown flag: --bundle", "did you mean --bundles"),
        ("render --outpt json x", "unknown flag: --outpt", "did you mean --output?"),
        ("--verison", "unknown flag: --verison", "did you mean --version?"),
        ("frobnicate", 'unknown command "frobnicate" for "opm"', "run 'opm --help'"),
        ("alpha bundle valdate", 'unknown command "valdate" for "opm alpha bundle"', "did you mean"),
        ("registry prnue -p x", 'unknown command "prnue" for "opm registry"', "did you mean 'opm registry prune'?"),
        ("help idnex", 'unknown command "idnex" for "opm"', "did you mean 'opm index'?"),
    ],
)
def test_unknown_commands_and_flags_have_the_error_of_go_opm_and_a_suggestion(
    newcomer: InstalledOpm, command: str, error: str, question: str
) -> None:
    done = newcomer.attempt(*command.split())
    first, hint = done.stderr.splitlines()
    assert (done.returncode, done.stdout, first) == (1, "", f"Error: {error}")
    assert hint.startswith(f"  hint: {question}")
    if (go := os.environ.get("OPMKIT_REFERENCE_OPM_NEWEST")) and not command.startswith("alpha"):
        theirs = subprocess.run([go, *command.split()], capture_output=True, text=True, check=False, timeout=60)
        assert first in theirs.stderr.splitlines() or theirs.returncode == 0  # as for the groups below opm


@pytest.mark.parametrize("command", ["bundle validate bundle", "render quay.io/x/y:1", "index add --bundles x/y:1"])
def test_a_missing_credentials_file_is_an_error(newcomer: InstalledOpm, command: str) -> None:
    (newcomer.directory / "bundle").mkdir()
    done = newcomer.attempt(*command.split(), "--authfile", "gone/auth.json")
    assert done.returncode == 1
    assert done.stderr.splitlines()[0] == "Error: gone/auth.json: credentials file does not exist"
    assert "podman login --authfile gone/auth.json" in done.stderr


def test_a_dry_run_ends_with_totals(newcomer: InstalledOpm) -> None:
    for version in BUNDLES:
        flags = (
            "--package",
            "lagoon",
            "--channels",
            "alpha",
            "--output-dir",
            version,
            "--tag",
            f"oci:images:{version}",
        )
        newcomer("bundle", "build", "-d", str(FIXTURES / "lagoon-operator" / version / "manifests"), *flags)
    first, *others = [f"./{version}=quay.io/me/lagoon:{version}" for version in BUNDLES]
    index = ("--binary-image", "scratch", "--tag", "oci:index:1")
    planned = newcomer("index", "add", "--bundles", ",".join([first, *others]), *index, "--dry-run")
    assert planned.splitlines()[-1] == "1 package to add, 1 channel to add, 3 bundles to add"
    newcomer("index", "add", "--bundles", first, *index)
    more = ("--from-index", "oci:index:1", *index, "--dry-run")
    planned = newcomer("index", "add", "--bundles", ",".join(others), *more)
    assert planned.splitlines()[-1] == "1 package changed, 1 channel changed, 2 bundles to add"
    planned = newcomer("index", "rm", "--operators", "lagoon", *more)
    assert planned.splitlines()[-1] == "1 package to remove, 1 channel to remove, 1 bundle to remove"
