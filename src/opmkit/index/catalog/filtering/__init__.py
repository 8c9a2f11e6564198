"""Parts of catalogs: packages, channels and ranges of versions, with what keeps their update graphs valid."""
