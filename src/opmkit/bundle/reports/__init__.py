"""Report formats for the results of bundles and catalogs. Functions return text or JSON types, and print nothing."""

from opmkit.bundle.reports import github, json, junit, markdown, sarif, text

__all__ = ["github", "json", "junit", "markdown", "sarif", "text"]
