"""The formats that images are built in."""

from __future__ import annotations

from enum import StrEnum


class ImageFormat(StrEnum):
    """The media types of an image's manifest, configuration and layers, in the names of ``skopeo copy --format``."""

    OCI = "oci"
    DOCKER = "v2s2"

    @property
    def manifest_type(self) -> str:
        """The media type of a manifest."""
        from opmkit.imagetools.spec import media_types  # not before it is needed: command lines name formats

        return media_types.OCI_MANIFEST if self is ImageFormat.OCI else media_types.DOCKER_MANIFEST
