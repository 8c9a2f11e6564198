"""Errors of signing and verification."""

from __future__ import annotations

from opmkit.imagetools.errors import ImageToolsError


class SignatureError(ImageToolsError):
    """An error of signing or verification. A command that can do without an image must not do without its check."""


class InvalidKey(SignatureError):
    """A key that cannot be read, decrypted or used."""


class InvalidSignature(SignatureError):
    """Malformed signature material, or a signature of something else."""


class VerificationFailed(SignatureError):
    """An image without a signature or attestation that satisfies the requirements."""


class InvalidSignaturePolicy(SignatureError):
    """A policy for signatures that is malformed or not supported."""
