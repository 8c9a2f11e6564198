"""Shell completion."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.kit.requirements import require
from tests.kit.terminal import Terminal

if TYPE_CHECKING:
    from tests.kit.installed import InstalledOpm

CASES = {
    "opm ind": "opm index",
    "opm alpha list bund": "opm alpha list bundles",
    "opm --debug ver": "opm --debug version",
    "opm help index deprecatet": "opm help index deprecatetruncate",
    "opm index add --mod": "opm index add --mode",
    "opm render -o y": "opm render -o yaml",
    "opm index add --mode=semver-": "opm index add --mode=semver-skippatch",
    "opm index add --container-tool bu": "opm index add --container-tool buildah",
    "opm completion power": "opm completion powershell",
    "opm bundle rules CSV-REPLACES-F": "opm bundle rules CSV-REPLACES-FORMAT",
    "opm bundle validate --profile operator-s": "opm bundle validate --profile operator-sdk",
    "opm index diff --fail-on removed-b": "opm index diff --fail-on removed-bundle",
    "opm render cata": "opm render catalog.yaml",
    "opm render --ca-file=cata": "opm render --ca-file=catalog.yaml",
    "opm generate dockerfile cat": "opm generate dockerfile cats",
}
"""Command lines, and their completions."""
INTERACTIVE = {
    "bash": ("bash", "--norc", "--noprofile", "-i"),
    "zsh": ("zsh", "--no-rcs", "-i"),
}
HINTS = "Remove bundles that are in no channel"


@pytest.fixture
def user(newcomer: InstalledOpm) -> InstalledOpm:
    (newcomer.directory / "catalog.yaml").write_text("---\n")
    (newcomer.directory / "cats").mkdir()
    return newcomer


def shell_of(user: InstalledOpm, shell: str, *flags: str) -> Terminal:
    """Start an interactive shell that has loaded the completion script."""
    require(shell)
    terminal = Terminal(INTERACTIVE[shell], user.directory, user.with_env(TERM="xterm").environment)
    terminal.send("PS1='ready'; stty -echo\n" if shell == "bash" else "PS1='ready'; bindkey -e\n")
    terminal.send(f"source <(opm completion {shell} {' '.join(flags)}); echo lo''aded\n")
    terminal.expect("loaded")
    return terminal


@pytest.mark.parametrize("shell", INTERACTIVE)
def test_tab_completes_the_line(user: InstalledOpm, shell: str) -> None:
    with shell_of(user, shell) as terminal:
        for line, completed in CASES.items():
            terminal.send(f"{line}\t\x01printf '<%s>' \x05\n")  # back to the start of the line: print its words
            terminal.expect("".join(f"<{word}>" for word in completed.split()).removesuffix(">"))
    assert "not supported" not in terminal.output


@pytest.mark.parametrize("shell", INTERACTIVE)
@pytest.mark.parametrize("flags", [(), ("--no-descriptions",)])
def test_tabs_list_commands_with_their_descriptions(user: InstalledOpm, shell: str, flags: tuple[str, ...]) -> None:
    with shell_of(user, shell, *flags) as terminal:
        terminal.send("opm index pru\t\t\t")
        terminal.expect("prune-stranded")
        terminal.send("\x15echo d''one\n")
        assert (HINTS in terminal.expect("done")) is (not flags)


def test_bash_completes_without_line_editing(user: InstalledOpm) -> None:
    script = """
        source <(opm completion bash)
        COMP_WORDS=(opm render -o j) COMP_CWORD=3 COMP_LINE="opm render -o j" COMP_POINT=15 COMP_TYPE=9
        $(complete -p opm | sed 's/.*-F \\([^ ]*\\) opm/\\1/') opm j -o
        echo "${COMPREPLY[*]}"
    """
    done = user.shell_out(["bash", "-c", script])
    assert (done.stdout, done.stderr) == ("json\n", "")


def test_fish_completes_the_line(user: InstalledOpm) -> None:
    require("fish")
    lines = "\n".join(f"complete --do-complete '{line}'; echo end" for line in CASES)
    done = user.shell_out(["fish", "--no-config", "-c", f"opm completion fish | source\n{lines}"])
    answers = [answer.strip().partition("\t")[0] for answer in done.stdout.split("end\n")[:-1]]
    assert [answer.rstrip("/") for answer in answers] == [completed.split()[-1] for completed in CASES.values()], (
        done.stderr
    )


@pytest.mark.parametrize("flags", [(), ("--no-descriptions",)])
def test_fish_describes_candidates(user: InstalledOpm, flags: tuple[str, ...]) -> None:
    require("fish")
    script = f"opm completion fish {' '.join(flags)} | source; complete --do-complete 'opm index prune-'"
    done = user.shell_out(["fish", "--no-config", "-c", script])
    assert done.stdout.startswith("prune-stranded")
    assert (HINTS in done.stdout) is (not flags)


@pytest.mark.parametrize("shell", ["powershell", "pwsh"])
def test_powershell_script_calls_the_hidden_command(user: InstalledOpm, shell: str) -> None:
    assert "'__complete'" in user("completion", shell)
    assert "'__completeNoDesc'" in user("completion", shell, "--no-descriptions")


@pytest.mark.parametrize(
    ("words", "same"),
    [(("ind",), True), (("index", "add", "--mo"), True), (("nope", ""), False), (("render", "-o", ""), False)],
)
def test_hidden_command_has_the_protocol_of_go_opm(user: InstalledOpm, words: tuple[str, ...], same: bool) -> None:
    lines = user("__complete", *words).splitlines()
    assert lines[-1] == ":4"
    if newest := os.environ.get("OPMKIT_REFERENCE_OPM_NEWEST"):
        done = subprocess.run([newest, "__complete", *words], capture_output=True, text=True, check=True)
        theirs = done.stdout.splitlines()
        assert ([line.partition("\t")[0] for line in lines] == [line.partition("\t")[0] for line in theirs]) is same
