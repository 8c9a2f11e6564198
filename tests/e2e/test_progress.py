"""Progress bars of commands that wait for a registry."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.e2e.test_index_merge import write_package
from tests.kit.bundles import bundle_image, push_image
from tests.kit.faults import CallFirst, Delay, Fault, FaultProxy
from tests.kit.opm import PROGRAM
from tests.kit.screen import Screen, run_on_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

COMMANDS = (
    "render INDEX",
    "render BUNDLE",
    "alpha list bundles INDEX",
    "alpha render-template basic template.yaml",
    "index graph INDEX -o dot",
    "index diff INDEX catalog",
    "index images INDEX",
    "index export -i INDEX -f exported --package reef",
    "index copy reef --from INDEX --to catalog",
    "index merge INDEX catalog -t merged:1 -i scratch",
    "index rm -o reef -f INDEX -t removed:1 -i scratch",
    "index add -b BUNDLE -t added:1 -i scratch",
    "migrate INDEX migrated",
    "validate INDEX",
    "bundle unpack BUNDLE -o unpacked",
    "bundle extract BUNDLE -c reef --dry-run",
    "bundle validate BUNDLE",
    "image inspect INDEX",
    "image copy INDEX oci:copied",
    "mirror INDEX --to registry.invalid/mirror --dry-run",
)
"""Commands with the words INDEX and BUNDLE for images."""
BAR = re.compile(r"[━╸╺][^\r\n]* (?:[1-9][\d,.]*|0\.\d+) (?:bytes|kB|MB)")
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
TIMEOUT = 20


class Site(NamedTuple):
    """A working directory, a registry, and the repository of an index and a bundle in it."""

    opm: Opm
    registry: Registry
    repository: str

    def arguments(self, command: str, host: str) -> list[str]:
        """Return the words of a command line that reads from ``host``."""
        names = {"INDEX": f"{host}/{self.repository}:index", "BUNDLE": f"{host}/{self.repository}:bundle"}
        return [*(names.get(word, word) for word in command.split()), "--use-http"]

    def directory(self, name: str, host: str) -> Path:
        """Create a working directory for one command."""
        directory = self.opm.directory / name
        directory.mkdir()
        write_package(directory / "catalog", "atoll", "quay.io/me/atoll:1")
        template = {
            "schema": "olm.template.basic",
            "entries": [{"schema": "olm.bundle", "image": f"{host}/{self.repository}:bundle"}],
        }
        (directory / "template.yaml").write_text(json.dumps(template))
        return directory


@pytest.fixture
def site(opm: Opm, registry: Registry) -> Site:
    """Push an index and a bundle."""
    site = Site(opm, registry, f"progress-{opm.directory.name.replace('_', '-').lower()}")
    write_package(opm.directory / "catalog", "reef", f"{registry.host}/{site.repository}:bundle")
    push_image(f"{registry.host}/{site.repository}:bundle", bundle_image("reef", "1.0.0", opm.directory))
    index = f"{registry.host}/{site.repository}:index"
    opm("index", "build", "catalog", "-t", index, "-i", "scratch", "--push", "--use-http")
    return site


def run_until_bar(site: Site, number: int, command: str) -> Screen:
    """Run a command on a terminal; the registry does not send the first blob until a bar is visible."""
    visible = threading.Event()
    held = Fault("GET", "/v2/.*/blobs/", CallFirst(lambda: visible.wait(TIMEOUT)))
    with FaultProxy(site.registry.host, held) as proxy:
        directory = site.directory(str(number), proxy.host)
        return run_on_terminal(
            *site.arguments(command, proxy.host),
            columns=80,
            directory=directory,
            env={"OPM_STORE": str(directory / "store")},
            on_output=lambda output: visible.set() if BAR.search(output) else None,
        )


@pytest.fixture
def slow(site: Site) -> Iterator[FaultProxy]:
    """Return a proxy that delays the first blob for longer than commands wait until they show a bar."""
    with FaultProxy(site.registry.host, Fault("GET", "/v2/.*/blobs/", Delay(1.3))) as proxy:
        yield proxy


def test_every_command_that_reads_images_shows_a_bar_with_bytes(site: Site) -> None:
    with ThreadPoolExecutor(6) as pool:
        screens = list(pool.map(lambda item: run_until_bar(site, *item), enumerate(COMMANDS)))
    silent = {
        command: screen.output
        for command, screen in zip(COMMANDS, screens, strict=True)
        if not BAR.search(screen.output)
    }
    assert silent == {}
    bars = [line for screen in screens for line in re.split(r"[\r\n]+", screen.output) if "━" in line]
    assert [bar for bar in bars if len(ESCAPES.sub("", bar)) > 80] == []
    assert all(screen.output.count("\x1b[?25l") == screen.output.count("\x1b[?25h") for screen in screens)


@pytest.mark.parametrize("command", ["image copy INDEX TO", "mirror INDEX --to TO", "mirror BROKEN --to TO --continue"])
def test_references_printed_next_to_bars_are_not_wrapped(site: Site, command: str) -> None:
    host = site.registry.host
    write_package(site.opm.directory / "broken", "reef", f"{host}/{site.repository}/{'long-name-' * 9}x:none")
    broken = f"{host}/{site.repository}:broken"
    site.opm("index", "build", "broken", "-t", broken, "-i", "scratch", "--push", "--use-http")
    words = {"TO": f"{host}/{'a-long-name-of-a-repository/' * 3}copy", "BROKEN": broken}
    arguments = [words.get(word, word) for word in site.arguments(command, host)]
    screen = run_on_terminal(*arguments, columns=80, directory=site.opm.directory, env=site.opm.env)
    printed = [ESCAPES.sub("", line) for line in screen.output.splitlines()]
    assert any(re.fullmatch(rf"{words['TO']}\S*@sha256:[0-9a-f]{{64}}", line) for line in printed), screen.output
    if "BROKEN" in command:
        assert any(f"{'long-name-' * 9}x:none" in line for line in printed), screen.output


def test_pipes_get_no_bars_and_programs_get_events_with_bytes(site: Site, slow: FaultProxy) -> None:
    words = site.arguments("alpha list bundles INDEX", slow.host)
    piped = subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=True, timeout=TIMEOUT)
    assert piped.stderr == ""
    assert "reef.v1" in piped.stdout
    slow.faults[0].matched = 0
    done = site.opm.attempt(*words, "--progress", "json")
    events = [json.loads(line) for line in done.stderr.splitlines()]
    assert {event["unit"] for event in events} == {"bytes"}
    assert {event["task"].partition(" ")[0] for event in events} == {"Reading"}
    assert [event["event"] for event in events if event["event"] != "advance"][:2] == ["begin", "end"]
    assert max(event["done"] for event in events if event["event"] == "end") > 100


def test_tasks_with_other_units_report_the_bytes_that_they_transfer(site: Site) -> None:
    words = site.arguments("index merge INDEX catalog -t merged:1 -i scratch", site.registry.host)
    done = site.opm.attempt(*words, "--progress", "json")
    ended = [json.loads(line) for line in done.stderr.splitlines() if line.startswith('{"event": "end"')]
    (merged,) = [event for event in ended if event["task"] == "Reading indexes"]
    assert (merged["unit"], merged["total"], merged["done"]) == ("indexes", 2, 2)
    assert merged["transferred"] > 100
