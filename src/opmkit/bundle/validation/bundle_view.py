"""View of a bundle for rules: its files, the objects in them, and its annotations.

Nothing here raises for invalid content, which rules report.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct

from opmkit.bundle import labels
from opmkit.bundle.kinds import CRD_KIND, CSV_KIND
from opmkit.bundle.validation.compat import Compat, Options
from opmkit.documents.content import Content, ContentCache
from opmkit.documents.lenient import mapping, scalar_text, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.bundle.api_types.decode import DecodeMode
    from opmkit.bundle.validation.platforms import Inspect


class ManifestView(Struct, frozen=True, dict=True):
    """A file of a bundle and its content."""

    path: str
    content: Content

    @property
    def name(self) -> str:
        """The file name."""
        return posixpath.basename(self.path)

    @cached_property
    def object(self) -> Mapping[str, Any]:
        """The first document, empty if it is not a mapping."""
        return mapping(self.content.value)

    @cached_property
    def kind(self) -> str:
        """The kind of the object, or "" if absent."""
        return text(self.object.get("kind"))

    @cached_property
    def api_version(self) -> str:
        """The apiVersion of the object, or "" if absent."""
        return text(self.object.get("apiVersion"))

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata of the object."""
        return mapping(self.object.get("metadata"))

    @cached_property
    def object_name(self) -> str:
        """The name of the object, or "" if absent."""
        return text(self.metadata.get("name"))


@dataclass(frozen=True)
class BundleView:
    """A bundle under validation.

    Attributes:
        name: Name of the bundle on the command line.
        files: Content of all files by path from the root of the bundle.
        directories: Paths of all directories, including empty ones.
        image_labels: Labels of the image, None for a directory.
        bare: Whether the root is a manifests directory without metadata.
        operator: Name of the operator if the root is an operator directory, otherwise "".
        operator_config: Content of the ci.yaml of the operator if the root is one of its versions, otherwise "".
        compat: Program whose results are wanted.
        options: Options of optional validators.
        contents: Cache of decoded files.
        inspect: Returns the platforms of images.
        csv_decode_mode: Mode in which the ClusterServiceVersion is decoded, None for that of the Go loader.
        extracted: Whether these are the files that openshift-preflight extracts: those in ``manifests``, also if the
            annotations name another directory, and the annotations.
        memo: Results of rules for this bundle, by keys of the rules.
    """

    name: str
    files: Mapping[str, bytes]
    directories: frozenset[str] = frozenset()
    image_labels: Mapping[str, str] | None = None
    bare: bool = False
    operator: str = field(default="", kw_only=True)
    operator_config: bytes = field(default=b"", kw_only=True)
    compat: Compat = Compat.OPMKIT
    options: Options = field(default_factory=Options)
    contents: ContentCache = field(default_factory=ContentCache, repr=False)
    inspect: Inspect | None = field(default=None, compare=False, repr=False)
    csv_decode_mode: DecodeMode | None = None
    extracted: bool = field(default=False, kw_only=True)
    memo: dict[object, object] = field(default_factory=dict, init=False, compare=False, repr=False)

    def manifest(self, path: str) -> ManifestView:
        """Return the file at a path.

        Raises:
            KeyError: The file does not exist.
        """
        key = (ManifestView, path)
        if key not in self.memo:
            self.memo[key] = ManifestView(path, self.contents.read(self.files[path]))
        return cast("ManifestView", self.memo[key])

    def files_in(self, directory: str, *, recursive: bool = False) -> Iterator[ManifestView]:
        """Yield the files in a directory, or "" for the root, sorted by path."""
        key = (BundleView.files_in, directory, recursive)
        if key not in self.memo:
            prefix = f"{directory}/" if directory else ""
            inside = (path for path in sorted(self.files) if path.startswith(prefix))
            self.memo[key] = [path for path in inside if recursive or "/" not in path[len(prefix) :]]
        return map(self.manifest, cast("list[str]", self.memo[key]))

    @cached_property
    def annotations_file(self) -> ManifestView | None:
        """The first file in ``metadata/`` that has a mapping ``annotations``."""
        if "metadata" not in self.directories:
            return None
        return next((file for file in self.files_in("metadata") if _annotations(file) is not None), None)

    @cached_property
    def annotations(self) -> Mapping[str, str]:
        """The annotations of the bundle, with numbers and booleans converted to strings."""
        return {} if self.annotations_file is None else _annotations(self.annotations_file) or {}

    @cached_property
    def manifests_directory(self) -> str:
        """Path of the manifests directory, by the annotations or ``manifests``; "" is the root."""
        if self.bare:
            return ""
        path = self.annotations.get(labels.MANIFESTS)
        if path is None or self.extracted:
            return "manifests"
        return posixpath.normpath(f"/{path}").lstrip("/")

    @cached_property
    def manifests(self) -> tuple[ManifestView, ...]:
        """The files in the manifests directory, sorted by name."""
        return tuple(self.files_in(self.manifests_directory))

    @cached_property
    def csvs(self) -> tuple[ManifestView, ...]:
        """The ClusterServiceVersions among the manifests."""
        return tuple(manifest for manifest in self.manifests if manifest.kind == CSV_KIND)

    @cached_property
    def csv(self) -> ManifestView | None:
        """The first ClusterServiceVersion."""
        return self.csvs[0] if self.csvs else None

    @cached_property
    def crds(self) -> tuple[ManifestView, ...]:
        """The CustomResourceDefinitions among the manifests."""
        return tuple(manifest for manifest in self.manifests if manifest.kind == CRD_KIND)

    @property
    def spec(self) -> Mapping[str, Any]:
        """The spec of the first ClusterServiceVersion."""
        return mapping(self.csv.object.get("spec")) if self.csv else {}

    @property
    def csv_annotations(self) -> Mapping[str, Any]:
        """The annotations in the metadata of the first ClusterServiceVersion."""
        return mapping(self.csv.metadata.get("annotations")) if self.csv else {}


def _annotations(file: ManifestView) -> dict[str, str] | None:
    values = file.object.get("annotations")
    if not isinstance(values, dict):
        return None
    return {key: scalar for key, value in values.items() if (scalar := scalar_text(value)) is not None}
