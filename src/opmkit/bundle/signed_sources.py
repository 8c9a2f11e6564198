"""Verification of the signatures of bundle images before their content is used."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle.errors import BundleError
from opmkit.bundle.parallel import ordered_parallel_map
from opmkit.bundle.source import BundleSource
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.reference import LayoutReference, Reference, parse_image_reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.signing.policy import SignaturePolicy


def verified_sources(texts: Sequence[str], policy: SignaturePolicy, client: RegistryClient) -> list[str]:
    """Verify the images of bundle sources, and return sources that read exactly the verified images.

    Args:
        texts: Sources as `BundleSource.parse` reads them.
        policy: The requirements.
        client: Reads the signatures.

    Raises:
        VerificationFailed: An image does not satisfy the policy.
        BundleError: A source is not an image in a registry or layout.
        ImageToolsError: An image or its signatures cannot be read.
    """
    sources = [BundleSource.parse(text) for text in dict.fromkeys(texts)]
    with closing(ordered_parallel_map(partial(_verify, policy, client), sources)) as verified:
        return [future.result() for _, future in verified]


def unverified_images(images: Iterable[str], policy: SignaturePolicy, client: RegistryClient) -> Mapping[str, str]:
    """Return the images that do not satisfy a policy, or whose signatures cannot be read, with the reasons."""
    unique = list(dict.fromkeys(images))
    with closing(ordered_parallel_map(partial(_failure, policy, client), unique)) as results:
        return {image: reason for image, future in results if (reason := future.result())}


def _verify(policy: SignaturePolicy, client: RegistryClient, source: BundleSource) -> str:
    location = source.location
    if isinstance(location, Path):
        raise BundleError(
            f"{source.text}: directories have no signatures",
            hint="build the bundle image, push it and sign it, and add the image",
        )
    digest = policy.verify(location, client)
    match location:
        case Reference():
            pinned = f"{location.short_name or location.name}@{digest}"
        case LayoutReference():
            pinned = f"oci:{location.path}@{digest}"
        case _:
            pinned = str(location)
    has_image = isinstance(location, Reference) or source.image != source.text
    return f"{pinned}={source.image}" if has_image else pinned


def _failure(policy: SignaturePolicy, client: RegistryClient, image: str) -> str:
    try:
        policy.verify(parse_image_reference(image), client)
    except ImageToolsError as error:
        return error.message
    return ""
