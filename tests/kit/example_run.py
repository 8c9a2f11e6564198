"""Run the command lines of a page, or examples of help texts, in order in a prepared site."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.kit.example_preparation import BEFORE, FINDINGS, PLACEHOLDERS, REPLACED, RESET
from tests.kit.example_server import ExampleServer, is_server
from tests.kit.typed_commands import terminal_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.kit.example_site import ExampleSite


@dataclass(frozen=True)
class Example:
    """A command line and its source: the path of a page, or ``help``."""

    source: str
    text: str

    def __str__(self) -> str:
        return f"{self.source}: {self.text}"


def entry(table: Mapping[str, object], example: Example) -> str | None:
    """Return the longest beginning of an example in a table, with or without its source."""
    starts = [start for start in table if str(example).startswith(start) or example.text.startswith(start)]
    return max(starts, key=len, default=None)


@dataclass
class ExampleRun:
    """A sequence of examples, which may call the server that the last of them has started."""

    site: ExampleSite
    server: ExampleServer | None = None
    problems: list[str] = field(default_factory=list)

    def run(self, example: Example) -> None:
        """Prepare and run an example, and record its failure."""
        start = entry(BEFORE, example)
        before = BEFORE[start] if start else ""
        if before.startswith(RESET):
            self.site.reset()
            before = before.removeprefix(RESET)
        if before:
            status, output = self.site.run(before)
            assert status == 0, f"{before}: {output}"
        for line in _expanded(example):
            self._run_line(example, line)

    def stop(self) -> None:
        """Stop the server."""
        if self.server is not None:
            status = self.server.stop()
            self.server = None
            if status not in (0, -15):
                self.problems.append(f"a server exits with status {status}")

    def _run_line(self, example: Example, line: str) -> None:
        if is_server(line):
            self.stop()
            self.server = ExampleServer.start(self.site, line)
            return
        status, output = self.site.run(self.server.translate(line) if self.server else line)
        if status != (str(example) in FINDINGS):
            self.problems.append(f"{example}: status {status}: {output}")
        self.problems += terminal_problems(line, output)


def _expanded(example: Example) -> Iterator[str]:
    """Yield the command lines for which an example with placeholders stands."""
    text = example.text.removeprefix("$ ")
    for old, new in REPLACED.get(example.source, {}).items():
        text = text.replace(old, new)
    for placeholder, values in PLACEHOLDERS.items():
        if placeholder in text:
            yield from (re.sub(re.escape(placeholder), value, text) for value in values)
            return
    yield text
