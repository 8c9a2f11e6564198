"""The dependencies that pyproject.toml declares are those that the source imports."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections import defaultdict
from functools import cache
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
OPTIONAL = {"cel-expr-python": "cel", "distributed": "dask", "ryaml": "fast", "sigstore": "keyless"}
"""Distributions that are imported where they are needed, with the extra that declares them."""
NAMESPACES = {"backports": "backports-zstd", "google": "protobuf"}
"""Import names that several distributions share, with the one that is meant."""
TYPE_STUBS_ONLY = {"_typeshed"}
NEW_IN_PYTHON = {"compression"}
"""Modules of the standard library in newer releases of Python."""


def imported() -> dict[str, set[str]]:
    """Return the files that import a module, by its top-level name, without those of Python and opmkit."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            for name in names:
                found[name.partition(".")[0]].add(str(path.relative_to(ROOT)))
    known = {*sys.stdlib_module_names, *TYPE_STUBS_ONLY, *NEW_IN_PYTHON, "opmkit"}
    return {name: files for name, files in found.items() if name not in known}


def normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@cache
def installed() -> Mapping[str, list[str]]:
    """Return the installed distributions by the modules that they contain."""
    return packages_distributions()


def distribution_of(module: str) -> str:
    """Return the distribution that installs a module; its own name if it is not installed."""
    found = installed().get(module, [module])
    return NAMESPACES.get(module) or normalize(found[0])


def declared(requirements: list[str]) -> set[str]:
    return {normalize(re.split(r"[^\w.-]", requirement, maxsplit=1)[0]) for requirement in requirements}


def test_imported_distributions_are_declared() -> None:
    required = declared(PROJECT["dependencies"])
    missing = {}
    for module, files in imported().items():
        name = distribution_of(module)
        extra = OPTIONAL.get(name)
        allowed = declared(PROJECT["optional-dependencies"][extra]) if extra else required
        if name not in allowed:
            missing[name] = sorted(files)
    assert not missing


def test_declared_distributions_are_imported() -> None:
    used = {distribution_of(module) for module in imported()}
    assert declared(PROJECT["dependencies"]) - used == set()
    assert set(OPTIONAL) - used == set()
