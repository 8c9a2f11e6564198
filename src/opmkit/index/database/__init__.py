"""The sqlite index. All SQL of the project lives in this package."""

from opmkit.index.database.files import IndexDatabase, open_database, replace_database
from opmkit.index.database.schema import SCHEMA_VERSION

__all__ = ["SCHEMA_VERSION", "IndexDatabase", "open_database", "replace_database"]
