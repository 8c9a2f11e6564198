"""Build a file-based catalog from bundle directories, with one channel per package in order of versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.versions import strict_version
from opmkit.index.fbc.blobs import Blobs, BundleBlob, ChannelBlob, EntryBlob, PackageBlob
from opmkit.index.fbc.check.bundle import bundle_version
from opmkit.index.image.source import SourceKind
from opmkit.index.render import ImageTemplate, RenderOptions, render

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from opmkit.imagetools.tools.registry import RegistryTool


def build_catalog(directories: Iterable[Path]) -> Blobs:
    """Return a catalog of the bundles with unique semantic versions that are valid tags."""
    template = ImageTemplate.parse("quay.io/example/{{.Package}}:v{{.Version}}")
    rendering = RenderOptions(frozenset({SourceKind.BUNDLE_DIRECTORY}), image_template=template)
    blobs = render(_no_tool, list(map(str, directories)), rendering)
    packages: dict[str, dict[str, BundleBlob]] = {}
    for bundle in blobs.bundles:
        packages.setdefault(bundle.package, {}).setdefault(bundle_version(bundle), bundle)
    return Blobs.from_blobs(blob for package, bundles in packages.items() for blob in _package(package, bundles))


def _no_tool() -> RegistryTool:
    raise AssertionError("bundle directories must not need a registry")


def _package(package: str, bundles: dict[str, BundleBlob]) -> Iterator[PackageBlob | ChannelBlob | BundleBlob]:
    versions = sorted(filter(_is_version, bundles), key=strict_version)
    names = [bundles[version].name for version in versions]
    entries = [EntryBlob(name, below) for name, below in zip(names, ["", *names], strict=False)]
    yield PackageBlob(package, "stable")
    yield ChannelBlob("stable", package, tuple(entries))
    yield from (bundles[version] for version in versions)


def _is_version(text: str) -> bool:
    try:
        return strict_version(text).build is None
    except ValueError:
        return False
