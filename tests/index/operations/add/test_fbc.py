"""Adding bundles to a catalog, by flags, by what they say themselves, or by their versions."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.index.errors import (
    BundleExists,
    BundleImageExists,
    BundleVersionExists,
    CatalogError,
    GraphError,
    InvalidCatalog,
    MultipleErrors,
)
from opmkit.index.fbc.blobs import BUNDLE_OBJECT, CSV_METADATA, Blobs, Icon, PackageBlob
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.migrate import MigrationLevel
from opmkit.index.modes import UpdateMode
from opmkit.index.operations.add.fbc import add_bundles
from opmkit.index.operations.add.new_bundle import NewBundle
from opmkit.index.operations.add.options import AddOptions, Placement
from tests.index.builders import bundle
from tests.kit.edits import catalog, shown

if TYPE_CHECKING:
    from opmkit.bundle.json_value import JsonValue
    from opmkit.index.operations.change import EditResult

CHAIN = ["demo.v1.0.0", "demo.v1.1.0 > demo.v1.0.0 < >=1.0.0 <1.1.0", "demo.v1.2.0 > demo.v1.1.0"]
CHAIN_NAMES = ("demo.v1.0.0", "demo.v1.1.0", "demo.v1.2.0")
CATALOG = catalog(
    {"demo": {"alpha": CHAIN, "beta": CHAIN[:2]}, "other": {"alpha": ["other.v1.0.0"]}},
    {"schema": "example.com.note", "package": "demo", "name": "note"},
)
SEMVER, SKIP_PATCH = AddOptions(UpdateMode.SEMVER), AddOptions(UpdateMode.SEMVER_SKIPPATCH)
OVERWRITE, PERMISSIVE = AddOptions(overwrite_latest=True), AddOptions(permissive=True)


def arrival(version: str, *, channels: str = "alpha", replaces: str = "", skips: str = "", **more: str) -> NewBundle:
    """A bundle of demo; names of bundles are given by their versions."""
    names = tuple(f"demo.v{skip}" for skip in skips.split(",") if skip)
    above = f"demo.v{replaces}" if replaces else ""
    made = NewBundle.from_bundle(
        bundle(version, channels=channels, replaces=above, skips=names, image=more.pop("image", ""))
    )
    return replace(made, **more)  # type: ignore[arg-type]


def added(*arrivals: NewBundle, to: Blobs = CATALOG, options: AddOptions | None = None, **placement: Any) -> EditResult:
    options = options or AddOptions()
    if placement:
        options = replace(options, placement=Placement(**placement))
    edit = add_bundles(to, arrivals, options)
    if not edit.failures:
        assert not check_blobs(edit.blobs)
    return edit


class TestByWhatBundlesSay:
    def test_an_entry_in_each_channel(self) -> None:
        result = added(arrival("1.3.0", replaces="1.2.0", skips="1.1.5", skip_range="<1.3.0")).blobs
        entry = "demo.v1.3.0 > demo.v1.2.0, demo.v1.1.5 < <1.3.0"
        assert shown(result, "demo") == {"alpha": [*CHAIN, entry], "beta": CHAIN[:2]}
        assert [one.name for one in result.bundles if one.package == "demo"][-1] == "demo.v1.3.0"
        assert result.channels[0].location == CATALOG.channels[0].location
        changed = [blob for blob in result if not any(blob is one for one in CATALOG)]
        assert [(blob.schema, blob.name) for blob in changed] == [
            ("olm.channel", "alpha"),
            ("olm.bundle", "demo.v1.3.0"),
        ]

    def test_the_order_of_the_command_does_not_matter(self) -> None:
        several = [arrival("1.10.0", replaces="1.9.0"), arrival("1.9.0", replaces="1.2.0")]
        assert added(*several) == added(*reversed(several))
        assert shown(added(*several).blobs, "demo")["alpha"][3:] == [
            "demo.v1.9.0 > demo.v1.2.0",
            "demo.v1.10.0 > demo.v1.9.0",
        ]

    def test_a_new_channel_begins_with_all_that_leads_to_the_bundle(self) -> None:
        stable = shown(added(arrival("1.3.0", channels="stable", replaces="1.1.0", skips="1.2.0")).blobs, "demo")
        assert stable["stable"] == ["demo.v1.2.0", *CHAIN[:2], "demo.v1.3.0 > demo.v1.1.0, demo.v1.2.0"]
        assert list(stable) == ["alpha", "beta", "stable"]

    def test_entries_come_from_the_default_channel_unless_they_have_no_edges_there(self) -> None:
        skipping = ["demo.v1.0.0", "demo.v1.1.0", "demo.v1.2.0 > , demo.v1.0.0, demo.v1.1.0"]
        blobs = catalog({"demo": {"z": skipping, "b": CHAIN[:2], "a": ["demo.v1.1.0 > demo.v0.9.0, demo.v1.0.0"]}})
        began = shown(added(arrival("1.1.1", channels="new", replaces="1.1.0"), to=blobs).blobs, "demo")["new"]
        assert began == ["demo.v1.0.0", "demo.v1.1.0 > demo.v0.9.0, demo.v1.0.0", "demo.v1.1.1 > demo.v1.1.0"]

    def test_a_channel_that_is_behind_catches_up(self) -> None:
        beta = shown(added(arrival("1.3.0", channels="beta", replaces="1.2.0")).blobs, "demo")["beta"]
        assert beta == [*CHAIN, "demo.v1.3.0 > demo.v1.2.0"]

    def test_what_is_replaced_and_not_there_is_told(self) -> None:
        edit = added(arrival("1.3.0", replaces="1.2.9", skips="1.2.0,1.1.0,1.0.0"))
        assert edit.warnings == ("bundle demo.v1.3.0 replaces demo.v1.2.9, which package demo does not have",)

    def test_the_default_channel_moves_with_the_highest_version(self) -> None:
        stated = {"replaces": "1.2.0", "default_channel": "beta"}
        assert added(arrival("1.3.0", **stated)).blobs.packages[0].default_channel == "beta"
        lower = arrival("1.1.1", channels="old", replaces="1.1.0", default_channel="old")
        assert added(lower).blobs.packages == CATALOG.packages
        with pytest.raises(GraphError, match="its bundles name gamma, which it does not have") as failure:
            added(arrival("1.3.0", replaces="1.2.0", default_channel="gamma"))
        assert "default_channel" in str(failure.value.hint)

    def test_a_bundle_without_channels_or_package_is_refused(self) -> None:
        with pytest.raises(CatalogError, match="cannot be added: no channel") as failure:
            added(replace(arrival("1.3.0"), channels=()))
        assert "channel" in str(failure.value.hint)
        nameless = arrival("1.3.0")
        with pytest.raises(CatalogError, match=r"annotation \S+\.package\.v1 is missing or empty"):
            added(replace(nameless, blob=replace(nameless.blob, package="")))


class TestByFlags:
    def test_flags_count_for_more_than_what_the_bundle_says(self) -> None:
        edges: dict[str, Any] = {"replaces": "demo.v1.2.0", "skips": ("demo.v1.1.9",), "skip_range": "<1.3.0"}
        own = arrival("1.3.0", channels="gamma", replaces="1.0.0", skips="1.1.0", skip_range=">1.0.0")
        result = added(own, channels=("alpha",), **edges).blobs
        entry = "demo.v1.3.0 > demo.v1.2.0, demo.v1.1.9 < <1.3.0"
        assert shown(result, "demo") == {"alpha": [*CHAIN, entry], "beta": CHAIN[:2]}

    def test_empty_flags_take_away(self) -> None:
        own = arrival("1.3.0", replaces="1.2.0", skips="1.1.0", skip_range=">1.0.0")
        result = added(own, channels=("new", "new"), replaces="", skips=(), skip_range="").blobs
        assert shown(result, "demo")["new"] == ["demo.v1.3.0"]

    def test_a_new_channel_begins_with_the_bundle_alone(self) -> None:
        result = added(arrival("1.3.0", replaces="1.2.0"), channels=("new", "beta"), skips=CHAIN_NAMES[:2]).blobs
        entry = "demo.v1.3.0 > demo.v1.2.0, demo.v1.0.0, demo.v1.1.0"
        assert shown(result, "demo") == {"alpha": CHAIN, "beta": [*CHAIN[:2], entry], "new": [entry]}

    def test_the_default_channel_is_moved_whatever_the_version(self) -> None:
        lower = arrival("0.9.0", default_channel="alpha")
        edit = added(lower, channels=("new",), default_channel="new")
        assert edit.blobs.packages[0].default_channel == "new"
        with pytest.raises(InvalidCatalog, match='default channel "x" not found'):
            added(lower, channels=("new",), default_channel="x")

    def test_a_default_channel_that_is_not_among_those_given_does_not_count(self) -> None:
        own = arrival("1.3.0", default_channel="gamma")
        assert added(own, channels=("new",)).blobs.packages == CATALOG.packages
        assert added(own, to=Blobs(), channels=("new",)).blobs.packages[0].default_channel == "new"

    def test_edges_are_given_for_one_bundle(self) -> None:
        with pytest.raises(CatalogError, match="unsupported for several bundles"):
            added(arrival("1.3.0"), arrival("1.4.0"), replaces="demo.v1.2.0")
        both = added(arrival("1.3.0", replaces="1.2.0"), arrival("1.4.0", replaces="1.3.0"), channels=("alpha",))
        assert len(both.blobs.channels[0].entries) == 5

    @pytest.mark.parametrize("edges", [{"replaces": "demo.v1.2.0"}, {"skips": ()}])
    def test_edges_are_not_given_where_versions_make_them(self, edges: dict[str, Any]) -> None:
        with pytest.raises(CatalogError, match="versions determine the updates"):
            added(arrival("1.3.0"), options=SEMVER, **edges)


class TestNewPackages:
    def test_a_package_is_made_of_the_head_of_its_default_channel(self) -> None:
        icons = [Icon("YQ==", "image/png"), Icon("Yg==", "image/png"), None]
        told = [
            replace(arrival(version, channels=channels, replaces=below), icon=icon, description=f"This is {version}.")
            for version, channels, below, icon in zip(
                ("1.0.0", "1.1.0", "1.2.0"), ("b,a", "b,a", "a"), ("", "1.0.0", "1.1.0"), icons, strict=True
            )
        ]
        result = added(*told, to=Blobs(), default_channel="b").blobs
        assert result.packages == (PackageBlob("demo", "b", icons[1], "This is 1.1.0."),)
        assert shown(result, "demo") == {
            "b": ["demo.v1.0.0", "demo.v1.1.0 > demo.v1.0.0"],
            "a": ["demo.v1.0.0", "demo.v1.1.0 > demo.v1.0.0", "demo.v1.2.0 > demo.v1.1.0"],
        }

    def test_the_only_channel_is_the_default_one(self) -> None:
        assert added(arrival("1.0.0"), to=Blobs()).blobs.packages[0].default_channel == "alpha"
        with pytest.raises(GraphError, match="its bundles name none; its channels are: alpha, beta"):
            added(arrival("1.0.0", channels="alpha,beta"), to=Blobs())

    def test_what_is_written_of_a_package_stays(self) -> None:
        written = replace(CATALOG.packages[0], description="written", icon=None)
        blobs = replace(CATALOG, packages=(written, *CATALOG.packages[1:]))
        fresh = replace(arrival("1.3.0", replaces="1.2.0"), icon=Icon("YQ==", ""), description="new")
        assert added(fresh, to=blobs).blobs.packages[0] is written

    def test_it_comes_at_the_end(self) -> None:
        new = NewBundle.from_bundle(bundle("1.0.0", package="another"))
        result = added(new).blobs
        assert [one.name for one in result.packages] == ["demo", "other", "another"]
        assert result.others == CATALOG.others

    def test_what_a_bundle_says_of_its_package(self) -> None:
        files = bundle("1.0.0")
        csv = files.csv.json.replace(
            b'"displayName"',
            b'"description":"Ponds.","icon":[{"base64data":"YQ==","mediatype":"image/png"}],"displayName"',
        )
        told = NewBundle.from_bundle(replace(files, csv=replace(files.csv, json=csv)))
        assert (told.description, told.icon) == ("Ponds.", Icon("YQ==", "image/png"))

    def test_bundles_come_at_a_level(self) -> None:
        kinds = [one.type for one in NewBundle.from_bundle(bundle("1.0.0"), MigrationLevel.ALL).blob.properties]
        assert (CSV_METADATA in kinds, BUNDLE_OBJECT in kinds) == (True, False)


class TestRefusals:
    def test_an_image_that_is_there(self) -> None:
        with pytest.raises(BundleImageExists, match=r"demo:1\.2\.0 already exists") as failure:
            added(arrival("1.2.0"))
        assert failure.value.exit_code == 2

    def test_a_name_that_is_there(self) -> None:
        with pytest.raises(
            BundleVersionExists, match=r"bundle demo\.v1\.2\.0: already exists in package demo"
        ) as failure:
            added(arrival("1.2.0", image="registry.example.com/demo:again"))
        assert failure.value.exit_code == 3
        assert "overwrite_latest" in str(failure.value.hint)

    def test_an_image_that_is_there_decides_the_exit_code(self) -> None:
        again = arrival("1.1.0", image="registry.example.com/demo:again")
        with pytest.raises(MultipleErrors) as failure:
            added(again, arrival("1.2.0"))
        assert failure.value.exit_code == 2

    def test_of_two_with_one_name_the_first_stays(self) -> None:
        first, second = (arrival("1.3.0", replaces="1.2.0", image=f"quay.io/demo:{tag}") for tag in "ab")
        with pytest.raises(BundleExists, match=r"its name is used by quay\.io/demo:a of the same command"):
            added(second, first)
        assert added(first, first).blobs == added(first).blobs
        edit = added(second, first, options=PERMISSIVE)
        assert edit.blobs == added(first).blobs
        assert [type(error) for error in edit.failures] == [BundleExists]

    def test_a_bundle_of_another_package_is_no_edge(self) -> None:
        with pytest.raises(GraphError, match=r"bundle other\.v1\.0\.0 belongs to package other"):
            added(arrival("1.3.0"), replaces="other.v1.0.0")
        twins = CATALOG + catalog({"twin": {"alpha": ["demo.v1.2.0"]}})
        assert added(arrival("1.3.0", replaces="1.2.0"), to=twins)

    def test_two_heads_are_named_with_a_remedy(self) -> None:
        with pytest.raises(InvalidCatalog) as failure:
            added(arrival("1.3.0"))
        assert "package demo: invalid with demo.v1.3.0:" in failure.value.message
        assert 'channel "alpha": multiple channel heads found in graph: demo.v1.2.0, demo.v1.3.0' in str(failure.value)
        assert "channel alpha would be: demo.v1.2.0 -> demo.v1.1.0 -> demo.v1.0.0; demo.v1.3.0" in str(failure.value)
        assert str(failure.value.hint) == (
            "let demo.v1.3.0 update from existing bundles: replaces=demo.v1.2.0, or "
            "skips=demo.v1.0.0,demo.v1.1.0,demo.v1.2.0"
        )

    def test_a_head_that_something_else_is_replaced_beside(self) -> None:
        with pytest.raises(InvalidCatalog) as failure:
            added(arrival("1.3.0", replaces="1.1.0", skips="1.1.5"))
        assert str(failure.value.hint) == (
            "let demo.v1.3.0 update from existing bundles: replaces=demo.v1.2.0, or skips=demo.v1.1.5,demo.v1.2.0"
        )

    def test_a_remedy_is_one_for_all_channels(self) -> None:
        blobs = catalog(
            {"demo": {"alpha": CHAIN, "beta": ["demo.v1.2.0"], "gamma": ["demo.v1.1.0", "demo.v1.1.5 > demo.v1.1.0"]}}
        )
        with pytest.raises(InvalidCatalog) as failure:
            added(arrival("1.3.0", channels="alpha,beta", replaces="1.1.0"), to=blobs)
        assert "update from existing bundles: replaces=demo.v1.2.0, or skips=demo.v1.2.0" in str(failure.value.hint)
        with pytest.raises(InvalidCatalog) as failure:
            added(arrival("1.3.0", channels="alpha,gamma"), to=blobs)
        assert str(failure.value.hint) == (
            "let demo.v1.3.0 update from existing bundles: replaces=demo.v1.2.0 skips=demo.v1.1.5, or "
            "skips=demo.v1.0.0,demo.v1.1.0,demo.v1.1.5,demo.v1.2.0"
        )

    def test_what_is_left_behind_is_told_with_what_would_lead_to_it(self) -> None:
        with pytest.raises(InvalidCatalog, match=r"stranded bundles: demo\.v1\.0\.0, demo\.v1\.1\.0") as failure:
            added(arrival("1.3.0"), skips=("demo.v1.2.0",))
        assert str(failure.value.hint).endswith("bundles: skips=demo.v1.2.0,demo.v1.0.0,demo.v1.1.0")

    def test_a_remedy_that_is_too_long_is_not_told(self) -> None:
        heads = catalog({"demo": {"alpha": [f"demo.v1.{minor}.0" for minor in range(12)]}})
        with pytest.raises(InvalidCatalog) as failure:
            added(arrival("2.0.0"), to=heads)
        assert "skips=" not in str(failure.value.hint)
        long = catalog(
            {"demo": {"alpha": ["demo.v1.0.0", *(f"demo.v1.{n}.0 > demo.v1.{n - 1}.0" for n in range(1, 12))]}}
        )
        with pytest.raises(InvalidCatalog) as failure:
            added(arrival("2.0.0"), to=long)
        shown = " -> ".join(f"demo.v1.{minor}.0" for minor in range(11, 5, -1))
        assert f"{shown} -> ... -> demo.v1.0.0" in str(failure.value)

    def test_a_bundle_below_the_head_needs_one_that_leads_to_it(self) -> None:
        with pytest.raises(InvalidCatalog) as failure:
            added(arrival("1.1.1", replaces="1.1.0"))
        assert str(failure.value.hint).startswith("demo.v1.1.1 is below demo.v1.2.0: replace or skip it in an entry of")

    def test_a_circle_is_shown(self) -> None:
        blobs = catalog({"demo": {"alpha": ["demo.v1.0.0 > demo.v1.1.0"]}})
        with pytest.raises(InvalidCatalog, match=r"no channel head found") as failure:
            added(arrival("1.1.0", replaces="1.0.0"), to=blobs)
        assert "channel alpha would be: demo.v1.1.0 -> demo.v1.0.0" in str(failure.value)
        assert str(failure.value.hint)

    def test_one_version_twice(self) -> None:
        same = NewBundle.from_bundle(
            bundle("1.2.0", name="demo.again", image="quay.io/demo:again", replaces="demo.v1.2.0")
        )
        with pytest.raises(InvalidCatalog, match=r"1\.2\.0 is the version of demo\.again, demo\.v1\.2\.0"):
            added(same)

    def test_what_is_wrong_elsewhere_is_told_alone(self) -> None:
        broken = catalog({"broken": {"alpha": [f"broken.v1.{minor}.0" for minor in range(3)]}})
        edit = add_bundles(CATALOG + broken, [arrival("1.3.0", replaces="1.2.0")])
        assert [text for text in edit.warnings if 'package "broken"' in text]
        many = catalog({f"p{number}": {"alpha": ["a.v1.0.0", "a.v1.1.0"]} for number in range(30)})
        warnings = add_bundles(many, [arrival("1.0.0")]).warnings
        assert (len(warnings), warnings[-1]) == (21, "and 10 more findings: validate the catalog to list them")

    def test_a_package_that_was_broken_can_be_mended(self) -> None:
        heads = catalog({"demo": {"alpha": ["demo.v1.0.0", "demo.v1.1.0"]}})
        assert added(arrival("1.2.0", replaces="1.1.0", skips="1.0.0"), to=heads)

    def test_all_packages_are_told(self) -> None:
        with pytest.raises(MultipleErrors) as failure:
            added(arrival("1.3.0"), NewBundle.from_bundle(bundle("2.0.0", package="other")))
        assert len(failure.value.errors) == 2

    def test_permissive_adds_what_it_can(self) -> None:
        good, bad, late = arrival("1.3.0", replaces="1.2.0"), arrival("1.4.0"), arrival("1.5.0", replaces="1.3.0")
        edit = added(bad, late, good, arrival("1.1.0"), options=PERMISSIVE)
        assert edit.blobs == added(good, late).blobs
        assert [type(error) for error in edit.failures] == [BundleImageExists, InvalidCatalog]

    def test_permissive_tries_again_what_a_later_one_makes_fit(self) -> None:
        skipped, head = arrival("1.3.0"), arrival("1.4.0", replaces="1.2.0", skips="1.3.0")
        edit = added(skipped, head, arrival("1.5.0"), options=PERMISSIVE)
        assert {one.name for one in edit.blobs.bundles} >= {"demo.v1.3.0", "demo.v1.4.0"}
        assert len(edit.failures) == 1


class TestOverwriting:
    again = arrival("1.2.0", replaces="1.1.0", image="registry.example.com/demo:again")

    def test_a_head_is_overwritten_where_it_is(self) -> None:
        changed = replace(self.again, skip_range="<1.2.0")
        result = added(changed, options=OVERWRITE).blobs
        assert shown(result, "demo")["alpha"] == [*CHAIN[:2], "demo.v1.2.0 > demo.v1.1.0 < <1.2.0"]
        assert [one.image for one in result.bundles][2] == "registry.example.com/demo:again"
        assert result.bundles[2].location == CATALOG.bundles[2].location
        assert len(result.bundles) == len(CATALOG.bundles)

    def test_it_moves_to_the_channels_that_it_names_now(self) -> None:
        blobs = catalog({"demo": {"alpha": CHAIN[:2], "beta": CHAIN, "gamma": ["demo.v1.2.0"]}})
        result = added(replace(self.again, channels=("alpha",)), to=blobs, options=OVERWRITE).blobs
        assert shown(result, "demo") == {"alpha": CHAIN, "beta": CHAIN[:2]}

    def test_what_is_replaced_stays(self) -> None:
        with pytest.raises(GraphError, match=r"replaced or skipped by demo\.v1\.2\.0 in channel alpha"):
            added(arrival("1.1.0", replaces="1.0.0", image="quay.io/demo:again"), options=OVERWRITE)

    def test_the_same_image_is_there_already(self) -> None:
        with pytest.raises(BundleImageExists):
            added(arrival("1.2.0"), options=OVERWRITE)

    def test_a_channel_that_would_have_two_heads_refuses_it(self) -> None:
        blobs = catalog({"demo": {"alpha": ["demo.v1.0.0", "demo.v1.1.0", "demo.v1.2.0 > demo.v1.0.0, demo.v1.1.0"]}})
        with pytest.raises(
            InvalidCatalog, match=r"multiple channel heads found in graph: demo\.v1\.1\.0, demo\.v1\.2\.0"
        ):
            added(replace(self.again, replaces="demo.v1.0.0"), to=blobs, options=OVERWRITE)

    def test_versions_make_no_room(self) -> None:
        with pytest.raises(BundleExists) as failure:
            added(self.again, options=replace(SEMVER, overwrite_latest=True))
        assert str(failure.value.hint) == "overwrite it in the mode replaces"


class TestByVersion:
    def test_a_bundle_is_put_among_the_others(self) -> None:
        middle = arrival("1.1.5", channels="alpha,beta,new", replaces="0.0.1", skip_range="<1.1.5")
        result = added(middle, options=SEMVER).blobs
        assert shown(result, "demo") == {
            "alpha": [*CHAIN[:2], "demo.v1.2.0 > demo.v1.1.5", "demo.v1.1.5 > demo.v1.1.0 < <1.1.5"],
            "beta": [*CHAIN[:2], "demo.v1.1.5 > demo.v1.1.0 < <1.1.5"],
            "new": ["demo.v1.1.5 < <1.1.5"],
        }

    def test_other_channels_stay_whatever_they_are(self) -> None:
        graph = {"alpha": CHAIN, "odd": ["demo.v1.1.0", "demo.v1.0.0", "demo.v1.2.0 > demo.v1.0.0, demo.v1.1.0"]}
        blobs = catalog({"demo": graph})
        result = added(arrival("1.3.0"), to=blobs, options=SEMVER).blobs
        assert result.channels[1] is blobs.channels[1]
        with pytest.raises(GraphError, match="channel odd of package demo is not a single chain of updates"):
            added(arrival("1.3.0", channels="odd"), to=blobs, options=SEMVER)

    def test_what_is_replaced_outside_of_the_channel_stays_replaced(self) -> None:
        blobs = catalog({"demo": {"alpha": ["demo.v1.1.0 > demo.v1.0.0, demo.v0.9.0"]}})
        result = added(arrival("1.2.0"), to=blobs, options=SEMVER).blobs
        assert shown(result, "demo")["alpha"] == ["demo.v1.1.0 > demo.v1.0.0, demo.v0.9.0", "demo.v1.2.0 > demo.v1.1.0"]

    def test_patches_are_skipped(self) -> None:
        result = added(arrival("1.2.1"), arrival("1.2.2"), options=SKIP_PATCH).blobs
        assert shown(result, "demo")["alpha"] == [
            *CHAIN[:2],
            "demo.v1.2.0",
            "demo.v1.2.1",
            "demo.v1.2.2 > demo.v1.1.0, demo.v1.2.1, demo.v1.2.0",
        ]

    def test_one_by_one_is_as_all_at_once(self) -> None:
        several = [arrival(version, channels="alpha,beta") for version in ("1.2.1", "1.1.3", "2.0.0", "1.1.1")]
        blobs = CATALOG
        for one in several:
            blobs = added(one, to=blobs, options=SKIP_PATCH).blobs
        once = added(*several, options=SKIP_PATCH).blobs
        for at_once, by_turns in zip(once.channels, blobs.channels, strict=True):
            assert {one.name: one for one in at_once.entries} == {one.name: one for one in by_turns.entries}

    def test_the_default_channel_is_the_one_named_last(self) -> None:
        lower = arrival("0.9.0", channels="beta", default_channel="beta")
        assert added(lower, options=SEMVER).blobs.packages[0].default_channel == "beta"
        assert added(lower, options=SEMVER, default_channel="alpha").blobs.packages == CATALOG.packages
        assert (
            added(arrival("1.0.0", channels="b,a"), to=Blobs(), options=SEMVER).blobs.packages[0].default_channel == "a"
        )


class TestSubstitutes:
    options = AddOptions(enable_alpha=True)

    def test_they_are_an_alpha_feature(self) -> None:
        with pytest.raises(CatalogError, match=r"it substitutes demo\.v1\.1\.0") as failure:
            added(arrival("1.1.0+1", substitutes_for="demo.v1.1.0"))
        assert "enable_alpha" in str(failure.value.hint)

    def test_one_takes_the_place_of_another(self) -> None:
        fresh = arrival("1.1.0+1", replaces="1.0.0", substitutes_for="demo.v1.1.0")
        result = added(fresh, options=self.options).blobs
        assert shown(result, "demo") == {
            "alpha": [
                *CHAIN[:2],
                "demo.v1.2.0 > demo.v1.1.0+1",
                "demo.v1.1.0+1 > demo.v1.0.0, demo.v1.1.0",
            ],
            "beta": CHAIN[:2],
        }

    def test_it_enters_channels_where_others_are_updated_to_it_now(self) -> None:
        fresh = arrival("1.0.0+1", channels="beta", substitutes_for="demo.v1.0.0")
        channels = shown(added(fresh, options=self.options).blobs, "demo")
        assert "demo.v1.0.0+1 > , demo.v1.0.0" in channels["alpha"]
        assert "demo.v1.1.0 > demo.v1.0.0+1 < >=1.0.0 <1.1.0" in channels["alpha"]

    def test_substitutes_of_one_make_a_chain_by_version(self) -> None:
        def fresh(build: int) -> NewBundle:
            made = arrival(f"1.2.0+{build}", replaces="1.1.0", substitutes_for="demo.v1.2.0")
            said: JsonValue = {"annotations": {"olm.substitutesFor": "demo.v1.2.0"}}
            metadata = replace(made.blob.properties[-1], type=CSV_METADATA, value=said)
            return replace(made, blob=replace(made.blob, properties=(*made.blob.properties[:-1], metadata)))

        entries = []
        for builds in ((1, 2, 3), (3, 1, 2)):
            blobs = CATALOG
            for build in builds:
                blobs = added(fresh(build), to=blobs, options=self.options).blobs
            entries.append({one.name: one for one in blobs.channels[0].entries})
        for chain in entries:
            assert set(chain["demo.v1.2.0+3"].skips) == {"demo.v1.2.0", "demo.v1.2.0+1", "demo.v1.2.0+2"}
            assert chain["demo.v1.2.0+3"].replaces == "demo.v1.1.0"
