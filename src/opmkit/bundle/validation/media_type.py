"""Media type of a bundle, by the files of its manifests directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.kinds import CSV_KIND
from opmkit.bundle.validation.decode import decode_finding
from opmkit.documents.lenient import text

if TYPE_CHECKING:
    from opmkit.bundle.validation.bundle_view import BundleView

REGISTRY = "registry+v1"
HELM = "helm"
PLAIN = "plain"
NONE = ""

CHART = "Chart.yaml"


def media_type(bundle: BundleView, directory: str) -> str:
    """Return HELM for a chart, REGISTRY or PLAIN for manifests with and without a CSV, NONE for no files."""
    manifests = tuple(bundle.files_in(directory))
    if not manifests:
        return NONE
    if any(manifest.name == CHART and text(manifest.object.get("name")) for manifest in manifests):
        return HELM
    if any(manifest.kind == CSV_KIND and decode_finding(manifest) is None for manifest in manifests):
        return REGISTRY
    return PLAIN
