"""File-based catalogs: model, loading, writing, validation, migration and templates."""
