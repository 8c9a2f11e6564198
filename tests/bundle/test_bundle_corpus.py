"""Recorded bundles: an index must contain the same data as Go opm stored."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.bundle import Bundle, BundleError, ManifestCache
from opmkit.bundle.load import load_bundle_directory
from tests.kit.shared import SHARED, Case, cases, dump_tool, needs_shared

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = needs_shared

_CORPUS = SHARED / "corpus" / "bundles"
_CACHE = ManifestCache()
_REJECTED = {
    "syn-apis": ["1.3.0", "1.4.0", "1.5.0"],
    "syn-files": ["1.10.0", "1.11.0", "1.12.0", "1.2.0", "1.3.0", "1.7.0", "1.8.0", "1.9.0"],
    "syn-props": ["1.1.0", "1.2.0", "1.6.0"],
    "syn-text": ["1.2.0"],
    "syn-version": ["number"],
}
"""Bundles whose content Go opm rejects in the recorded scenarios."""


@cache
def corpus_bundle(path: str) -> Bundle | None:
    """Return the bundle ``{registry}/PACKAGE:TAG``, or None if it is rejected."""
    package, _, tag = path.removeprefix("{registry}/").partition(":")
    try:
        return load_bundle_directory(_CORPUS / package / tag.replace("_", "+"), cache=_CACHE)
    except BundleError:
        return None


def stored(group: str) -> list[Case]:
    """Return the cases of a group whose database does not differ between runs."""
    return [case for case in cases(group) if case.record.get("compare") == "exact" and case.record["index"]]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        case
        for group in ("add-replaces", "add-replaces-one-by-one", "add-semver", "add-scenarios")
        for case in stored(group)
    ],
    ids=str,
)
def test_rows_of_every_bundle(case: Case) -> None:
    tables = case.record["index"]["tables"]
    rows = {row["bundlepath"]: row for row in tables["operatorbundle"]}
    for path, row in rows.items():
        bundle = corpus_bundle(path)
        assert bundle is not None, path
        assert column_values(bundle) == {key: row[key] for key in column_values(bundle)}, path
        if row["bundle"] is not None:
            assert manifests(bundle) == (row["csv"], row["bundle"]), path
        assert images(bundle, path) == rows_of_bundle(tables["related_image"], row, "image"), path
        for table in ("provider", "requirer"):
            assert apis(bundle, table) == rows_of_bundle(
                tables[f"api_{table}"], row, "group_name", "version", "kind"
            ), path
        assert values(bundle.dependencies) == typed(tables["dependencies"], row), path
        assert_properties(bundle, typed(tables["properties"], row))


def column_values(bundle: Bundle) -> dict[str, str]:
    csv = bundle.csv
    return {
        "name": bundle.name,
        "version": bundle.version,
        "replaces": csv.replaces,
        "skips": ",".join(csv.skips),
        "skiprange": csv.skip_range,
        "substitutesfor": csv.substitutes_for,
    }


def manifests(bundle: Bundle) -> tuple[Any, Any]:
    tool = dump_tool()
    return tool.csv_cell(bundle.csv.json.decode()), tool.bundle_cell(b"".join(bundle.objects).decode())


def images(bundle: Bundle, path: str) -> list[tuple[str, ...]]:
    return sorted((image,) for image in {path, *bundle.related_images})


def apis(bundle: Bundle, table: str) -> list[tuple[str, ...]]:
    keys = bundle.provided_apis if table == "provider" else bundle.required_apis
    return sorted((api.group, api.version, api.kind) for api in keys)


def rows_of_bundle(rows: list[dict[str, Any]], bundle: dict[str, Any], *columns: str) -> list[tuple[str, ...]]:
    return sorted(tuple(row[c] for c in columns) for row in rows if row["operatorbundle_name"] == bundle["name"])


def values(typed_values: tuple[Any, ...]) -> Counter[tuple[str, str]]:
    return Counter((value.type, canonical(json.loads(value.value))) for value in typed_values)


def typed(rows: list[dict[str, Any]], bundle: dict[str, Any]) -> Counter[tuple[str, str]]:
    matching = (row for row in rows if row["operatorbundle_name"] == bundle["name"])
    return Counter((row["type"], canonical(row["value"])) for row in matching)


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def assert_properties(bundle: Bundle, recorded: Counter[tuple[str, str]]) -> None:
    """Check the properties; Go opm also stores an olm.package for each channel."""
    added = ("olm.package", canonical({"packageName": bundle.package, "version": bundle.version}))
    expected = values(bundle.properties)
    assert expected <= recorded
    assert set(recorded - expected) <= {added}


@pytest.mark.slow
def test_rejected_bundles() -> None:
    rejected: dict[str, list[str]] = {}
    for directory in bundle_directories():
        if corpus_bundle(f"{directory.parent.name}:{directory.name}") is None:
            rejected.setdefault(directory.parent.name, []).append(directory.name)
    assert rejected == _REJECTED


def bundle_directories() -> Iterator[Path]:
    return (path for path in sorted(_CORPUS.glob("*/*")) if path.is_dir())


@pytest.mark.parametrize("case", cases("add-scenarios"), ids=str)
def test_bundles_that_go_opm_adds_are_accepted(case: Case) -> None:
    for step in case.record["steps"]:
        added = [part for part in step["argv"] if part.startswith("{registry}/")]
        bundles = [corpus_bundle(path) for paths in added for path in paths.split(",")]
        if step["exit"] == 0:
            assert None not in bundles
