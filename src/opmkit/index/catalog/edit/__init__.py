"""Changes of file-based catalogs, as pure functions on their blobs: what the ``index`` verbs do to a database."""
