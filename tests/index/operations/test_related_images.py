"""Images of indexes with the bundles that need them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.core.files import write_files
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.load import parse_blobs, stream_blobs
from opmkit.index.image.source import IndexSource
from opmkit.index.operations.filter.result import PackageFilter
from opmkit.index.operations.related_images import ImageKind, ImageUse, group_by_image, images_in_catalog, index_images
from tests.bundle.samples import files
from tests.kit.catalogs import write_library
from tests.kit.opm import run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROXY = "quay.io/me/proxy@sha256:" + "a" * 64


def bundle(package: str, version: str, *related: tuple[str, str]) -> dict[str, Any]:
    value = {"packageName": package, "version": version}
    return {
        "schema": "olm.bundle",
        "package": package,
        "name": f"{package}.v{version}",
        "image": f"quay.io/me/{package}:{version}",
        "properties": [{"type": "olm.package", "value": value}],
        "relatedImages": [{"name": name, "image": image} for name, image in related],
    }


def channel(package: str, name: str, *versions: str) -> dict[str, Any]:
    entries = [{"name": f"{package}.v{version}"} for version in versions]
    return {"schema": "olm.channel", "package": package, "name": name, "entries": entries}


DOCUMENTS = [
    bundle("reef", "1.0.0", ("", "quay.io/me/reef:1.0.0"), ("proxy", PROXY), ("again", PROXY), ("none", "")),
    bundle("reef", "2.0.0", ("operator", "quay.io/me/operator:2")),
    bundle("atoll", "1.0.0", ("proxy", PROXY)),
    channel("reef", "stable", "1.0.0"),
    channel("reef", "fast", "1.0.0", "2.0.0"),
    channel("atoll", "stable", "1.0.0"),
]
REEF_1 = ["quay.io/me/reef:1.0.0", PROXY]
REEF_2 = ["quay.io/me/reef:2.0.0", "quay.io/me/operator:2"]


def images(*filters: str) -> list[str]:
    blobs = parse_blobs("".join(map(json.dumps, DOCUMENTS)).encode(), "catalog.json")
    return [use.image for use in images_in_catalog(blobs, list(map(PackageFilter.parse, filters)))]


def no_tool() -> Any:
    raise AssertionError


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ((), [*REEF_1, *REEF_2, "quay.io/me/atoll:1.0.0", PROXY]),
        (("reef",), [*REEF_1, *REEF_2]),
        (("reef:stable",), REEF_1),
        (("reef:fast@>=2.0.0",), REEF_2),
        (("reef@<2.0.0", "reef:stable"), REEF_1),
        (("atoll", "reef:stable"), ["quay.io/me/atoll:1.0.0", PROXY, *REEF_1]),
    ],
)
def test_filters_select_bundles(filters: tuple[str, ...], expected: list[str]) -> None:
    assert images(*filters) == expected


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (("ref",), 'package "ref" not found'),
        (("reef:stabel",), 'package "reef": channel "stabel" not found'),
        (("reef@>=3.0.0",), 'filter "reef@>=3.0.0": no bundle has a version in the range'),
        (("ref", "atoll:x"), 'channel "x" not found'),
    ],
)
def test_filters_without_bundles_are_errors(filters: tuple[str, ...], message: str) -> None:
    with pytest.raises(CatalogError) as caught:
        images(*filters)
    assert message in "\n".join(caught.value.lines)


def test_images_are_grouped_with_their_uses() -> None:
    blobs = parse_blobs("".join(map(json.dumps, DOCUMENTS)).encode(), "catalog.json")
    grouped = {used.image: used.uses for used in group_by_image(images_in_catalog(blobs))}
    assert len(grouped) == 5
    assert grouped[PROXY] == (
        ImageUse(PROXY, ImageKind.RELATED, "atoll", "atoll.v1.0.0", "proxy"),
        ImageUse(PROXY, ImageKind.RELATED, "reef", "reef.v1.0.0", "proxy"),
    )


def test_catalog_is_read_file_by_file(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("".join(map(json.dumps, DOCUMENTS)))
    (tmp_path / "b.json").write_text('{"schema": 1}')
    uses: Iterator[ImageUse] = index_images(IndexSource.find(no_tool, str(tmp_path)))
    assert next(uses).image == REEF_1[0]
    with pytest.raises(InvalidCatalog, match=r"b\.json:1"):
        list(uses)
    (tmp_path / "b.json").unlink()
    assert len(list(stream_blobs(tmp_path))) == len(DOCUMENTS)


def test_database_has_the_images_of_its_catalog(tmp_path: Path) -> None:
    write_library(tmp_path / "index.db")
    source = IndexSource.find(no_tool, str(tmp_path / "index.db"))
    uses = list(index_images(source))
    assert {(use.package, use.bundle) for use in uses} == {
        ("book", "book.v0.1.0"), *(("shelf", f"shelf.v1.{minor}.0") for minor in range(3))
    }  # fmt: skip
    assert {use.image for use in uses} == {use.image for use in images_in_catalog(source.blobs())}
    alpha = {use.bundle for use in index_images(source, [PackageFilter.parse("shelf:beta")])}
    assert alpha == {"shelf.v1.0.0", "shelf.v1.1.0"}


def test_errors_of_a_bundle_name_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dependencies = {"dependencies": [{"type": "olm.gvk", "value": "text"}]}
    write_files(tmp_path, {**files(), "metadata/dependencies.yaml": json.dumps(dependencies).encode()})
    assert run(["index", "images", str(tmp_path)]) == 1
    assert capsys.readouterr().err.startswith(f"Error: {tmp_path}: a value of olm.gvk is a string, not a mapping\n")
