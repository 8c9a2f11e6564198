"""File-based catalogs for the tests of several operations."""

from __future__ import annotations

from tests.kit.edits import catalog

TWO_PACKAGES = catalog(
    {"ape": {"alpha": ["ape.v1.0.0", "ape.v1.1.0 > ape.v1.0.0"]}, "bee": {"beta": ["bee.v1.0.0"]}},
    {"schema": "olm.deprecations", "package": "ape", "entries": [
        {"reference": {"schema": "olm.bundle", "name": "ape.v1.0.0"}, "message": "old"},
        {"reference": {"schema": "olm.bundle", "name": "ape.v0.9.0"}, "message": "older"},
    ]},
    {"schema": "olm.deprecations", "package": "bee", "entries": [
        {"reference": {"schema": "olm.package"}, "message": "gone soon"},
    ]},
    {"schema": "example.com.note", "package": "ape", "name": "note"},
    {"schema": "example.com.note", "name": "without package"},
)  # fmt: skip
