"""Paths inside an image, relative to its root, without '.' and '..'; "" is the root."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

MAX_LINKS = 40
"""Links followed for one path, as many as Linux follows."""


def ancestors(path: str) -> Iterator[str]:
    """Yield the directories above a path, topmost first, without the root."""
    return (path[:position] for position, char in enumerate(path) if char == "/")


def is_within(path: str, directory: str) -> bool:
    """Return whether the path is the directory or is below it."""
    return not directory or path == directory or path.startswith(f"{directory}/")


def is_related(path: str, prefixes: Sequence[str]) -> bool:
    """Return whether the path is within a prefix, or a prefix within the path."""
    return any(is_within(path, prefix) or is_within(prefix, path) for prefix in prefixes)


def normalize_prefixes(prefixes: Sequence[str]) -> tuple[str, ...]:
    """Return the prefixes without '.', empty components and trailing slashes."""
    return tuple("/".join(part for part in prefix.split("/") if part not in {"", "."}) for prefix in prefixes)


def normalize_path(name: str) -> str | None:
    """Return the path without leading '/' and './', as tar reads it; None if it contains '..' or NUL."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    return None if ".." in parts or "\0" in name else "/".join(parts)


def resolve_link(path: str, target: str) -> str:
    """Return the path that a symbolic link at ``path`` points to, with the image as root; '..' stops at the root."""
    parts = [] if target.startswith("/") else path.split("/")[:-1]
    for part in target.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in {"", "."}:
            parts.append(part)
    return "/".join(parts)
