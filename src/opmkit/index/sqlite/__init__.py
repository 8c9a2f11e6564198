"""The index database. This package contains all SQL of opmkit."""

from opmkit.index.sqlite.database import IndexDatabase, open_database
from opmkit.index.sqlite.replace import replace_database
from opmkit.index.sqlite.schema import SCHEMA_VERSION

__all__ = ["SCHEMA_VERSION", "IndexDatabase", "open_database", "replace_database"]
