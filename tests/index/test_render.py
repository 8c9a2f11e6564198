"""References of any kind as blobs, whole catalogs as directories, and images that a template names."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.bundle import labels, parse_bundle
from opmkit.bundle.errors import BundleError
from opmkit.imagetools.errors import ImageToolsError, StoreError
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.store import ImageStore
from opmkit.imagetools.tools.registry import RegistryTool
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.blobs import Blobs, OtherBlob, PackageBlob
from opmkit.index.fbc.directory import write_catalog
from opmkit.index.fbc.load import read_blobs
from opmkit.index.fbc.migrate import MigrationLevel
from opmkit.index.fbc.write import to_json, to_yaml
from opmkit.index.image.source import INDEXES, IndexSource
from opmkit.index.render import RenderOptions, open_render_cache, render
from opmkit.index.rendering.database_blobs import database_to_blobs, decode_icon
from opmkit.index.rendering.image_template import ImageTemplate
from opmkit.index.sqlite import open_database
from tests.bundle.samples import files
from tests.kit.bundles import bundle_content, bundle_image, put_under
from tests.kit.catalogs import write_library
from tests.kit.images import small_image

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opmkit.index.fbc.blobs import BundleBlob
    from tests.kit.registry import Registry


@pytest.fixture
def tool(tmp_path: Path) -> Callable[[], RegistryTool]:
    made = RegistryTool(RegistryClient(RegistryOptions(plain_http=True)), ImageStore.open(tmp_path / "store"))
    return lambda: made


def write(root: Path, content: Mapping[str, bytes]) -> str:
    """Write files below a directory; the directory."""
    for name, raw in content.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(raw)
    return str(root)


def library(directory: Path) -> str:
    directory.mkdir(exist_ok=True)
    write_library(directory / "index.db")
    return str(directory / "index.db")


def no_tool() -> RegistryTool:
    raise AssertionError("nothing of this needs a registry")


def read(tool: Callable[[], RegistryTool], reference: str) -> Blobs:
    return IndexSource.resolve(tool, reference).blobs()


def names(blobs: Blobs) -> list[str]:
    return [bundle.name for bundle in blobs.bundles]


def image_of(directory: Path, content: Mapping[str, bytes], **image_labels: str) -> str:
    """Put an image with files and labels into a layout; its reference."""
    layer = directory / "layer"
    layer.mkdir(parents=True)
    image = small_image(layer, content, labels={key.replace("__", "."): value for key, value in image_labels.items()})
    return put_under(f"oci:{directory}/image:1", image)


CONFIGS = labels.INDEX_CONFIGS.replace(".", "__")
DATABASE = labels.INDEX_DATABASE.replace(".", "__")
PACKAGE = b"schema: olm.package\nname: lagoon\ndefaultChannel: stable\n"


def test_each_kind_of_reference_is_rendered_in_order(tool: Callable[[], RegistryTool], tmp_path: Path) -> None:
    bundle = write(tmp_path / "bundle", bundle_content("lagoon", "2.0.0"))
    (tmp_path / "layer").mkdir()
    image = put_under(f"oci:{tmp_path}/layout:1", bundle_image("lagoon", "1.0.0", tmp_path / "layer"))
    catalog = write(tmp_path / "catalog", {"lagoon/any": PACKAGE})
    database = library(tmp_path / "library")
    found = render(tool, [bundle, catalog, image, database, image])
    library_bundles = ["book.v0.1.0", "shelf.v1.0.0", "shelf.v1.1.0", "shelf.v1.2.0"]
    assert names(found) == ["lagoon.v2.0.0", "lagoon.v1.0.0", *library_bundles, "lagoon.v1.0.0"]
    assert [package.name for package in found.packages] == ["lagoon", "book", "shelf"]
    assert [bundle.image for bundle in found.bundles[:2]] == ["", image]


def test_what_is_on_disk_needs_no_registry(tmp_path: Path) -> None:
    references = [write(tmp_path / "bundle", bundle_content("lagoon", "2.0.0")), library(tmp_path / "library")]
    assert len(render(no_tool, references).bundles) == 5


def test_an_index_image_is_its_catalog_or_its_database(tool: Callable[[], RegistryTool], tmp_path: Path) -> None:
    database = Path(library(tmp_path / "library")).read_bytes()
    with open_database(tmp_path / "library" / "index.db") as opened:
        expected = database_to_blobs(opened)
    index = image_of(tmp_path / "database", {"database/index.db": database}, **{DATABASE: "/database/index.db"})
    content = {"configs/lagoon/a": PACKAGE, "configs/.indexignore": b"b\n", "configs/b": b"no", "configs-too/c": b"no"}
    catalog = image_of(tmp_path / "configs", content, **{CONFIGS: "/configs/"})
    assert read(tool, index) == render(tool, [index]) == expected
    assert read(tool, catalog) == render(tool, [catalog]) == Blobs(packages=(PackageBlob("lagoon", "stable"),))
    both = image_of(
        tmp_path / "both", {"database/index.db": database}, **{DATABASE: "/database/index.db", CONFIGS: "/"}
    )
    assert read(tool, both) == expected


def test_a_catalog_that_is_read_is_put_into_the_form_that_is_written(tmp_path: Path) -> None:
    catalog = b"""{"schema": "olm.bundle", "name": "a", "package": "p", "image": "i", "properties": [
        {"type": "olm.csv.metadata", "value": {}}, {"type": "z", "value": {"b": 1, "a": 2}}, {"type": "y", "value": 1}],
        "relatedImages": [{"name": "2", "image": "b"}, {"name": "1", "image": "a"}]}
        {"schema": "mine", "b": 1, "a": 2}"""
    found = render(no_tool, [write(tmp_path, {"catalog.json": catalog})])
    (bundle,) = found.bundles
    assert [one.type for one in bundle.properties] == ["z", "y", "olm.csv.metadata"]
    assert list(bundle.properties[0].value) == ["a", "b"]  # type: ignore[arg-type]
    assert [one.image for one in bundle.related_images] == ["a", "b"]
    assert list(found.others[0].content) == ["a", "b", "schema"]


@pytest.mark.parametrize(
    ("image_labels", "told"),
    [
        ({}, "not an index image or a bundle image: it has no labels"),
        ({"b": "2", "a": "1"}, "of one:\n  a=1\n  b=2"),
        ({CONFIGS: "/configs"}, "does not exist"),
        ({CONFIGS: "../.."}, "is not the path of a directory"),
        ({DATABASE: "/index.db"}, "the file /index.db in its label"),
    ],
)
def test_an_image_that_is_nothing_of_this_is_told(
    tool: Callable[[], RegistryTool], tmp_path: Path, image_labels: dict[str, str], told: str
) -> None:
    image = image_of(tmp_path, {"etc/passwd": b""}, **image_labels)
    with pytest.raises(CatalogError, match=told) as error:
        render(tool, [image])
    assert image in error.value.message
    assert error.value.advice


def test_kinds_that_are_not_wanted_are_refused(tool: Callable[[], RegistryTool], tmp_path: Path) -> None:
    bundle = write(tmp_path / "bundle", bundle_content("lagoon", "2.0.0"))
    for read_source in (read, lambda tool, name: render(tool, [name], RenderOptions(kinds=INDEXES))):
        with pytest.raises(CatalogError, match="is a bundle directory") as error:
            read_source(tool, bundle)
        assert "an index database" in error.value.advice


@pytest.mark.parametrize(
    "reference", ["./nothing", "nothing", "127.0.0.1:1/nothing:1", "No Reference:1", "oci:nothing:1"]
)
def test_what_is_not_there_is_told(tool: Callable[[], RegistryTool], reference: str) -> None:
    with pytest.raises((CatalogError, ImageToolsError), match=r"othing|No Reference") as error:
        render(tool, [reference])
    assert error.value.advice


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({"catalog.yaml": b"schema: olm.package\nname: 1\n---\nname: x\n"}, "catalog.yaml:1: name is a number"),
        ({"manifests/a": b"", "metadata/b": b""}, "no Kubernetes object"),
        (
            {**files(), "metadata/dependencies.yaml": b"dependencies: [{type: olm.gvk, value: x}]"},
            "olm.gvk is a string",
        ),
    ],
)
def test_what_can_not_be_read_is_told_with_its_name(tmp_path: Path, content: dict[str, bytes], told: str) -> None:
    reference = write(tmp_path / "it", content)
    with pytest.raises((InvalidCatalog, BundleError), match=told) as error:
        render(no_tool, [reference])
    assert error.value.message.startswith(reference)


def test_remarks_on_bundles_are_told(tmp_path: Path) -> None:
    told: list[str] = []
    one = write(tmp_path / "one", {**files(), "manifests/x.yaml": b"a: b: c"})
    label = b"operators.operatorframework.io.bundle.channels.v1"
    two = write(tmp_path / "two", {**files(name=""), "metadata/annotations.yaml": b"annotations: {%s: alpha}" % label})
    render(no_tool, [one, two], RenderOptions(warn=told.append))
    assert [remark.partition(": ")[0] for remark in told] == [one, two, two, two]
    assert "ignored manifests/x.yaml:1" in told[0]
    assert "no package" in told[2]
    assert "no name" in told[3]


def test_a_bundle_image_is_read_once(tool: Callable[[], RegistryTool], tmp_path: Path, registry: Registry) -> None:
    (tmp_path / "layer").mkdir()
    name = put_under(f"{registry.host}/kept/lagoon:1", bundle_image("lagoon", "1.0.0", tmp_path / "layer"))
    rendering = RenderOptions(cache=open_render_cache(tmp_path / "cache"))
    first = render(tool, [name], rendering)
    other = put_under(f"{registry.host}/kept/same:1", bundle_image("lagoon", "1.0.0", tmp_path / "layer"))
    shutil.rmtree(tmp_path / "store")
    (kept,) = list((tmp_path / "cache").rglob("*.json"))
    kept.write_bytes(kept.read_bytes().replace(b'"lagoon"', b'"rotten"'))  # so that it shows where it comes from
    (again,) = render(tool, [other], rendering).bundles
    assert (again.name, again.package, again.image) == ("lagoon.v1.0.0", "rotten", other)
    assert [one.image for one in again.related_images] == [other]
    kept.write_bytes(b"{")
    assert render(tool, [name], rendering) == first == render(tool, [name])


def test_a_level_is_for_all_bundles(tool: Callable[[], RegistryTool], tmp_path: Path) -> None:
    (tmp_path / "layer").mkdir()
    image = put_under(f"oci:{tmp_path}/layout:1", bundle_image("lagoon", "1.0.0", tmp_path / "layer"))
    (bundle,) = render(tool, [image], RenderOptions(level=MigrationLevel.ALL)).bundles
    assert [one.type for one in bundle.properties] == ["olm.package", "olm.csv.metadata"]


@pytest.mark.parametrize(
    ("template", "image"),
    [
        ("quay.io/me/{{.Package}}:v{{ .Version }}", "quay.io/me/op:v1.0.0"),
        ("a{{ .Name}}b", "aop.v1.0.0b"),
        ("{{.Version}}{{.Version}}}}", "1.0.01.0.0}}"),
        ("plain", "plain"),
    ],
)
def test_a_template_names_the_images_of_directories(tmp_path: Path, template: str, image: str) -> None:
    bundle = parse_bundle(files())
    assert ImageTemplate.parse(template).image(bundle) == image
    (blob,) = render(
        no_tool, [write(tmp_path, files())], RenderOptions(image_template=ImageTemplate.parse(template))
    ).bundles
    assert blob.image == image
    assert image in [one.image for one in blob.related_images]


@pytest.mark.parametrize(
    "template", ["{{.Foo}}", "{{Name}}", "{{", "a{{.Name", "{{}}", "{{- .Name -}}", "{{printf .Name}}", "{{.Name.x}}"]
)
def test_what_a_template_can_not_have_is_told(template: str) -> None:
    with pytest.raises(CatalogError, match="invalid image template") as error:
        ImageTemplate.parse(template)
    assert "{{.Version}}" in error.value.advice


@pytest.mark.parametrize(
    ("icons", "icon"),
    [
        ([{"base64data": "aGk=", "mediatype": "image/png"}, {"base64data": "eA=="}], ("aGk=", "image/png")),
        ([{"base64data": "a G\nk=\r\n"}], ("aGk=", "")),
        ([{"base64data": "no!"}], None),
        ([{"base64data": ""}], None),
        ([{"base64data": 1}], None),
        ([1], None),
        ([], None),
        (None, None),
    ],
)
def test_the_icon_is_the_first_if_it_can_be_read(icons: Any, icon: tuple[str, str] | None) -> None:
    found = decode_icon(icons)
    assert (found and (found.data, found.media_type)) == icon


def test_a_database_comes_to_packages_channels_and_bundles(tmp_path: Path) -> None:
    found = render(no_tool, [library(tmp_path)])
    assert [(one.name, one.default_channel) for one in found.packages] == [("book", "alpha"), ("shelf", "beta")]
    alpha = next(one for one in found.channels if (one.package, one.name) == ("shelf", "alpha"))
    assert [(one.name, one.replaces, one.skips, one.skip_range) for one in alpha.entries] == [
        ("shelf.v1.0.0", "", (), ""),
        ("shelf.v1.1.0", "", (), ""),
        ("shelf.v1.2.0", "shelf.v1.0.0", ("shelf.v1.1.0",), "<1.2.0"),
    ]
    first, *_, last = (one for one in found.bundles if one.package == "shelf")
    assert [value["packageName"] for value in _required(last)] == ["book"]
    assert _required(first) == []


def _required(bundle: BundleBlob) -> list[Any]:
    return list(bundle.property_values("olm.package.required"))


LAID_OUT = Blobs(
    packages=(PackageBlob("b"), PackageBlob("a")),
    others=(
        OtherBlob("mine", "", "", {"schema": "mine"}),
        OtherBlob("mine", "", "c", {"schema": "mine", "package": "c"}),
    ),
)


@pytest.mark.parametrize(("extension", "form"), [("json", to_json), ("yaml", to_yaml)])
def test_a_catalog_is_laid_out_by_package(tmp_path: Path, extension: str, form: Any) -> None:
    directory = tmp_path / "deep" / "out"
    write_catalog(LAID_OUT, directory, extension, form)
    found = sorted(path.relative_to(directory).as_posix() for path in directory.rglob("*") if path.is_file())
    assert found == [
        f"a/catalog.{extension}",
        f"b/catalog.{extension}",
        f"c/catalog.{extension}",
        f"catalog.{extension}",
    ]
    assert sorted(one.name for one in read_blobs(directory).packages) == ["a", "b"]
    assert len(read_blobs(directory).others) == 2
    assert sorted(path.name for path in directory.parent.iterdir()) == ["out"]
    assert directory.stat().st_mode & 0o055 == 0o055


def test_an_empty_directory_is_filled_and_others_are_left_alone(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    write_catalog(LAID_OUT, empty, "json", to_json)
    for there in (empty, empty / "catalog.json"):
        with pytest.raises(CatalogError, match="not an empty directory"):
            write_catalog(LAID_OUT, there, "json", to_json)


@pytest.mark.parametrize("name", ["..", "a/b", "a\0b", "n" * 300])
def test_a_package_that_no_directory_can_hold_leaves_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises((CatalogError, StoreError)):
        write_catalog(Blobs(packages=(PackageBlob("a"), PackageBlob(name))), tmp_path / "out", "json", to_json)
    assert list(tmp_path.iterdir()) == []
