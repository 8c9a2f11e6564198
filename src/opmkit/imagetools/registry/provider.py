"""oras' registry provider, without the schema library that only its own pushes need.

That library takes as long to load as the rest of oras; here it is loaded when it is first used.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

_SCHEMAS = "jsonschema"


class _WhenUsed(ModuleType):
    """Stands for a module that is imported when something of it is asked for."""

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self.__name__), attribute)


if _SCHEMAS in sys.modules:
    from oras.provider import Registry
else:
    sys.modules[_SCHEMAS] = _WhenUsed(_SCHEMAS)
    try:
        from oras.provider import Registry
    finally:
        del sys.modules[_SCHEMAS]

__all__ = ["Registry"]
