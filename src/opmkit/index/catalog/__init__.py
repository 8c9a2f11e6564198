"""Catalogs: their model, the rules they keep, and reading them."""

from opmkit.index.catalog.from_database import load_catalog
from opmkit.index.catalog.model import Catalog, Channel, Package

__all__ = ["Catalog", "Channel", "Package", "load_catalog"]
