"""Concurrent updates of a tag are not lost."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import subprocess
from functools import partial
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import NotFound
from tests.kit.bundles import bundle_image, push_image, resolve_digest
from tests.kit.faults import Answer, FailAfterwards, FaultProxy, ReceivedRequest
from tests.kit.forkserver import Command

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.faults import Action
    from tests.kit.forkserver import ForkServer
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

UPLOAD = ("POST", "/v2/.*/catalog/blobs/uploads/")
"""The first write to the catalog's repository, which follows after reading the old index."""
MOVE = ("PUT", "/v2/.*/catalog/manifests/latest$")
"""The request that moves the tag of the catalog."""
LOOK = ("HEAD", "/v2/.*/catalog/manifests/latest$")
"""The request that resolves the tag."""
LOOK_AGAIN = ("GET", "/v2/.*/catalog/manifests/latest$")
"""The request that resolves it where HEAD is refused."""


@pytest.fixture
def prefix(registry: Registry, tmp_path: Path) -> str:
    """Push the bundles ``a`` to ``j`` and return a unique repository prefix."""
    prefix = f"{registry.host}/publish-{tmp_path.name.replace('_', '-').lower()}"
    for name in "abcdefghij":
        push_image(f"{prefix}/{name}:1.0.0", bundle_image(name, "1.0.0", tmp_path))
    return prefix


@pytest.fixture
def catalog(opm_http: Opm, prefix: str) -> str:
    """Push an empty index and return its reference."""
    opm_http.here("index", "add", "-b", "", "-i", "scratch", "-t", f"{prefix}/catalog:latest", "--push")
    return f"{prefix}/catalog:latest"


def packages(opm: Opm, catalog: str) -> list[str]:
    """Return the package names of an index."""
    return [row["name"] for row in json.loads(opm.here("alpha", "list", "packages", catalog, "-o", "json"))]


def adding(prefix: str, package: str, start: str = ":latest", catalog: str = "") -> tuple[str, ...]:
    """Return a command line that adds a bundle to a catalog, in place or from another tag or digest."""
    catalog = catalog or f"{prefix}/catalog"
    flags = ("-f", f"{catalog}{start}", "-t", f"{catalog}:latest", "--push")
    return ("index", "add", "-b", f"{prefix}/{package}:1.0.0", *flags)


# --- many at once

ROUNDS = int(os.environ.get("OPMKIT_ROUNDS", "2"))
"""Number of repetitions with ten concurrent processes; increase it to find rare races."""


@pytest.mark.timeout(900)
def test_concurrent_adds_to_one_tag_lose_no_bundle(
    forkserver: ForkServer, opm_http: Opm, prefix: str, catalog: str, tmp_path: Path
) -> None:
    """Simulate 2, 10, 1 or 5 machines by separate temporary directories and stores."""
    empty = resolve_digest(catalog)
    lines = [[*adding(prefix, name), "--on-conflict", "rebase", "--use-http"] for name in "abcdefghij"]
    for repetition in range(ROUNDS):
        machines = (2, 10, 1, 5)[repetition % 4]
        opm_http.here("image", "copy", f"{catalog.rpartition(':')[0]}@{empty}", catalog)
        done = forkserver.run(
            [Command(line, of_machine(number % machines, tmp_path)) for number, line in enumerate(lines)]
        )
        assert [each for each in done if each.status] == []
        assert packages(opm_http, catalog) == list("abcdefghij")


def of_machine(number: int, directory: Path) -> dict[str, str]:
    """Return the environment of processes on the same simulated machine."""
    own = directory / f"machine-{number}"
    own.mkdir(exist_ok=True)
    return {"TMPDIR": str(own), "OPM_STORE": str(own / "store")}


def test_concurrent_adds_to_one_layout_lose_no_bundle(
    forkserver: ForkServer, opm: Opm, prefix: str, tmp_path: Path
) -> None:
    layout = f"oci:{tmp_path}/images/catalog"
    catalog = f"{layout}:latest"
    opm.here("index", "add", "-b", "", "-i", "scratch", "-t", catalog)
    lines = [adding(prefix, name, catalog=layout)[:-1] for name in "abcdefghij"]
    adds = forkserver.run([Command([*line, "--on-conflict", "rebase", "--use-http"]) for line in lines])
    assert [done for done in adds if done.status] == []
    assert packages(opm, catalog) == list("abcdefghij")
    removals = forkserver.run(
        [Command(["index", "rm", "-o", name, "-f", catalog, "-t", catalog]) for name in "abcdefghij"]
    )
    left = packages(opm, catalog)
    assert len(left) == sum(done.status == 4 for done in removals)  # removals that were lost reported a conflict
    assert len(left) < len(removals)


# Two writers, one of which moves the tag during the run of the other.


class ScriptedProxy(FaultProxy):
    """A proxy that calls functions at expected requests, in order, before forwarding them.

    A scene is a method and path of a request, and a function that may return an action for it.
    """

    def __init__(self, upstream: str, *scenes: tuple[tuple[str, str], Callable[[], object]]) -> None:
        super().__init__(upstream)
        self._scenes = list(scenes)

    def action_for(self, seen: ReceivedRequest) -> Action | None:
        if self._scenes:
            (method, path), function = self._scenes[0]
            if seen.method == method and re.match(path, seen.path):
                del self._scenes[0]
                given = function()
                return given if isinstance(given, (Answer, FailAfterwards)) else None
        return super().action_for(seen)

    def prefix(self, prefix: str) -> str:
        """Return a repository prefix with the host of the proxy."""
        return f"{self.host}/{prefix.partition('/')[2]}"


@pytest.fixture
def other(opm_http: Opm, prefix: str) -> Callable[[], str]:
    """Return a function that adds the bundle ``b`` to the catalog, as another writer."""
    return partial(opm_http.here, *adding(prefix, "b"))


def test_moved_tag_is_not_overwritten_and_exits_with_4(
    opm_http: Opm, prefix: str, catalog: str, other: Callable[[], str]
) -> None:
    before = resolve_digest(catalog)
    with ScriptedProxy(prefix.partition("/")[0], (UPLOAD, other)) as proxy:
        done = opm_http.attempt(*adding(proxy.prefix(prefix), "a"))
    assert done.returncode == 4
    moved = f"expected {before}, found {resolve_digest(catalog)}"
    assert f"/catalog:latest: tag latest was moved by another writer in the meantime: {moved}" in done.stderr
    assert "--on-conflict rebase" in done.stderr
    assert packages(opm_http, catalog) == ["b"]


def test_rebase_includes_both_updates(opm_http: Opm, prefix: str, catalog: str, other: Callable[[], str]) -> None:
    with ScriptedProxy(prefix.partition("/")[0], (UPLOAD, other)) as proxy:
        opm_http(*adding(proxy.prefix(prefix), "a"), "--on-conflict", "rebase")
    assert packages(opm_http, catalog) == ["a", "b"]


def test_overwrite_replaces_the_other_update(
    opm_http: Opm, prefix: str, catalog: str, other: Callable[[], str]
) -> None:
    with ScriptedProxy(prefix.partition("/")[0], (UPLOAD, other)) as proxy:
        opm_http(*adding(proxy.prefix(prefix), "a"), "--on-conflict", "overwrite")
    assert packages(opm_http, catalog) == ["a"]


@pytest.mark.parametrize("choice", ["fail", "rebase"])
def test_lost_update_is_detected_after_the_move(choice: str, opm_http: Opm, prefix: str, catalog: str) -> None:
    """The other writer resolves the tag before our move and moves it afterwards, so only our check detects it."""
    line = adding(prefix, "b", f"@{resolve_digest(catalog)}")
    other = partial(opm_http.here, *line, "--on-conflict", "overwrite")
    with ScriptedProxy(prefix.partition("/")[0], (MOVE, lambda: None), (LOOK, other)) as proxy:
        done = opm_http.attempt(*adding(proxy.prefix(prefix), "a"), "--on-conflict", choice, "--settle", "0.1")
    assert done.returncode == (4 if choice == "fail" else 0), done.stderr
    assert ("this update was lost" in done.stderr) == (choice == "fail")
    assert packages(opm_http, catalog) == (["b"] if choice == "fail" else ["a", "b"])


def test_update_that_another_writer_builds_on_is_not_lost(
    opm_http: Opm, prefix: str, catalog: str, other: Callable[[], str]
) -> None:
    with ScriptedProxy(prefix.partition("/")[0], (MOVE, lambda: None), (LOOK, other)) as proxy:
        opm_http(*adding(proxy.prefix(prefix), "a"), "--settle", "0.1")
    assert packages(opm_http, catalog) == ["a", "b"]


def test_lost_response_of_a_move_is_not_a_conflict(
    opm_http: Opm, prefix: str, catalog: str, other: Callable[[], str]
) -> None:
    with ScriptedProxy(prefix.partition("/")[0], (MOVE, lambda: FailAfterwards(other))) as proxy:
        opm_http(*adding(proxy.prefix(prefix), "a"))
    assert packages(opm_http, catalog) == ["a", "b"]


def test_failed_check_after_the_move_is_a_warning(opm_http: Opm, prefix: str, catalog: str) -> None:
    host = prefix.partition("/")[0]
    refused = lambda: Answer(403)  # noqa: E731
    with ScriptedProxy(host, (MOVE, lambda: None), (LOOK, refused), (LOOK_AGAIN, refused)) as proxy:
        done = opm_http.attempt(*adding(proxy.prefix(prefix), "a"), "--settle", "0.1")
    assert done.returncode == 0
    assert "Warning: " in done.stderr
    assert "was moved, but not checked for other writers: " in done.stderr
    assert packages(opm_http, catalog) == ["a"]

    def interrupt() -> None:
        process.send_signal(signal.SIGINT)

    with ScriptedProxy(host, (MOVE, lambda: None), (LOOK, interrupt)) as proxy:
        argv = opm_http.argv(*adding(proxy.prefix(prefix), "b"), "--settle", "0.1")
        # Also where the tests run in the background, which ignores interrupts.
        listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, preexec_fn=listen)
        errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130, errors
    assert "already updated: " in errors
    assert packages(opm_http, catalog) == ["a", "b"]


def test_every_tag_is_checked_for_moves_during_the_run(
    opm_http: Opm, prefix: str, catalog: str, other: Callable[[], str]
) -> None:
    """The tag may differ from that of --from-index."""
    opm_http.here("image", "copy", catalog, f"{prefix}/catalog:1")
    for choice, status, left in (("fail", 4, ["b"]), ("rebase", 0, ["a", "b"])):
        with ScriptedProxy(prefix.partition("/")[0], (UPLOAD, other)) as proxy:
            line = adding(proxy.prefix(prefix), "a", ":1")
            assert opm_http.attempt(*line, "--on-conflict", choice, "--settle", "0.1").returncode == status
        assert packages(opm_http, catalog) == left
        opm_http.here("image", "copy", f"{prefix}/catalog:1", catalog)


@pytest.mark.parametrize("choice", ["fail", "rebase"])
def test_concurrent_creation_of_a_tag(choice: str, opm_http: Opm, prefix: str) -> None:
    tag = f"{prefix}/catalog:latest"
    line = ("index", "add", "-i", "scratch", "--push", "--settle", "0.1", "--on-conflict", choice)
    other = partial(opm_http.here, *line, "-b", f"{prefix}/b:1.0.0", "-t", tag)
    with ScriptedProxy(prefix.partition("/")[0], (UPLOAD, other)) as proxy:
        here = proxy.prefix(prefix)
        done = opm_http.attempt(*line, "-b", f"{here}/a:1.0.0", "-t", f"{here}/catalog:latest")
    assert done.returncode == (4 if choice == "fail" else 0), done.stderr
    assert ("expected no image, found " in done.stderr) == (choice == "fail")
    assert packages(opm_http, tag) == (["b"] if choice == "fail" else ["a", "b"])


def test_deleted_tag_is_not_created_again(opm_http: Opm, prefix: str, catalog: str) -> None:
    host, _, path = catalog.rpartition(":")[0].partition("/")

    def delete() -> None:
        registry = http.client.HTTPConnection(host)
        registry.request("DELETE", f"/v2/{path}/manifests/{resolve_digest(catalog)}")
        assert registry.getresponse().status == 202

    with ScriptedProxy(host, (UPLOAD, delete)) as proxy:
        done = opm_http.attempt(*adding(proxy.prefix(prefix), "a"), "--on-conflict", "rebase")
    assert done.returncode == 1
    assert "/catalog:latest" in done.stderr
    with pytest.raises(NotFound):
        resolve_digest(catalog)


def test_digest_of_from_index_must_be_that_of_the_tag(opm_http: Opm, prefix: str, catalog: str) -> None:
    seen = f":latest@{resolve_digest(catalog)}"
    opm_http.here(*adding(prefix, "b", seen), "--settle", "0")
    assert opm_http.attempt(*adding(prefix, "a", seen)).returncode == 4
    assert packages(opm_http, catalog) == ["b"]
    opm_http.here(*adding(prefix, "a", seen), "--on-conflict", "rebase", "--settle", "0.1")
    assert packages(opm_http, catalog) == ["a", "b"]


def test_no_tag_is_moved_if_that_of_the_old_index_has_moved(
    opm_http: Opm, prefix: str, catalog: str, other: Callable[[], str]
) -> None:
    with ScriptedProxy(prefix.partition("/")[0], (UPLOAD, other)) as proxy:
        here = f"{proxy.prefix(prefix)}/catalog"
        line = ("--add", f"{prefix}/a:1.0.0", "-f", f"{here}:latest", "-t", f"{here}:2", "--also-tag", f"{here}:latest")
        assert opm_http.attempt("index", "update", *line, "--push").returncode == 4
    with pytest.raises(NotFound):
        resolve_digest(f"{prefix}/catalog:2")
    opm_http.here("index", "update", *(part.replace(proxy.prefix(prefix), prefix) for part in line), "--push")
    assert packages(opm_http, catalog) == ["a", "b"]
    assert resolve_digest(f"{prefix}/catalog:2") == resolve_digest(catalog)


def test_unchanged_index_is_not_pushed(opm_http: Opm, prefix: str, catalog: str) -> None:
    opm_http.here(*adding(prefix, "a"), "--settle", "0")
    before = resolve_digest(catalog)
    for base in ((), ("-i", "scratch")):
        opm_http.here("index", "add", "-b", "", "-f", catalog, "-t", catalog, "--push", "--settle", "0", *base)
        assert resolve_digest(catalog) == before


def test_moved_tag_in_a_layout_is_not_overwritten(opm_http: Opm, prefix: str, tmp_path: Path) -> None:
    layout = f"oci:{tmp_path}/images/catalog"
    opm_http.here("index", "add", "-b", "", "-i", "scratch", "-t", f"{layout}:latest")
    other = partial(opm_http.here, *adding(prefix, "b", catalog=layout)[:-1])
    a_bundle = ("GET", "/v2/.*/a/manifests/1.0.0$")
    for choice, status, left in (("fail", 4, ["b"]), ("rebase", 0, ["a", "b"])):
        with ScriptedProxy(prefix.partition("/")[0], (a_bundle, other)) as proxy:
            line = adding(proxy.prefix(prefix), "a", catalog=layout)[:-1]
            assert opm_http.attempt(*line, "--on-conflict", choice).returncode == status
        assert packages(opm_http, f"{layout}:latest") == left
        opm_http.here("index", "add", "-b", "", "-i", "scratch", "-t", f"{layout}:latest")
