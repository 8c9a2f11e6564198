"""Types of the properties and dependencies of bundles."""

from __future__ import annotations

from typing import Final

PACKAGE: Final = "olm.package"
GVK: Final = "olm.gvk"
LABEL: Final = "olm.label"
CONSTRAINT: Final = "olm.constraint"
REQUIRED_PACKAGE: Final = "olm.package.required"
REQUIRED_GVK: Final = "olm.gvk.required"
REQUIRED_LABEL: Final = "olm.label.required"

REFUSED_BY_OLM_V1 = (REQUIRED_PACKAGE, REQUIRED_GVK, CONSTRAINT)
"""Types with which OLM v1 installs no bundle (operator-controller, resolve/validation.go)."""
