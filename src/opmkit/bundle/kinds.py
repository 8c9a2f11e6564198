"""Kinds of objects in bundles."""

from __future__ import annotations

CSV_KIND = "ClusterServiceVersion"
CRD_KIND = "CustomResourceDefinition"
