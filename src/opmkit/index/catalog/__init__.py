"""Catalogs: their model, the rules they keep, and reading them."""

from opmkit.index.catalog.from_database import load_catalog
from opmkit.index.catalog.model import Catalog, CatalogBundle, Channel, Package, Property
from opmkit.index.catalog.validation import check_catalog

__all__ = [
    "Catalog",
    "CatalogBundle",
    "Channel",
    "Package",
    "Property",
    "check_catalog",
    "load_catalog",
]
