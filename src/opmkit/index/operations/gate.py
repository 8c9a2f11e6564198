"""Requirements on catalogs that depend on a published index or on signatures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from opmkit.bundle.validation.openshift import OpenShiftVersion
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.check.policy import CatalogPolicy
from opmkit.index.fbc.check.published import summarize_published
from opmkit.index.image.source import IndexSource

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.index.image.source import GetRegistryTool


@dataclass(frozen=True, slots=True)
class IndexRequirements:
    """Requirements on an index in addition to its validity.

    Attributes:
        openshift_version: OpenShift version that serves the catalog, such as ``4.17``; "" for any.
        require_digests: Whether bundle images must have a digest.
        allowed_registries: Allowed registries, or prefixes, of bundle images; empty for any.
        related_images: Whether to apply both to related images as well.
        against: Published index, whose packages, channels, heads, bundles and upgrade paths must remain; "" for none.
        fragment: Whether the catalog is a part of the published index, so that packages may be missing.
        require_signature: Public key that must have signed the bundle images, or a policy.json; None for none.
    """

    openshift_version: str = ""
    require_digests: bool = False
    allowed_registries: tuple[str, ...] = ()
    related_images: bool = False
    against: str = ""
    fragment: bool = False
    require_signature: Path | str | None = None

    def policy(self) -> CatalogPolicy:
        """Return the requirements, without the published index and signatures.

        Raises:
            CatalogError: The OpenShift version is invalid.
        """
        version = None
        if self.openshift_version:
            try:
                version = OpenShiftVersion.parse(self.openshift_version)
            except ValueError as error:
                raise CatalogError(f"invalid OpenShift version: {error}", hint="pass a version such as 4.17") from error
        return CatalogPolicy(version, self.require_digests, self.allowed_registries, self.related_images)


def with_published(
    policy: CatalogPolicy, index: str, tool: GetRegistryTool, *, fragment: bool
) -> tuple[CatalogPolicy, tuple[str, ...]]:
    """Return the requirements with a published index, or "" if there is none, and notices about it."""
    if not index:
        return policy, ()
    published = summarize_published(IndexSource.resolve(tool, index).stream_blobs())
    notices = () if published else (f"{index}: the published index has no packages",)
    return replace(policy, published=published, fragment=fragment), notices
