"""No update is lost that another writer made at the same time."""

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
from tests.kit.faults import Answer, FailAfterwards, FaultProxy, Seen
from tests.kit.forkserver import Command

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.faults import Action
    from tests.kit.forkserver import ForkServer
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

UPLOAD = ("POST", "/v2/.*/catalog/blobs/uploads/")
"""The first request that writes to the catalog's repository: its run has read the old index by then."""
MOVE = ("PUT", "/v2/.*/catalog/manifests/latest$")
"""The request that moves the tag of the catalog."""
LOOK = ("HEAD", "/v2/.*/catalog/manifests/latest$")
"""The request that asks what the tag names."""


@pytest.fixture
def prefix(registry: Registry, tmp_path: Path) -> str:
    """A part of the registry of the test's own, with the bundles ``a`` to ``j`` in it."""
    prefix = f"{registry.host}/publish-{tmp_path.name.replace('_', '-').lower()}"
    for name in "abcdefghij":
        push_image(f"{prefix}/{name}:1.0.0", bundle_image(name, "1.0.0", tmp_path))
    return prefix


@pytest.fixture
def catalog(opm_http: Opm, prefix: str) -> str:
    """An index of nothing."""
    opm_http.here("index", "add", "-b", "", "-i", "scratch", "-t", f"{prefix}/catalog:latest", "--push")
    return f"{prefix}/catalog:latest"


def packages(opm: Opm, catalog: str) -> list[str]:
    """The names of the packages of an index."""
    return [row["name"] for row in json.loads(opm.here("alpha", "list", "packages", catalog, "-o", "json"))]


def adding(prefix: str, package: str, start: str = ":latest", catalog: str = "") -> tuple[str, ...]:
    """The command line that adds a bundle to a catalog: to its tag in place, or to another tag or digest of it."""
    catalog = catalog or f"{prefix}/catalog"
    flags = ("-f", f"{catalog}{start}", "-t", f"{catalog}:latest", "--push")
    return ("index", "add", "-b", f"{prefix}/{package}:1.0.0", *flags)


# --- many at once

ROUNDS = int(os.environ.get("OPMKIT_ROUNDS", "4"))
"""How often ten processes begin at once; what takes an hour to go wrong is looked for with more."""


@pytest.mark.timeout(900)
def test_ten_processes_add_ten_bundles_to_one_tag_at_once_again_and_again(
    forkserver: ForkServer, opm_http: Opm, prefix: str, catalog: str, tmp_path: Path
) -> None:
    """On 1, 2, 5 or 10 machines: processes that have neither the directory for temporary files nor the store in common
    know no more of each other than those of different machines."""
    empty = resolve_digest(catalog)
    lines = [[*adding(prefix, name), "--on-conflict", "rebase", "--use-http"] for name in "abcdefghij"]
    for repetition in range(ROUNDS):
        machines = (1, 2, 5, 10)[repetition % 4]
        opm_http.here("image", "copy", f"{catalog.rpartition(':')[0]}@{empty}", catalog)
        done = forkserver.run(
            [Command(line, of_machine(number % machines, tmp_path)) for number, line in enumerate(lines)]
        )
        assert [each for each in done if each.status] == []
        assert packages(opm_http, catalog) == list("abcdefghij")


def of_machine(number: int, directory: Path) -> dict[str, str]:
    """The environment of processes that share what a machine has."""
    own = directory / f"machine-{number}"
    own.mkdir(exist_ok=True)
    return {"TMPDIR": str(own), "OPM_STORE": str(own / "store")}


def test_ten_processes_add_ten_bundles_to_one_layout(
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
    assert len(left) == sum(done.status == 4 for done in removals)  # those that didn't go had been told so
    assert len(left) < len(removals)


# --- two, of which one comes between


class Staged(FaultProxy):
    """Has something happen at requests, one after the other, before the registry sees them.

    A scene is a request's method and path and what happens then, which may give an action for the request.
    """

    def __init__(self, upstream: str, *scenes: tuple[tuple[str, str], Callable[[], object]]) -> None:
        super().__init__(upstream)
        self._scenes = list(scenes)

    def action_for(self, seen: Seen) -> Action | None:
        if self._scenes:
            (method, path), happens = self._scenes[0]
            if seen.method == method and re.match(path, seen.path):
                del self._scenes[0]
                given = happens()
                return given if isinstance(given, (Answer, FailAfterwards)) else None
        return super().action_for(seen)

    def prefix(self, prefix: str) -> str:
        """What a prefix of the registry is called here."""
        return f"{self.host}/{prefix.partition('/')[2]}"


@pytest.fixture
def other(opm_http: Opm, prefix: str) -> Callable[[], str]:
    """Another writer, who adds the bundle ``b`` to the catalog."""
    return partial(opm_http.here, *adding(prefix, "b"))


def test_a_tag_that_was_moved_stays_and_the_exit_code_is_4(
    opm_http: Opm, prefix: str, catalog: str, other: Callable[[], str]
) -> None:
    before = resolve_digest(catalog)
    with Staged(prefix.partition("/")[0], (UPLOAD, other)) as proxy:
        done = opm_http.attempt(*adding(proxy.prefix(prefix), "a"))
    assert done.returncode == 4
    moved = f"expected {before}, found {resolve_digest(catalog)}"
    assert f"/catalog:latest: tag latest was moved by another writer in the meantime: {moved}" in done.stderr
    assert "--on-conflict rebase" in done.stderr
    assert packages(opm_http, catalog) == ["b"]


def test_rebased_on_what_the_tag_names_then_both_updates_are_in(
    opm_http: Opm, prefix: str, catalog: str, other: Callable[[], str]
) -> None:
    with Staged(prefix.partition("/")[0], (UPLOAD, other)) as proxy:
        opm_http(*adding(proxy.prefix(prefix), "a"), "--on-conflict", "rebase")
    assert packages(opm_http, catalog) == ["a", "b"]


def test_overwriting_is_for_who_asks_for_it(opm_http: Opm, prefix: str, catalog: str, other: Callable[[], str]) -> None:
    with Staged(prefix.partition("/")[0], (UPLOAD, other)) as proxy:
        opm_http(*adding(proxy.prefix(prefix), "a"), "--on-conflict", "overwrite")
    assert packages(opm_http, catalog) == ["a"]


@pytest.mark.parametrize("choice", ["fail", "rebase"])
def test_an_update_that_another_writer_overwrites_unseen_is_noticed(
    choice: str, opm_http: Opm, prefix: str, catalog: str
) -> None:
    """The other writer asks what the tag names before we move it, and moves it after us: only we can find out."""
    line = adding(prefix, "b", f"@{resolve_digest(catalog)}")
    other = partial(opm_http.here, *line, "--on-conflict", "overwrite")
    with Staged(prefix.partition("/")[0], (MOVE, lambda: None), (LOOK, other)) as proxy:
        done = opm_http.attempt(*adding(proxy.prefix(prefix), "a"), "--on-conflict", choice, "--settle", "0.1")
    assert done.returncode == (4 if choice == "fail" else 0), done.stderr
    assert ("this update was lost" in done.stderr) == (choice == "fail")
    assert packages(opm_http, catalog) == (["b"] if choice == "fail" else ["a", "b"])


def test_an_update_that_another_writer_goes_on_from_is_not_lost(
    opm_http: Opm, prefix: str, catalog: str, other: Callable[[], str]
) -> None:
    with Staged(prefix.partition("/")[0], (MOVE, lambda: None), (LOOK, other)) as proxy:
        opm_http(*adding(proxy.prefix(prefix), "a"), "--settle", "0.1")
    assert packages(opm_http, catalog) == ["a", "b"]


def test_a_move_whose_answer_was_lost_is_no_conflict_though_another_writer_went_on_from_it(
    opm_http: Opm, prefix: str, catalog: str, other: Callable[[], str]
) -> None:
    with Staged(prefix.partition("/")[0], (MOVE, lambda: FailAfterwards(other))) as proxy:
        opm_http(*adding(proxy.prefix(prefix), "a"))
    assert packages(opm_http, catalog) == ["a", "b"]


def test_a_tag_that_can_not_be_looked_at_any_more_was_moved_all_the_same(
    opm_http: Opm, prefix: str, catalog: str
) -> None:
    host = prefix.partition("/")[0]
    with Staged(host, (MOVE, lambda: None), (LOOK, lambda: Answer(403))) as proxy:
        done = opm_http.attempt(*adding(proxy.prefix(prefix), "a"), "--settle", "0.1")
    assert done.returncode == 0
    assert "Warning: " in done.stderr
    assert "was moved, but not checked for other writers: " in done.stderr
    assert packages(opm_http, catalog) == ["a"]

    def interrupt() -> None:
        process.send_signal(signal.SIGINT)

    with Staged(host, (MOVE, lambda: None), (LOOK, interrupt)) as proxy:
        argv = opm_http.argv(*adding(proxy.prefix(prefix), "b"), "--settle", "0.1")
        # Also where the tests run in the background, which ignores interrupts.
        listen = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        process = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, preexec_fn=listen)
        errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130, errors
    assert "already updated: " in errors
    assert packages(opm_http, catalog) == ["a", "b"]


def test_any_tag_is_seen_to_move_during_the_run(
    opm_http: Opm, prefix: str, catalog: str, other: Callable[[], str]
) -> None:
    """The tag need not be that of --from-index."""
    opm_http.here("image", "copy", catalog, f"{prefix}/catalog:1")
    for choice, status, left in (("fail", 4, ["b"]), ("rebase", 0, ["a", "b"])):
        with Staged(prefix.partition("/")[0], (UPLOAD, other)) as proxy:
            line = adding(proxy.prefix(prefix), "a", ":1")
            assert opm_http.attempt(*line, "--on-conflict", choice, "--settle", "0.1").returncode == status
        assert packages(opm_http, catalog) == left
        opm_http.here("image", "copy", f"{prefix}/catalog:1", catalog)


@pytest.mark.parametrize("choice", ["fail", "rebase"])
def test_a_tag_that_two_make_at_once(choice: str, opm_http: Opm, prefix: str) -> None:
    tag = f"{prefix}/catalog:latest"
    line = ("index", "add", "-i", "scratch", "--push", "--settle", "0.1", "--on-conflict", choice)
    other = partial(opm_http.here, *line, "-b", f"{prefix}/b:1.0.0", "-t", tag)
    with Staged(prefix.partition("/")[0], (UPLOAD, other)) as proxy:
        here = proxy.prefix(prefix)
        done = opm_http.attempt(*line, "-b", f"{here}/a:1.0.0", "-t", f"{here}/catalog:latest")
    assert done.returncode == (4 if choice == "fail" else 0), done.stderr
    assert ("expected no image, found " in done.stderr) == (choice == "fail")
    assert packages(opm_http, tag) == (["b"] if choice == "fail" else ["a", "b"])


def test_a_tag_that_was_deleted_is_not_made_again(opm_http: Opm, prefix: str, catalog: str) -> None:
    host, _, path = catalog.rpartition(":")[0].partition("/")

    def delete() -> None:
        registry = http.client.HTTPConnection(host)
        registry.request("DELETE", f"/v2/{path}/manifests/{resolve_digest(catalog)}")
        assert registry.getresponse().status == 202

    with Staged(host, (UPLOAD, delete)) as proxy:
        done = opm_http.attempt(*adding(proxy.prefix(prefix), "a"), "--on-conflict", "rebase")
    assert done.returncode == 1
    assert "/catalog:latest" in done.stderr
    with pytest.raises(NotFound):
        resolve_digest(catalog)


def test_a_digest_says_beforehand_which_index_the_tag_has_to_name(opm_http: Opm, prefix: str, catalog: str) -> None:
    seen = f":latest@{resolve_digest(catalog)}"
    opm_http.here(*adding(prefix, "b", seen), "--settle", "0")
    assert opm_http.attempt(*adding(prefix, "a", seen)).returncode == 4
    assert packages(opm_http, catalog) == ["b"]
    opm_http.here(*adding(prefix, "a", seen), "--on-conflict", "rebase", "--settle", "0.1")
    assert packages(opm_http, catalog) == ["a", "b"]


def test_of_several_tags_none_moves_if_that_of_the_old_index_has(
    opm_http: Opm, prefix: str, catalog: str, other: Callable[[], str]
) -> None:
    with Staged(prefix.partition("/")[0], (UPLOAD, other)) as proxy:
        here = f"{proxy.prefix(prefix)}/catalog"
        line = ("--add", f"{prefix}/a:1.0.0", "-f", f"{here}:latest", "-t", f"{here}:2", "--also-tag", f"{here}:latest")
        assert opm_http.attempt("index", "update", *line, "--push").returncode == 4
    with pytest.raises(NotFound):
        resolve_digest(f"{prefix}/catalog:2")
    opm_http.here("index", "update", *(part.replace(proxy.prefix(prefix), prefix) for part in line), "--push")
    assert packages(opm_http, catalog) == ["a", "b"]
    assert resolve_digest(f"{prefix}/catalog:2") == resolve_digest(catalog)


def test_a_run_that_changes_nothing_moves_nothing(opm_http: Opm, prefix: str, catalog: str) -> None:
    opm_http.here(*adding(prefix, "a"), "--settle", "0")
    before = resolve_digest(catalog)
    for base in ((), ("-i", "scratch")):
        opm_http.here("index", "add", "-b", "", "-f", catalog, "-t", catalog, "--push", "--settle", "0", *base)
        assert resolve_digest(catalog) == before


def test_a_layout_is_guarded_as_a_registry_is(opm_http: Opm, prefix: str, tmp_path: Path) -> None:
    layout = f"oci:{tmp_path}/images/catalog"
    opm_http.here("index", "add", "-b", "", "-i", "scratch", "-t", f"{layout}:latest")
    other = partial(opm_http.here, *adding(prefix, "b", catalog=layout)[:-1])
    a_bundle = ("GET", "/v2/.*/a/manifests/1.0.0$")
    for choice, status, left in (("fail", 4, ["b"]), ("rebase", 0, ["a", "b"])):
        with Staged(prefix.partition("/")[0], (a_bundle, other)) as proxy:
            line = adding(proxy.prefix(prefix), "a", catalog=layout)[:-1]
            assert opm_http.attempt(*line, "--on-conflict", choice).returncode == status
        assert packages(opm_http, f"{layout}:latest") == left
        opm_http.here("index", "add", "-b", "", "-i", "scratch", "-t", f"{layout}:latest")
