"""The commands of all pages run in one checkout and one terminal: what a page leaves does not break another one."""

from __future__ import annotations

import re
import shutil
from textwrap import dedent
from typing import TYPE_CHECKING

import pytest

from tests.kit.command_lines import ROOT, console_commands, pages
from tests.kit.registry import Registry
from tests.kit.requirements import require

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.installed import InstalledOpm

ELSEWHERE = {
    "first-catalog": "installs opmkit, and leaves the checkout: test_first_catalog",
    "github-actions": "requires GitHub: test_pipelines",
    "gitlab": "requires GitLab: test_pipelines",
    "tekton": "requires Tekton: test_pipelines",
    "mirroring": "requires images of quay.io: test_docs_examples",
    "troubleshooting": "its commands fail: test_docs_guides",
    "update-graphs": "its commands fail: test_docs_graphs",
}
"""Pages that are not run here, with the reason and the tests that run them."""
ORDER = ("README", "tour", "from-go-opm", "from-sqlite")
"""Pages to begin with; the others follow by name. Later ones use images of earlier ones."""
FIRST_CATALOG = (
    "opm bundle build -d fixtures/lagoon-operator/0.1.0/manifests -u work/first -p lagoon-operator -c stable -e stable"
    ' -t "$REGISTRY/lagoon-operator:0.1.0" --push'
)
MARK = "@@@"
_CONSOLE = re.compile(r"^ *```console\n(.*?)^ *```", re.DOTALL | re.MULTILINE)


def tutorials() -> list[Path]:
    """Return the pages with commands to type, in the order in which they are run."""
    found = [page for page in pages() if page.stem not in ELSEWHERE and console_commands(page)]
    return sorted(found, key=lambda page: (ORDER.index(page.stem) if page.stem in ORDER else len(ORDER), page.stem))


def script_of(page: Path) -> Iterator[str]:
    """Yield the commands of a page, each after a line that marks the beginning of its output."""
    in_empty_directory = "in an empty directory" in page.read_text()
    if in_empty_directory:
        yield 'pushd "$(mktemp -d)" > /dev/null'
    for number, command in enumerate(console_commands(page)):
        yield from () if _continues(command) else (f"echo {MARK}{page.stem}:{number}",)
        yield command
    if in_empty_directory:
        yield "popd > /dev/null"


def _continues(command: str) -> bool:
    """Return whether a line is in the body of a loop."""
    return command.startswith(("    ", "done"))


def quoted_outputs(page: Path) -> dict[int, str]:
    """Return the output below each command behind a prompt, by the number of the command in the page."""
    outputs = {}
    commands = console_commands(page)
    for block in _CONSOLE.findall(page.read_text()):
        rest = dedent(block)
        for number, command in enumerate(commands):
            if rest.startswith(f"$ {command}\n"):
                rest = rest.removeprefix(f"$ {command}\n")
                outputs[number], prompt, after = rest.partition("\n$ ") if not rest.startswith("$ ") else ("", "", rest)
                rest = f"$ {after}" if prompt else after
    return outputs


def is_quote_of(quoted: str, printed: str) -> bool:
    """Return whether the text is printed, where a line of ``...`` stands for lines, and other ``...`` for words."""
    lines = quoted.strip().replace("...", "…").splitlines()
    pattern = "".join("(?:.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + "\n" for line in lines)
    return re.fullmatch(pattern or "\n", f"{printed.strip()}\n") is not None


@pytest.fixture
def checkout(newcomer: InstalledOpm) -> Iterator[InstalledOpm]:
    """Return a user in a checkout, with a local registry, and with the bundle of the first catalog in it."""
    require("git")
    shutil.copytree(ROOT / "fixtures", newcomer.directory / "fixtures")
    shutil.copy(ROOT / ".gitignore", newcomer.directory)
    with Registry() as registry:
        settings = newcomer.home / ".config/containers/registries.conf"
        settings.parent.mkdir(parents=True)
        settings.write_text(f'[[registry]]\nlocation = "{registry.host}"\ninsecure = true\n')
        user = newcomer.with_env(REGISTRY=registry.host)
        prepare = f"git init --quiet && git add --all && {FIRST_CATALOG}"
        done = user.shell_out(["bash", "-c", prepare])
        assert done.returncode == 0, done.stderr
        yield user


@pytest.mark.long
def test_all_pages_run_in_one_checkout(checkout: InstalledOpm) -> None:
    script = "\n".join(["set -euo pipefail", *(line for page in tutorials() for line in script_of(page))])
    assert script.count("opm ") > 80
    done = checkout.shell_out(["bash", "-c", script], timeout=240)
    outputs = dict(part.partition("\n")[::2] for part in done.stdout.split(MARK)[1:])
    assert done.returncode == 0, f"{list(outputs)[-1]}: {done.stderr}"
    wrong = [
        f"{page.stem}: {console_commands(page)[number]}: {outputs[f'{page.stem}:{number}']}"
        for page in tutorials()
        for number, quoted in quoted_outputs(page).items()
        if not is_quote_of(quoted, outputs[f"{page.stem}:{number}"])
    ]
    assert not wrong, "\n".join(wrong)
    assert "no difference" in outputs["from-go-opm:4"]
    status = checkout.shell_out(["git", "diff", "--stat"]).stdout
    status += checkout.shell_out(["git", "ls-files", "--others", "--exclude-standard"]).stdout
    assert not status, f"the pages leave files in the checkout, or change some: {status}"


def test_outputs_that_differ_are_recognized() -> None:
    assert is_quote_of("Name:  x\n...\nLayers: ...", "Name:  x\na\nb\nLayers: 1\n")
    assert is_quote_of("x@sha256:...", "x@sha256:0\n")
    assert not is_quote_of("", "x\n")
    assert not is_quote_of("x\ny", "x\n")
