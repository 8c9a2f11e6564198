"""Reports about directories of bundles, which are read again while nothing that they depend on changes.

To import what validates a bundle takes longer than all that is done here, so this module imports little.
"""

from __future__ import annotations

import hashlib
import os

from opmkit.bundle.validation.cache_key import (
    CACHE,
    CATEGORIES_VARIABLE,
    code_versions,
    directory_state,
    extension_versions,
)
from opmkit.core.cache import ResultCache
from opmkit.core.errors import OpmkitError
from opmkit.core.escape import escape_controls
from opmkit.imagetools.store.directory import cache_directory

TYPE_CHECKING = False  # importing typing takes longer than reading a report
if TYPE_CHECKING:
    from collections.abc import Iterable


class SavedReport:
    """The report about a bundle directory in a certain state, with the default options, if the bundle passed.

    It is stored with the results, under the name that the report has for the directory.
    """

    def __init__(self, cache: ResultCache, name: str) -> None:
        """Create a report; nothing is read or written."""
        self._cache = cache
        self._name = name

    @classmethod
    def find(cls, target: str) -> SavedReport | None:
        """Return the report about a target; None if that is no bundle directory, or the report depends on more."""
        if not os.path.isdir(f"{target}/manifests") or os.environ.get(CATEGORIES_VARIABLE):  # noqa: PTH112 - pathlib is slow
            return None
        directory = os.path.realpath(target)
        state = directory_state(directory, operator=False)
        if state is None:
            return None
        try:
            cache = ResultCache.open(cache_directory(CACHE), ["report", *code_versions(), *extension_versions()])
        except (OpmkitError, OSError):  # which the validation reports
            return None
        return cls(cache, f"{target!a} {directory!a} {state}")

    def read(self) -> list[tuple[str, str]]:
        """Return the lines with their styles, none if nothing is stored or the stored report is damaged."""
        digest, _, content = (self._cache.get(self._name) or b"").partition(b"\n")
        if digest != hashlib.sha256(content).hexdigest().encode():
            return []
        lines = (line.partition("\t") for line in content.decode(errors="replace").split("\n"))
        return [(text, style) for style, _, text in lines]

    def write(self, lines: Iterable[tuple[str, str]]) -> None:
        """Store lines with their styles; unprintable characters are escaped, and a failure is ignored."""
        content = "\n".join(f"{style}\t{escape_controls(text)}" for text, style in lines).encode()
        self._cache.put(self._name, hashlib.sha256(content).hexdigest().encode() + b"\n" + content)
