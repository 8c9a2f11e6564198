"""Verification of the signatures of bundle images before their content is used."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from opmkit.bundle.errors import BundleError
from opmkit.bundle.source import BundleSource
from opmkit.core.errors import DiskError, LimitExceeded
from opmkit.core.workers import ordered_parallel_map
from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.reference import Reference, parse_image_reference, pin_reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.imagetools.signatures.policy import SignaturePolicy
    from opmkit.index.fbc.check.policy import CatalogPolicy
    from opmkit.index.fbc.load import LoadResult


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


def verified_reference(reference: ImageReference, policy: SignaturePolicy, client: RegistryClient) -> ImageReference:
    """Verify an image, unless it is accepted unsigned, and return a reference that reads exactly the verified one.

    Raises:
        VerificationFailed: The image does not satisfy the policy.
        ImageToolsError: The image or its signatures cannot be read.
    """
    if policy.accepts_unsigned(reference, client):
        return reference
    return _pin(reference, policy.verify(reference, client), client)


def _verify(policy: SignaturePolicy, client: RegistryClient, source: BundleSource) -> str:
    location = source.location
    if isinstance(location, Path):
        raise BundleError(
            f"{source.text}: directories have no signatures",
            hint="build the bundle image, push it and sign it, and add the image",
        )
    recorded = Reference.parse(source.image) if _is_name(source) else None
    pinned = _pin(location, policy.verify(location, client, recorded), client)
    if recorded is None:
        return str(pinned)
    # The full name is recorded for a short one, because clusters may resolve it to another image.
    image = str(client.resolve_short_name(recorded)) if recorded.short_name else source.image
    return f"{pinned}={image}"


def _is_name(source: BundleSource) -> bool:
    """Return whether the image to record is a name in a registry, instead of the location of a file."""
    return isinstance(source.location, Reference) or source.image != source.text


def _pin(reference: ImageReference, digest: str, client: RegistryClient) -> ImageReference:
    """Return a reference by digest, which neither a moved tag nor a changed alias affects."""
    if isinstance(reference, Reference):
        reference = client.resolve_short_name(reference)
    return pin_reference(reference, digest)


def _failure(policy: SignaturePolicy, client: RegistryClient, image: str) -> str:
    try:
        policy.verify(parse_image_reference(image), client)
    except (ImageToolsError, LimitExceeded, DiskError) as error:
        return error.message
    return ""


def with_signatures(
    policy: CatalogPolicy, source: Path | str, loaded: LoadResult, client: RegistryClient
) -> CatalogPolicy:
    """Return the requirements with the bundle images of a catalog that lack a signature.

    Args:
        policy: The other requirements.
        source: A public key, or a policy.json.
        loaded: The catalog.
        client: Reads the signatures.
    """
    from opmkit.imagetools.signatures.policy import SignaturePolicy

    required = SignaturePolicy.load(str(source))
    images = {bundle.image for bundle in loaded.blobs.bundles}
    unsigned = dict(unverified_images(sorted(images - {""}), required, client))
    if "" in images:
        unsigned[""] = "the bundle has no image, which could be signed"
    return replace(policy, unsigned=unsigned)
