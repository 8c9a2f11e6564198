"""Replacement of images and registries by others, as configured by the user."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from opmkit.bundle.errors import BundleError
from opmkit.core.files import disk_errors, read_limited
from opmkit.documents.document import read_document
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.fields import describe
from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.reference import Reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_HOST = re.compile(r"(?:localhost|[^/:@]*\.[^/:@]*)(?::[0-9]+)?")
_FORM = "write a mapping from images, repositories or registries to their replacements, such as quay.io: registry.corp"


@dataclass(frozen=True, slots=True)
class Replacements:
    """Replacements of images, and of registries, namespaces and repositories.

    Attributes:
        images: Replacements by canonical reference. They take precedence.
        prefixes: Replacements by ``HOST[/PATH]``; the longest one that applies counts.
    """

    images: Mapping[str, str] = field(default_factory=dict)
    prefixes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, registries: Iterable[str] = (), file: Path | None = None) -> Replacements:
        """Parse replacements written as ``FROM=TO``, and a YAML or JSON file with a mapping of the same.

        In the file, a key with a tag or digest is an image. The replacements in ``registries`` take precedence.

        Raises:
            BundleError: A replacement is invalid.
            DiskError: The file cannot be read.
        """
        images: dict[str, str] = {}
        prefixes: dict[str, str] = {}
        for old, new in (_read(file) if file else {}).items():
            reference = _parse(old, str(file))
            if (reference.tag or reference.digest) and not _HOST.fullmatch(old):
                _parse(new, str(file))
                images[str(reference)] = new
            else:
                prefixes[_prefix(old, str(file))] = _prefix(new, str(file))
        for text in registries:
            old, equals, new = text.partition("=")
            if not (equals and old and new):
                raise BundleError(f"invalid replacement {text!r}", hint="write FROM=TO, such as quay.io=registry.corp")
            prefixes[_prefix(old, text)] = _prefix(new, text)
        return cls(images, prefixes)

    def replace_image(self, reference: Reference) -> str | None:
        """Return the replacement of an image, None if it has none."""
        return self.images.get(str(reference.with_default_tag())) or self.images.get(str(reference))

    def replace_name(self, name: str, reference: Reference) -> str:
        """Return the name of a repository, as it is written, with its prefix replaced."""
        canonical = reference.name
        matches = [prefix for prefix in self.prefixes if canonical == prefix or canonical.startswith(f"{prefix}/")]
        if not matches:
            return name
        longest = max(matches, key=len)
        return f"{self.prefixes[longest]}{canonical.removeprefix(longest)}"


def _prefix(text: str, subject: str) -> str:
    """Return a registry, namespace or repository without a trailing slash."""
    prefix = text.rstrip("/")
    name = _parse(f"{prefix}/x/x", subject).name.removesuffix("/x/x")
    return name if _HOST.fullmatch(prefix.partition("/")[0]) else _parse(prefix, subject).name


def _parse(text: str, subject: str) -> Reference:
    try:
        return Reference.parse(text)
    except InvalidReference as error:
        raise BundleError(f"{subject}: {error.message}", hint=error.hint) from error


def _read(path: Path) -> dict[str, str]:
    with disk_errors(path):
        content = read_limited(path)
    try:
        value = read_document(content).value
    except InvalidDocument as error:
        raise BundleError(error.located(str(path)), hint=_FORM) from error
    if not isinstance(value, dict):
        raise BundleError(f"{path}: the document is {describe(value)}, not a mapping", hint=_FORM)
    replacements: dict[str, str] = {}
    for key, new in value.items():
        if not isinstance(new, str):
            raise BundleError(f"{path}: the replacement of {key} is {describe(new)}, not a string", hint=_FORM)
        replacements[key] = new
    return replacements
