"""Selection of bundles by the rules of oc-mirror v2: the cases of its tests, and invalid catalogs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.load import parse_blobs
from opmkit.supply.mirror.image_set import ImageSet
from opmkit.supply.mirror.selection import SelectBundles, VersionBound, VersionBounds, select_bundles

if TYPE_CHECKING:
    from opmkit.index.fbc.blobs import Blobs

CRANE_1 = ["1.0.0", "1.0.0+1.p", "1.1.0", "1.2.0", "1.2.0+1.p", "1.2.0+2.p", "1.3.0"]
CRANE_2 = ["1.4.0", "1.5.0", "1.5.0+1.p"]
CRANE_LITE = ["2.0.0-lite", "2.1.0-lite"]
DOCK = ["0.1.0", "0.2.0", "0.3.0", "0.3.0+1.p", "0.4.0", "0.5.0"]
JETTY = ["1.0.0", "1.1.0-5", "1.2.0"]
HEADS = ["crane 1.3.0", "crane 1.5.0+1.p", "crane 2.1.0-lite", "dock 0.5.0", "jetty 1.2.0"]


def chain(versions: list[str], package: str) -> list[dict[str, Any]]:
    """Return entries that each replace the one before."""
    return [
        {"name": f"{package}.v{version}", **({"replaces": f"{package}.v{versions[at - 1]}"} if at else {})}
        for at, version in enumerate(versions)
    ]


def package(name: str, default: str, channels: dict[str, list[dict[str, Any]]], versions: list[str]) -> Blobs:
    """Return the blobs of a package; the bundle of version 1.0.0 is ``NAME.v1.0.0``."""
    documents: list[dict[str, Any]] = [{"schema": "olm.package", "name": name, "defaultChannel": default}]
    documents += [
        {"schema": "olm.channel", "package": name, "name": channel, "entries": entries}
        for channel, entries in channels.items()
    ]
    documents += [
        {
            "schema": "olm.bundle",
            "package": name,
            "name": f"{name}.v{version}",
            "image": f"quay.io/example/{name}@sha256:{'ab' * 32}",
            "properties": [{"type": "olm.package", "value": {"packageName": name, "version": version}}],
        }
        for version in versions
    ]
    return parse_blobs("\n".join(map(json.dumps, documents)).encode(), "catalog.json")


def port() -> Blobs:
    """Return a catalog: ``crane`` with three channels, and ``dock`` and ``jetty`` with one."""
    channels = {
        "crane-1": chain(CRANE_1, "crane"),
        "crane-2": chain(CRANE_2, "crane"),
        "crane-lite": chain(CRANE_LITE, "crane"),
    }
    return (
        package("crane", "crane-2", channels, [*CRANE_1, *CRANE_2, *CRANE_LITE])
        + package("dock", "fast", {"fast": chain(DOCK, "dock")}, DOCK)
        + package("jetty", "stable", {"stable": chain(JETTY, "jetty")}, JETTY)
    )


def rules(operator: str) -> SelectBundles | None:
    """Return the selection of an operator in YAML."""
    content: dict[str, Any] = {
        "apiVersion": "mirror.openshift.io/v2alpha1",
        "kind": "ImageSetConfiguration",
        "mirror": {"operators": [{"catalog": "quay.io/example/port:1", **(yaml.safe_load(operator) or {})}]},
    }
    return ImageSet.parse(json.dumps(content).encode(), "set.yaml").catalogs[0].selection


def selected(operator: str, blobs: Blobs) -> list[str]:
    """Return the selected bundles as ``PACKAGE VERSION``."""
    wanted = rules(operator)
    if wanted is None:
        return sorted(bundle.name.replace(".v", " ", 1) for bundle in blobs.bundles)
    found = select_bundles(blobs, wanted.packages, full=wanted.full)
    return sorted(name.replace(".v", " ", 1) for names in found.bundles.values() for name in names)


def of(name: str, versions: list[str]) -> list[str]:
    return [f"{name} {version}" for version in versions]


EVERYTHING = [*of("crane", [*CRANE_1, *CRANE_2, *CRANE_LITE]), *of("dock", DOCK), *of("jetty", JETTY)]
ALL = "packages: [{name: crane}, {name: dock}, {name: jetty}]"
OTHERS = ["crane 1.3.0", "crane 1.5.0+1.p", "crane 2.1.0-lite", "jetty 1.2.0"]
ONE = "packages: [{{name: crane, defaultChannel: crane-1, channels: [{{name: crane-1{}}}]}}]"


@pytest.mark.parametrize(
    ("operator", "bundles"),
    [
        pytest.param("", HEADS, id="heads-of-all-channels"),
        pytest.param("full: true", EVERYTHING, id="full-catalog"),
        pytest.param(ALL, HEADS, id="heads-of-packages"),
        pytest.param(f"{ALL}\nfull: true", EVERYTHING, id="full-packages"),
        pytest.param(
            "packages: [{name: crane}, {name: dock, minVersion: 0.3.0}, {name: jetty}]",
            [*OTHERS, *of("dock", DOCK[2:])],
            id="lowest-version",
        ),
        pytest.param(
            "packages: [{name: crane}, {name: dock, maxVersion: 0.3.0}, {name: jetty}]",
            [*OTHERS, *of("dock", DOCK[:4])],
            id="highest-version",
        ),
        pytest.param(
            "packages: [{name: crane}, {name: dock, minVersion: 0.2.0, maxVersion: 0.3.0}, {name: jetty}]",
            [*OTHERS, *of("dock", DOCK[1:4])],
            id="lowest-and-highest-version",
        ),
        pytest.param(ONE.format(", minVersion: 1.2.0"), of("crane", CRANE_1[3:]), id="lowest-version-of-channel"),
        pytest.param(
            "packages: [{name: crane, defaultChannel: crane-1, channels: [{name: crane-1}]},"
            " {name: dock, defaultChannel: fast, channels: [{name: fast}]}]",
            ["crane 1.3.0", "dock 0.5.0"],
            id="heads-of-channels",
        ),
        pytest.param(
            "packages: [{name: crane, channels: [{name: crane-2}, {name: crane-lite}]}]",
            ["crane 1.5.0+1.p", "crane 2.1.0-lite"],
            id="heads-of-several-channels",
        ),
        pytest.param(ONE.format(", maxVersion: 1.1.0"), of("crane", CRANE_1[:3]), id="highest-version-of-channel"),
        pytest.param(
            ONE.format(", minVersion: 1.1.0, maxVersion: 1.2.0"), of("crane", CRANE_1[2:6]), id="range-of-channel"
        ),
        pytest.param(f"full: true\n{ONE.format('')}", of("crane", CRANE_1), id="full-channel"),
        pytest.param("packages: [{name: barge, minVersion: 0.8.0}]", [], id="unknown-package"),
        pytest.param(
            "packages: [{name: dock, minVersion: 0.4.0, maxVersion: 0.4.0}]", ["dock 0.4.0"], id="one-version"
        ),
        pytest.param("packages: [{name: dock, maxVersion: '0.2'}]", of("dock", DOCK[:2]), id="without-patch-version"),
        pytest.param("packages: [{name: jetty, minVersion: 1.0.1}]", ["jetty 1.2.0"], id="no-prereleases"),
        pytest.param(
            "packages: [{name: jetty, minVersion: 1.0.1-0}]", ["jetty 1.1.0-5", "jetty 1.2.0"], id="prereleases"
        ),
        pytest.param(
            "packages: [{name: dock, bundles: [{name: dock.v0.4.0}, {name: dock.v0.5.0}]}]",
            ["dock 0.4.0", "dock 0.5.0"],
            id="bundles",
        ),
        pytest.param(
            "packages: [{name: dock, selectedBundles: [{name: dock.v0.2.0}]}]", ["dock 0.2.0"], id="one-bundle"
        ),
    ],
)
def test_bundles_are_selected(operator: str, bundles: list[str]) -> None:
    assert selected(operator, port()) == sorted(bundles)


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (
            "packages: [{name: crane, minVersion: 1.0.0, channels: [{name: crane-1, minVersion: 1.2.0}]}]",
            "has versions, and so have its channels",
        ),
        ("full: true\npackages: [{name: crane, minVersion: 1.0.0}]", "full: true"),
        ("packages: [{name: crane, minVersion: 7.7.7, maxVersion: 7.7.7}]", 'package "crane": version 7.7.7 not found'),
        ("packages: [{name: crane, channels: [{name: crane-1}]}]", 'default channel "crane-2" is not selected'),
        ("packages: [{name: crane, defaultChannel: crane-9}]", 'default channel "crane-9" is not selected'),
        ("packages: [{name: dock, minVersion: 1.0.0}]", 'default channel "fast" has no version in the range >=1.0.0'),
        ("packages: [{name: crane, bundles: [{name: crane.v1.0.0}]}]", "selects none of its bundles"),
        ("packages: [{name: dock, bundles: [{name: dock.v0.1.0}, {name: dock.v0.3.0}]}]", "has multiple heads"),
        ("packages: [{name: dock, bundles: [{name: dock.v0.1.0}], channels: [{name: fast}]}]", "selects bundles, and"),
    ],
)
def test_contradictions_are_reported(operator: str, message: str) -> None:
    with pytest.raises(CatalogError) as caught:
        selected(operator, port())
    assert message in caught.value.message
    assert str(caught.value.hint)


def test_skipped_versions_within_the_range_are_selected_with_what_skips_them() -> None:
    entries: list[dict[str, Any]] = [
        {"name": "dock.v1.0.0"},
        {"name": "dock.v1.1.0", "replaces": "dock.v1.0.0"},
        {"name": "dock.v1.2.0"},
        {"name": "dock.v2.0.0", "replaces": "dock.v1.1.0", "skips": ["dock.v1.2.0", "dock.v3.0.0"]},
        {"name": "dock.v3.0.0"},
    ]
    versions = ["1.0.0", "1.1.0", "1.2.0", "2.0.0", "3.0.0"]
    blobs = package("dock", "fast", {"fast": entries}, versions)
    wanted = rules("packages: [{name: dock, minVersion: 1.1.0, maxVersion: 1.9.0}]")
    assert wanted
    found = select_bundles(blobs, wanted.packages)
    assert found.entries["dock", "fast"] == {"dock.v1.1.0", "dock.v1.2.0", "dock.v2.0.0"}
    (warning,) = found.warnings
    assert warning.endswith("because updates lead through them: dock.v2.0.0")


def test_bundle_below_a_channel_is_selected_but_left_out_of_the_catalog() -> None:
    channels = {"old": chain(["1.0.0", "1.1.0"], "dock"), "new": [{"name": "dock.v2.0.0", "replaces": "dock.v1.1.0"}]}
    blobs = package("dock", "new", channels, ["1.0.0", "1.1.0", "2.0.0"])
    wanted = rules("packages: [{name: dock, channels: [{name: new, minVersion: 1.1.0}]}]")
    assert wanted
    assert select_bundles(blobs, wanted.packages).bundles == {"dock": {"dock.v1.1.0", "dock.v2.0.0"}}
    result = wanted.apply_to_catalog(blobs)
    assert [bundle.name for bundle in result.blobs.bundles] == ["dock.v2.0.0"]
    assert 'bundle "dock.v1.1.0" is left out' in result.warnings[0]


def test_catalog_is_valid_without_empty_channels_and_their_deprecations() -> None:
    notes = [
        {"reference": {"schema": "olm.channel", "name": "crane-lite"}, "message": "old"},
        {"reference": {"schema": "olm.bundle", "name": "crane.v1.4.0"}, "message": "old"},
        {"reference": {"schema": "olm.package"}, "message": "old"},
    ]
    others: list[dict[str, Any]] = [
        {"schema": "olm.deprecations", "package": "crane", "entries": notes},
        {"schema": "example.com.note", "name": "global"},
        {"schema": "example.com.note", "name": "of-dock", "package": "dock"},
    ]
    blobs = port() + parse_blobs("\n".join(map(json.dumps, others)).encode(), "others.json")
    wanted = rules("packages: [{name: crane, minVersion: 1.4.0, maxVersion: 1.9.0, defaultChannel: crane-2}]")
    assert wanted
    result = wanted.apply_to_catalog(blobs).blobs
    assert [channel.name for channel in result.channels] == ["crane-2"]
    assert [bundle.name for bundle in result.bundles] == of("crane", CRANE_2) or len(result.bundles) == 3
    ((first, second),) = [blob.entries for blob in result.deprecations]
    assert (first.name, second.schema) == ("crane.v1.4.0", "olm.package")
    assert [blob.name for blob in result.others] == ["global"]


def test_default_channel_is_set_and_must_remain() -> None:
    wanted = rules("packages: [{name: crane, defaultChannel: crane-lite, channels: [{name: crane-lite}]}]")
    assert wanted
    (blob,) = wanted.apply_to_catalog(port()).blobs.packages
    assert (blob.name, blob.default_channel) == ("crane", "crane-lite")
    lost = rules("packages: [{name: crane, minVersion: 1.3.0, maxVersion: 1.3.0}]")
    assert lost
    with pytest.raises(CatalogError, match=r"set\.yaml:1: .*default channel \"crane-2\"") as caught:
        lost.apply_to_catalog(port())
    assert str(caught.value.hint) == "set defaultChannel to one of the remaining channels: crane-1"


def test_unknown_names_are_warnings_unless_nothing_remains() -> None:
    wanted = rules("packages: [{name: dcok}, {name: dock, channels: [{name: fast}, {name: fats}]}]")
    assert wanted
    assert wanted.apply_to_catalog(port()).warnings == (
        'set.yaml:1: package "dcok" not found; ignored (did you mean dock?)',
        'set.yaml:1: package "dock": channel "fats" not found; ignored (did you mean fast?)',
    )
    nothing = rules("packages: [{name: barge}]")
    assert nothing
    with pytest.raises(CatalogError, match="the selection has no bundles"):
        nothing.apply_to_catalog(port())


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ([], "it has no entries"),
        ([{"name": "a"}, {"name": "b"}], "it has multiple heads: a, b"),
        ([{"name": "a", "replaces": "b"}, {"name": "b", "replaces": "a"}], "it has no head"),
        ([{"name": "a", "replaces": "a"}, {"name": "b"}], "replaces or skips itself"),
        ([{"name": "a", "skips": ["a"]}, {"name": "b"}], "replaces or skips itself"),
        ([{"name": "a"}, {"name": "a"}], "several entries named a"),
        (
            [{"name": "c"}, {"name": "a", "replaces": "b"}, {"name": "b", "skips": ["a"]}],
            "a cycle of updates has a, b",
        ),
    ],
)
def test_invalid_graphs_are_reported(entries: list[dict[str, Any]], problem: str) -> None:
    with pytest.raises(CatalogError, match=problem):
        select_bundles(package("dock", "fast", {"fast": entries}, []))


def test_invalid_versions_and_catalogs_are_reported() -> None:
    with pytest.raises(CatalogError, match=r'bundle "dock\.v1": invalid version'):
        select_bundles(package("dock", "fast", {"fast": chain(["1"], "dock")}, ["1"]))
    blobs = package("dock", "fast", {"fast": chain(["1.0.0"], "dock")}, [])
    with pytest.raises(InvalidCatalog):
        SelectBundles().apply_to_catalog(blobs)


@pytest.mark.parametrize("text", ["", "x", "1.2.3.4", "1.2.3-01", "1.2.3-a..b", "1 2", "1.2.3\n", "9" * 30, "1." * 200])
def test_invalid_bounds(text: str) -> None:
    with pytest.raises(ValueError, match=r"^(is|has) "):
        VersionBound.parse(text)


def test_bounds_are_written_as_a_range() -> None:
    assert str(VersionBounds(VersionBound.parse("v1"), VersionBound.parse("1.2.3-rc.1"))) == ">=v1 <=1.2.3-rc.1"
    assert not VersionBounds()
