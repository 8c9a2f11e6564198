"""The operations of the public API."""

from __future__ import annotations

from opmkit.api.client import Opm

__all__ = ["Opm"]
