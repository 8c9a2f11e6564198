"""Templates: the catalogs that they are rendered to, and all that can be wrong with them."""

from __future__ import annotations

import base64
import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.blobs import BlobProperty, Blobs, BundleBlob, EntryBlob, Icon
from opmkit.index.fbc.compat import Compat
from opmkit.index.fbc.migrate import MigrationLevel
from opmkit.index.fbc.templates import composite
from opmkit.index.fbc.templates.basic import to_basic
from opmkit.index.fbc.templates.document import TemplateFile
from opmkit.index.fbc.templates.render import TemplateType, render_template, template_type
from opmkit.index.fbc.templates.substitutes import to_substitutes
from opmkit.index.fbc.write import to_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SVG = base64.b64encode(b"<svg/>").decode()


def bundle(version: str, package: str = "reef", release: str = "") -> BundleBlob:
    """The bundle of a version, with a ClusterServiceVersion in it."""
    spec = {"description": f"Reef {version}", "icon": [{"base64data": SVG, "mediatype": "image/svg+xml"}]}
    csv = {"kind": "ClusterServiceVersion", "metadata": {"name": f"{package}.v{version}"}, "spec": spec}
    value = {"packageName": package, "version": version} | ({"release": release} if release else {})
    properties = (
        BlobProperty("olm.package", value),
        BlobProperty("olm.bundle.object", {"data": base64.b64encode(json.dumps(csv).encode()).decode()}),
    )
    name = f"{package}-v{version}-{release}" if release else f"{package}.v{version}"
    return BundleBlob(name, package, image(version, package), properties)


def image(version: str, package: str = "reef") -> str:
    return f"quay.io/example/{package}:{version.replace('+', '_')}"


def rendered(images: Sequence[str]) -> dict[str, BundleBlob]:
    """Renders any image, by its tag."""
    assert len(images) == len(set(images))
    found = {}
    for one in images:
        name, tag = one.rsplit(":", 1)
        version, _, release = tag.replace("_", "+").partition("-r")
        found[one] = bundle(version, name.rsplit("/", 1)[1], release)
    return found


def template(value: Any, name: str = "t.yaml") -> TemplateFile:
    text = value if isinstance(value, str) else json.dumps(value)
    return TemplateFile.read(io.BytesIO(text.encode()), name)


def render(
    value: Any,
    kind: TemplateType | None = None,
    compat: Compat = Compat.NEWEST,
    level: MigrationLevel = MigrationLevel.NONE,
) -> Blobs:
    read = template(value)
    return render_template(read, kind or template_type(read), rendered, level=level, compat=compat)


def refused(value: Any, kind: TemplateType | None = None) -> str:
    with pytest.raises(InvalidCatalog) as caught:
        render(value, kind)
    assert caught.value.advice
    return caught.value.message


def semver(**fields: Any) -> dict[str, Any]:
    archetypes = {
        name: {"bundles": [{"image": image(version)} for version in fields.pop(name)]}
        for name in ("candidate", "fast", "stable")
        if name in fields
    }
    return {"schema": "olm.semver", **fields, **archetypes}


BOTH = {"generateMajorChannels": True, "generateMinorChannels": True}
SIX = ("1.2.0", "1.0.0", "1.0.1", "1.1.1", "1.0.2", "1.1.0")


def edges(blobs: Blobs, channel: str) -> dict[str, tuple[str, ...]]:
    """Of each entry what it replaces and skips, by versions."""
    (found,) = (one for one in blobs.channels if one.name == channel)
    return {
        entry.name.removeprefix("reef.v"): tuple(name.removeprefix("reef.v") for name in (entry.replaces, *entry.skips))
        for entry in found.entries
    }


def test_the_last_patch_of_a_minor_version_replaces_that_of_the_one_before_and_skips_all_others() -> None:
    blobs = render(semver(**BOTH, candidate=SIX))
    expected = {
        "1.0.0": ("",),
        "1.0.1": ("",),
        "1.0.2": ("", "1.0.0", "1.0.1"),
        "1.1.0": ("",),
        "1.1.1": ("1.0.2", "1.0.0", "1.0.1", "1.1.0"),
        "1.2.0": ("1.1.1", "1.0.0", "1.0.1", "1.0.2", "1.1.0"),
    }
    assert edges(blobs, "candidate-v1") == expected
    assert edges(blobs, "candidate-v1.1") == {version: expected[version] for version in ("1.1.0", "1.1.1")}
    assert [one.name for one in blobs.channels] == [f"candidate-v{end}" for end in ("1", "1.0", "1.1", "1.2")]


def test_each_major_version_and_archetype_starts_afresh() -> None:
    blobs = render(semver(**BOTH, candidate=("1.0.0", "2.0.0", "2.0.1"), stable=("1.0.0", "1.0.1", "1.1.1")))
    assert edges(blobs, "candidate-v2") == {"2.0.0": ("",), "2.0.1": ("", "2.0.0")}
    assert edges(blobs, "stable-v1") == {"1.0.0": ("",), "1.0.1": ("", "1.0.0"), "1.1.1": ("1.0.1", "1.0.0")}


@pytest.mark.parametrize(
    ("fields", "default"),
    [
        ({"candidate": ("2.0.0",), "stable": ("1.0.0", "1.1.0"), **BOTH}, "stable-v1.1"),
        ({"candidate": ("1.0.0",), **BOTH}, "candidate-v1.0"),
        ({"candidate": ("1.0.0",), **BOTH, "defaultChannelTypePreference": "major"}, "candidate-v1"),
        ({"fast": ("1.0.0", "1.1.0"), "generateMajorChannels": True}, "fast-v1"),
        ({"fast": ("1.0.0", "1.1.0"), "generateMajorChannels": False}, "fast-v1.1"),
        ({"fast": ("1.0.0",), "generateMajorChannels": False, "generateMinorChannels": False}, "fast-v1.0"),
        ({"candidate": ("0.0.0-alpha",)}, "candidate-v0.0"),
    ],
)
def test_the_default_channel_is_the_most_stable_then_the_highest_then_the_preferred(
    fields: dict[str, Any], default: str
) -> None:
    (package,) = render(semver(**fields)).packages
    assert package.default_channel == default


def test_the_package_has_icon_and_description_of_the_head_of_its_default_channel() -> None:
    (package,) = render(semver(**BOTH, candidate=("3.0.0",), stable=("1.0.0", "1.0.1"))).packages
    assert (package.name, package.description, package.icon) == ("reef", "Reef 1.0.1", Icon(SVG, "image/svg+xml"))


def test_the_older_dialect_makes_minor_channels_unless_told_and_describes_no_package() -> None:
    blobs = render(semver(generateMajorChannels=True, candidate=("1.0.0",)), compat=Compat.OPM_1_26)
    assert [one.name for one in blobs.channels] == ["candidate-v1", "candidate-v1.0"]
    (package,) = blobs.packages
    assert (package.icon, package.description, package.default_channel) == (None, "", "candidate-v1.0")
    both = semver(**BOTH, candidate=("9.0.0",), fast=("1.0.0",), stable=("1.1.0", "1.0.0"))
    assert render(both, compat=Compat.OPM_1_26).packages[0].default_channel == "stable-v1.1"
    none = semver(generateMajorChannels=False, generateMinorChannels=False, fast=("1.0.0",))
    with pytest.raises(InvalidCatalog, match="neither channels for major nor for minor"):
        render(none, compat=Compat.OPM_1_26)


def test_all_that_is_wrong_with_a_semver_template_is_told_at_once_each_with_its_line() -> None:
    told = refused(
        "schema: olm.semver\n"
        "genrateMajorChannels: true\n"
        "generateMinorChannels: yep\n"
        "defaultChannelTypePreference: patch\n"
        "candidate:\n"
        "  bundels: []\n"
        "  bundles:\n"
        "  - {image: 1}\n"
        "  - {}\n"
        "stable: []\n"
        "---\n"
        "more: 1\n"
    )
    for line, problem in (
        (2, "genrateMajorChannels is no field of a template"),
        (3, "generateMinorChannels is a string, not a boolean"),
        (4, "'patch', neither major nor minor"),
        (6, "candidate.bundels is no field"),
        (8, "candidate.bundles[0].image is a number, not a string"),
        (9, "the bundle has no image"),
        (10, "stable is a list, not a mapping"),
        (12, "a template is one document"),
    ):
        assert f"t.yaml:{line}: " in told, told
        assert problem in told, told


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("just text", "the document is a string, not a mapping"),
        ("", "the document is null, not a mapping"),
        ("schema: olm.other", "the schema is 'olm.other', not 'olm.semver'"),
        ("a: 1", "the document has no schema"),
        ("schema: olm.semver", "it lists no bundles"),
        ("schema: olm.semver\nschema: olm.semver", "the key 'schema' is there twice"),
        ("schema: [", "it can't be read as YAML or JSON"),
        (semver(candidate=("1.0.0", "1.0.0")), "it is listed twice under candidate"),
        (semver(candidate=("1.0.0+1", "1.0.0+2")), "can't be ordered beside 1.0.0+1"),
        (semver(candidate=("1.0",)), "is not of the form MAJOR.MINOR.PATCH"),
        (semver(candidate=("1.0.0",), defaultChannelTypePreference="major"), "no channels of that kind"),
    ],
)
def test_semver_templates_that_can_not_be(value: Any, problem: str) -> None:
    assert problem in refused(value, TemplateType.SEMVER)


def test_bundles_of_several_packages_are_refused() -> None:
    value = semver(candidate=("1.0.0",))
    value["stable"] = {"bundles": [{"image": image("1.0.0", "lagoon")}]}
    assert 'bundle "lagoon.v1.0.0": it is of package "lagoon", and the first bundle is of package "reef"' in refused(
        value
    )


PACKAGE = {"schema": "olm.package", "name": "reef", "defaultChannel": "a"}
OTHER = {"schema": "custom", "value": [1, {"b": 1, "a": 2.5}]}


def channel(*entries: dict[str, Any], name: str = "a") -> dict[str, Any]:
    return {"schema": "olm.channel", "name": name, "package": "reef", "entries": list(entries)}


def entry(version: str, **edges: Any) -> dict[str, Any]:
    return {"name": f"reef.v{version}", **edges}


def catalog(*versions: str) -> list[dict[str, Any]]:
    """A catalog whose one channel leads from version to version."""
    chain = [
        entry(version, **({"replaces": f"reef.v{versions[number - 1]}"} if number else {}))
        for number, version in enumerate(versions)
    ]
    full = [json.loads(to_json([bundle(version)])) for version in versions]
    return [PACKAGE, channel(*chain), *full]


@pytest.mark.parametrize("framed", [True, False])
def test_a_basic_template_has_the_bundles_of_its_images_and_all_else_as_it_is(*, framed: bool) -> None:
    entries = [
        PACKAGE,
        channel(entry("1.0.0")),
        {"schema": "olm.bundle", "image": image("1.0.0"), "name": "any"},
        OTHER,
    ]
    framing = {"schema": "olm.template.basic", "entries": entries}
    blobs = render(framing if framed else "\n".join(map(json.dumps, entries)), TemplateType.BASIC)
    assert blobs.bundles == (bundle("1.0.0"),)
    assert blobs.others[0].content == OTHER
    assert len(list(blobs)) == len(entries)


def test_a_basic_template_tells_all_that_its_bundles_must_not_have() -> None:
    told = refused(
        "schema: olm.template.basic\n"
        "notes: x\n"
        "entries:\n"
        "- schema: olm.bundle\n"
        "  image: quay.io/example/reef:1.0.0\n"
        "  package: reef\n"
        "  relatedImages: [{name: a, image: b}]\n"
        "- schema: olm.bundle\n"
        "- 7\n"
    )
    assert "t.yaml:2: notes is no field of a template" in told
    assert 't.yaml:4: package "reef": a bundle of a basic template has nothing but its image' in told
    assert "this one has package, relatedImages" in told
    assert "t.yaml:8: the bundle has no image" in told
    assert "t.yaml:9: the document is a number" in told


def substitutes(*pairs: tuple[str, str], entries: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    listed = [{"name": image(tag), "base": base} for tag, base in pairs]
    entries = catalog("1.0.0", "1.1.0", "1.2.0") if entries is None else entries
    return {"schema": "olm.template.substitutes", "entries": entries, "substitutions": listed}


def test_a_substitute_takes_the_updates_of_its_base_and_others_update_from_it() -> None:
    entries = catalog("1.0.0", "1.1.0", "1.2.0")
    other = channel(entry("1.1.0", skipRange="<1.1.0"), entry("1.2.0", skips=["reef.v1.1.0", "reef.v1.0.0"]), name="b")
    blobs = render(substitutes(("1.1.1", "reef.v1.1.0"), entries=[*entries, other]))
    assert blobs.channels[0].entries == (
        EntryBlob("reef.v1.0.0"),
        EntryBlob("reef.v1.1.0"),
        EntryBlob("reef.v1.2.0", "reef.v1.1.1", ("reef.v1.1.0",)),
        EntryBlob("reef.v1.1.1", "reef.v1.0.0", ("reef.v1.1.0",)),
    )
    assert blobs.channels[1].entries == (
        EntryBlob("reef.v1.1.0"),
        EntryBlob("reef.v1.2.0", "", ("reef.v1.0.0", "reef.v1.1.1")),
        EntryBlob("reef.v1.1.1", "", ("reef.v1.1.0",), "<1.1.0"),
    )
    assert blobs.bundles[-1] == bundle("1.1.1")


def test_a_substitute_may_be_substituted_and_one_of_a_higher_release_counts_as_higher() -> None:
    blobs = render(substitutes(("1.2.0-r1", "reef.v1.2.0"), ("1.2.0-r2", "reef-v1.2.0-1")))
    assert blobs.channels[0].entries[-1] == EntryBlob("reef-v1.2.0-2", "reef.v1.1.0", ("reef.v1.2.0", "reef-v1.2.0-1"))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (substitutes(("1.0.1", "reef.v1.1.0")), "its version is not above that of"),
        (substitutes(("1.1.0", "reef.v1.1.0")), "its version is not above that of"),
        (substitutes(("1.3.0", "reef.v9.9.9")), 'the catalog has no bundle "reef.v9.9.9"'),
        (substitutes(("1.3.0", "reef.v1.0.0"), ("1.4.0", "reef.v1.0.0")), '"reef.v1.0.0" is substituted twice'),
        (substitutes(("1.3.0", "reef.v1.0.0"), ("1.3.0", "reef.v1.1.0")), "substitutes both"),
        (substitutes(("1.3.0", "")), "a substitution needs the image of a bundle as its name"),
        (substitutes(("1.3.0", "reef.v1.0.0"), entries=catalog("1.0.0")[1:]), 'unknown package "reef"'),
        (substitutes(entries=[{"schema": "olm.bundle", "name": "x"}]), "package name must be set"),
        (substitutes(("1.2.0", "reef.v1.1.0")), "the catalog is invalid"),
    ],
)
def test_substitutes_templates_that_can_not_be(value: Any, problem: str) -> None:
    assert problem in refused(value)


def test_the_level_holds_for_rendered_bundles_alone() -> None:
    blobs = render(substitutes(("1.2.1", "reef.v1.2.0")), level=MigrationLevel.ALL)
    kinds = [[one.type for one in each.properties] for each in blobs.bundles]
    assert kinds[0] == ["olm.package", "olm.bundle.object"]
    assert kinds[-1] == ["olm.package", "olm.csv.metadata"]
    (package,) = render(semver(stable=("1.0.0",)), level=MigrationLevel.ALL).packages
    assert package.icon == Icon(SVG, "image/svg+xml")


def test_a_schema_that_is_no_template_s_is_told_with_those_there_are() -> None:
    with pytest.raises(InvalidCatalog, match=r"t.yaml:1: 'olm.package' is no schema of a template") as caught:
        template_type(template(PACKAGE))
    assert "olm.template.substitutes" in caught.value.advice


def test_catalogs_become_templates_that_render_to_them() -> None:
    text = "\n".join(map(json.dumps, [*catalog("1.0.0", "1.1.0"), OTHER]))
    basic = json.loads(to_json([to_basic(template(text))]))
    assert basic["entries"][2] == {"schema": "olm.bundle", "image": image("1.0.0")}
    assert list(basic["entries"][-1]) == ["schema", "value"]
    assert to_json(render(basic)) == to_json(render(json.loads(to_json([to_substitutes(template(text))]))))


def composed(schema: str, config: dict[str, Any], path: str = "pkg") -> dict[str, Any]:
    strategy = {"name": "any", "template": {"schema": schema, "config": config}}
    return {"name": "one", "destination": {"path": path}, "strategy": strategy}


def composites(root: Path, *found: dict[str, Any], **catalog: Any) -> list[composite.Component]:
    builders = [*composite.Builder]
    catalogs = [
        {"name": "one", "destination": {"workingDir": str(root), "baseImage": "x"}, "builders": builders, **catalog}
    ]
    return composite.parse_components(
        template({"schema": "olm.composite.catalogs", "catalogs": catalogs}, "catalogs.yaml"),
        template({"schema": "olm.composite", "components": list(found)}, "config.yaml"),
        Compat.OPM_1_26,
    )


BUILDING = composite.BuildOptions(rendered, to_json)


def test_the_components_of_a_composite_template_are_built_and_validated(tmp_path: Path) -> None:
    (tmp_path / "semver.yaml").write_text(json.dumps(semver(candidate=("1.0.0",))))
    (tmp_path / "raw.yaml").write_text("\n".join(map(json.dumps, catalog("1.0.0"))))
    (tmp_path / "basic.yaml").write_text("\n".join(map(json.dumps, [*catalog("1.0.0")[:2], {"schema": "olm.bundle"}])))
    found = composites(
        tmp_path / "work",
        composed("olm.builder.semver", {"input": str(tmp_path / "semver.yaml"), "output": "semver.json"}, "s"),
        composed("olm.builder.raw", {"input": str(tmp_path / "raw.yaml"), "output": "deep/raw.json"}, "r"),
    )
    composite.build_components(found, BUILDING)
    assert b"candidate-v1.0" in (tmp_path / "work/s/semver.json").read_bytes()
    assert b"reef.v1.0.0" in (tmp_path / "work/r/deep/raw.json").read_bytes()
    bad = composites(
        tmp_path / "work", composed("olm.builder.basic", {"input": str(tmp_path / "basic.yaml"), "output": "b"})
    )
    with pytest.raises(InvalidCatalog, match=r"component 'one': .*basic.yaml:3: the bundle has no image"):
        composite.build_components(bad, BUILDING)


def test_programs_of_a_composite_template_run_only_where_they_are_allowed(tmp_path: Path) -> None:
    (tmp_path / "raw.yaml").write_text("\n".join(map(json.dumps, catalog("1.0.0"))))
    found = composites(
        tmp_path, composed("olm.builder.custom", {"command": "cat", "args": ["raw.yaml"], "output": "c.json"})
    )
    with pytest.raises(CatalogError, match=r"would run programs: cat raw\.yaml"):
        composite.build_components(found, BUILDING)
    assert not (tmp_path / "pkg").exists()
    allowed = composite.BuildOptions(rendered, to_json, run_programs=True)
    composite.build_components(found, allowed)
    assert (tmp_path / "pkg/c.json").exists()
    for config in ({"command": "cat", "args": ["missing"]}, {"command": "./no-such-program"}):
        failing = composites(tmp_path, composed("olm.builder.custom", {**config, "output": "c.json"}))
        with pytest.raises(CatalogError, match=r"cat missing failed with status 1: cat|no-such-program"):
            composite.build_components(failing, allowed)


@pytest.mark.parametrize(
    ("component", "problem"),
    [
        (composed("olm.builder.raw", {"input": "x", "output": "../../out"}), "not below"),
        (composed("olm.builder.raw", {"input": "x", "output": "x"}, "/etc"), "not below"),
        (composed("olm.builder.raw", {"input": "x", "output": "."}, "."), "not below"),
        (composed("olm.builder.raw", {"inptu": "x", "output": "x"}), "config.inptu is no field of a template"),
        (composed("olm.builder.raw", {"output": "x"}), "the config has no input"),
        (composed("olm.builder.other", {}), "catalog 'one' has no builder 'olm.builder.other'"),
        ({**composed("olm.builder.raw", {}), "name": "two"}, "there is no catalog 'two'"),
        ({"name": "one", "strategy": {"template": {"schema": "olm.builder.raw"}}}, "strategy.template has no config"),
    ],
)
def test_composite_templates_that_can_not_be(component: dict[str, Any], problem: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidCatalog) as caught:
        composites(tmp_path, component)
    assert problem in caught.value.message
    assert caught.value.message.startswith("config.yaml:1: ")


def test_catalogs_of_a_composite_template_need_a_place_and_known_builders(tmp_path: Path) -> None:
    with pytest.raises(InvalidCatalog) as caught:
        composites(tmp_path, destination={}, builders=["olm.builder.magic"])
    for problem in (
        "has no destination.baseImage",
        "has no destination.workingDir",
        "'olm.builder.magic' is no builder",
    ):
        assert problem in caught.value.message
