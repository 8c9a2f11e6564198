"""Report formats for the results of bundles and catalogs. Functions return text or JSON types, and print nothing."""
