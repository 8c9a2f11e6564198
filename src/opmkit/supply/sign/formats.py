"""Formats of signatures and attestations."""

from __future__ import annotations

from enum import StrEnum


class SignatureFormat(StrEnum):
    """The format of signatures and attestations: each verifier reads some."""

    TAG = "tag"
    """Layers under cosign's tags."""
    BUNDLE = "bundle"
    """Sigstore bundles as referrers, as cosign 3 stores them by default."""
    BOTH = "both"

    @property
    def has_tag(self) -> bool:
        """Whether layers under cosign's tags are written."""
        return self is not SignatureFormat.BUNDLE

    @property
    def has_bundle(self) -> bool:
        """Whether Sigstore bundles are written."""
        return self is not SignatureFormat.TAG
