"""Paths and commands in new index images, and their default base."""

from __future__ import annotations

DEFAULT_BINARY_IMAGE = "quay.io/operator-framework/opm:v1.73.0"
"""The release of operator-registry that opmkit is compatible with.

It serves sqlite indexes; releases after 1.74 do not, so images based on them would not start.
"""


ENTRYPOINT = ("/bin/opm",)
PORT = 50051
DATABASE_PATH = "/database/index.db"
"""Path of the database in new index images."""
DATABASE_COMMAND = ("registry", "serve", "--database", DATABASE_PATH)
CONFIGS = "configs"
"""Directory of the catalog in new index images, without the leading slash."""
