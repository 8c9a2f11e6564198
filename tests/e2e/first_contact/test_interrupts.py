"""Signals end every command immediately, with one line and the exit status that shells expect."""

from __future__ import annotations

import os
import re
import signal
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import NotFound
from tests.kit.bundles import bundle_image, push_image, resolve_digest
from tests.kit.faults import Answer, Delay, Fault, FaultProxy, Trickle
from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from tests.kit.installed import InstalledOpm
    from tests.kit.registry import Registry

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SAMPLED_SIGNALS = [signal.SIGTERM, *(pytest.param(each, marks=pytest.mark.long) for each in SIGNALS[::2])]
MAX_SECONDS = 5
"""Seconds within which a command must end; it takes less than 1 on an idle machine."""
LONG = 120
REPOSITORY = "interrupts/lagoon-operator"
IMAGES = tuple(f"HOST/{REPOSITORY}:v{number}" for number in range(12))
ADD = ("index", "add", "--binary-image", "scratch", "--tag", "HOST/interrupts/catalog:new", "--push")
SLOW = {
    "blob download": (("render", IMAGES[0]), Fault("GET", ".*/blobs/", Trickle(1, 0.5), times=99)),
    "manifest fetch": (("render", IMAGES[0]), Fault("(GET|HEAD)", ".*/manifests/", Delay(LONG), times=99)),
    "retries": (("render", IMAGES[0]), Fault("GET", ".*/blobs/", Answer(503, {"Retry-After": "50"}), times=99)),
    "adding many": ((*ADD, "--bundles", ",".join(IMAGES)), Fault("GET", ".*/blobs/", Delay(LONG), times=99)),
    "upload": ((*ADD, "--bundles", IMAGES[0]), Fault("P.*", ".*/blobs/", Delay(LONG), times=99)),
    "tag": ((*ADD, "--bundles", IMAGES[0]), Fault("PUT", ".*/manifests/", Delay(LONG), times=99)),
    "validating many": (("bundle", "validate", *IMAGES), Fault("GET", ".*/blobs/", Delay(LONG), skip=3, times=99)),
}
"""Commands, and those of their requests that the registry delays."""
CASES = [(moment, number) for moment in SLOW for number in SIGNALS if moment not in ("retries", "tag") or number == 15]


@pytest.fixture(scope="module")
def images(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Registry:
    """Push bundles to the registry."""
    for number, image in enumerate(IMAGES):
        scratch = tmp_path_factory.mktemp("bundle")
        push_image(image.replace("HOST", registry.host), bundle_image("lagoon-operator", f"0.{number + 1}.0", scratch))
    return registry


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """Return the directory of temporary files."""
    directory = tmp_path / "scratch"
    directory.mkdir()
    return directory


def default_handlers() -> None:
    """Restore the signal handlers, which background processes may ignore."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def ignore_hangups() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)


def remaining_files(scratch: Path) -> list[Path]:
    """Return the remaining temporary files of a command, without the user's directory of locks."""
    return [path for path in scratch.iterdir() if path.name != f"opmkit-{os.getuid()}"]


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def end(process: subprocess.Popen[str], number: signal.Signals) -> tuple[int, str]:
    """Send a signal; return the exit status and stderr."""
    begin = time.monotonic()
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - begin < MAX_SECONDS
    return process.returncode, errors


def handles_signals(process: subprocess.Popen[str]) -> bool:
    """Return whether the process runs code of opmkit: Python has no handler for SIGTERM."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"^SigCgt:\s*(\w+)$", status, re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> (signal.SIGTERM - 1) & 1)


@pytest.mark.parametrize(("moment", "number"), CASES, ids=lambda value: getattr(value, "name", value))
def test_signal_ends_a_command_that_waits_for_a_registry(
    newcomer: InstalledOpm, images: Registry, scratch: Path, moment: str, number: signal.Signals
) -> None:
    words, fault = SLOW[moment]
    fault = Fault(fault.method, fault.path, fault.action, fault.times, fault.skip)
    with FaultProxy(images.host, fault) as proxy:
        arguments = [word.replace("HOST", proxy.host) for word in words]
        user = newcomer.with_env(TMPDIR=str(scratch))
        process = user.start(*arguments, "--use-http", preexec_fn=default_handlers)
        wait_for(lambda: fault.matched > fault.skip)
        time.sleep(0.1)
        status, errors = end(process, number)
    assert (status, errors) == (128 + number, f"Error: interrupted by {number.name}\n")
    assert remaining_files(scratch) == []
    with pytest.raises(NotFound):
        resolve_digest(f"{images.host}/interrupts/catalog:new")


@pytest.mark.parametrize("number", SAMPLED_SIGNALS, ids=lambda number: number.name)
def test_a_signal_at_any_moment_prints_one_line(newcomer: InstalledOpm, number: signal.Signals) -> None:
    for wait in (0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5):
        process = newcomer.start("render", "192.0.2.1:5000/no/such:host", preexec_fn=default_handlers)
        wait_for(partial(handles_signals, process))
        time.sleep(wait)
        assert end(process, number) == (128 + number, f"Error: interrupted by {number.name}\n"), wait


def test_second_signal_has_no_effect(newcomer: InstalledOpm, images: Registry, scratch: Path) -> None:
    fault = Fault("GET", ".*/blobs/", Delay(LONG), times=99)
    with FaultProxy(images.host, fault) as proxy:
        process = newcomer.with_env(TMPDIR=str(scratch)).start(
            "render", IMAGES[0].replace("HOST", proxy.host), "--use-http", preexec_fn=default_handlers
        )
        wait_for(lambda: fault.matched)
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)  # signals that are pending together come in no order
        assert end(process, signal.SIGTERM) == (130, "Error: interrupted by SIGINT\n")
    assert remaining_files(scratch) == []


def test_ignored_hangups_remain_ignored(newcomer: InstalledOpm, images: Registry) -> None:
    fault = Fault("GET", ".*/blobs/", Delay(1), times=99)
    with FaultProxy(images.host, fault) as proxy:
        process = newcomer.start(
            "render", IMAGES[0].replace("HOST", proxy.host), "--use-http", preexec_fn=ignore_hangups
        )
        wait_for(lambda: fault.matched)
        assert end(process, signal.SIGHUP) == (0, "")


def test_interrupt_message_names_updated_tags(newcomer: InstalledOpm, images: Registry) -> None:
    catalog = f"{images.host}/interrupts/catalog:moved"
    add = ("index", "add", "--binary-image", "scratch", "--use-http", "--push", "--tag", catalog)
    bundles = [image.replace("HOST", images.host) for image in IMAGES[:2]]
    newcomer(*add, "--bundles", bundles[0])
    before = resolve_digest(catalog)
    update = (*add, "--from-index", catalog, "--bundles", bundles[1], "--settle", str(LONG))
    process = newcomer.start(*update, preexec_fn=default_handlers)
    wait_for(lambda: resolve_digest(catalog) != before)
    time.sleep(0.3)
    assert end(process, signal.SIGTERM) == (143, f"Error: interrupted by SIGTERM; already updated: {catalog}\n")


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_server_shuts_down_on_a_signal(newcomer: InstalledOpm, number: signal.Signals) -> None:
    process = newcomer.start("serve", str(FIXTURES / "catalogs" / "valid"), "--port", "0", preexec_fn=default_handlers)
    assert process.stdout is not None
    assert "serving registry" in process.stdout.readline()
    process.send_signal(number)
    logs, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    assert "shutting down" in logs
