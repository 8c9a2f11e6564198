"""Every command line of the documentation and of help texts is run by a test, or at least parsed.

Commands behind ``$`` are run by the test in ``TESTS_OF_PAGES``. All command lines are parsed by the commands
that exist, so that each command, flag and argument in them is valid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.cli.entrypoints import PROGRAMS
from opmkit.cli.help_content import describe_command
from tests.cli.test_help import commands
from tests.kit.command_lines import ROOT, command_lines, pages, parse, parse_partially, programs, simple_commands

if TYPE_CHECKING:
    from pathlib import Path

TESTS_OF_PAGES = {
    "README.md": "tests/e2e/first_contact/test_readme.py",
    "docs/compat.md": "tests/e2e/test_docs.py",
    "docs/first-catalog.md": "tests/e2e/first_contact/test_first_catalog.py",
    "docs/from-go-opm.md": "tests/e2e/test_docs_guides.py",
    "docs/from-sqlite.md": "tests/e2e/test_docs_guides.py",
    "docs/gate.md": "tests/e2e/test_docs.py",
    "docs/github-actions.md": "tests/e2e/first_contact/test_pipelines.py",
    "docs/gitlab.md": "tests/e2e/first_contact/test_pipelines.py",
    "docs/index-images.md": "tests/e2e/test_docs_explanation.py",
    "docs/merging.md": "tests/e2e/test_docs.py",
    "docs/mirroring.md": "tests/e2e/test_mirror.py",
    "docs/operator-sdk.md": "tests/e2e/test_docs.py",
    "docs/several-writers.md": "tests/e2e/test_docs_guides.py",
    "docs/signing.md": "tests/e2e/test_image_sign.py",
    "docs/tekton.md": "tests/e2e/first_contact/test_pipelines.py",
    "docs/templates.md": "tests/e2e/test_docs.py",
    "docs/tour.md": "tests/e2e/first_contact/test_readme.py",
    "docs/troubleshooting.md": "tests/e2e/test_docs_guides.py",
    "docs/update-graphs.md": "tests/e2e/test_docs_graphs.py",
}
"""Tests that run all commands behind ``$`` in a page, except those below."""
NOT_RUN = {
    ("docs/mirroring.md", "oc apply"): "requires OpenShift",
    ("docs/mirroring.md", "cosign verify"): "digests are abbreviated; tests/reference/test_cosign.py runs cosign",
    ("docs/mirroring.md", "opm image verify"): "digests are abbreviated; test_mirror_signatures.py verifies signatures",
}
"""Beginnings of commands behind ``$`` that no test runs, with the reason."""
OTHER_PROGRAMS = {
    "apt-get": "changes the machine",
    "cosign": "tests/reference/test_cosign.py runs it if it is installed",
    "cd": "is not a program",
    "curl": "the tests of servers send the same requests",
    "export": "sets MANPATH in the user's shell",
    "grpcurl": "is not part of this project; tests/e2e/test_foreign_clients.py has clients",
    "kubectl": "requires a cluster",
    "kustomize": "tests pipe its output",
    "make": "tests/e2e/test_operator_project.py runs the Makefile of operator-sdk",
    "mkdir": "is not part of this project",
    "pip": "requires a package index; tests/e2e/first_contact installs the wheel",
    "pipx": "requires a package index",
    "podman": "requires a base image of another registry",
    "pre-commit": "tests/e2e/first_contact/test_pipelines.py runs the commands of the hooks",
    "pytest": "runs these tests",
    "scripts/build-cluster": "downloads Kubernetes",
    "scripts/build-packages": "tests/e2e/test_packages.py runs it",
    "scripts/build-runtime": "tests/e2e/test_runtime_image.py runs it",
    "scripts/test": "runs these tests",
    "sudo": "changes the machine",
    "tar": "is not part of this project",
    "uv": "requires a package index",
    "which": "is not part of this project",
    "zip": "is not part of this project",
}
"""Programs in blocks that are not run, and why tests cannot run them or where they do."""
OURS = {"opm", *PROGRAMS}


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_command_lines_of_pages_are_valid(page: Path) -> None:
    problems = []
    for line in command_lines(page):
        try:
            (parse_partially if line.kind == "inline" else parse)(line.text)
        except ValueError as error:
            problems.append(f"{line}: {error}")
    assert problems == []


def test_examples_of_help_texts_are_valid() -> None:
    problems, count = [], 0
    for path, command in commands().items():
        content = describe_command(command.make_context(path, [], resilient_parsing=True))
        for example in content.examples:
            count += 1
            try:
                parse(example)
            except ValueError as error:
                problems.append(f"{path}: {example}: {error}")
    assert problems == []
    assert count > 150


def test_blocks_with_commands_have_a_language() -> None:
    unmarked = [str(line) for page in pages() for line in command_lines(page) if line.kind == "unmarked"]
    assert unmarked == [], "begin these blocks with ```sh, or with ```console if a test runs the commands"


def test_commands_of_console_blocks_are_run_by_tests() -> None:
    lines = [line for page in pages() for line in command_lines(page) if line.kind == "console"]
    assert {line.page for line in lines} == TESTS_OF_PAGES.keys(), "name the test that runs these pages, and no others"
    for page, test in TESTS_OF_PAGES.items():
        name = page.removeprefix("docs/").removesuffix(".md")
        assert name in (ROOT / test).read_text(), f"{test} does not run {page}"
    for page, start in NOT_RUN:
        assert any(line.page == page and line.text.startswith(start) for line in lines), f"{page} has no {start}"


def test_other_programs_are_known() -> None:
    lines = [line for page in pages() for line in command_lines(page) if line.kind == "block"]
    found = {program: str(line) for line in lines for program in programs(line.text) if program not in OURS}
    unknown = [line for program, line in found.items() if program not in OTHER_PROGRAMS]
    assert unknown == [], "run these in a test (```console), or add the program with the reason"
    assert OTHER_PROGRAMS.keys() - found.keys() == set(), "not in the documentation any more"


@pytest.mark.parametrize(
    "line",
    [
        "opm index ad --tag x",
        "opm index add --bundels x",
        "cat x | opm index add --bundels x",
        "for x in 1 2; do opm render --no-such x; done",
        "opm image inspect",
        "x=$(opm validate --no-such catalog)",
        "opm index add --on-conflict nothing --bundles x",
    ],
)
def test_invalid_command_lines_are_recognized(line: str) -> None:
    with pytest.raises(ValueError, match=r"unknown|nvalid|accepts|required|issing"):
        parse(line)


@pytest.mark.parametrize("line", ["opm index ad", "opm index add --bundels", "opm no-such --flag", "opm render -x"])
def test_invalid_fragments_are_recognized(line: str) -> None:
    with pytest.raises(ValueError, match="unknown"):
        parse_partially(line)


def test_words_of_commands() -> None:
    line = "! VERSION=1 opm index add -b \"$A/x:1 > y\" 2> /dev/null | opm validate '<x>' > out # a comment"
    assert simple_commands(line) == [["opm", "index", "add", "-b", "1/x:1 > y"], ["opm", "validate", "<x>"]]
    assert simple_commands("a <(b c) && d") == [["a"], ["b", "c"], ["d"]]
