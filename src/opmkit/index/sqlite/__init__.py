"""The sqlite index. All SQL of the project lives in this package."""

from opmkit.index.sqlite.files import IndexDatabase, open_database, replace_database
from opmkit.index.sqlite.schema import SCHEMA_VERSION

__all__ = ["SCHEMA_VERSION", "IndexDatabase", "open_database", "replace_database"]
