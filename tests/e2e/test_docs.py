"""The examples of the documentation run, its links resolve, and it describes the existing commands and flags."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING, Any

import pytest
from typer.main import get_command

from opmkit.cli.entrypoints import PROGRAMS, build_program
from opmkit.cli.help.command_tree import aliases
from opmkit.cli.help.content import canonical_path, split_help
from opmkit.cli.parser.go_commands import GLOBAL_FLAGS
from tests.kit.command_lines import ROOT, console_commands, console_script, pages, quoted_outputs
from tests.kit.opm import FIXTURES, PROGRAM, all_commands
from tests.kit.typed_commands import assert_fits, run_commands, type_commands

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path
    from types import ModuleType

DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)")
FLAG = re.compile(r"--[A-Za-z][A-Za-z0-9-]*")
OTHER_FLAGS: dict[str, set[str]] = {
    "installing.md": {"--include-crds"},  # of helm
    "bundles.md": {"--chmod", "--chown"},
    "commands.md": {"--flag", "--switch"},
    "development.md": {
        "--reference",
        "--images",
        "--small",
        "--crane",
        "--regsync",
        "--tree",
        "--write",
        "--seconds",
        "--only-opmkit",
        "--only-directories",
    },
    "engines.md": {"--tls-verify"},
    "from-oc-mirror.md": {
        "--v2",
        "--delete-signatures",
        "--delete-yaml-file",
        "--workspace",
        "--dest-tls-verify",
        "--src-tls-verify",
        "--since",
        "--parallel-images",
        "--parallel-layers",
        "--image-timeout",
        "--retry-times",
    },
    "first-catalog.md": {"--detach", "--publish"},
    "installation.md": {"--strict"},
    "pre-commit.md": {"--all-files"},
    "registries.md": {"--tls-verify"},
    "signing.md": {"--insecure-ignore-tlog"},
}
"""Flags of other programs, and examples of flags, by the page that names them."""


SEQUENCES = {
    "docs/operator-sdk.md": "harbor-operator.v0.1.0",
    "docs/gate.md": "extra-v2.0.0-2",
    "docs/plan.md": "demo.v1.1.0",
    "docs/konflux.md": "oci:work/konflux/image:1",
    "docs/installing.md": "kustomization.yaml",
    "docs/certification.md": "PREFLIGHT-ANNOTATIONS",
    "docs/permissions.md": "kelp-operator.v0.2.0",
    "docs/merging.md": "tide-operator.v0.5.0",
    "docs/compat.md": "olm.csv.metadata",
    "docs/templates.md": "lagoon-operator.v0.3.0",
    "docs/onboarding.md": "template_name: v4.18-v4.19.yaml",
}
"""Pages whose commands run one after the other, and what the commands print."""


@pytest.mark.parametrize(("name", "bundle"), SEQUENCES.items())
def test_examples_run_in_sequence(name: str, bundle: str, tmp_path: Path) -> None:
    script = console_script(ROOT / name)
    assert script.count("opm ") > 4
    (tmp_path / "fixtures").symlink_to(FIXTURES)
    (tmp_path / "work").mkdir()  # another page may have created it
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert bundle in done.stdout


@pytest.mark.parametrize("progress", ["auto", "none"])
@pytest.mark.parametrize("name", SEQUENCES)
def test_examples_in_sequence_fit_a_terminal(name: str, progress: str, tmp_path: Path) -> None:
    (tmp_path / "fixtures").symlink_to(FIXTURES)
    (tmp_path / "work").mkdir()
    env = {**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
    output = assert_fits(type_commands(console_commands(ROOT / name), tmp_path, env, progress=progress))
    assert SEQUENCES[name] in output


@pytest.mark.parametrize("name", [name for name in SEQUENCES if quoted_outputs(ROOT / name)])
def test_outputs_on_the_page_are_those_that_commands_print(name: str, tmp_path: Path) -> None:
    (tmp_path / "fixtures").symlink_to(FIXTURES)
    (tmp_path / "work").mkdir()
    env = {**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
    quoted = quoted_outputs(ROOT / name)
    printed = {each.text: each.output for each in run_commands(console_commands(ROOT / name), tmp_path, env)}
    differing = {
        command: printed[command]
        for command, output in quoted.items()
        if not re.fullmatch(re.escape(output.strip()).replace("…", "[^\n]*"), printed[command].strip())
    }
    assert not differing


def test_commands_run_with_the_tools_of_linux_and_macos() -> None:
    """The option -i of sed has a value on macOS."""
    assert [str(page) for page in pages() if re.search(r"\bsed -i", page.read_text())] == []


def test_pages_that_use_the_action_say_that_it_is_not_released() -> None:
    users = [page for page in pages() if "uses: opmkit/opmkit@" in page.read_text()]
    assert len(users) > 3
    assert [str(page) for page in users if "is not released yet" not in page.read_text()] == []


def test_examples_with_a_shell_do_not_run_in_the_runtime_image() -> None:
    text = (ROOT / "docs/scaling.md").read_text()
    containers = re.findall(r"image: (\S+)\n +(?:command: \[sh|script: \|)", text)
    assert set(containers) == {"registry.example.com/opmkit-shell:1"}


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Iterate over the commands of a group and its groups, with their paths."""
    for name, child in getattr(command, "commands", {}).items():
        yield from commands(child, (*path, name))
    if not hasattr(command, "commands"):
        yield path, command


@cache
def site_hook() -> ModuleType:
    """Return the module that generates pages of the site."""
    path = ROOT / "scripts" / "docs_site.py"
    spec = spec_from_file_location(path.stem, path)
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def documented_commands() -> dict[str, Any]:
    """Return the commands by path, without hidden ones and without second names."""
    paths = {" ".join(("opm", *path)): command for path, command in commands(all_commands())}
    return {path: found for path, found in paths.items() if not found.hidden and canonical_path(path) == path}


def reference_gaps(pages: Mapping[str, str]) -> Iterator[str]:
    """Yield what the generated pages lack: commands, flags and examples."""
    for path, command in documented_commands().items():
        page = pages.get(f"reference/{path.replace(' ', '-')}.md", "")
        flags = set(FLAG.findall(" ".join(re.findall(r"^\| `([^`]*)` \|", page, re.MULTILINE))))
        names = {flag for param in command.params if not param.hidden for flag in param.opts if flag.startswith("--")}
        yield from (f"{path} {flag}" for flag in sorted(names - flags))
        if not re.search(rf"\b{path}\b", page.partition("\n## Examples\n")[2].partition("\n## ")[0]):
            yield f"{path}: example"


def test_reference_has_each_command_and_flag_with_examples() -> None:
    pages = {path: text for path, (_, text) in site_hook().reference_pages().items()}
    assert list(reference_gaps(pages)) == []

    pages["reference/opm-index-add.md"] = re.sub("(?m)^.*--on-conflict.*$", "", pages["reference/opm-index-add.md"])
    pages["reference/opm-render.md"] = pages["reference/opm-render.md"].replace("opm render", "")
    del pages["reference/opm-version.md"]
    assert list(reference_gaps(pages)) == ["opm index add --on-conflict", "opm render: example", "opm version: example"]


def test_overview_has_each_command_with_its_summary() -> None:
    overview = (ROOT / "docs" / "commands.md").read_text()
    rows = re.findall(r"^\| `(opm [a-z -]+)` \| (.*) \|$", overview, re.MULTILINE)
    assert dict(rows) == {path: split_help(command.help)[0] for path, command in documented_commands().items()}
    assert len(rows) == len(dict(rows))
    assert [
        other for other, name in aliases().items() if f"`{other}` is `{name}`" not in " ".join(overview.split())
    ] == []
    linked = site_hook().link_commands(overview)
    links = [f"| [{path}](reference/{path.replace(' ', '-')}.md) | {summary} |" for path, summary in rows]
    assert [link for link in links if link not in linked] == []


def test_shared_flags_of_the_overview_are_flags_of_several_commands() -> None:
    section = (ROOT / "docs" / "commands.md").read_text().split("\n## Shared flags\n")[1].split("\n#")[0]
    documented = {flag for cell in re.findall(r"^\| (`.*?) \| ", section, re.MULTILINE) for flag in FLAG.findall(cell)}
    uses = Counter(flag for _, command in commands(all_commands()) for param in command.params for flag in param.opts)
    assert len(documented) > 20
    assert {flag: uses[flag] for flag in documented - GLOBAL_FLAGS.keys() if uses[flag] < 3} == {}
    assert [flag for flag in GLOBAL_FLAGS if f"`{flag}" not in section] == []


def test_help_names_only_flags_of_the_command() -> None:
    for path, command in commands(all_commands()):
        flags = {flag for param in command.params for flag in param.opts} | {"--help", "--help-all"}
        texts = [command.help, *(getattr(param, "help", "") or "" for param in command.params)]
        unknown = {flag for text in texts for flag in FLAG.findall(text)} - flags
        assert not unknown, f"the help of {path} names {unknown}"


@cache
def flags_of_programs() -> frozenset[str]:
    """Return the flags of all commands and programs of this project, with second names and ``--no-`` forms."""
    programs = [all_commands(), *(get_command(build_program(name)) for name in PROGRAMS)]
    params = [param for program in programs for _, command in commands(program) for param in command.params]
    help_of_build = subprocess.run(
        [sys.executable, ROOT / "scripts" / "build_runtime.py", "--help"],
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found = {flag for param in params for flag in (*param.opts, *param.secondary_opts)}
    return frozenset({*found, *FLAG.findall(help_of_build), "--help", "--help-all"})


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_flags_in_text_exist(page: Path) -> None:
    text = FENCED.sub("", page.read_text())
    found = {flag for span in re.findall(r"`([^`\n]+)`", text) for flag in FLAG.findall(span)}
    others = OTHER_FLAGS.get(page.name, set())
    assert found - others <= flags_of_programs()
    assert others <= found - flags_of_programs(), "not the flags of other programs any more"


@cache
def anchors(document: Path) -> set[str]:
    """Return the anchors that GitHub creates for the headings of a document."""
    headings = HEADING.findall(FENCED.sub("", document.read_text()))
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_home_page_links_each_page() -> None:
    linked = {target for target, _ in LINK.findall((ROOT / "docs" / "index.md").read_text())}
    assert [page.name for page in (ROOT / "docs").glob("*.md") if page.name not in {*linked, "index.md"}] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(ROOT)))
def test_relative_links_resolve(document: Path) -> None:
    for target, anchor in LINK.findall(document.read_text()):
        linked = document.parent / target if target else document
        assert linked.exists(), f"{target} does not exist"
        assert not anchor or anchor in anchors(linked), f"{target}#{anchor} does not exist"
