"""Changes and queries of indexes, a module or package for each verb, for sqlite databases and file-based catalogs."""
