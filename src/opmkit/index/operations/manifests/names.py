"""Names of Kubernetes objects, and of the images that they refer to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from opmkit.core.hints import Hint
from opmkit.imagetools.hint_terms import ImageOperation
from opmkit.imagetools.reference import Reference, named_path, parse_image_reference
from opmkit.index.errors import CatalogError
from opmkit.index.hint_terms import IndexSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def as_label(text: str) -> str:
    """Convert text to a DNS label: lower case, with other characters replaced by dashes, at most 63 characters."""
    return re.sub("[^a-z0-9]+", "-", text.lower())[:63].strip("-")


def check_name(kind: str, name: str, find_problems: Callable[[str], Iterable[str]]) -> None:
    """Raise CatalogError for an invalid name; ``find_problems`` is a function of `opmkit.bundle.kubernetes_names`."""
    problems = "; ".join(find_problems(name))
    if problems:
        raise CatalogError(f"{kind} {name!r}: {problems}", hint="choose another name")


def parse_pullable_image(index: str) -> Reference:
    """Parse the name of an index image, with its default tag.

    Raises:
        CatalogError: Clusters cannot pull the index.
        ImageToolsError: The reference is invalid.
    """
    reference = None if named_path(index) else parse_image_reference(index)
    if not isinstance(reference, Reference):
        raise CatalogError(
            f"{index}: clusters cannot pull this index",
            hint=Hint.any_of(
                "pass an image in a registry",
                Hint("copy it to a registry with {}", ImageOperation.COPY_IMAGE),
                Hint("pass {}", IndexSetting.ADDRESS),
            ),
        )
    return reference.with_default_tag()
