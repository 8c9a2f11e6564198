"""A killed add leaves the old index intact, and the next run succeeds."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.faults import Action, FaultProxy, ReceivedRequest, Reset
from tests.kit.forkserver import Command

if TYPE_CHECKING:
    from tests.kit.forkserver import ForkServer
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry


class KillingProxy(FaultProxy):
    """A proxy that sends a process a signal, SIGKILL by default, at request number ``at`` of a method, "" for any.

    It forwards neither this request nor later ones.
    """

    def __init__(self, upstream: str, at: int, sign: signal.Signals = signal.SIGKILL, *, method: str = "") -> None:
        super().__init__(upstream)
        self.at = at
        self.method = method
        self.sign = sign
        self.pid = 0
        self.started = threading.Event()
        self.sent = threading.Lock()

    def action_for(self, seen: ReceivedRequest) -> Action | None:
        super().action_for(seen)
        if (self.count(self.method) if self.method else len(self.seen)) < self.at:
            return None
        self.started.wait()
        if self.sent.acquire(blocking=False):
            os.kill(self.pid, self.sign)
        return Reset()


def run_through(proxy: FaultProxy, opm: Opm, argv: tuple[str, ...]) -> int:
    """Run the command with the proxy and return its exit status."""
    process = subprocess.Popen(opm.argv(*argv), cwd=opm.directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if isinstance(proxy, KillingProxy):
        proxy.pid = process.pid
        proxy.started.set()
    return process.wait(timeout=120)


def interruptible() -> None:
    """Restore the handler of SIGINT, which background processes ignore."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def add_third(host: str, prefix: str) -> tuple[str, ...]:
    name = f"{host}/{prefix}"
    return (
        *("index", "add", "--push", "-b", f"{name}/lagoon-operator:0.3.0"),
        *("-f", f"{name}/catalog:latest", "-t", f"{name}/catalog:latest"),
    )


@pytest.fixture
def prefix(opm_http: Opm, registry: Registry, tmp_path: Path) -> str:
    """Push a catalog of two bundles, and a third bundle."""
    name = f"kill-{tmp_path.name.replace('_', '-').lower()}"
    images = [f"{registry.host}/{name}/lagoon-operator:{version}" for version in ("0.1.0", "0.2.0", "0.3.0")]
    for image in images:
        opm_http.build_bundle(image.rpartition(":")[2], image, "--push")
    catalog = f"{registry.host}/{name}/catalog:latest"
    opm_http("index", "add", "-b", ",".join(images[:2]), "-i", "scratch", "-t", catalog, "--push")
    return name


def test_kill_at_any_request_leaves_the_tag_at_a_complete_index(opm_http: Opm, registry: Registry, prefix: str) -> None:
    catalog = f"{registry.host}/{prefix}/catalog:latest"
    before = opm_http("image", "inspect", catalog)
    at = 0
    while True:
        at += 1
        with KillingProxy(registry.host, at) as proxy:
            status = run_through(proxy, opm_http, add_third(proxy.host, prefix))
        if status == 0:
            break
        assert status == -signal.SIGKILL
        if opm_http("image", "inspect", catalog) != before:
            break  # killed after the tag had moved: the new index is whole, as the listing shows
        listed = opm_http("alpha", "list", "bundles", catalog)
        assert "v0.2.0" in listed
        assert "v0.3.0" not in listed
    assert at > 8  # bundle, index, blobs, manifest: each took a request at which it was killed
    assert "v0.3.0" in opm_http("alpha", "list", "bundles", catalog)


STEPS = ("os.replace", "os.rename", "os.fsync", "sqlite3.connect", "shutil.copyfile")


@pytest.mark.parametrize("step", STEPS)
def test_kill_at_any_step_on_disk_leaves_a_complete_database(
    step: str, forkserver: ForkServer, opm_http: Opm, registry: Registry, prefix: str
) -> None:
    name = f"{registry.host}/{prefix}/lagoon-operator"
    database = opm_http.directory / "index.db"
    opm_http("registry", "add", "-d", "index.db", "-b", f"{name}:0.1.0,{name}:0.2.0")
    before = database.read_bytes()
    argv = ["registry", "add", "--use-http", "-d", "index.db", "-b", f"{name}:0.3.0"]
    at = 0
    while True:
        at += 1
        (killed,) = forkserver.run([Command(argv, directory=opm_http.directory, killed_at=(step, at))])
        if killed.status == 0:
            break
        assert killed.status == -signal.SIGKILL, killed.stderr
        if database.read_bytes() != before:
            break  # killed after the new file was in place: it is whole, as the listing shows
    assert "lagoon-operator.v0.3.0" in opm_http("alpha", "list", "bundles", "index.db") or at > 1
    done = opm_http.attempt("registry", "add", "-d", "index.db", "-b", f"{name}:0.3.0")
    assert done.returncode in (0, 2), done.stderr
    assert "lagoon-operator.v0.3.0" in opm_http("alpha", "list", "bundles", "index.db")
    assert [path.name for path in Path(opm_http.directory).iterdir() if path.name.startswith(".")] == []


def test_keyboard_interrupt_is_reported_and_leaves_no_files(
    opm_http: Opm, registry: Registry, prefix: str, tmp_path: Path
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with KillingProxy(registry.host, 3, signal.SIGINT) as proxy:
        argv = opm_http.argv(*add_third(proxy.host, prefix))
        process = subprocess.Popen(
            argv,
            cwd=opm_http.directory,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": str(scratch)},
            preexec_fn=interruptible,
        )
        proxy.pid = process.pid
        proxy.started.set()
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors.startswith("Error: interrupted")
    assert "Traceback" not in errors
    assert list(scratch.iterdir()) == []
