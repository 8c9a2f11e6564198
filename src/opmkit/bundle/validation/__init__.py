"""Validation of bundles: rules, and what they find."""

from opmkit.bundle.validation.finding import Finding, Severity

__all__ = ["Finding", "Severity"]
