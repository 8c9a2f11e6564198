"""The flag that requires signatures of images, and their verification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opmkit.cli.flags.registry import RegistryFlags
    from opmkit.imagetools.reference import ImageReference


RequireSignature = Annotated[
    str,
    typer.Option(
        "--require-signature",
        metavar="FILE",
        help="Public key that must have signed the bundle images, or a policy.json with keys by name",
    ),
]


def require_signatures(bundles: Sequence[str], required: str, registry_flags: RegistryFlags) -> list[str]:
    """Verify bundle images with a key or policy, unless it is "", and return sources that read the verified images."""
    if not required:
        return list(bundles)
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.supply.sign.bundle_images import verified_sources
    from opmkit.supply.sign.policy import SignaturePolicy

    policy = SignaturePolicy.load(required)
    with RegistryClient(registry_flags.options()) as client:
        return verified_sources(bundles, policy, client)


def index_verifier(required: str, registry_flags: RegistryFlags) -> Callable[[ImageReference], ImageReference] | None:
    """Return a function that verifies an index image with a policy, and returns its reference by digest.

    Returns:
        The function, or None if ``required`` is "" or a key, which applies to bundle images only.
    """
    if not required:
        return None
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.supply.sign.bundle_images import verified_reference
    from opmkit.supply.sign.policy import SignaturePolicy

    policy = SignaturePolicy.load(required)

    def verify(image: ImageReference) -> ImageReference:
        with RegistryClient(registry_flags.options()) as client:
            return verified_reference(image, policy, client)

    return None if policy.is_key else verify
