"""Rendering of bundles and indexes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle import labels
from opmkit.bundle.errors import BundleError
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.store import ImageStore
from opmkit.imagetools.tools.registry import RegistryTool
from opmkit.index.convert.database_blobs import database_to_blobs
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.blobs import Blobs, PackageBlob
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.csv_metadata import MigrationLevel
from opmkit.index.fbc.write import to_json
from opmkit.index.image.source import INDEXES, IndexSource
from opmkit.index.render import ImageTemplate, RenderOptions, open_render_cache, render
from opmkit.index.sqlite import open_database
from tests.bundle.samples import files
from tests.kit.bundles import bundle_content, bundle_image, push_image, resolve_digest
from tests.kit.catalogs import write_library
from tests.kit.images import small_image

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tests.kit.registry import Registry


@pytest.fixture
def tool(tmp_path: Path) -> Callable[[], RegistryTool]:
    registry_tool = RegistryTool(RegistryClient(RegistryOptions(plain_http=True)), ImageStore.open(tmp_path / "store"))
    return lambda: registry_tool


def write(root: Path, content: Mapping[str, bytes]) -> str:
    """Write files below a directory and return its path."""
    for name, raw in content.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(raw)
    return str(root)


def library(directory: Path) -> str:
    directory.mkdir(exist_ok=True)
    write_library(directory / "index.db")
    return str(directory / "index.db")


def no_tool() -> RegistryTool:
    raise AssertionError("unexpected access to a registry")


def read(tool: Callable[[], RegistryTool], reference: str) -> Blobs:
    return IndexSource.resolve(tool, reference).blobs()


def names(blobs: Blobs) -> list[str]:
    return [bundle.name for bundle in blobs.bundles]


def image_of(directory: Path, content: Mapping[str, bytes], **image_labels: str) -> str:
    """Write an image with files and labels to a layout and return its reference."""
    layer = directory / "layer"
    layer.mkdir(parents=True)
    image = small_image(layer, content, labels={key.replace("__", "."): value for key, value in image_labels.items()})
    return push_image(f"oci:{directory}/image:1", image)


CONFIGS = labels.INDEX_CONFIGS.replace(".", "__")
DATABASE = labels.INDEX_DATABASE.replace(".", "__")
PACKAGE = b"schema: olm.package\nname: lagoon\ndefaultChannel: stable\n"


def test_all_kinds_of_references_are_rendered_in_order(tool: Callable[[], RegistryTool], tmp_path: Path) -> None:
    bundle = write(tmp_path / "bundle", bundle_content("lagoon", "2.0.0"))
    (tmp_path / "layer").mkdir()
    image = push_image(f"oci:{tmp_path}/layout:1", bundle_image("lagoon", "1.0.0", tmp_path / "layer"))
    catalog = write(tmp_path / "catalog", {"lagoon/any": PACKAGE})
    database = library(tmp_path / "library")
    blobs = render(tool, [bundle, catalog, image, database, image])
    library_bundles = ["book.v0.1.0", "shelf.v1.0.0", "shelf.v1.1.0", "shelf.v1.2.0"]
    assert names(blobs) == ["lagoon.v2.0.0", "lagoon.v1.0.0", *library_bundles, "lagoon.v1.0.0"]
    assert [package.name for package in blobs.packages] == ["lagoon", "book", "shelf"]
    assert [bundle.image for bundle in blobs.bundles[:2]] == ["", image]


def test_files_need_no_registry(tmp_path: Path) -> None:
    references = [write(tmp_path / "bundle", bundle_content("lagoon", "2.0.0")), library(tmp_path / "library")]
    assert len(render(no_tool, references).bundles) == 5


def test_index_images_hold_a_catalog_or_a_database(tool: Callable[[], RegistryTool], tmp_path: Path) -> None:
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


def test_catalogs_are_normalized(tmp_path: Path) -> None:
    catalog = b"""{"schema": "olm.bundle", "name": "a", "package": "p", "image": "i", "properties": [
        {"type": "olm.csv.metadata", "value": {}}, {"type": "z", "value": {"b": 1, "a": 2}}, {"type": "y", "value": 1}],
        "relatedImages": [{"name": "2", "image": "b"}, {"name": "1", "image": "a"}]}
        {"schema": "mine", "b": 1, "a": 2}"""
    blobs = render(no_tool, [write(tmp_path, {"catalog.json": catalog})])
    (bundle,) = blobs.bundles
    assert [prop.type for prop in bundle.properties] == ["z", "y", "olm.csv.metadata"]
    assert list(bundle.properties[0].value) == ["a", "b"]  # type: ignore[arg-type]
    assert [related.image for related in bundle.related_images] == ["a", "b"]
    assert list(blobs.others[0].content) == ["a", "b", "schema"]


@pytest.mark.parametrize(
    ("image_labels", "message"),
    [
        ({}, "not an index image or a bundle image: it has no labels"),
        ({"b": "2", "a": "1"}, "these labels:\n  a=1\n  b=2"),
        ({CONFIGS: "/configs"}, "does not exist"),
        ({CONFIGS: "../.."}, "is not the path of a directory"),
        ({DATABASE: "/index.db"}, "the file /index.db in its label"),
    ],
)
def test_other_images_are_rejected(
    tool: Callable[[], RegistryTool], tmp_path: Path, image_labels: dict[str, str], message: str
) -> None:
    image = image_of(tmp_path, {"etc/passwd": b""}, **image_labels)
    with pytest.raises(CatalogError, match=message) as error:
        render(tool, [image])
    assert image in error.value.message
    assert error.value.hint


def test_kinds_that_are_not_accepted_are_rejected(tool: Callable[[], RegistryTool], tmp_path: Path) -> None:
    bundle = write(tmp_path / "bundle", bundle_content("lagoon", "2.0.0"))
    for read_source in (read, lambda tool, name: render(tool, [name], RenderOptions(kinds=INDEXES))):
        with pytest.raises(CatalogError, match="is a bundle directory") as error:
            read_source(tool, bundle)
        assert "an index database" in str(error.value.hint)


@pytest.mark.slow
@pytest.mark.parametrize(
    "reference", ["./nothing", "nothing", "127.0.0.1:1/nothing:1", "No Reference:1", "oci:nothing:1"]
)
def test_missing_references_are_reported(tool: Callable[[], RegistryTool], reference: str) -> None:
    with pytest.raises((CatalogError, ImageToolsError), match=r"othing|No Reference") as error:
        render(tool, [reference])
    assert error.value.hint


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"catalog.yaml": b"schema: olm.package\nname: 1\n---\nname: x\n"}, "catalog.yaml:1: name is a number"),
        ({"manifests/a": b"", "metadata/b": b""}, "no Kubernetes object"),
        (
            {**files(), "metadata/dependencies.yaml": b"dependencies: [{type: olm.gvk, value: x}]"},
            "olm.gvk is a string",
        ),
    ],
)
def test_errors_name_the_reference(tmp_path: Path, content: dict[str, bytes], message: str) -> None:
    reference = write(tmp_path / "it", content)
    with pytest.raises((InvalidCatalog, BundleError), match=message) as error:
        render(no_tool, [reference])
    assert error.value.message.startswith(reference)


@pytest.mark.slow
def test_warnings_name_the_bundle(tmp_path: Path) -> None:
    warnings: list[str] = []
    invalid = write(tmp_path / "one", {**files(), "manifests/x.yaml": b"a: b: c"})
    label = b"operators.operatorframework.io.bundle.channels.v1"
    unnamed = write(
        tmp_path / "two", {**files(name=""), "metadata/annotations.yaml": b"annotations: {%s: alpha}" % label}
    )
    render(no_tool, [invalid, unnamed], RenderOptions(warn=warnings.append))
    assert [warning.partition(": ")[0] for warning in warnings] == [invalid, unnamed, unnamed, unnamed]
    assert "ignored manifests/x.yaml:1" in warnings[0]
    assert "no package" in warnings[2]
    assert "no name" in warnings[3]


def test_bundle_images_are_cached(tool: Callable[[], RegistryTool], tmp_path: Path, registry: Registry) -> None:
    (tmp_path / "layer").mkdir()
    name = push_image(f"{registry.host}/cached/lagoon:1", bundle_image("lagoon", "1.0.0", tmp_path / "layer"))
    cache, digest = open_render_cache(tmp_path / "cache"), resolve_digest(name)
    options = RenderOptions(cache=cache)
    first = render(tool, [name], options)
    other = push_image(f"{registry.host}/cached/same:1", bundle_image("lagoon", "1.0.0", tmp_path / "layer"))
    shutil.rmtree(tmp_path / "store")
    cache.put(digest, (cache.get(digest) or b"").replace(b'"lagoon"', b'"cached"'))
    (again,) = render(tool, [other], options).bundles
    assert (again.name, again.package, again.image) == ("lagoon.v1.0.0", "cached", other)
    assert [related.image for related in again.related_images] == [other]
    for damaged in (b"{", b"{}"):
        cache.put(digest, damaged)
        assert render(tool, [name], options) == first == render(tool, [name])


def test_cached_bundles_are_rendered_as_by_any_release(
    tool: Callable[[], RegistryTool], tmp_path: Path, registry: Registry
) -> None:
    (tmp_path / "layer").mkdir()
    service = b'{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}'
    content = {**bundle_content("lagoon", "1.0.0"), "manifests/zz.json": service, "manifests/0.json": service}
    image = small_image(tmp_path / "layer", content, labels={labels.PACKAGE: "lagoon"})
    name = push_image(f"{registry.host}/cached/any:1", image)
    cache, digests = open_render_cache(tmp_path / "cache"), {name: resolve_digest(name)}
    releases = [CatalogCompat.parse(text) for text in ("newest", "1.39", "1.26")]
    fresh = [render(tool, [name], RenderOptions(compat=compat)) for compat in releases]
    assert len({to_json(blobs) for blobs in fresh}) == 3
    requests = []
    for _ in range(3):
        for compat, expected in zip(releases, fresh, strict=True):
            assert render(tool, [name], RenderOptions(cache=cache, digests=digests, compat=compat)) == expected
        requests.append(len(registry.requests()))
    assert requests[0] == requests[2]


def test_warnings_are_cached_with_the_bundle(
    tool: Callable[[], RegistryTool], tmp_path: Path, registry: Registry
) -> None:
    (tmp_path / "layer").mkdir()
    content = {**bundle_content("lagoon", "1.0.0"), "manifests/x.yaml": b"a: ["}
    image = small_image(tmp_path / "layer", content, labels={labels.PACKAGE: "lagoon"})
    name = push_image(f"{registry.host}/cached/warning:1", image)
    warnings: list[str] = []
    options = RenderOptions(
        cache=open_render_cache(tmp_path / "cache"), digests={name: resolve_digest(name)}, warn=warnings.append
    )
    first = render(tool, [name], options)
    assert "ignored manifests/x.yaml:2" in warnings[0]
    again = list(warnings)
    warnings.clear()
    requests = len(registry.requests())
    assert render(tool, [name], options) == first
    assert len(registry.requests()) == requests
    assert warnings == again


def test_bundles_are_migrated(tool: Callable[[], RegistryTool], tmp_path: Path) -> None:
    (tmp_path / "layer").mkdir()
    image = push_image(f"oci:{tmp_path}/layout:1", bundle_image("lagoon", "1.0.0", tmp_path / "layer"))
    (bundle,) = render(tool, [image], RenderOptions(level=MigrationLevel.ALL)).bundles
    assert [prop.type for prop in bundle.properties] == ["olm.package", "olm.csv.metadata"]


@pytest.mark.slow
def test_image_template_names_the_images_of_directories(tmp_path: Path) -> None:
    options = RenderOptions(image_template=ImageTemplate.parse("quay.io/me/{{.Package}}:v{{ .Version }}"))
    (bundle,) = render(no_tool, [write(tmp_path, files())], options).bundles
    assert bundle.image == "quay.io/me/op:v1.0.0"
    assert bundle.image in [related.image for related in bundle.related_images]
