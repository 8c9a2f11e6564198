"""A person who follows a page of the documentation and types its commands."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.kit.command_lines import console_script

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.kit.pipelines import Runner

PIP = """\
#!/bin/sh
test "$*" = "install --quiet ./opmkit"
"""


@dataclass(frozen=True)
class Guide:
    """A page whose sections are typed into one terminal; ``placeholders`` are replaced as the page says."""

    runner: Runner
    page: Path
    placeholders: Mapping[str, str]

    @property
    def sections(self) -> list[str]:
        """The headings of the numbered sections."""
        return re.findall(r"^## (\d\. .*)$", self.page.read_text(), re.MULTILINE)

    def commands(self, *numbers: int) -> str:
        """Return the commands of sections."""
        script = console_script(self.page, *(self.sections[number - 1] for number in numbers))
        for placeholder, value in self.placeholders.items():
            script = script.replace(placeholder, value)
        return script

    def follow(self, number: int) -> str:
        """Type the commands of a section, which must succeed, and return their output."""
        state = self.runner.scratch / "terminal"
        directory = shlex.quote(str(self.runner.directory))
        resume = f"source {state}" if state.exists() else f"cd {directory}"
        # The next section has the variables and the directory of this one.
        leave = f'{{ export -p; echo "cd $PWD"; }} > {state}'
        done = self.runner.run(f"{resume}\n{self.commands(number)}\n{leave}")
        assert done.returncode == 0, f"{self.sections[number - 1]}: {done.stderr}"
        return done.stdout


def with_opm(runner: Runner) -> Runner:
    """Return the runner with its own opm as the result of the commands that install it."""
    tools = runner.scratch / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "python3").write_text(f"""\
#!/bin/sh
mkdir -p "$3/bin" && ln -s {runner.bin}/opm "$3/bin/opm" && printf '%s' '{PIP}' > "$3/bin/pip" && chmod +x "$3/bin/pip"
""")
    (tools / "python3").chmod(0o755)
    return replace(runner, bin=tools)
