"""Reports of validation in the forms that people and programs read. Each gives text; none prints."""

from opmkit.bundle.validation.reports import github, json, junit, sarif, text

__all__ = ["github", "json", "junit", "sarif", "text"]
