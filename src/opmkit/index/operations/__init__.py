"""Operations on indexes: a module or package per verb, for databases and file-based catalogs."""
