"""Tests of adds, compared with recorded databases of Go opm."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pytest
from semver import Version

from tests.index.recorded_adds import REGISTRY, add_steps
from tests.kit.shared import INCOMPLETE, REFUSED, Case, assert_equal_index, cases, defective, dump_index, needs_shared

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from opmkit.bundle import Bundle

pytestmark = needs_shared

GROUPS = (
    *("add-replaces", "add-replaces-one-by-one", "add-semver", "add-semver-one-by-one"),
    *("add-skippatch", "add-skippatch-one-by-one", "add-multi", "add-scenarios", "add-errors"),
    *("add-overwrite", "add-substitutes"),
)
CASES = [case for case in cases(*GROUPS) if add_steps(case.record)]


def replay(case: Case, directory: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the exit code of each step, with its record; check that a failed step changes nothing."""
    database = directory / "index.db"
    for step, recorded in zip(add_steps(case.record) or [], case.record["steps"], strict=True):
        before = database.read_bytes() if database.exists() else None
        status = step.run(database)
        if status != 0:
            assert (database.read_bytes() if database.exists() else None) == before, "a failed add left a change"
        assert {path.name for path in directory.iterdir()} <= {"index.db"}
        yield status, recorded


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if str(case) not in INCOMPLETE], ids=str)
def test_database_equals_recorded_result(case: Case, tmp_path: Path) -> None:
    seen = case.record.get("exits_seen") or [[step["exit"] for step in case.record["steps"]]]
    comparable = True
    for position, (status, recorded) in enumerate(replay(case, tmp_path)):
        if comparable:
            allowed = {0} if defective(recorded) else {exits[position] for exits in seen}
            allowed = {1} if str(case) in REFUSED else allowed
            assert status in allowed, recorded["error"]
        # Later results of Go opm depend on rows that the failed step left.
        comparable = comparable and recorded["exit"] == status == 0
    if comparable:
        assert_equal_index(case.record, tmp_path / "index.db", REGISTRY)


SKIP_PATCH_CASES = [
    case
    for case in cases("add-skippatch", "add-skippatch-one-by-one")
    if case.name not in ("cockroachdb", "etcd")  # not all of their semver steps succeed
]


@pytest.mark.slow
@pytest.mark.parametrize("case", SKIP_PATCH_CASES, ids=str)
def test_skip_patch_changes_only_entries(case: Case, tmp_path: Path) -> None:
    """Everything except the entries equals the result of the mode semver; Go opm has a bug in semver-skippatch."""
    assert [status for status, _ in replay(case, tmp_path)] == [0] * len(case.record["steps"])
    semver = Case(case.group.replace("skippatch", "semver"), case.name).record
    index = {**semver["index"], "tables": {**semver["index"]["tables"]}}
    index["tables"].pop("channel_entry", None)
    varying = {table: seen for table, seen in semver.get("varying", {}).items() if table != "channel_entry"}
    assert_equal_index({**semver, "index": index, "varying": varying}, tmp_path / "index.db", REGISTRY)
    rows = dump_index(tmp_path / "index.db", REGISTRY, loose=True)["tables"]["channel_entry"]
    actual = Counter((row["channel"], row["name"], row["depth"], row["replaces"]) for row in rows)
    bundles = {bundle.name: bundle for step in add_steps(case.record) or [] for bundle in step.bundles()}
    channels = {channel for bundle in bundles.values() for channel in bundle.annotations.channels}
    assert actual == Counter(
        (channel, *entry)
        for channel in channels
        for entry in skip_patch_entries([b for b in bundles.values() if channel in b.annotations.channels])
    )


def skip_patch_entries(bundles: list[Bundle]) -> Iterator[tuple[str, int | None, str | None]]:
    """Yield the expected (name, depth, replaced name) of a channel; depths of skips are None."""
    descending = sorted(bundles, key=lambda bundle: Version.parse(bundle.version), reverse=True)
    minors = [
        [bundle.name for bundle in minor]
        for _, minor in groupby(descending, key=lambda bundle: Version.parse(bundle.version).to_tuple()[:2])
    ]
    for depth, (head, *patches) in enumerate(minors):
        yield head, depth, minors[depth + 1][0] if depth + 1 < len(minors) else None
        for patch in patches:
            yield patch, None, None
            yield head, None, patch
