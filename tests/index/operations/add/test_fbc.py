"""Tests of adding bundles to file-based catalogs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import structs

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
from opmkit.index.fbc.csv_metadata import MigrationLevel
from opmkit.index.modes import UpdateMode
from opmkit.index.operations.add.fbc import add_bundles
from opmkit.index.operations.add.fbc_checks import NewBundle
from opmkit.index.operations.add.options import AddOptions, Placement
from tests.index.builders import bundle
from tests.kit.edits import catalog, shown

if TYPE_CHECKING:
    from opmkit.documents.json_value import JsonValue
    from opmkit.index.change import EditResult

CHAIN = ["demo.v1.0.0", "demo.v1.1.0 > demo.v1.0.0 < >=1.0.0 <1.1.0", "demo.v1.2.0 > demo.v1.1.0"]
CHAIN_NAMES = ("demo.v1.0.0", "demo.v1.1.0", "demo.v1.2.0")
CATALOG = catalog(
    {"demo": {"alpha": CHAIN, "beta": CHAIN[:2]}, "other": {"alpha": ["other.v1.0.0"]}},
    {"schema": "example.com.note", "package": "demo", "name": "note"},
)
SEMVER, SKIP_PATCH = AddOptions(UpdateMode.SEMVER), AddOptions(UpdateMode.SEMVER_SKIPPATCH)
OVERWRITE, PERMISSIVE = AddOptions(overwrite_latest=True), AddOptions(permissive=True)


def new_bundle(
    version: str, *, channels: str = "alpha", replaces: str = "", skips: str = "", **fields: str
) -> NewBundle:
    """Return a bundle of the package demo; replaces and skips are versions."""
    names = tuple(f"demo.v{skip}" for skip in skips.split(",") if skip)
    replaced = f"demo.v{replaces}" if replaces else ""
    parsed = bundle(version, channels=channels, replaces=replaced, skips=names, image=fields.pop("image", ""))
    return structs.replace(NewBundle.from_bundle(parsed), **fields)


def add(*bundles: NewBundle, to: Blobs = CATALOG, options: AddOptions | None = None, **placement: Any) -> EditResult:
    options = options or AddOptions()
    if placement:
        options = replace(options, placement=Placement(**placement))
    edit = add_bundles(to, bundles, options)
    if not edit.failures:
        assert not check_blobs(edit.blobs)
    return edit


class TestDeclaredEdges:
    def test_adds_an_entry_in_each_channel(self) -> None:
        result = add(new_bundle("1.3.0", replaces="1.2.0", skips="1.1.5", skip_range="<1.3.0")).blobs
        entry = "demo.v1.3.0 > demo.v1.2.0, demo.v1.1.5 < <1.3.0"
        assert shown(result, "demo") == {"alpha": [*CHAIN, entry], "beta": CHAIN[:2]}
        assert [bundle.name for bundle in result.bundles if bundle.package == "demo"][-1] == "demo.v1.3.0"
        assert result.channels[0].location == CATALOG.channels[0].location
        changed = [blob for blob in result if not any(blob is old for old in CATALOG)]
        assert [(blob.schema, blob.name) for blob in changed] == [
            ("olm.channel", "alpha"),
            ("olm.bundle", "demo.v1.3.0"),
        ]

    def test_order_of_arguments_does_not_matter(self) -> None:
        several = [new_bundle("1.10.0", replaces="1.9.0"), new_bundle("1.9.0", replaces="1.2.0")]
        assert add(*several) == add(*reversed(several))
        assert shown(add(*several).blobs, "demo")["alpha"][3:] == [
            "demo.v1.9.0 > demo.v1.2.0",
            "demo.v1.10.0 > demo.v1.9.0",
        ]

    def test_new_channel_contains_the_bundles_below(self) -> None:
        stable = shown(add(new_bundle("1.3.0", channels="stable", replaces="1.1.0", skips="1.2.0")).blobs, "demo")
        assert stable["stable"] == ["demo.v1.2.0", *CHAIN[:2], "demo.v1.3.0 > demo.v1.1.0, demo.v1.2.0"]
        assert list(stable) == ["alpha", "beta", "stable"]

    def test_copied_entries_prefer_the_default_channel_and_edges(self) -> None:
        skipping = ["demo.v1.0.0", "demo.v1.1.0", "demo.v1.2.0 > , demo.v1.0.0, demo.v1.1.0"]
        blobs = catalog({"demo": {"z": skipping, "b": CHAIN[:2], "a": ["demo.v1.1.0 > demo.v0.9.0, demo.v1.0.0"]}})
        created = shown(add(new_bundle("1.1.1", channels="new", replaces="1.1.0"), to=blobs).blobs, "demo")["new"]
        assert created == ["demo.v1.0.0", "demo.v1.1.0 > demo.v0.9.0, demo.v1.0.0", "demo.v1.1.1 > demo.v1.1.0"]

    def test_copied_entries_are_from_the_default_channel_or_the_first_by_name(self) -> None:
        def chain(skipped: str) -> list[str]:
            return ["demo.v1.0.0", f"demo.v1.1.0 > demo.v1.0.0, {skipped}"]

        other = "demo.v1.2.0 > demo.v1.1.0"
        channels = {"m": chain("m"), "a": [*chain("a"), other], "z": [*chain("z"), f"{other}, z"]}
        blobs = catalog({"demo": channels})
        created = shown(add(new_bundle("1.3.0", channels="new", replaces="1.2.0"), to=blobs).blobs, "demo")["new"]
        assert created == [*chain("m"), other, "demo.v1.3.0 > demo.v1.2.0"]

    def test_missing_bundles_below_are_copied(self) -> None:
        beta = shown(add(new_bundle("1.3.0", channels="beta", replaces="1.2.0")).blobs, "demo")["beta"]
        assert beta == [*CHAIN, "demo.v1.3.0 > demo.v1.2.0"]

    def test_warns_about_missing_replaced_bundle(self) -> None:
        edit = add(new_bundle("1.3.0", replaces="1.2.9", skips="1.2.0,1.1.0,1.0.0"))
        assert edit.warnings == ("bundle demo.v1.3.0 replaces demo.v1.2.9, which package demo does not have",)

    def test_highest_version_changes_the_default_channel(self) -> None:
        fields = {"replaces": "1.2.0", "default_channel": "beta"}
        assert add(new_bundle("1.3.0", **fields)).blobs.packages[0].default_channel == "beta"
        lower = new_bundle("1.1.1", channels="old", replaces="1.1.0", default_channel="old")
        assert add(lower).blobs.packages == CATALOG.packages
        with pytest.raises(GraphError, match="its bundles name gamma, which it does not have") as failure:
            add(new_bundle("1.3.0", replaces="1.2.0", default_channel="gamma"))
        assert "default_channel" in str(failure.value.hint)

    def test_rejects_bundle_without_channels_or_package(self) -> None:
        with pytest.raises(CatalogError, match="cannot be added: no channel") as failure:
            add(structs.replace(new_bundle("1.3.0"), channels=()))
        assert "channel" in str(failure.value.hint)
        nameless = new_bundle("1.3.0")
        with pytest.raises(CatalogError, match=r"annotation \S+\.package\.v1 is missing or empty"):
            add(structs.replace(nameless, blob=replace(nameless.blob, package="")))


class TestPlacement:
    def test_placement_overrides_the_bundle(self) -> None:
        edges: dict[str, Any] = {"replaces": "demo.v1.2.0", "skips": ("demo.v1.1.9",), "skip_range": "<1.3.0"}
        bundle_to_place = new_bundle("1.3.0", channels="gamma", replaces="1.0.0", skips="1.1.0", skip_range=">1.0.0")
        result = add(bundle_to_place, channels=("alpha",), **edges).blobs
        entry = "demo.v1.3.0 > demo.v1.2.0, demo.v1.1.9 < <1.3.0"
        assert shown(result, "demo") == {"alpha": [*CHAIN, entry], "beta": CHAIN[:2]}

    def test_empty_values_override(self) -> None:
        bundle_to_place = new_bundle("1.3.0", replaces="1.2.0", skips="1.1.0", skip_range=">1.0.0")
        result = add(bundle_to_place, channels=("new", "new"), replaces="", skips=(), skip_range="").blobs
        assert shown(result, "demo")["new"] == ["demo.v1.3.0"]

    def test_new_channel_contains_only_the_bundle(self) -> None:
        result = add(new_bundle("1.3.0", replaces="1.2.0"), channels=("new", "beta"), skips=CHAIN_NAMES[:2]).blobs
        entry = "demo.v1.3.0 > demo.v1.2.0, demo.v1.0.0, demo.v1.1.0"
        assert shown(result, "demo") == {"alpha": CHAIN, "beta": [*CHAIN[:2], entry], "new": [entry]}

    def test_default_channel_is_set_for_any_version(self) -> None:
        lower = new_bundle("0.9.0", default_channel="alpha")
        edit = add(lower, channels=("new",), default_channel="new")
        assert edit.blobs.packages[0].default_channel == "new"
        with pytest.raises(InvalidCatalog, match='default channel "x" not found'):
            add(lower, channels=("new",), default_channel="x")

    def test_ignores_default_channel_outside_of_the_placement(self) -> None:
        bundle_to_place = new_bundle("1.3.0", default_channel="gamma")
        assert add(bundle_to_place, channels=("new",)).blobs.packages == CATALOG.packages
        assert add(bundle_to_place, to=Blobs(), channels=("new",)).blobs.packages[0].default_channel == "new"

    def test_rejects_edges_for_several_bundles(self) -> None:
        with pytest.raises(CatalogError, match="unsupported for several bundles"):
            add(new_bundle("1.3.0"), new_bundle("1.4.0"), replaces="demo.v1.2.0")
        both = add(new_bundle("1.3.0", replaces="1.2.0"), new_bundle("1.4.0", replaces="1.3.0"), channels=("alpha",))
        assert len(both.blobs.channels[0].entries) == 5

    @pytest.mark.parametrize("edges", [{"replaces": "demo.v1.2.0"}, {"skips": ()}])
    def test_rejects_edges_in_semver_modes(self, edges: dict[str, Any]) -> None:
        with pytest.raises(CatalogError, match="versions determine the updates"):
            add(new_bundle("1.3.0"), options=SEMVER, **edges)


class TestNewPackages:
    def test_package_has_metadata_of_the_default_head(self) -> None:
        icons = [Icon("YQ==", "image/png"), Icon("Yg==", "image/png"), None]
        bundles = [
            structs.replace(
                new_bundle(version, channels=channels, replaces=below), icon=icon, description=f"This is {version}."
            )
            for version, channels, below, icon in zip(
                ("1.0.0", "1.1.0", "1.2.0"), ("b,a", "b,a", "a"), ("", "1.0.0", "1.1.0"), icons, strict=True
            )
        ]
        result = add(*bundles, to=Blobs(), default_channel="b").blobs
        assert result.packages == (PackageBlob("demo", "b", icons[1], "This is 1.1.0."),)
        assert shown(result, "demo") == {
            "b": ["demo.v1.0.0", "demo.v1.1.0 > demo.v1.0.0"],
            "a": ["demo.v1.0.0", "demo.v1.1.0 > demo.v1.0.0", "demo.v1.2.0 > demo.v1.1.0"],
        }

    def test_only_channel_is_the_default(self) -> None:
        assert add(new_bundle("1.0.0"), to=Blobs()).blobs.packages[0].default_channel == "alpha"
        with pytest.raises(GraphError, match="its bundles name none; its channels are: alpha, beta"):
            add(new_bundle("1.0.0", channels="alpha,beta"), to=Blobs())

    def test_existing_package_metadata_is_retained(self) -> None:
        existing = replace(CATALOG.packages[0], description="existing", icon=None)
        blobs = replace(CATALOG, packages=(existing, *CATALOG.packages[1:]))
        new = structs.replace(new_bundle("1.3.0", replaces="1.2.0"), icon=Icon("YQ==", ""), description="new")
        assert add(new, to=blobs).blobs.packages[0] is existing

    def test_package_is_appended(self) -> None:
        new = NewBundle.from_bundle(bundle("1.0.0", package="another"))
        result = add(new).blobs
        assert [package.name for package in result.packages] == ["demo", "other", "another"]
        assert result.others == CATALOG.others

    def test_reads_description_and_icon_of_the_csv(self) -> None:
        parsed = bundle("1.0.0")
        csv = parsed.csv.json.replace(
            b'"displayName"',
            b'"description":"Ponds.","icon":[{"base64data":"YQ==","mediatype":"image/png"}],"displayName"',
        )
        new = NewBundle.from_bundle(structs.replace(parsed, csv=structs.replace(parsed.csv, json=csv)))
        assert (new.description, new.icon) == ("Ponds.", Icon("YQ==", "image/png"))

    def test_converts_bundle_to_migration_level(self) -> None:
        blob = NewBundle.from_bundle(bundle("1.0.0"), MigrationLevel.ALL).blob
        kinds = [prop.type for prop in blob.properties]
        assert (CSV_METADATA in kinds, BUNDLE_OBJECT in kinds) == (True, False)


class TestErrors:
    def test_existing_image(self) -> None:
        with pytest.raises(BundleImageExists, match=r"demo:1\.2\.0 already exists") as failure:
            add(new_bundle("1.2.0"))
        assert failure.value.exit_code == 2

    def test_existing_name(self) -> None:
        with pytest.raises(
            BundleVersionExists, match=r"bundle demo\.v1\.2\.0 already exists in package demo"
        ) as failure:
            add(new_bundle("1.2.0", image="registry.example.com/demo:again"))
        assert failure.value.exit_code == 3
        assert "overwrite_latest" in str(failure.value.hint)

    def test_existing_image_decides_the_exit_code(self) -> None:
        again = new_bundle("1.1.0", image="registry.example.com/demo:again")
        with pytest.raises(MultipleErrors) as failure:
            add(again, new_bundle("1.2.0"))
        assert failure.value.exit_code == 2

    def test_first_of_two_bundles_with_the_same_name_is_added(self) -> None:
        first, second = (new_bundle("1.3.0", replaces="1.2.0", image=f"quay.io/demo:{tag}") for tag in "ab")
        with pytest.raises(BundleExists, match=r"its name is used by quay\.io/demo:a of the same command"):
            add(second, first)
        assert add(first, first).blobs == add(first).blobs
        edit = add(second, first, options=PERMISSIVE)
        assert edit.blobs == add(first).blobs
        assert [type(error) for error in edit.failures] == [BundleExists]

    def test_rejects_edges_to_another_package(self) -> None:
        with pytest.raises(GraphError, match=r"bundle other\.v1\.0\.0 belongs to package other"):
            add(new_bundle("1.3.0"), replaces="other.v1.0.0")
        twins = CATALOG + catalog({"twin": {"alpha": ["demo.v1.2.0"]}})
        assert add(new_bundle("1.3.0", replaces="1.2.0"), to=twins)

    def test_suggests_edges_for_two_heads(self) -> None:
        with pytest.raises(InvalidCatalog) as failure:
            add(new_bundle("1.3.0"))
        assert "package demo: invalid with demo.v1.3.0:" in failure.value.message
        assert 'channel "alpha": multiple channel heads found in graph: demo.v1.2.0, demo.v1.3.0' in str(failure.value)
        assert "channel alpha would be: demo.v1.2.0 -> demo.v1.1.0 -> demo.v1.0.0; demo.v1.3.0" in str(failure.value)
        assert str(failure.value.hint) == (
            "let demo.v1.3.0 update from existing bundles: replaces=demo.v1.2.0, or "
            "skips=demo.v1.0.0,demo.v1.1.0,demo.v1.2.0"
        )

    def test_suggestion_retains_skips(self) -> None:
        with pytest.raises(InvalidCatalog) as failure:
            add(new_bundle("1.3.0", replaces="1.1.0", skips="1.1.5"))
        assert str(failure.value.hint) == (
            "let demo.v1.3.0 update from existing bundles: replaces=demo.v1.2.0, or skips=demo.v1.1.5,demo.v1.2.0"
        )

    def test_suggestion_is_valid_for_all_channels(self) -> None:
        blobs = catalog(
            {"demo": {"alpha": CHAIN, "beta": ["demo.v1.2.0"], "gamma": ["demo.v1.1.0", "demo.v1.1.5 > demo.v1.1.0"]}}
        )
        with pytest.raises(InvalidCatalog) as failure:
            add(new_bundle("1.3.0", channels="alpha,beta", replaces="1.1.0"), to=blobs)
        assert "update from existing bundles: replaces=demo.v1.2.0, or skips=demo.v1.2.0" in str(failure.value.hint)
        with pytest.raises(InvalidCatalog) as failure:
            add(new_bundle("1.3.0", channels="alpha,gamma"), to=blobs)
        assert str(failure.value.hint) == (
            "let demo.v1.3.0 update from existing bundles: replaces=demo.v1.2.0 skips=demo.v1.1.5, or "
            "skips=demo.v1.0.0,demo.v1.1.0,demo.v1.1.5,demo.v1.2.0"
        )

    def test_suggests_skips_for_stranded_bundles(self) -> None:
        with pytest.raises(InvalidCatalog, match=r"stranded bundles: demo\.v1\.0\.0, demo\.v1\.1\.0") as failure:
            add(new_bundle("1.3.0"), skips=("demo.v1.2.0",))
        assert str(failure.value.hint).endswith("bundles: skips=demo.v1.2.0,demo.v1.0.0,demo.v1.1.0")

    def test_omits_long_suggestions_and_shortens_chains(self) -> None:
        heads = catalog({"demo": {"alpha": [f"demo.v1.{minor}.0" for minor in range(12)]}})
        with pytest.raises(InvalidCatalog) as failure:
            add(new_bundle("2.0.0"), to=heads)
        assert "skips=" not in str(failure.value.hint)
        long = catalog(
            {"demo": {"alpha": ["demo.v1.0.0", *(f"demo.v1.{n}.0 > demo.v1.{n - 1}.0" for n in range(1, 12))]}}
        )
        with pytest.raises(InvalidCatalog) as failure:
            add(new_bundle("2.0.0"), to=long)
        shown = " -> ".join(f"demo.v1.{minor}.0" for minor in range(11, 5, -1))
        assert f"{shown} -> ... -> demo.v1.0.0" in str(failure.value)

    def test_hint_for_a_bundle_below_the_head(self) -> None:
        with pytest.raises(InvalidCatalog) as failure:
            add(new_bundle("1.1.1", replaces="1.1.0"))
        assert str(failure.value.hint).startswith("demo.v1.1.1 is below demo.v1.2.0: replace or skip it in an entry of")

    def test_cycle(self) -> None:
        blobs = catalog({"demo": {"alpha": ["demo.v1.0.0 > demo.v1.1.0"]}})
        with pytest.raises(InvalidCatalog, match=r"no channel head found") as failure:
            add(new_bundle("1.1.0", replaces="1.0.0"), to=blobs)
        assert "channel alpha would be: demo.v1.1.0 -> demo.v1.0.0" in str(failure.value)
        assert str(failure.value.hint)

    def test_duplicate_version(self) -> None:
        same = NewBundle.from_bundle(
            bundle("1.2.0", name="demo.again", image="quay.io/demo:again", replaces="demo.v1.2.0")
        )
        with pytest.raises(InvalidCatalog, match=r"1\.2\.0 is the version of demo\.again, demo\.v1\.2\.0"):
            add(same)

    def test_warns_about_other_invalid_packages(self) -> None:
        broken = catalog({"broken": {"alpha": [f"broken.v1.{minor}.0" for minor in range(3)]}})
        edit = add_bundles(CATALOG + broken, [new_bundle("1.3.0", replaces="1.2.0")])
        assert [text for text in edit.warnings if 'package "broken"' in text]
        many = catalog({f"p{number}": {"alpha": ["a.v1.0.0", "a.v1.1.0"]} for number in range(30)})
        warnings = add_bundles(many, [new_bundle("1.0.0")]).warnings
        assert (len(warnings), warnings[-1]) == (21, "and 10 more findings: validate the catalog to list them")

    def test_invalid_package_can_be_fixed(self) -> None:
        heads = catalog({"demo": {"alpha": ["demo.v1.0.0", "demo.v1.1.0"]}})
        assert add(new_bundle("1.2.0", replaces="1.1.0", skips="1.0.0"), to=heads)

    def test_reports_all_packages(self) -> None:
        with pytest.raises(MultipleErrors) as failure:
            add(new_bundle("1.3.0"), NewBundle.from_bundle(bundle("2.0.0", package="other")))
        assert len(failure.value.errors) == 2

    def test_permissive_adds_valid_bundles(self) -> None:
        good, bad, late = (
            new_bundle("1.3.0", replaces="1.2.0"),
            new_bundle("1.4.0"),
            new_bundle("1.5.0", replaces="1.3.0"),
        )
        edit = add(bad, late, good, new_bundle("1.1.0"), options=PERMISSIVE)
        assert edit.blobs == add(good, late).blobs
        assert [type(error) for error in edit.failures] == [BundleImageExists, InvalidCatalog]

    def test_permissive_retries_after_later_bundles(self) -> None:
        skipped, head = new_bundle("1.3.0"), new_bundle("1.4.0", replaces="1.2.0", skips="1.3.0")
        edit = add(skipped, head, new_bundle("1.5.0"), options=PERMISSIVE)
        assert {bundle.name for bundle in edit.blobs.bundles} >= {"demo.v1.3.0", "demo.v1.4.0"}
        assert len(edit.failures) == 1


class TestOverwriteLatest:
    rebuilt = new_bundle("1.2.0", replaces="1.1.0", image="registry.example.com/demo:again")

    def test_replaces_the_head_in_place(self) -> None:
        changed = structs.replace(self.rebuilt, skip_range="<1.2.0")
        result = add(changed, options=OVERWRITE).blobs
        assert shown(result, "demo")["alpha"] == [*CHAIN[:2], "demo.v1.2.0 > demo.v1.1.0 < <1.2.0"]
        assert result.bundles[2].image == "registry.example.com/demo:again"
        assert result.bundles[2].location == CATALOG.bundles[2].location
        assert len(result.bundles) == len(CATALOG.bundles)

    def test_other_entries_stay(self) -> None:
        chain = ["demo.v1.9.0", "demo.v1.10.0 > demo.v1.9.0"]
        changed = new_bundle("1.10.0", replaces="1.9.0", skip_range="<1.10.0", image="registry.example.com/demo:again")
        result = add(changed, to=catalog({"demo": {"alpha": chain}}), options=OVERWRITE).blobs
        assert shown(result, "demo")["alpha"] == ["demo.v1.9.0", "demo.v1.10.0 > demo.v1.9.0 < <1.10.0"]

    def test_moves_to_the_channels_of_the_new_bundle(self) -> None:
        blobs = catalog({"demo": {"alpha": CHAIN[:2], "beta": CHAIN, "gamma": ["demo.v1.2.0"]}})
        result = add(structs.replace(self.rebuilt, channels=("alpha",)), to=blobs, options=OVERWRITE).blobs
        assert shown(result, "demo") == {"alpha": CHAIN, "beta": CHAIN[:2]}

    def test_rejects_replaced_bundle(self) -> None:
        with pytest.raises(GraphError, match=r"replaced or skipped by demo\.v1\.2\.0 in channel alpha"):
            add(new_bundle("1.1.0", replaces="1.0.0", image="quay.io/demo:again"), options=OVERWRITE)

    def test_rejects_existing_image(self) -> None:
        with pytest.raises(BundleImageExists):
            add(new_bundle("1.2.0"), options=OVERWRITE)

    def test_rejects_invalid_channel(self) -> None:
        blobs = catalog({"demo": {"alpha": ["demo.v1.0.0", "demo.v1.1.0", "demo.v1.2.0 > demo.v1.0.0, demo.v1.1.0"]}})
        with pytest.raises(
            InvalidCatalog, match=r"multiple channel heads found in graph: demo\.v1\.1\.0, demo\.v1\.2\.0"
        ):
            add(structs.replace(self.rebuilt, replaces="demo.v1.0.0"), to=blobs, options=OVERWRITE)

    def test_rejects_semver_modes(self) -> None:
        with pytest.raises(BundleExists) as failure:
            add(self.rebuilt, options=replace(SEMVER, overwrite_latest=True))
        assert str(failure.value.hint) == "overwrite it in the mode replaces"


class TestSemverModes:
    def test_inserts_bundle_by_version(self) -> None:
        middle = new_bundle("1.1.5", channels="alpha,beta,new", replaces="0.0.1", skip_range="<1.1.5")
        result = add(middle, options=SEMVER).blobs
        assert shown(result, "demo") == {
            "alpha": [*CHAIN[:2], "demo.v1.2.0 > demo.v1.1.5", "demo.v1.1.5 > demo.v1.1.0 < <1.1.5"],
            "beta": [*CHAIN[:2], "demo.v1.1.5 > demo.v1.1.0 < <1.1.5"],
            "new": ["demo.v1.1.5 < <1.1.5"],
        }

    def test_other_channels_are_unchanged_even_if_invalid(self) -> None:
        graph = {"alpha": CHAIN, "odd": ["demo.v1.1.0", "demo.v1.0.0", "demo.v1.2.0 > demo.v1.0.0, demo.v1.1.0"]}
        blobs = catalog({"demo": graph})
        result = add(new_bundle("1.3.0"), to=blobs, options=SEMVER).blobs
        assert result.channels[1] is blobs.channels[1]
        with pytest.raises(GraphError, match="channel odd of package demo is not a single chain of updates"):
            add(new_bundle("1.3.0", channels="odd"), to=blobs, options=SEMVER)

    def test_retains_replaces_outside_of_the_channel(self) -> None:
        blobs = catalog({"demo": {"alpha": ["demo.v1.1.0 > demo.v1.0.0, demo.v0.9.0"]}})
        result = add(new_bundle("1.2.0"), to=blobs, options=SEMVER).blobs
        assert shown(result, "demo")["alpha"] == ["demo.v1.1.0 > demo.v1.0.0, demo.v0.9.0", "demo.v1.2.0 > demo.v1.1.0"]

    def test_skips_patches(self) -> None:
        result = add(new_bundle("1.2.1"), new_bundle("1.2.2"), options=SKIP_PATCH).blobs
        assert shown(result, "demo")["alpha"] == [
            *CHAIN[:2],
            "demo.v1.2.0",
            "demo.v1.2.1",
            "demo.v1.2.2 > demo.v1.1.0, demo.v1.2.1, demo.v1.2.0",
        ]

    def test_several_adds_equal_a_single_add(self) -> None:
        several = [new_bundle(version, channels="alpha,beta") for version in ("1.2.1", "1.1.3", "2.0.0", "1.1.1")]
        blobs = CATALOG
        for new in several:
            blobs = add(new, to=blobs, options=SKIP_PATCH).blobs
        single = add(*several, options=SKIP_PATCH).blobs
        for left, right in zip(single.channels, blobs.channels, strict=True):
            assert {entry.name: entry for entry in left.entries} == {entry.name: entry for entry in right.entries}

    def test_last_named_default_channel_is_used(self) -> None:
        lower = new_bundle("0.9.0", channels="beta", default_channel="beta")
        assert add(lower, options=SEMVER).blobs.packages[0].default_channel == "beta"
        assert add(lower, options=SEMVER, default_channel="alpha").blobs.packages == CATALOG.packages
        assert (
            add(new_bundle("1.0.0", channels="b,a"), to=Blobs(), options=SEMVER).blobs.packages[0].default_channel
            == "a"
        )


class TestSubstitutes:
    options = AddOptions(enable_alpha=True)

    def test_rejected_without_alpha_features(self) -> None:
        with pytest.raises(CatalogError, match=r"it substitutes demo\.v1\.1\.0") as failure:
            add(new_bundle("1.1.0+1", substitutes_for="demo.v1.1.0"))
        assert "enable_alpha" in str(failure.value.hint)

    def test_substitutes_a_bundle(self) -> None:
        new = new_bundle("1.1.0+1", replaces="1.0.0", substitutes_for="demo.v1.1.0")
        result = add(new, options=self.options).blobs
        assert shown(result, "demo") == {
            "alpha": [
                *CHAIN[:2],
                "demo.v1.2.0 > demo.v1.1.0+1",
                "demo.v1.1.0+1 > demo.v1.0.0, demo.v1.1.0",
            ],
            "beta": CHAIN[:2],
        }

    def test_is_added_to_channels_whose_edges_refer_to_it(self) -> None:
        new = new_bundle("1.0.0+1", channels="beta", substitutes_for="demo.v1.0.0")
        channels = shown(add(new, options=self.options).blobs, "demo")
        assert "demo.v1.0.0+1 > , demo.v1.0.0" in channels["alpha"]
        assert "demo.v1.1.0 > demo.v1.0.0+1 < >=1.0.0 <1.1.0" in channels["alpha"]

    def test_substitutes_form_a_chain_by_version(self) -> None:
        def substitute(build: int) -> NewBundle:
            new = new_bundle(f"1.2.0+{build}", replaces="1.1.0", substitutes_for="demo.v1.2.0")
            annotations: JsonValue = {"annotations": {"olm.substitutesFor": "demo.v1.2.0"}}
            metadata = structs.replace(new.blob.properties[-1], type=CSV_METADATA, value=annotations)
            return structs.replace(new, blob=replace(new.blob, properties=(*new.blob.properties[:-1], metadata)))

        entries = []
        for builds in ((1, 2, 3), (3, 1, 2)):
            blobs = CATALOG
            for build in builds:
                blobs = add(substitute(build), to=blobs, options=self.options).blobs
            entries.append({entry.name: entry for entry in blobs.channels[0].entries})
        for by_name in entries:
            assert set(by_name["demo.v1.2.0+3"].skips) == {"demo.v1.2.0", "demo.v1.2.0+1", "demo.v1.2.0+2"}
            assert by_name["demo.v1.2.0+3"].replaces == "demo.v1.1.0"
