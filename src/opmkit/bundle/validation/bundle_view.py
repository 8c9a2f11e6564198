"""A bundle as rules look at it: its files, the objects in them, what its annotations say.

Nothing here raises for what is in the files: a rule for each fault says so.
"""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from opmkit.bundle import labels as names
from opmkit.bundle.content import Content, ContentCache
from opmkit.bundle.validation.compat import Compat

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.bundle.api_types.scalars import DecodeMode
    from opmkit.bundle.field_path import FieldPath
    from opmkit.bundle.validation.platforms import Inspect

CSV_KIND = "ClusterServiceVersion"
CRD_KIND = "CustomResourceDefinition"


@dataclass(frozen=True, slots=True)
class Options:
    """Values that optional rules require; empty if not set."""

    k8s_version: str = ""
    index_path: str = ""
    container_tools: str = ""
    categories_file: str = ""


@dataclass(frozen=True)
class Manifest:
    """A file of a bundle and what it says."""

    path: str
    content: Content

    @property
    def name(self) -> str:
        """The file's own name."""
        return posixpath.basename(self.path)

    @cached_property
    def object(self) -> Mapping[str, Any]:
        """The first document where it is a mapping, else nothing."""
        return mapping(self.content.value)

    @cached_property
    def kind(self) -> str:
        """The object's kind, "" where it says none."""
        return text(self.object.get("kind"))

    @cached_property
    def api_version(self) -> str:
        """The object's apiVersion, "" where it says none."""
        return text(self.object.get("apiVersion"))

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The object's metadata."""
        return mapping(self.object.get("metadata"))

    @cached_property
    def object_name(self) -> str:
        """The object's name, "" where it says none."""
        return text(self.metadata.get("name"))


@dataclass(frozen=True)
class BundleView:
    """One bundle under validation.

    ``files`` are all that it has, by their paths from its root with ``/`` between; ``directories`` those that are
    there, also without files. ``image_labels`` are those of its image, None for a directory. ``bare`` tells that the
    root itself is a manifests directory without metadata. ``inspect`` asks for the platforms of images.
    ``csv_decode_mode`` is how the fields of the ClusterServiceVersion are read; None is the way of the dialect's
    loader. ``memo`` is where rules keep what they found out about it, by keys of their own.
    """

    name: str
    files: Mapping[str, bytes]
    directories: frozenset[str] = frozenset()
    image_labels: Mapping[str, str] | None = None
    bare: bool = False
    compat: Compat = Compat.OPMKIT
    options: Options = Options()
    contents: ContentCache = field(default_factory=ContentCache, repr=False)
    inspect: Inspect | None = field(default=None, compare=False, repr=False)
    csv_decode_mode: DecodeMode | None = None
    memo: dict[object, object] = field(default_factory=dict, init=False, compare=False, repr=False)

    def manifest(self, path: str) -> Manifest:
        """The file of that path; KeyError if there is none."""
        key = (Manifest, path)
        if key not in self.memo:
            self.memo[key] = Manifest(path, self.contents.read(self.files[path]))
        return cast("Manifest", self.memo[key])

    def below(self, directory: str, *, deep: bool = False) -> Iterator[Manifest]:
        """The files of a directory ("" is the root), in the order of their names; with ``deep``, of those in it too."""
        key = (BundleView.below, directory, deep)
        if key not in self.memo:
            prefix = f"{directory}/" if directory else ""
            inside = (path for path in sorted(self.files) if path.startswith(prefix))
            self.memo[key] = [path for path in inside if deep or "/" not in path[len(prefix) :]]
        return map(self.manifest, cast("list[str]", self.memo[key]))

    @cached_property
    def annotations_file(self) -> Manifest | None:
        """The file in ``metadata/`` that holds the annotations: by name, the first that has such a mapping."""
        if "metadata" not in self.directories:
            return None
        return next((file for file in self.below("metadata") if _annotations(file) is not None), None)

    @cached_property
    def annotations(self) -> Mapping[str, str]:
        """What the annotations file says, numbers and booleans as their text."""
        return {} if self.annotations_file is None else _annotations(self.annotations_file) or {}

    @cached_property
    def manifests_directory(self) -> str:
        """Where the manifests are: what the annotations say, else ``manifests``; "" is the root."""
        if self.bare:
            return ""
        named = self.annotations.get(names.MANIFESTS)
        if named is None:
            return "manifests"
        return posixpath.normpath(f"/{named}").lstrip("/")

    @cached_property
    def manifests(self) -> tuple[Manifest, ...]:
        """The files of the manifests directory, in the order of their names."""
        return tuple(self.below(self.manifests_directory))

    @cached_property
    def csvs(self) -> tuple[Manifest, ...]:
        """The ClusterServiceVersions among the manifests."""
        return tuple(manifest for manifest in self.manifests if manifest.kind == CSV_KIND)

    @cached_property
    def csv(self) -> Manifest | None:
        """The first ClusterServiceVersion."""
        return self.csvs[0] if self.csvs else None

    @cached_property
    def crds(self) -> tuple[Manifest, ...]:
        """The CustomResourceDefinitions among the manifests."""
        return tuple(manifest for manifest in self.manifests if manifest.kind == CRD_KIND)

    @property
    def spec(self) -> Mapping[str, Any]:
        """The spec of the first ClusterServiceVersion."""
        return mapping(self.csv.object.get("spec")) if self.csv else {}

    @property
    def csv_annotations(self) -> Mapping[str, Any]:
        """The annotations of the first ClusterServiceVersion itself."""
        return mapping(self.csv.metadata.get("annotations")) if self.csv else {}


def _annotations(file: Manifest) -> dict[str, str] | None:
    values = file.object.get("annotations")
    if not isinstance(values, dict):
        return None
    return {key: scalar for key, value in values.items() if (scalar := scalar_text(value)) is not None}


def mapping(value: object) -> Mapping[str, Any]:
    """The value where it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: object) -> list[Any]:
    """The value where it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def text(value: object) -> str:
    """The value where it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def scalar_text(value: object) -> str | None:
    """The text of a scalar as Kubernetes tools take one for a text, "" for null; None for what is no scalar."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int | float) else None


def members(value: object, base: FieldPath) -> Iterator[tuple[FieldPath, Mapping[str, Any]]]:
    """The mappings in a list, each with the path to it, where ``base`` leads to the list."""
    for number, item in enumerate(items(value)):
        if isinstance(item, dict):
            yield (*base, number), item
