"""Operator directories: an operator in a repository, with a directory per version and the file ci.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.documents import MAX_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


OPERATORS = "operators"
"""Directory of a repository with the operators."""
CI_FILE = "ci.yaml"
TEMPLATES = "catalog-templates"
"""Directory of an operator with the templates of its catalogs."""
RELEASE_CONFIG = "release-config.yaml"
REPOSITORY_CONFIG = "../../config.yaml"
"""Configuration of the repository, relative to an operator directory."""
_CSV_SUFFIXES = (".clusterserviceversion.yaml", ".clusterserviceversion.yml")
_CSV = b"ClusterServiceVersion"


def bundle_directories(operator: Path) -> list[Path]:
    """Return the directories of an operator's versions, sorted by name."""
    children = sorted(child for child in operator.iterdir() if child.is_dir() and not child.name.startswith("."))
    return [child for child in children if _is_bundle(child)]


def operator_directories(path: Path) -> list[Path]:
    """Return an operator directory, or the operator directories of a repository, sorted by name.

    An operator directory has a file ci.yaml, or is in a directory ``operators`` and has versions. An empty list means
    that the path is something else.
    """
    if _is_operator(path):
        return [path]
    operators = path if path.name == OPERATORS else path / OPERATORS
    if not operators.is_dir() or (path / "manifests").is_dir():
        return []
    return [child for child in sorted(operators.iterdir()) if child.is_dir() and _is_operator(child)]


def config_file(operator: Path) -> Path | None:
    """Return the ci.yaml of an operator in a repository, None if it does not exist."""
    names = _existing(operator, CI_FILE) if operator.parent.name == OPERATORS else iter(())
    return next((path for _, path in names), None)


def operator_files(operator: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files that rules about an operator read: path relative to its directory, and location.

    These are the configurations, the names of templates, and annotations and ClusterServiceVersion of each version.
    """
    yield from _existing(operator, CI_FILE, REPOSITORY_CONFIG)
    for version in bundle_directories(operator):
        names = (RELEASE_CONFIG, "metadata/annotations.yaml")
        yield from _existing(operator, *(f"{version.name}/{name}" for name in names))
        for path in _csv_files(version / "manifests"):
            yield f"{version.name}/manifests/{path.name}", path


def template_names(operator: Path) -> list[str]:
    """Return the paths of the templates of an operator's catalogs, relative to its directory."""
    directory = operator / TEMPLATES
    return [f"{TEMPLATES}/{path.name}" for path in sorted(directory.iterdir())] if directory.is_dir() else []


def _is_operator(path: Path) -> bool:
    if _is_bundle(path) or (path / "manifests").is_dir():
        return False
    has_config = (path / CI_FILE).is_file() or (path / CI_FILE).with_suffix(".yml").is_file()
    return has_config or (path.absolute().parent.name == OPERATORS and bool(bundle_directories(path)))


def _is_bundle(path: Path) -> bool:
    return (path / "manifests").is_dir() and (path / "metadata").is_dir()


def _existing(root: Path, *names: str) -> Iterator[tuple[str, Path]]:
    """Yield the files that exist, with the suffix .yaml or .yml."""
    for name in names:
        for other in (name, name.removesuffix("yaml") + "yml"):
            if (root / other).is_file():
                yield other, root / other
                break


def _csv_files(manifests: Path) -> list[Path]:
    """Return the files that are named like a ClusterServiceVersion, otherwise those that could contain one."""
    files = sorted(path for path in manifests.iterdir() if path.is_file())
    named = [path for path in files if path.name.endswith(_CSV_SUFFIXES)]
    return named or [path for path in files if path.stat().st_size <= MAX_BYTES and _CSV in path.read_bytes()]
