"""Edits of catalog templates: bundles, channels and deprecations in their text."""
