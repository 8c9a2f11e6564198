"""``--executor``: the results of workers are those of one process, whatever happens to the workers."""

from __future__ import annotations

import contextlib
import json
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.kit.bundles import bundle_image, push_image
from tests.kit.dask_cluster import DaskCluster
from tests.kit.faults import Delay, Fault, FaultProxy
from tests.kit.foreground import start_command, wait_for

if TYPE_CHECKING:
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

VERSIONS = 12

pytestmark = pytest.mark.skipif(find_spec("distributed") is None, reason="the extra dask is not installed")


@pytest.fixture(scope="module")
def repository(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Push bundles, and a tag that is not a bundle; return their repository."""
    repository = f"{registry.host}/executors/lagoon"
    for patch in range(VERSIONS):
        image = bundle_image("lagoon", f"0.1.{patch}", tmp_path_factory.mktemp("bundle"))
        push_image(f"{repository}:v0.1.{patch}", image)
    return repository


@pytest.mark.parametrize("kind", ["dask", "processes:2"])
def test_validation_by_workers_equals_that_of_one_process(
    opm_http: Opm, dask_cluster: DaskCluster, repository: str, kind: str
) -> None:
    executor = dask_cluster.executor if kind == "dask" else kind
    command = ("bundle", "validate", repository, f"{repository}:missing", "--output", "json", "--no-cache")
    expected = opm_http.attempt(*command)
    done = opm_http.attempt(*command, "--executor", executor)
    assert expected.stdout.count('"target"') == VERSIONS + 1
    assert (done.stdout, done.stderr, done.returncode) == (expected.stdout, expected.stderr, expected.returncode)


@pytest.mark.parametrize("kind", ["dask", "processes:2"])
def test_rendering_by_workers_equals_that_of_one_process(
    opm_http: Opm, dask_cluster: DaskCluster, repository: str, kind: str
) -> None:
    executor = dask_cluster.executor if kind == "dask" else kind
    references = [f"{repository}:v0.1.{patch}" for patch in range(VERSIONS)]
    (opm_http.directory / "list").write_text("\n".join(references))
    expected = opm_http.attempt("render", "@list", "--no-cache")
    assert expected.stdout.count('"schema": "olm.bundle"') == VERSIONS
    done = opm_http.attempt("render", "@list", "--executor", executor)
    assert (done.stdout, done.stderr, done.returncode) == (expected.stdout, expected.stderr, 0)
    missing = ("render", "@list", f"{repository}:missing")
    failed, by_workers = opm_http.attempt(*missing), opm_http.attempt(*missing, "--executor", executor)
    assert (by_workers.stdout, by_workers.stderr, by_workers.returncode) == ("", failed.stderr, 1)


def test_killed_worker_loses_nothing(
    opm_http: Opm, dask_cluster: DaskCluster, repository: str, registry: Registry
) -> None:
    fault = Fault("GET", ".*/blobs/", Delay(0.5), times=99)
    with FaultProxy(registry.host, fault) as proxy:
        through_proxy = repository.replace(registry.host, proxy.host)
        command = ("bundle", "validate", through_proxy, "--output", "json", "--no-cache")
        process = start_command(opm_http, *command, "--executor", dask_cluster.executor)
        wait_for(lambda: fault.matched > 2)
        dask_cluster.replace_workers()
        fault.times = 0
        output, errors = process.communicate(timeout=60)
        expected = opm_http.attempt(*command)
    assert (output, errors, process.returncode) == (expected.stdout, expected.stderr, expected.returncode)


@pytest.mark.parametrize(("kind", "number"), [("dask", signal.SIGINT), ("processes:2", signal.SIGTERM)])
def test_signal_cancels(
    opm_http: Opm, dask_cluster: DaskCluster, repository: str, registry: Registry, kind: str, number: signal.Signals
) -> None:
    fault = Fault("GET", ".*/blobs/", Delay(2), times=99)
    executor = dask_cluster.executor if kind == "dask" else kind
    with FaultProxy(registry.host, fault) as proxy:
        through_proxy = repository.replace(registry.host, proxy.host)
        process = start_command(opm_http, "bundle", "validate", through_proxy, "--no-cache", "--executor", executor)
        wait_for(lambda: fault.matched)
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
    assert (output, errors, process.returncode) == ("", f"Error: interrupted by {number.name}\n", 128 + number)


def test_credentials_are_only_sent_if_told(
    opm_http: Opm, dask_cluster: DaskCluster, basic_registry: Registry, repository: str
) -> None:
    authfile = opm_http.directory / "auth.json"
    authfile.write_text(json.dumps({"auths": {basic_registry.host: {"auth": "dGVzdGVyOnNlY3JldA=="}}}))
    image = f"{basic_registry.host}/executors/lagoon:1"
    assert opm_http.attempt("image", "copy", f"{repository}:v0.1.0", image, "--authfile", str(authfile)).returncode == 0
    command = ("bundle", "validate", image, "--no-cache", "--output", "json", "--executor", dask_cluster.executor)
    denied = opm_http.attempt(*command, "--authfile", str(authfile))
    assert "the registry requires credentials" in denied.stderr
    sent = opm_http.attempt(*command, "--executor-credentials", str(authfile))
    alone = opm_http.attempt("bundle", "validate", image, "--output", "json", "--authfile", str(authfile))
    warning = f"--executor-credentials: sent to {dask_cluster.executor} without encryption; use dask+tls://HOST:PORT"
    assert (sent.stdout, sent.stderr) == (alone.stdout, f"Warning: {warning}\n{alone.stderr}")
    scratch = [*Path(tempfile.gettempdir()).glob("opm-worker-*"), *dask_cluster.directory.rglob("opm-worker-*")]
    assert not [path for path in scratch if any(path.iterdir())]


def test_tls_requires_certificates_of_both_sides(opm_http: Opm, tmp_path: Path, repository: str) -> None:
    with DaskCluster(tmp_path, 1, tls=True) as cluster:
        assert cluster.executor.startswith("dask+tls://")
        command = ("render", f"{repository}:v0.1.0", "--no-cache", "--executor", cluster.executor)
        denied = opm_http.attempt(*command)
        done = replace(opm_http, env=cluster.env).attempt(*command)
    assert (denied.returncode, denied.stdout) == (1, "")
    assert denied.stderr.startswith(f"Error: {cluster.executor}: connection to the scheduler failed: no cert")
    assert done.stdout == opm_http("render", f"{repository}:v0.1.0")


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 1000], ids=["silent", "garbage"])
def test_scheduler_that_is_none(opm: Opm, answer: bytes) -> None:
    released = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with contextlib.suppress(OSError):
                self.request.sendall(answer)
            released.wait(60)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        executor = f"dask://127.0.0.1:{server.server_address[1]}"
        started = time.monotonic()
        done = replace(opm, forkserver=None).attempt("render", "example.com/a:1", "--executor", executor)
        elapsed = time.monotonic() - started
        released.set()
        server.shutdown()
    assert (done.returncode, done.stdout) == (1, "")
    first, hint = done.stderr.splitlines()
    assert first.startswith(f"Error: {executor}: connection to the scheduler failed: no")
    assert hint.startswith("  hint: check its address")
    assert elapsed < 60


def test_command_says_that_all_workers_are_gone(opm_http: Opm, tmp_path: Path, repository: str) -> None:
    with DaskCluster(tmp_path, 1) as cluster:
        cluster.wait_for_workers()
        for worker in cluster.workers:
            worker.kill()
            worker.wait()
        process = start_command(opm_http, "render", f"{repository}:v0.1.0", "--executor", cluster.executor)
        assert process.stderr is not None
        assert process.stderr.readline() == f"Warning: {cluster.executor}: no workers; waiting for one\n"
        cluster.workers.append(cluster.start_worker())
        output, errors = process.communicate(timeout=100)
    assert (process.returncode, errors) == (0, "")
    assert "lagoon.v0.1.0" in output


def test_scheduler_that_dies_is_one_error(opm_http: Opm, tmp_path: Path, repository: str, registry: Registry) -> None:
    fault = Fault("GET", ".*/blobs/", Delay(5), times=99)
    with DaskCluster(tmp_path, 1) as cluster, FaultProxy(registry.host, fault) as proxy:
        through_proxy = repository.replace(registry.host, proxy.host)
        process = start_command(
            opm_http, "bundle", "validate", through_proxy, "--no-cache", "--executor", cluster.executor
        )
        wait_for(lambda: fault.matched)
        assert cluster.scheduler is not None
        cluster.scheduler.kill()
        output, errors = process.communicate(timeout=100)
    assert (output, process.returncode) == ("", 1)
    assert errors == f"Error: {cluster.executor}: connection lost\n  hint: run the command again\n"


def test_invalid_executors(opm: Opm, dask_cluster: DaskCluster) -> None:
    expected = {
        "slurm": "Error: invalid executor 'slurm'\n  hint: write processes, ",
        dask_cluster.executor: "Error: .: files on this machine cannot be sent to dask://",
    }
    for executor, error in expected.items():
        done = opm.attempt("bundle", "validate", ".", "--executor", executor)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr.startswith(error)


def test_missing_library(opm: Opm) -> None:
    code = "import sys; sys.modules['distributed'] = None; from opmkit.cli.entry import opm; opm()"
    argv = [sys.executable, "-c", code, "bundle", "validate", "example.com/a:1", "--executor", "dask://localhost:8786"]
    done = subprocess.run(argv, cwd=opm.directory, capture_output=True, text=True, check=False)
    expected = (
        "Error: dask://localhost:8786: distributed is not installed\n"
        "  hint: install the extra in a checkout of opmkit: pip install '.[dask]'\n"
    )
    assert (done.returncode, done.stderr) == (1, expected)
