"""Filter file-based catalogs by package, channel and version range, keeping update graphs valid."""
