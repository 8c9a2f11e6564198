"""Signatures that operations require of the images they read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.registry import RegistryClient


def verified_bundles(bundles: Sequence[str], required: str, client: Callable[[], RegistryClient]) -> list[str]:
    """Verify bundle images with a public key or a policy.json, and return sources that read the verified images.

    Without a requirement the client is not created.
    """
    if not required:
        return list(bundles)
    from opmkit.supply.sign.bundle_images import verified_sources
    from opmkit.supply.sign.policy import SignaturePolicy

    return verified_sources(bundles, SignaturePolicy.load(required), client())


def index_verifier(required: str, client: RegistryClient) -> Callable[[ImageReference], ImageReference] | None:
    """Return a function that verifies an index image with a policy, and returns its reference by digest.

    Returns:
        The function, or None if ``required`` is "" or a key, which applies to bundle images only.
    """
    if not required:
        return None
    from opmkit.supply.sign.bundle_images import verified_reference
    from opmkit.supply.sign.policy import SignaturePolicy

    policy = SignaturePolicy.load(required)
    return None if policy.is_key else lambda image: verified_reference(image, policy, client)
