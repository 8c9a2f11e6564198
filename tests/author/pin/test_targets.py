"""Pinning of the images of a catalog as a change of an index."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.kit.pinning import fake_digest, pinned_name

from opmkit.author.pin.resolve import PinOptions, UnresolvedImages
from opmkit.author.pin.targets import PinImages
from opmkit.imagetools.errors import NotFound
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.load import parse_blobs
from opmkit.index.fbc.write import to_json

if TYPE_CHECKING:
    from opmkit.imagetools.reference import Reference

IMAGE = "quay.io/a/b:1"
CATALOG = f"""\
schema: olm.package
name: a
---
schema: olm.bundle
name: a.v1
package: a
image: {IMAGE}
properties:
- type: custom
  value: 1
relatedImages:
- image: {IMAGE}
  name: a
---
schema: olm.bundle
name: a.v2
package: a
image: quay.io/a/b@sha256:{"0" * 64}
"""


def test_images_of_bundles_are_pinned() -> None:
    blobs = parse_blobs(CATALOG.encode(), "catalog.yaml")
    result = PinImages(PinOptions(), fake_digest).apply_to_catalog(blobs)
    assert to_json(result.blobs) == to_json(blobs).replace(IMAGE.encode(), pinned_name(IMAGE).encode())
    assert result.blobs.bundles[1] is blobs.bundles[1]
    assert result.blobs.bundles[0].location == blobs.bundles[0].location
    assert result.report is not None
    assert list(result.report.lines()) == [f"{IMAGE} -> {pinned_name(IMAGE)}"]
    (image,) = result.report.as_dict()["images"]
    assert [(use["file"], use["line"]) for use in image["uses"]] == [("catalog.yaml", 4)] * 2


def test_unresolved_images_have_the_line_of_the_bundle() -> None:
    def digest(reference: Reference) -> str:
        raise NotFound(f"{reference}: not found")

    with pytest.raises(UnresolvedImages, match=f"catalog.yaml:4: bundle image a.v1: {IMAGE}: not found"):
        PinImages(PinOptions(), digest).apply_to_catalog(parse_blobs(CATALOG.encode(), "catalog.yaml"))


def test_databases_are_not_supported() -> None:
    with pytest.raises(CatalogError, match="index databases do not support this change"):
        PinImages(PinOptions(), fake_digest).check_database_support()
