"""Provenance of bundle and index images, in the format of SLSA 1.0."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from opmkit._version import __version__
from opmkit.core.epoch import rfc3339, source_date_epoch
from opmkit.supply.attest.contents import image_digest, package_url

if TYPE_CHECKING:
    from opmkit.supply.attest.contents import ImageContents

OPMKIT = f"pkg:pypi/opmkit@{__version__}"
"""The package URL of this program, the default builder."""


def provenance(contents: ImageContents, builder: str = "") -> dict[str, Any]:
    """Describe the build of an image: the bundles in it, and the base and bundle images that it was made from.

    Digests are those that the image records: a bundle that an index refers to by tag has none. The document has a time
    only if SOURCE_DATE_EPOCH is set.

    Args:
        contents: The content of the image.
        builder: The URI of the platform that ran the build, such as a CI workflow; by default this program.
    """
    bundles = [
        {key: value for key, value in entry.items() if value}
        for bundle in contents.bundles
        for entry in [
            {"package": bundle.package, "name": bundle.name, "version": bundle.version, "image": bundle.image}
        ]
    ]
    materials = [bundle.image for bundle in contents.bundles if bundle.image]
    dependencies = [_dependency(image) for image in sorted({*materials, *filter(None, [contents.base])})]
    if contents.previous.startswith("sha256:"):
        digest = {"sha256": contents.previous.removeprefix("sha256:")}
        dependencies.append({"name": "previous index", "digest": digest})
    time = rfc3339(source_date_epoch()) if os.environ.get("SOURCE_DATE_EPOCH") else ""
    return {
        "buildDefinition": {
            "buildType": f"urn:opmkit:build:{contents.kind.value}:v1",
            "externalParameters": {"bundles": bundles},
            "internalParameters": {},
            "resolvedDependencies": dependencies,
        },
        "runDetails": {
            "builder": {"id": builder or OPMKIT, "version": {"opmkit": __version__}},
            "metadata": {"finishedOn": time} if time else {},
        },
    }


def _dependency(image: str) -> dict[str, Any]:
    algorithm, _, encoded = image_digest(image).partition(":")
    return {"uri": package_url(image) or image, "name": image} | ({"digest": {algorithm: encoded}} if encoded else {})
