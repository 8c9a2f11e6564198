"""A valid bundle, with changes, for tests of single rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.validation.compat import Compat
from tests.kit.broken import BASE
from tests.kit.validation import view

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.bundle_view import BundleView

CSV = "manifests/demo.clusterserviceversion.yaml"
CRD = "manifests/demos.demo.example.com.crd.yaml"
ANNOTATIONS = "metadata/annotations.yaml"

FILES = {path: raw.decode() for path, raw in BASE.items()}
"""The valid bundle from which those in fixtures/broken-bundles are derived, by path."""


def demo(
    *changes: tuple[str, str], compat: Compat = Compat.OPMKIT, more: Mapping[str, str | bytes] | None = None
) -> BundleView:
    """Return the valid bundle with replacements, each of a text that is in exactly one file, and additional files."""
    files = dict(FILES)
    for old, new in changes:
        (path,) = (path for path, text in files.items() if old in text)
        files[path] = files[path].replace(old, new)
    return view({**files, **(more or {})}, compat)


def line_of(bundle: BundleView, finding: Finding) -> str:
    """Return the reported line without surrounding whitespace, "" if the finding has no line."""
    if not finding.line:
        return ""
    return bundle.files[finding.file].decode(errors="replace").splitlines()[finding.line - 1].strip()
