"""Errors of signing and verification."""

from __future__ import annotations

from opmkit.imagetools.errors import ImageToolsError


class InvalidKey(ImageToolsError):
    """A key that cannot be read, decrypted or used."""


class InvalidSignature(ImageToolsError):
    """Malformed signature material, or a signature of something else."""


class VerificationFailed(ImageToolsError):
    """An image without a signature or attestation that satisfies the requirements."""


class InvalidSignaturePolicy(ImageToolsError):
    """A policy for signatures that is malformed or not supported."""
