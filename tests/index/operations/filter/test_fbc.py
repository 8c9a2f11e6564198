"""Tests of filtering file-based catalogs: results contain the selected bundles, are valid and are minimal."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.bundle.versions import VersionRange, strict_version
from opmkit.index.errors import CatalogError, InvalidCatalog, UnknownPackage
from opmkit.index.fbc.blobs import Blobs, BundleBlob, EntryBlob, OtherBlob
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.check.graph import check_graph
from opmkit.index.fbc.load import parse_blobs
from opmkit.index.operations.filter.fbc import filter_blobs, needed_entries
from opmkit.index.operations.filter.result import (
    FilterResult,
    PackageFilter,
    RemovedCounts,
    RetainedBundle,
    RetainedChannel,
)
from tests.kit.randomcatalogs import random_catalog

if TYPE_CHECKING:
    from collections.abc import Iterable

Entries = dict[str, tuple[str, str]]
"""Replaced and skipped names of entries, by name; skipped names are separated by blanks."""


def package(name: str, channels: dict[str, Entries], *more: dict[str, Any], requires: Any = None) -> list[Any]:
    """Return a package whose first channel is the default; names of bundles are versions without the patch."""
    documents: list[Any] = [{"schema": "olm.package", "name": name, "defaultChannel": next(iter(channels))}]
    for channel, entries in channels.items():
        listed = [{"name": entry, "replaces": edges[0], "skips": edges[1].split()} for entry, edges in entries.items()]
        documents.append({"schema": "olm.channel", "package": name, "name": channel, "entries": listed})
    for bundle in dict.fromkeys(bundle for entries in channels.values() for bundle in entries):
        value = {"packageName": name, "version": f"{bundle}.0"}
        properties = [{"type": "olm.package", "value": value}, *(requires or {}).get(bundle, [])]
        documents.append(
            {"schema": "olm.bundle", "package": name, "name": bundle, "image": "i", "properties": properties}
        )
    return [*documents, *more]


def catalog(*documents: Iterable[Any]) -> Blobs:
    blobs = parse_blobs("".join(json.dumps(document) for group in documents for document in group).encode(), "catalog")
    assert not check_blobs(blobs)
    return blobs


def chain(*names: str) -> Entries:
    """Return entries that each replace the previous one."""
    return {name: (below, "") for name, below in zip(names, ["", *names], strict=False)}


LAGOON = package("lagoon", {"alpha": chain("1.0", "1.1", "1.2", "2.0"), "beta": chain("2.0", "2.1")})
NOTES = {"schema": "notes", "package": "reef", "name": "n"}
REEF = package("reef", {"stable": chain("1.0")}, NOTES)


def filter_catalog(blobs: Blobs, *texts: str, **options: Any) -> FilterResult:
    return filter_blobs(blobs, [PackageFilter.parse(text) for text in texts], **options)


def names(found: FilterResult) -> dict[str, list[str]]:
    """Return the remaining entries by channel; check that the result is valid."""
    assert not check_blobs(found.blobs)
    channels = {
        f"{channel.package}/{channel.name}": [entry.name for entry in channel.entries]
        for channel in found.blobs.channels
    }
    assert {bundle.name for bundle in found.blobs.bundles} == {
        name for entries in channels.values() for name in entries
    }
    return channels


def test_keeps_whole_packages_with_all_their_blobs() -> None:
    loose = OtherBlob("loose", "", "", {"schema": "loose"})
    blobs = catalog(LAGOON, REEF) + Blobs.from_blobs([loose])
    found = filter_catalog(blobs, "reef")
    assert names(found) == {"reef/stable": ["1.0"]}
    assert [blob.schema for blob in found.blobs.others] == ["notes", "loose"]
    assert found.removed == RemovedCounts(1, 2, 5)
    assert found.channels == (RetainedChannel("reef", "stable", 1, 1, "1.0", "1.0"),)
    ids = {id(blob) for blob in blobs}
    assert all(id(blob) in ids for blob in found.blobs)


def test_selects_channels() -> None:
    assert names(filter_catalog(catalog(LAGOON), "lagoon:alpha")) == {"lagoon/alpha": ["1.0", "1.1", "1.2", "2.0"]}


def test_range_removes_bundles_at_both_ends() -> None:
    found = filter_catalog(catalog(LAGOON), "lagoon:alpha@>=1.1.0 <2.0.0")
    assert names(found) == {"lagoon/alpha": ["1.1", "1.2"]}
    assert found.blobs.channels[0].entries[0].replaces == "1.0"
    assert found.retained == ()
    assert found.channels == (RetainedChannel("lagoon", "alpha", 2, 4, "1.2", "2.0"),)


def test_range_of_a_package_applies_to_all_channels() -> None:
    blobs = catalog(LAGOON)
    assert names(filter_catalog(blobs, "lagoon@2.x")) == {"lagoon/alpha": ["2.0"], "lagoon/beta": ["2.0", "2.1"]}
    assert names(filter_catalog(blobs, "lagoon@<2.0.0")) == {"lagoon/alpha": ["1.0", "1.1", "1.2"]}


def test_several_filters_of_a_package_are_combined() -> None:
    found = filter_catalog(catalog(LAGOON), "lagoon@<1.1.0", "lagoon:beta", "lagoon:alpha@1.1.0")
    assert names(found) == {"lagoon/alpha": ["1.0", "1.1"], "lagoon/beta": ["2.0", "2.1"]}


def test_retains_bundles_between_selected_ones() -> None:
    found = filter_catalog(catalog(LAGOON), "lagoon:alpha@1.0.0 || 2.0.0")
    assert names(found) == {"lagoon/alpha": ["1.0", "1.1", "1.2", "2.0"]}
    between = "it lies between 2.0 and 1.0 on the replaces chain"
    assert found.retained == (
        RetainedBundle("lagoon", "alpha", "1.1", between),
        RetainedBundle("lagoon", "alpha", "1.2", between),
    )


@pytest.mark.parametrize(
    ("version_range", "expected", "reasons"),
    [
        ("1.0.0", ["1.0"], {}),
        ("<1.2.0", ["1.0", "1.1", "1.2"], {"1.2": "nothing else that stays replaces or skips 1.0, 1.1"}),
        ("1.0.0 || 1.3.0", ["1.0", "1.3"], {}),
        ("1.1.0 || 1.3.0", ["1.1", "1.3"], {}),
        ("1.1.0 || 1.4.0", ["1.1", "1.3", "1.4"], {"1.3": "nothing else that stays replaces or skips 1.1"}),
        (
            "<1.2.0 || 1.4.0",
            ["1.0", "1.1", "1.3", "1.4"],
            {"1.3": "nothing else that stays replaces or skips 1.0, 1.1"},
        ),
    ],
)
def test_retains_the_lowest_bundle_that_skips_selected_ones(
    version_range: str, expected: list[str], reasons: dict[str, str]
) -> None:
    entries = {
        "1.0": ("", ""),
        "1.1": ("", ""),
        "1.2": ("", "1.0 1.1"),
        "1.3": ("1.2", "1.0 1.1"),
        "1.4": ("1.3", ""),
    }
    found = filter_catalog(catalog(package("lagoon", {"alpha": entries})), f"lagoon@{version_range}")
    assert names(found) == {"lagoon/alpha": expected}
    assert {bundle.bundle: bundle.reason for bundle in found.retained} == reasons


def test_retains_head_for_entries_that_skip_themselves() -> None:
    entries = {"1.0": ("", "1.0"), "1.1": ("", "")}
    found = filter_catalog(catalog(package("lagoon", {"alpha": entries})), "lagoon@1.0.0")
    assert [(bundle.bundle, bundle.reason) for bundle in found.retained] == [
        ("1.1", "without it: no channel head found in graph")
    ]


def test_rejects_removal_of_the_default_channel() -> None:
    blobs = catalog(LAGOON)
    with pytest.raises(CatalogError, match='package "lagoon": its default channel "alpha" would be removed') as caught:
        filter_catalog(blobs, "lagoon:beta")
    assert "default_channel=lagoon=beta" in str(caught.value.hint)
    found = filter_catalog(blobs, "lagoon:beta", default_channels={"lagoon": "beta"})
    assert names(found) == {"lagoon/beta": ["2.0", "2.1"]}
    assert found.blobs.packages[0].default_channel == "beta"


def test_removes_deprecations_of_removed_objects() -> None:
    def deprecation(schema: str, name: str) -> dict[str, Any]:
        return {"reference": {"schema": schema, "name": name} if name else {"schema": schema}, "message": "old"}

    entries = [
        deprecation("olm.package", ""),
        deprecation("olm.channel", "beta"),
        deprecation("olm.bundle", "1.0"),
        deprecation("olm.bundle", "2.0"),
    ]
    blobs = catalog(LAGOON, [{"schema": "olm.deprecations", "package": "lagoon", "entries": entries}])
    (remaining,) = filter_catalog(blobs, "lagoon:alpha@>=1.1.0").blobs.deprecations
    assert [(entry.schema, entry.name) for entry in remaining.entries] == [("olm.package", ""), ("olm.bundle", "2.0")]


API = {"group": "g", "version": "v1", "kind": "K"}
PROVIDER = package("tide", {"a": chain("1.0", "2.0")}, requires={"1.0": [{"type": "olm.gvk", "value": API}]})


GVK = {"gvk": API}


def constraint(form: str, *constraints: Any) -> dict[str, Any]:
    return {"type": "olm.constraint", "value": {form: {"constraints": list(constraints)}}}


@pytest.mark.parametrize(
    ("requirement", "text"),
    [
        ({"type": "olm.gvk.required", "value": API}, "the API g/v1 K"),
        (
            {"type": "olm.package.required", "value": {"packageName": "tide", "versionRange": "<2.0.0"}},
            "the package tide <2.0.0",
        ),
        ({"type": "olm.constraint", "value": {"failureMessage": "m", "gvk": API}}, "the API g/v1 K"),
        (
            constraint(
                "any", {"package": {"packageName": "gone", "versionRange": "1.x"}}, constraint("all", GVK)["value"]
            ),
            "the API g/v1 K",
        ),
        ({"type": "olm.package.required", "value": {"packageName": "gone", "versionRange": "1.x"}}, ""),
        ({"type": "olm.package.required", "value": {"packageName": "reef", "versionRange": "x"}}, ""),
        (constraint("not", GVK), ""),
        (constraint("any", GVK, {"package": {"packageName": "lagoon", "versionRange": "1.x"}}), ""),
    ],
)
def test_requirements_of_removed_bundles(requirement: dict[str, Any], text: str) -> None:
    entries = chain("1.0", "1.1")
    blobs = catalog(
        package("lagoon", {"a": entries}, requires={name: [requirement] for name in entries}), PROVIDER, REEF
    )
    unmet = f"1.0 and 1 more of package lagoon require {text}"
    found = filter_catalog(blobs, "lagoon")
    assert found.warnings == ((f"{unmet}, which is left out: tide had it",) if text else ())
    with_dependencies = filter_catalog(blobs, "lagoon", with_dependencies=True)
    assert with_dependencies.retained == ((RetainedBundle("tide", "", "", unmet),) if text else ())
    assert with_dependencies.warnings == ()
    assert [package.name for package in with_dependencies.blobs.packages] == ["lagoon", "tide"] if text else ["lagoon"]
    limited = filter_catalog(blobs, "lagoon", "tide@2.x", with_dependencies=True)
    assert limited.warnings == found.warnings


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lagoon", PackageFilter("lagoon")),
        ("lagoon:alpha", PackageFilter("lagoon", ("alpha",))),
        ("lagoon:alpha,beta,alpha", PackageFilter("lagoon", ("alpha", "beta"))),
        ("lagoon@>=1.0.0 <2.0.0", PackageFilter("lagoon", (), ">=1.0.0 <2.0.0")),
        ("lagoon:a-1.x@1.x || >3.0.0", PackageFilter("lagoon", ("a-1.x",), "1.x || >3.0.0")),
    ],
)
def test_parses_filters(text: str, expected: PackageFilter) -> None:
    assert PackageFilter.parse(text) == expected
    assert PackageFilter.parse(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "position", "problem"),
    [
        ("", 1, "missing package name"),
        (":alpha", 1, "missing package name"),
        ("lagoon:", 8, "missing channel name"),
        ("lagoon:,beta", 8, "missing channel name"),
        ("lagoon:alpha,,beta", 14, "missing channel name"),
        ("lagoon:alpha,@1.x", 14, "missing channel name"),
        ("lagoon@", 8, "invalid version range"),
        ("lagoon:alpha@>=1", 14, "invalid version range"),
        ("lagoon@1.0.0 || || 2.0.0", 8, "alternative without a version"),
    ],
)
def test_reports_the_position_of_errors(text: str, position: int, problem: str) -> None:
    with pytest.raises(CatalogError, match=f"at position {position}: .*{problem}") as caught:
        PackageFilter.parse(text)
    assert "PACKAGE[:CHANNEL" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("texts", "error", "message", "hint"),
    [
        (["lagon"], UnknownPackage, 'package "lagon" not found', "did you mean lagoon?"),
        (["zz"], UnknownPackage, 'package "zz" not found', "use one of the packages: lagoon, reef"),
        (["lagoon:alfa"], CatalogError, 'channel "alfa" not found', "did you mean alpha?"),
        (
            ["lagoon@>=3.0.0"],
            CatalogError,
            'package "lagoon": no version in the range ">=3.0.0"',
            "2.1.0, 2.0.0, 1.2.0",
        ),
        (["lagoon:alpha,beta@<2.0.0"], CatalogError, 'channel "beta" of package "lagoon"', "2.1.0, 2.0.0"),
        (["lagoon", "lagoon:alpha@9.x"], CatalogError, 'in the range "9.x"', "2.0.0"),
        (["lagon", "ref"], CatalogError, '"lagon" not found\npackage "ref" not found', "lagoon? did you mean reef?"),
        (["lagoon@9.x", "reef:x"], CatalogError, 'range "9.x"\npackage "reef": channel "x" not found', "stable"),
    ],
)
def test_rejects_unknown_names_and_versions(
    texts: list[str], error: type[CatalogError], message: str, hint: str
) -> None:
    with pytest.raises(error) as caught:
        filter_catalog(catalog(LAGOON, REEF), *texts)
    assert message in caught.value.message
    assert hint in str(caught.value.hint)


@pytest.mark.parametrize(
    ("defaults", "message"),
    [({"lagoon": "alpa"}, 'channel "alpa" not found'), ({"ref": "stable"}, 'package "ref": default channel given')],
)
def test_rejects_unknown_default_channels(defaults: dict[str, str], message: str) -> None:
    with pytest.raises(CatalogError, match=message) as caught:
        filter_catalog(catalog(LAGOON, REEF), "lagoon", "reef", default_channels=defaults)
    assert "did you mean" in str(caught.value.hint)


def test_rejects_invalid_selected_package() -> None:
    blobs = catalog(LAGOON, REEF)
    broken = Blobs.from_blobs([blob for blob in blobs if not (isinstance(blob, BundleBlob) and blob.package == "reef")])
    assert names(filter_catalog(broken, "lagoon:alpha"))
    with pytest.raises(InvalidCatalog, match=r"no olm\.bundle blob found"):
        filter_catalog(broken, "lagoon", "reef")


def test_report() -> None:
    requirement = {"type": "olm.package.required", "value": {"packageName": "reef", "versionRange": "1.x"}}
    documents = package("lagoon", {"alpha": chain("1.0", "1.1", "1.2", "2.0")}, requires={"1.1": [requirement]})
    found = filter_catalog(catalog(documents, REEF), "lagoon@1.0.0 || 1.2.0", with_dependencies=True)
    assert (
        "\n".join(found.lines())
        == """\
package lagoon
  channel alpha: 3 of 4 bundles, head 1.2 instead of 2.0
    1.1 stays: it lies between 1.2 and 1.0 on the replaces chain
package reef
  package reef stays: 1.1 of package lagoon requires the package reef 1.x
  channel stable: 1 of 1 bundles
left out: 0 packages, 0 channels, 1 bundle"""
    )
    report = json.loads(json.dumps(found.as_dict()))
    assert report["kept"][1]["bundle"] == "1.1"
    assert report["channels"][0]["head_before"] == "2.0"
    assert report["dropped"] == {"packages": 0, "channels": 0, "bundles": 1}


@pytest.mark.parametrize("seed", range(40))
def test_random_catalogs(seed: int) -> None:
    rng = random.Random(seed)
    blobs = catalog(random_catalog(rng, packages=3, bundles=8))
    wanted = []
    for one in rng.sample(blobs.packages, rng.randint(1, len(blobs.packages))):
        (default,) = (each for each in blobs.channels if (each.package, each.name) == (one.name, one.default_channel))
        low, high = sorted(rng.choice(default.entries).name.partition(".v")[2] for _ in range(2))
        version_range = rng.choice(["", f">={low} <={high}", f"{low} || {high}"])
        wanted.append(PackageFilter(one.name, rng.choice([(), (default.name,)]), version_range))
    found = filter_blobs(blobs, wanted)
    assert not check_blobs(found.blobs)
    assert filter_blobs(found.blobs, wanted).blobs == found.blobs
    reasons = {(kept.package, kept.channel, kept.bundle) for kept in found.retained}
    chosen = {each for one in wanted for each in _in_range(blobs, one)}
    left = {(one.package, one.name, entry.name) for one in found.blobs.channels for entry in one.entries}
    assert left == chosen | reasons
    assert not chosen & reasons


def _in_range(blobs: Blobs, wanted: PackageFilter) -> set[tuple[str, str, str]]:
    versions = {(bundle.package, bundle.name): strict_version(bundle_version(bundle)) for bundle in blobs.bundles}
    version_range = VersionRange.parse(wanted.version_range or ">=0.0.0")
    return {
        (channel.package, channel.name, entry.name)
        for channel in blobs.channels
        for entry in channel.entries
        if channel.package == wanted.package
        and channel.name in (wanted.channels or (channel.name,))
        and versions[channel.package, entry.name] in version_range
    }


def test_needed_entries_are_minimal() -> None:
    for seed in range(400):
        rng = random.Random(seed)
        entries = _random_graph(rng)
        chosen = set(rng.sample([entry.name for entry in entries], rng.randint(1, len(entries))))
        needed = needed_entries(entries, chosen)
        assert not needed.keys() & chosen, seed
        assert all(needed.values()), seed
        remaining = [entry for entry in entries if entry.name in chosen | needed.keys()]
        assert not check_graph(remaining), seed
        for name in needed:
            assert check_graph([entry for entry in remaining if entry.name != name]), (seed, name)
        assert needed_entries(remaining, chosen) == needed, seed


def _random_graph(rng: random.Random) -> list[EntryBlob]:
    """Return a valid graph; half of them have skips in any direction, including cycles."""
    while True:
        names_by_age = [f"v{number}" for number in range(rng.randint(1, 8))]
        odd = rng.random() < 0.5
        entries = []
        for number, name in enumerate(names_by_age):
            below = names_by_age if odd else names_by_age[:number]
            skips = rng.sample(below, min(len(below), rng.choice([0, 0, 1, 2, 3])))
            entries.append(EntryBlob(name, rng.choice([*below[-2:], "", "gone"]), tuple(skips)))
        if not check_graph(entries):
            return entries
