"""Names of objects, and of the files that contain them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.kinds import CRD_KIND

if TYPE_CHECKING:
    from opmkit.author.generate.input import InputObject

_INVALID = frozenset("/%\\")
_MAX_LENGTH = 253


def check_name(item: InputObject) -> None:
    """Raise InvalidBundle for a name that cannot be part of a path; the names of all objects can."""
    name, path = item.metadata.get("name"), ("metadata", "name")
    if name is None:
        return
    if not isinstance(name, str):
        raise item.error("is not a string", path, hint="put the name in quotes")
    if name in (".", "..") or len(name) > _MAX_LENGTH or _INVALID.intersection(name) or not name.isprintable():
        raise item.error("is not a valid name", path, hint="use lower case letters, digits, '-' and '.'")


def file_name(item: InputObject) -> str:
    """Return the file name that operator-sdk gives to a manifest.

    Raises:
        InvalidBundle: if the object has no name, or its group, version or kind cannot be part of a file name.
    """
    group, plural = _group_and_plural(item) if item.kind == CRD_KIND else ("", "")
    parts = (item.name, item.group, item.version, item.kind.lower())
    name = f"{group}_{plural}" if group and plural else "_".join(part for n, part in enumerate(parts) if part or n != 1)
    if _INVALID.intersection(name) or not name.isprintable():
        raise item.error("has an invalid group, version or kind", hint="correct the object")
    if not item.name:
        raise item.error("has no name", hint="add metadata.name")
    return f"{name}.yaml"


def _group_and_plural(crd: InputObject) -> tuple[str, str]:
    spec = crd.value["spec"]
    return spec["group"], spec["names"]["plural"]
