"""The media type of a bundle: the format of what is in its manifests directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.lenient import text
from opmkit.bundle.validation.bundle_view import CSV_KIND
from opmkit.bundle.validation.decode import decode_finding

if TYPE_CHECKING:
    from opmkit.bundle.validation.bundle_view import BundleView

REGISTRY = "registry+v1"
HELM = "helm"
PLAIN = "plain"
NONE = ""

CHART = "Chart.yaml"


def media_type(bundle: BundleView, directory: str) -> str:
    """Tell by the files of a directory: a chart, manifests with a ClusterServiceVersion or without, or no files."""
    manifests = tuple(bundle.below(directory))
    if not manifests:
        return NONE
    if any(manifest.name == CHART and text(manifest.object.get("name")) for manifest in manifests):
        return HELM
    if any(manifest.kind == CSV_KIND and decode_finding(manifest) is None for manifest in manifests):
        return REGISTRY
    return PLAIN
