"""Content of credentials files."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def auth(user: str, password: str) -> dict[str, str]:
    """Return an entry of ``auths``."""
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


def write_json(path: Path, **content: object) -> Path:
    """Write a JSON object and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return path
