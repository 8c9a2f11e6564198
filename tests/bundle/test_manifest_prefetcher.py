"""Parsing of manifests in worker processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle import manifest_prefetcher
from opmkit.bundle.manifest import ManifestCache, read_manifest
from opmkit.bundle.manifest_prefetcher import ManifestPrefetcher
from opmkit.documents.errors import InvalidDocument

if TYPE_CHECKING:
    from opmkit.bundle.manifest import ObjectManifest

CRD = b"""apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {kind: Thing, plural: things}
  versions: [{name: v1}]
"""


@pytest.fixture(autouse=True)
def _start_processes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_prefetcher, "MIN_TOTAL_BYTES", 0)
    monkeypatch.setattr(manifest_prefetcher, "_MIN_BYTES", 0)


def prefetch(contents: list[bytes], processes: int = 1) -> ManifestCache:
    """Return a cache that worker processes have filled."""
    cache = ManifestCache()
    with ManifestPrefetcher(cache, processes) as prefetcher:
        for content in contents:
            prefetcher.submit([content])
        assert prefetcher._threads is not None
        prefetcher._threads.shutdown()  # waits until all are parsed
    return cache


def test_results_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    contents = [
        CRD,
        b"kind: Service\nspec: {clusterIP: None, on: 0644}\n---\nkind: Two\n",
        b"# nothing\n",
        b'{"kind":"A"}',
    ]
    expected = [read_manifest(content) for content in contents]
    cache = prefetch(contents, processes=2)
    monkeypatch.setattr("opmkit.bundle.manifest.read_manifest", None)  # nothing is parsed in this process
    assert [cache.read(content) for content in contents] == expected


@pytest.mark.parametrize("content", [b"a: b: c\n", b"[1]\n", b"kind: [\n", b"kind: A\nx: .inf\n"])
def test_errors_are_raised_in_the_consumer(content: bytes) -> None:
    with pytest.raises(InvalidDocument) as expected:
        read_manifest(content)
    cache = prefetch([content])
    with pytest.raises(InvalidDocument) as raised:
        cache.read(content)
    error = raised.value
    assert (error.problem, error.line, error.column) == (
        expected.value.problem,
        expected.value.line,
        expected.value.column,
    )


def test_crd_errors_are_transferred() -> None:
    content = CRD.replace(b"group: example.com", b"group: 7")
    expected = read_manifest(content)
    manifest = prefetch([content]).read(content)
    assert expected is not None
    assert manifest is not None
    assert expected.crd_error is not None
    assert manifest.crd_error is not None
    assert (manifest.crd_error.message, str(manifest.crd_error.hint)) == (
        expected.crd_error.message,
        str(expected.crd_error.hint),
    )


@pytest.mark.parametrize("program", ["/nonexistent/python", "/bin/false", "/bin/echo", ""])
def test_without_a_usable_process_this_one_parses_all(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", program)
    assert prefetch([CRD]).read(CRD) == read_manifest(CRD)


def test_failed_worker_is_compensated() -> None:
    contents = [CRD + b"# %d\n" % number for number in range(40)]
    cache = ManifestCache()
    with ManifestPrefetcher(cache, 1) as prefetcher:
        prefetcher.submit(contents[:1])
        while not prefetcher._idle or prefetcher._idle[0]._process is None:
            time.sleep(0.01)
        prefetcher._idle[0]._process.kill()
        prefetcher.submit(contents[1:])
        manifests: list[ObjectManifest | None] = [cache.read(content) for content in contents]
    assert manifests == [read_manifest(content) for content in contents]


def test_worker_ends_with_its_parent() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", manifest_prefetcher.__name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    os.kill(process.pid, signal.SIGINT)  # as from the terminal; the worker waits for its parent
    assert process.communicate(b"", timeout=30)[0] == b""
    assert process.returncode in (0, -signal.SIGINT)  # the signal can arrive before the handler is set


def test_small_manifests_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_prefetcher, "MIN_TOTAL_BYTES", 1 << 20)
    cache = ManifestCache()
    with ManifestPrefetcher(cache, 1) as prefetcher:
        prefetcher.submit([CRD])
        assert cache.read(CRD) == read_manifest(CRD)
        assert prefetcher._idle[0]._process is None


def test_contents_of_earlier_bundles_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []
    with ManifestPrefetcher(ManifestCache(), 1) as prefetcher:
        monkeypatch.setattr(prefetcher._threads, "submit", calls.append)  # the worker is busy
        for number in range(1000):
            prefetcher.submit([b"kind: %d" % number])
    assert list(prefetcher._pending) == [[b"kind: %d" % number] for number in range(968, 1000)]
    assert len(calls) == 32


def test_latest_contents_are_parsed_first(monkeypatch: pytest.MonkeyPatch) -> None:
    contents = [CRD + b"# first\n", CRD + b"# second\n"]
    cache = ManifestCache()
    with ManifestPrefetcher(cache, 1) as prefetcher:
        monkeypatch.setattr(prefetcher._threads, "submit", lambda _: None)  # the worker is busy
        for content in contents:
            prefetcher.submit([content])
        prefetcher._prefetch()
        assert [not cache.claim(content).mine for content in contents] == [False, True]
