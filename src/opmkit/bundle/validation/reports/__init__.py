"""Report formats for validation results. Each function returns text or JSON types, and prints nothing."""

from opmkit.bundle.validation.reports import github, json, junit, sarif, text

__all__ = ["github", "json", "junit", "sarif", "text"]
