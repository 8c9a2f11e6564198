"""Image formats."""

from __future__ import annotations

from enum import StrEnum


class ImageFormat(StrEnum):
    """The family of media types of an image, with the names of ``skopeo copy --format``."""

    OCI = "oci"
    DOCKER = "v2s2"

    @property
    def manifest_type(self) -> str:
        """The media type of the manifest."""
        from opmkit.imagetools.spec import media_types  # the command line imports this module at startup

        return media_types.OCI_MANIFEST if self is ImageFormat.OCI else media_types.DOCKER_MANIFEST
