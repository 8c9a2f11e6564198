"""Rendering of bundle images for templates."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.cli.output.errors import print_warning
from opmkit.cli.output.fbc import render_cache
from opmkit.cli.progress.command import progress
from opmkit.core.lazy import call_once
from opmkit.index.fbc.compat import CatalogCompat

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from opmkit.cli.flags.registry import RegistryFlags
    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.image.source import SourceKind


def image_renderer(
    registry_flags: RegistryFlags, compat: CatalogCompat = CatalogCompat.NEWEST
) -> Callable[[Sequence[str]], dict[str, BundleBlob]]:
    """Return a function that renders bundle images in parallel; it reads no local files: templates may be untrusted."""
    from opmkit.index.image.source import SourceKind

    return _renderer(registry_flags, frozenset({SourceKind.BUNDLE_IMAGE}), compat)


def render_bundle(registry_flags: RegistryFlags, source: str) -> BundleBlob:
    """Render the bundle of an image or directory.

    Raises:
        CatalogError: it is not a bundle.
        ImageToolsError: it cannot be read.
    """
    from opmkit.index.image.source import SourceKind

    kinds = frozenset({SourceKind.BUNDLE_IMAGE, SourceKind.BUNDLE_DIRECTORY})
    return _renderer(registry_flags, kinds, CatalogCompat.NEWEST)([source])[source]


def _renderer(
    registry_flags: RegistryFlags, kinds: Collection[SourceKind], compat: CatalogCompat
) -> Callable[[Sequence[str]], dict[str, BundleBlob]]:
    from opmkit.index.render import RenderOptions, render_each

    tool = call_once(registry_flags.tool)

    def render(references: Sequence[str]) -> dict[str, BundleBlob]:
        options = RenderOptions(kinds=frozenset(kinds), cache=render_cache(), warn=print_warning, compat=compat)
        with progress() as bars:
            rendered = render_each(tool, references, options, progress=bars)
            return {name: blobs.bundles[0] for name, blobs in zip(references, rendered, strict=True)}

    return render
