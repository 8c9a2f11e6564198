"""DecodeMode manifests in other processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle import manifest_prefetcher
from opmkit.bundle.errors import InvalidDocument
from opmkit.bundle.manifest import ManifestCache, read_manifest
from opmkit.bundle.manifest_prefetcher import ManifestPrefetcher

if TYPE_CHECKING:
    from opmkit.bundle.manifest import Manifest

CRD = b"""apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {kind: Thing, plural: things}
  versions: [{name: v1}]
"""


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_prefetcher, "MIN_TOTAL_BYTES", 0)
    monkeypatch.setattr(manifest_prefetcher, "_MIN_BYTES", 0)


def read_ahead(contents: list[bytes], processes: int = 1) -> ManifestCache:
    """A cache that was filled by other processes."""
    cache = ManifestCache()
    with ManifestPrefetcher(cache, processes) as ahead:
        for content in contents:
            ahead.submit([content])
        assert ahead._threads is not None
        ahead._threads.shutdown()  # waits until all is read
    return cache


def test_what_is_read_elsewhere_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    contents = [
        CRD,
        b"kind: Service\nspec: {clusterIP: None, on: 0644}\n---\nkind: Two\n",
        b"# nothing\n",
        b'{"kind":"A"}',
    ]
    expected = [read_manifest(content) for content in contents]
    cache = read_ahead(contents, processes=2)
    monkeypatch.setattr("opmkit.bundle.manifest.read_manifest", None)  # nothing is left to be read here
    assert [cache.read(content) for content in contents] == expected


@pytest.mark.parametrize("content", [b"a: b: c\n", b"[1]\n", b"kind: [\n", b"kind: A\nx: .inf\n"])
def test_errors_come_to_who_asks(content: bytes) -> None:
    with pytest.raises(InvalidDocument) as expected:
        read_manifest(content)
    cache = read_ahead([content])
    with pytest.raises(InvalidDocument) as raised:
        cache.read(content)
    error = raised.value
    assert (error.problem, error.line, error.column) == (
        expected.value.problem,
        expected.value.line,
        expected.value.column,
    )


def test_a_flawed_definition_stays_flawed() -> None:
    content = CRD.replace(b"group: example.com", b"group: 7")
    expected = read_manifest(content)
    manifest = read_ahead([content]).read(content)
    assert expected is not None
    assert manifest is not None
    assert expected.crd_error is not None
    assert manifest.crd_error is not None
    assert (manifest.crd_error.message, str(manifest.crd_error.hint)) == (
        expected.crd_error.message,
        str(expected.crd_error.hint),
    )


@pytest.mark.parametrize("program", ["/nonexistent/python", "/bin/false", "/bin/echo", ""])
def test_without_a_usable_process_manifests_are_read_here(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", program)
    assert read_ahead([CRD]).read(CRD) == read_manifest(CRD)


def test_a_process_that_dies_is_made_up_for() -> None:
    contents = [CRD + b"# %d\n" % number for number in range(40)]
    cache = ManifestCache()
    with ManifestPrefetcher(cache, 1) as ahead:
        ahead.submit(contents[:1])
        while not ahead._idle or ahead._idle[0]._process is None:
            time.sleep(0.01)
        ahead._idle[0]._process.kill()
        ahead.submit(contents[1:])
        manifests: list[Manifest | None] = [cache.read(content) for content in contents]
    assert manifests == [read_manifest(content) for content in contents]


def test_the_process_ends_with_the_one_that_asks() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", manifest_prefetcher.__name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    os.kill(process.pid, signal.SIGINT)  # an interrupt of the terminal goes to all; this one waits for its end
    assert process.communicate(b"", timeout=30) == (b"", None)
    assert process.returncode in (0, -signal.SIGINT)  # the signal may come before the process is up


def test_little_work_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_prefetcher, "MIN_TOTAL_BYTES", 1 << 20)
    cache = ManifestCache()
    with ManifestPrefetcher(cache, 1) as ahead:
        ahead.submit([CRD])
        assert cache.read(CRD) == read_manifest(CRD)
        assert ahead._idle[0]._process is None
