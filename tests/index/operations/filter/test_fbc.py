"""Parts of catalogs: what is wanted is there, the graphs are valid, and nothing stays without a reason."""

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
from opmkit.index.operations.filter.fbc import filter_blobs
from opmkit.index.operations.filter.package_filter import PackageFilter
from opmkit.index.operations.filter.result import FilterResult, RemovedCounts, RetainedBundle, RetainedChannel
from opmkit.index.operations.filter.subgraph import needed_entries
from tests.kit.randomcatalogs import random_catalog

if TYPE_CHECKING:
    from collections.abc import Iterable

Entries = dict[str, tuple[str, str]]
"""By names, what entries replace and skip; skipped names are parted by blanks."""


def package(name: str, channels: dict[str, Entries], *more: dict[str, Any], requires: Any = None) -> list[Any]:
    """A package of which the first channel is the default one; names of bundles are versions without the zeros."""
    documents: list[Any] = [{"schema": "olm.package", "name": name, "defaultChannel": next(iter(channels))}]
    for channel, entries in channels.items():
        listed = [{"name": one, "replaces": edges[0], "skips": edges[1].split()} for one, edges in entries.items()]
        documents.append({"schema": "olm.channel", "package": name, "name": channel, "entries": listed})
    for bundle in dict.fromkeys(bundle for entries in channels.values() for bundle in entries):
        value = {"packageName": name, "version": f"{bundle}.0"}
        properties = [{"type": "olm.package", "value": value}, *(requires or {}).get(bundle, [])]
        documents.append(
            {"schema": "olm.bundle", "package": name, "name": bundle, "image": "i", "properties": properties}
        )
    return [*documents, *more]


def catalog(*documents: Iterable[Any]) -> Blobs:
    blobs = parse_blobs("".join(json.dumps(one) for group in documents for one in group).encode(), "catalog")
    assert not check_blobs(blobs)
    return blobs


def chain(*names: str) -> Entries:
    """Entries of which each replaces the one before."""
    return {name: (below, "") for name, below in zip(names, ["", *names], strict=False)}


LAGOON = package("lagoon", {"alpha": chain("1.0", "1.1", "1.2", "2.0"), "beta": chain("2.0", "2.1")})
NOTES = {"schema": "notes", "package": "reef", "name": "n"}
REEF = package("reef", {"stable": chain("1.0")}, NOTES)


def filtered(blobs: Blobs, *texts: str, **options: Any) -> FilterResult:
    return filter_blobs(blobs, [PackageFilter.parse(text) for text in texts], **options)


def names(found: FilterResult) -> dict[str, list[str]]:
    """The entries that are left by their channels, and the bundles; the result is valid."""
    assert not check_blobs(found.blobs)
    channels = {f"{one.package}/{one.name}": [entry.name for entry in one.entries] for one in found.blobs.channels}
    assert {bundle.name for bundle in found.blobs.bundles} == {
        name for entries in channels.values() for name in entries
    }
    return channels


def test_packages_are_kept_whole_with_all_that_is_theirs() -> None:
    loose = OtherBlob("loose", "", "", {"schema": "loose"})
    blobs = catalog(LAGOON, REEF) + Blobs.from_blobs([loose])
    found = filtered(blobs, "reef")
    assert names(found) == {"reef/stable": ["1.0"]}
    assert [one.schema for one in found.blobs.others] == ["notes", "loose"]
    assert found.removed == RemovedCounts(1, 2, 5)
    assert found.channels == (RetainedChannel("reef", "stable", 1, 1, "1.0", "1.0"),)
    kept = {id(blob) for blob in blobs}
    assert all(id(blob) in kept for blob in found.blobs)


def test_channels_alone() -> None:
    assert names(filtered(catalog(LAGOON), "lagoon:alpha")) == {"lagoon/alpha": ["1.0", "1.1", "1.2", "2.0"]}


def test_a_range_moves_the_head_down_and_cuts_the_tail() -> None:
    found = filtered(catalog(LAGOON), "lagoon:alpha@>=1.1.0 <2.0.0")
    assert names(found) == {"lagoon/alpha": ["1.1", "1.2"]}
    assert found.blobs.channels[0].entries[0].replaces == "1.0"
    assert found.retained == ()
    assert found.channels == (RetainedChannel("lagoon", "alpha", 2, 4, "1.2", "2.0"),)


def test_a_range_of_a_package_is_one_of_all_its_channels() -> None:
    blobs = catalog(LAGOON)
    assert names(filtered(blobs, "lagoon@2.x")) == {"lagoon/alpha": ["2.0"], "lagoon/beta": ["2.0", "2.1"]}
    assert names(filtered(blobs, "lagoon@<2.0.0")) == {"lagoon/alpha": ["1.0", "1.1", "1.2"]}


def test_what_is_wanted_of_one_package_adds_up() -> None:
    found = filtered(catalog(LAGOON), "lagoon@<1.1.0", "lagoon:beta", "lagoon:alpha@1.1.0")
    assert names(found) == {"lagoon/alpha": ["1.0", "1.1"], "lagoon/beta": ["2.0", "2.1"]}


def test_what_lies_between_stays() -> None:
    found = filtered(catalog(LAGOON), "lagoon:alpha@1.0.0 || 2.0.0")
    assert names(found) == {"lagoon/alpha": ["1.0", "1.1", "1.2", "2.0"]}
    between = "it lies between 2.0 and 1.0 on the replaces chain"
    assert found.retained == (
        RetainedBundle("lagoon", "alpha", "1.1", between),
        RetainedBundle("lagoon", "alpha", "1.2", between),
    )


@pytest.mark.parametrize(
    ("wanted", "left", "why"),
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
def test_the_lowest_that_skips_them_joins_what_is_skipped(wanted: str, left: list[str], why: dict[str, str]) -> None:
    entries = {
        "1.0": ("", ""),
        "1.1": ("", ""),
        "1.2": ("", "1.0 1.1"),
        "1.3": ("1.2", "1.0 1.1"),
        "1.4": ("1.3", ""),
    }
    found = filtered(catalog(package("lagoon", {"alpha": entries})), f"lagoon@{wanted}")
    assert names(found) == {"lagoon/alpha": left}
    assert {kept.bundle: kept.reason for kept in found.retained} == why


def test_entries_that_skip_each_other_stay_with_the_head() -> None:
    entries = {"1.0": ("", "1.0"), "1.1": ("", "")}
    found = filtered(catalog(package("lagoon", {"alpha": entries})), "lagoon@1.0.0")
    assert [(kept.bundle, kept.reason) for kept in found.retained] == [
        ("1.1", "without it: no channel head found in graph")
    ]


def test_a_default_channel_that_would_go_is_refused() -> None:
    blobs = catalog(LAGOON)
    with pytest.raises(CatalogError, match='package "lagoon": its default channel "alpha" would be removed') as caught:
        filtered(blobs, "lagoon:beta")
    assert "default_channel=lagoon=beta" in str(caught.value.hint)
    found = filtered(blobs, "lagoon:beta", default_channels={"lagoon": "beta"})
    assert names(found) == {"lagoon/beta": ["2.0", "2.1"]}
    assert found.blobs.packages[0].default_channel == "beta"


def test_deprecations_of_what_is_gone_go() -> None:
    def about(schema: str, name: str) -> dict[str, Any]:
        return {"reference": {"schema": schema, "name": name} if name else {"schema": schema}, "message": "old"}

    told = [
        about("olm.package", ""),
        about("olm.channel", "beta"),
        about("olm.bundle", "1.0"),
        about("olm.bundle", "2.0"),
    ]
    blobs = catalog(LAGOON, [{"schema": "olm.deprecations", "package": "lagoon", "entries": told}])
    (left,) = filtered(blobs, "lagoon:alpha@>=1.1.0").blobs.deprecations
    assert [(one.schema, one.name) for one in left.entries] == [("olm.package", ""), ("olm.bundle", "2.0")]


API = {"group": "g", "version": "v1", "kind": "K"}
PROVIDER = package("tide", {"a": chain("1.0", "2.0")}, requires={"1.0": [{"type": "olm.gvk", "value": API}]})


GVK = {"gvk": API}


def constraint(form: str, *constraints: Any) -> dict[str, Any]:
    return {"type": "olm.constraint", "value": {form: {"constraints": list(constraints)}}}


@pytest.mark.parametrize(
    ("requirement", "told"),
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
def test_requirements_that_are_left_out(requirement: dict[str, Any], told: str) -> None:
    entries = chain("1.0", "1.1")
    blobs = catalog(
        package("lagoon", {"a": entries}, requires={name: [requirement] for name in entries}), PROVIDER, REEF
    )
    loss = f"1.0 and 1 more of package lagoon require {told}"
    found = filtered(blobs, "lagoon")
    assert found.warnings == ((f"{loss}, which is left out: tide had it",) if told else ())
    followed = filtered(blobs, "lagoon", with_dependencies=True)
    assert followed.retained == ((RetainedBundle("tide", "", "", loss),) if told else ())
    assert followed.warnings == ()
    assert [one.name for one in followed.blobs.packages] == ["lagoon", "tide"] if told else ["lagoon"]
    limited = filtered(blobs, "lagoon", "tide@2.x", with_dependencies=True)
    assert limited.warnings == found.warnings


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("lagoon", PackageFilter("lagoon")),
        ("lagoon:alpha", PackageFilter("lagoon", ("alpha",))),
        ("lagoon:alpha,beta,alpha", PackageFilter("lagoon", ("alpha", "beta"))),
        ("lagoon@>=1.0.0 <2.0.0", PackageFilter("lagoon", (), ">=1.0.0 <2.0.0")),
        ("lagoon:a-1.x@1.x || >3.0.0", PackageFilter("lagoon", ("a-1.x",), "1.x || >3.0.0")),
    ],
)
def test_reading_what_is_wanted(text: str, wanted: PackageFilter) -> None:
    assert PackageFilter.parse(text) == wanted
    assert PackageFilter.parse(str(wanted)) == wanted


@pytest.mark.parametrize(
    ("text", "place", "problem"),
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
def test_what_can_not_be_read_is_told_with_its_place(text: str, place: int, problem: str) -> None:
    with pytest.raises(CatalogError, match=f"at position {place}: .*{problem}") as caught:
        PackageFilter.parse(text)
    assert "PACKAGE[:CHANNEL" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("texts", "error", "told", "advice"),
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
def test_what_is_not_there_is_told(texts: list[str], error: type[CatalogError], told: str, advice: str) -> None:
    with pytest.raises(error) as caught:
        filtered(catalog(LAGOON, REEF), *texts)
    assert told in caught.value.message
    assert advice in str(caught.value.hint)


@pytest.mark.parametrize(
    ("defaults", "told"),
    [({"lagoon": "alpa"}, 'channel "alpa" not found'), ({"ref": "stable"}, 'package "ref": default channel given')],
)
def test_default_channels_that_are_not_there(defaults: dict[str, str], told: str) -> None:
    with pytest.raises(CatalogError, match=told) as caught:
        filtered(catalog(LAGOON, REEF), "lagoon", "reef", default_channels=defaults)
    assert "did you mean" in str(caught.value.hint)


def test_a_broken_package_is_refused_if_it_is_wanted() -> None:
    blobs = catalog(LAGOON, REEF)
    broken = Blobs.from_blobs([blob for blob in blobs if not (isinstance(blob, BundleBlob) and blob.package == "reef")])
    assert names(filtered(broken, "lagoon:alpha"))
    with pytest.raises(InvalidCatalog, match=r"no olm\.bundle blob found"):
        filtered(broken, "lagoon", "reef")


def test_what_is_told() -> None:
    requirement = {"type": "olm.package.required", "value": {"packageName": "reef", "versionRange": "1.x"}}
    documents = package("lagoon", {"alpha": chain("1.0", "1.1", "1.2", "2.0")}, requires={"1.1": [requirement]})
    found = filtered(catalog(documents, REEF), "lagoon@1.0.0 || 1.2.0", with_dependencies=True)
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
def test_parts_of_random_catalogs(seed: int) -> None:
    dice = random.Random(seed)
    blobs = catalog(random_catalog(dice, packages=3, bundles=8))
    wanted = []
    for one in dice.sample(blobs.packages, dice.randint(1, len(blobs.packages))):
        (default,) = (each for each in blobs.channels if (each.package, each.name) == (one.name, one.default_channel))
        low, high = sorted(dice.choice(default.entries).name.partition(".v")[2] for _ in range(2))
        version_range = dice.choice(["", f">={low} <={high}", f"{low} || {high}"])
        wanted.append(PackageFilter(one.name, dice.choice([(), (default.name,)]), version_range))
    found = filter_blobs(blobs, wanted)
    assert not check_blobs(found.blobs)
    assert filter_blobs(found.blobs, wanted).blobs == found.blobs
    reasons = {(kept.package, kept.channel, kept.bundle) for kept in found.retained}
    chosen = {each for one in wanted for each in _in_range(blobs, one)}
    left = {(one.package, one.name, entry.name) for one in found.blobs.channels for entry in one.entries}
    assert left == chosen | reasons
    assert not chosen & reasons


def _in_range(blobs: Blobs, wanted: PackageFilter) -> set[tuple[str, str, str]]:
    versions = {(one.package, one.name): strict_version(bundle_version(one)) for one in blobs.bundles}
    kept = VersionRange.parse(wanted.version_range or ">=0.0.0")
    return {
        (channel.package, channel.name, entry.name)
        for channel in blobs.channels
        for entry in channel.entries
        if channel.package == wanted.package
        and channel.name in (wanted.channels or (channel.name,))
        and versions[channel.package, entry.name] in kept
    }


def test_no_entry_that_is_needed_can_be_spared() -> None:
    for seed in range(400):
        dice = random.Random(seed)
        entries = _random_graph(dice)
        chosen = set(dice.sample([entry.name for entry in entries], dice.randint(1, len(entries))))
        needed = needed_entries(entries, chosen)
        assert not needed.keys() & chosen, seed
        assert all(needed.values()), seed
        left = [entry for entry in entries if entry.name in chosen | needed.keys()]
        assert not check_graph(left), seed
        for name in needed:
            assert check_graph([entry for entry in left if entry.name != name]), (seed, name)
        assert needed_entries(left, chosen) == needed, seed


def _random_graph(dice: random.Random) -> list[EntryBlob]:
    """A valid graph, more often of the strange kind: with skips across, upwards and in circles."""
    while True:
        listed = [f"v{number}" for number in range(dice.randint(1, 8))]
        odd = dice.random() < 0.5
        entries = []
        for number, name in enumerate(listed):
            below = listed if odd else listed[:number]
            skips = dice.sample(below, min(len(below), dice.choice([0, 0, 1, 2, 3])))
            entries.append(EntryBlob(name, dice.choice([*below[-2:], "", "gone"]), tuple(skips)))
        if not check_graph(entries):
            return entries
