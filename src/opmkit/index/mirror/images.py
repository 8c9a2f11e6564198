"""The images that the bundles of an index need, as requests to mirror them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.mirroring.model import MirrorFailure, MirrorRequest
from opmkit.imagetools.reference import Reference
from opmkit.index.operations.related_images import group_by_image

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.index.operations.related_images import ImageUse


def bundle_image_requests(uses: Iterable[ImageUse]) -> tuple[list[MirrorRequest], list[MirrorFailure]]:
    """Return a request for each image that bundles use, and a failure for each invalid reference."""
    requests: list[MirrorRequest] = []
    failures: list[MirrorFailure] = []
    for used in group_by_image(uses):
        needed_by = tuple(dict.fromkeys(f"bundle {use.bundle}" for use in used.uses))
        try:
            requests.append(MirrorRequest(Reference.parse(used.image).with_default_tag(), needed_by))
        except InvalidReference as error:
            failures.append(MirrorFailure(used.image, error, needed_by))
    return requests, failures
