"""Print the lowest versions that pyproject.toml declares, as requirements for pip or uv."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"


def main() -> int:
    """Print one requirement per dependency and development tool."""
    project = tomllib.loads(PROJECT.read_text())["project"]
    extras = project["optional-dependencies"]
    for requirement in [*project["dependencies"], *extras["build"], *extras["dask"], *extras["dev"]]:
        if not requirement.startswith(f"{project['name']}["):
            print(re.sub(r">=", "==", requirement, count=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
