"""Validation of bundles: rules, and what they find."""

from opmkit.bundle.finding import Finding, Severity

__all__ = ["Finding", "Severity"]
