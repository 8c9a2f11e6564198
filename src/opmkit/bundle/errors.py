"""Errors of this package."""

from __future__ import annotations

from opmkit.core.errors import OpmkitError


class BundleError(OpmkitError):
    """Base class of errors about bundles: their files, metadata and images."""


class InvalidBundle(BundleError):
    """The files are not a bundle, or one that no catalog can contain."""


class NotABundle(BundleError):
    """The image or directory is not a bundle."""


class InvalidProject(BundleError):
    """A file of an operator project is missing or invalid."""


class InvalidDockerfile(BundleError):
    """A Dockerfile is invalid, or requires a container engine."""


class NoMatchingTag(BundleError):
    """Tag patterns match no tag of a repository."""
