"""Signatures that operations require of the images they read."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opmkit.imagetools.reference import ImageReference
    from opmkit.imagetools.registry import RegistryClient


def verified_bundles(bundles: Sequence[str], required: str | None, client: Callable[[], RegistryClient]) -> list[str]:
    """Verify bundle images with a public key or a policy.json, and return sources that read the verified images.

    Without a requirement the client is not created.
    """
    if required is None:
        return list(bundles)
    from opmkit.imagetools.signatures.policy import SignaturePolicy
    from opmkit.supply.sign.bundle_images import verified_sources

    return verified_sources(bundles, SignaturePolicy.load(required), client())


def index_verifier(required: str | None, client: RegistryClient) -> Callable[[ImageReference], ImageReference] | None:
    """Return a function that verifies an index image with a policy, and returns its reference by digest.

    Returns:
        The function, or None if ``required`` is None or a key, which applies to bundle images only.
    """
    if required is None:
        return None
    from opmkit.imagetools.signatures.policy import SignaturePolicy
    from opmkit.supply.sign.bundle_images import verified_reference

    policy = SignaturePolicy.load(required)
    return None if policy.is_key else lambda image: verified_reference(image, policy, client)
