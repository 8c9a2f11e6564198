"""The operations of the public API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.core.lazy import lazy_exports

if TYPE_CHECKING:
    from opmkit.api.client import Opm

__all__ = ["Opm"]
__getattr__ = lazy_exports(__name__, {"client": ["Opm"]})
