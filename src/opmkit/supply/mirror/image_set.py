"""ImageSetConfiguration of oc-mirror: the catalogs and images to mirror, in its versions v1alpha2 and v2alpha1."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from opmkit.core.files import disk_errors, read_limited
from opmkit.documents.content import Content
from opmkit.documents.fields import format_path
from opmkit.documents.json_path import JsonPath
from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.reference import DEFAULT_TAG, Reference
from opmkit.index.errors import CatalogError
from opmkit.index.suggestions import did_you_mean, join_names
from opmkit.supply.mirror.charts import ImageSetChart
from opmkit.supply.mirror.linear_pattern import MAX_INSTRUCTIONS, LinearPattern, UnsupportedPattern
from opmkit.supply.mirror.model import MirrorRequest, image_requests
from opmkit.supply.mirror.selection import (
    ChannelSelection,
    PackageSelection,
    SelectBundles,
    VersionBound,
    VersionBounds,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from opmkit.core.hints import Hint
    from opmkit.documents.fields import FieldPath
    from opmkit.supply.mirror.catalog import CatalogSelection

T = TypeVar("T")

KIND, DELETE_KIND = "ImageSetConfiguration", "DeleteImageSetConfiguration"
_GROUP = "mirror.openshift.io"
_V1, _V2 = "v1alpha2", "v2alpha1"
MAX_SIZE = 4 << 20
"""Bytes of a configuration."""
_MAX_ERRORS = 100
_OCI = "oci:"
_LOCAL_REGISTRY = "localhost"
"""The registry in the name of a catalog from a directory."""

_BOUND_KEYS = ("minVersion", "maxVersion")
_CATALOG_KEYS = ("catalog", "packages", "full", "targetCatalog", "targetTag", "skipDependencies")
_PACKAGE_KEYS = ("name", "channels", "defaultChannel", "bundles", "selectedBundles", *_BOUND_KEYS)
_MIRROR_KEYS = ("operators", "additionalImages", "helm", "blockedImages")
_DELETE_KEYS = ("operators", "additionalImages", "helm")
_REFUSED = {
    "platform": "mirror the OpenShift release with 'oc adm release mirror', or with oc-mirror",
    "repositories": "download the charts with 'helm pull', and list the files under mirror.helm.local",
    "samples": "list the images under additionalImages",
    "minBundle": "select versions with minVersion, or bundles by name with bundles",
    "platforms": "omit it, and select the platforms of all images when mirroring",
    "originalRef": "set targetCatalog to the name of the catalog in the target",
}
_IGNORED = {
    "archiveSize": "archives are not split",
    "storageConfig": "the target is the only state",
    "targetCatalogSourceTemplate": "edit the CatalogSource that is written instead",
    "version": "the chart at path is used",
}
_UNSUPPORTED_PATTERN = re.compile(r"\(\?(?:[=!>#(]|<[=!]|P=)|\\[1-9]|\[\[:|\\[pPQCE]|[*+?}]\+")


class InvalidImageSet(CatalogError):
    """An ImageSetConfiguration is invalid, or asks for content that cannot be mirrored.

    Attributes:
        line: Line of the first error, or 0 if unknown.
    """

    def __init__(self, message: str, *, hint: Hint | str = "", details: Iterable[str] = (), line: int = 0) -> None:
        """Create an error with further ones as its details."""
        super().__init__(message, hint=hint, details=details)
        self.line = line


class BlockedImages(Struct, frozen=True, dict=True):
    """Patterns of images that are not mirrored: regular expressions, which match any part of a name."""

    patterns: tuple[str, ...] = ()

    def matches(self, source: str, target: str) -> bool:
        """Return whether an image is blocked by the name of its source, or by its name and tag in the target."""
        return any(pattern.search(name) for pattern in self._compiled for name in (source, target))

    @cached_property
    def _compiled(self) -> tuple[LinearPattern, ...]:
        return tuple(map(LinearPattern, self.patterns))


class ImageSetCatalog(Struct, frozen=True):
    """A catalog of an image set.

    Attributes:
        index: The catalog image: a reference, or ``oci:DIR``.
        selection: The bundles to mirror; None for the whole catalog, which is copied unchanged.
        name: The name of the catalog in the target if it differs from that of its source.
        tag: Its tag in the target, "" if it is named by digest only.
        location: File and line.
    """

    index: str
    selection: SelectBundles | None
    name: Reference | None
    tag: str
    location: str

    @property
    def target_name(self) -> str:
        """The name in the target with its tag, or the source if its digest decides the tag, for comparison."""
        name = self.name or Reference.parse(self.index)
        return (
            f"{name.repository}:{self.tag}" if self.tag else f"{name.repository}@{Reference.parse(self.index).digest}"
        )


@dataclass(frozen=True, slots=True)
class ImageSet:
    """The content of a mirror as an ImageSetConfiguration describes it, or a DeleteImageSetConfiguration.

    Attributes:
        file: The file, for messages.
        catalogs: The catalogs.
        images: The additional images.
        blocked: The images that are not mirrored.
        warnings: Settings that have no effect.
        is_deletion: Whether it describes content to delete, not to mirror.
        charts: The Helm charts whose images are mirrored; `opmkit.supply.mirror.charts.read_charts` renders them.
    """

    file: str
    catalogs: tuple[ImageSetCatalog, ...] = ()
    images: tuple[MirrorRequest, ...] = ()
    blocked: BlockedImages = field(default_factory=BlockedImages)
    warnings: tuple[str, ...] = ()
    is_deletion: bool = False
    charts: tuple[ImageSetChart, ...] = ()

    @classmethod
    def read(cls, path: Path | str) -> ImageSet:
        """Read a configuration.

        Raises:
            InvalidImageSet: It is invalid, or asks for content that cannot be mirrored; the message has file and line.
            DiskError: The file cannot be read.
        """
        path = Path(path)
        with disk_errors(path):
            raw = read_limited(path, MAX_SIZE)
        return cls.parse(raw, str(path))

    @classmethod
    def parse(cls, raw: bytes, file: str) -> ImageSet:
        """Parse a configuration; ``file`` is its name for messages. Raises InvalidImageSet."""
        return _Parser(Content.read_settings(raw), file).parse()

    def selections(self, options: CatalogSelection) -> Iterator[tuple[str, CatalogSelection]]:
        """Yield the index and the selection of each catalog; ``options`` has the settings of new catalog images."""
        for entry in self.catalogs:
            yield (
                entry.index,
                replace(options, change=entry.selection, name=entry.name, tag=entry.tag),
            )


class _Parser:
    def __init__(self, content: Content, file: str) -> None:
        self.content = content
        self.file = file
        self.is_v1 = False
        self.section = "mirror"
        self.warnings: list[str] = []
        self.errors: list[tuple[int, InvalidImageSet]] = []

    def parse(self) -> ImageSet:
        """Return the configuration; raise InvalidImageSet with all errors, in the order of their lines."""
        found: list[ImageSet] = []
        with self._collected():
            found.append(self._parse())
        if self.errors:
            self.errors.sort(key=itemgetter(0))
            first, *others = (error for _, error in self.errors)
            details = [error.message for error in others[:_MAX_ERRORS]]
            if len(others) > _MAX_ERRORS:
                details.append(f"and {len(others) - _MAX_ERRORS} more errors")
            raise InvalidImageSet(first.message, hint=first.hint, details=details, line=first.line)
        return found[0]

    @contextmanager
    def _collected(self) -> Iterator[None]:
        """Add an error to the others, and go on with what follows."""
        try:
            yield
        except InvalidImageSet as error:
            self.errors.append((error.line, error))

    def _parse(self) -> ImageSet:
        document = self._check_document()
        self._check_type(document)
        storage = ("storageConfig",) if self.is_v1 else ()
        section = self.section
        root = self._mapping(document, (), ("apiVersion", "kind", section, "archiveSize", *storage))
        if section not in root and not self.errors:
            raise self._invalid((), f"has no {section}", f"add {section} with operators or additionalImages")
        path = (section,)
        keys = _DELETE_KEYS if section == "delete" else _MIRROR_KEYS
        mirror = self._mapping(root.get(section, {}), path, (*keys, "platform", "samples"))
        catalogs = self._items(mirror, path, "operators", self._catalog)
        self._check_unique([entry.target_name for entry in catalogs], (*path, "operators"), "catalog")
        images = [request for each in self._items(mirror, path, "additionalImages", self._image) for request in each]
        charts = self._charts(mirror.get("helm"), (*path, "helm"))
        blocked = self._items(mirror, path, "blockedImages", self._pattern)
        if not catalogs and not images and not charts and not self.errors:
            raise self._invalid(path, f"has nothing to {section}", "add operators, additionalImages or helm")
        return ImageSet(
            self.file,
            tuple(catalogs),
            tuple(images),
            BlockedImages(tuple(blocked)),
            tuple(self.warnings),
            section == "delete",
            charts,
        )

    def _check_document(self) -> dict[str, Any]:
        if self.content.error:
            raise InvalidImageSet(
                self.content.error.located(self.file),
                hint="correct the YAML, and write each setting once, into one YAML document",
                line=self.content.error.line,
            )
        if not isinstance(self.content.value, dict):
            raise self._invalid((), "is not a mapping", f"write an {KIND}")
        return self.content.value

    def _check_type(self, document: Mapping[str, Any]) -> None:
        """Check the kind and the version, which decide the known keys."""
        kind, version = document.get("kind"), document.get("apiVersion")
        if kind not in (KIND, DELETE_KIND):
            raise self._invalid(("kind",), f"is {_show(kind)}, not {KIND}", f"write kind: {KIND}")
        if kind == DELETE_KIND:
            self.section = "delete"
        if version not in (f"{_GROUP}/{_V1}", f"{_GROUP}/{_V2}"):
            raise self._invalid(
                ("apiVersion",), f"is unsupported: {_show(version)}", f"use {_GROUP}/{_V2} or {_GROUP}/{_V1}"
            )
        self.is_v1 = version == f"{_GROUP}/{_V1}"

    def _catalog(self, value: Any, path: FieldPath) -> ImageSetCatalog:
        others = ("targetName", "originalRef") if self.is_v1 else ("targetCatalogSourceTemplate", "platforms")
        entry = self._mapping(value, path, (*_CATALOG_KEYS, *others))
        full = self._flag(entry, path, "full")
        self._flag(entry, path, "skipDependencies")
        packages = tuple(self._items(entry, path, "packages", partial(self._package, full=full)))
        self._check_unique([package.name for package in packages], (*path, "packages"), "package")
        index, source = self._index(entry, path)
        location = self._locate(path)
        selection = None if full and not packages else SelectBundles(packages, full, location)
        return ImageSetCatalog(index, selection, *self._catalog_name(entry, path, source), location)

    def _index(self, entry: Mapping[str, Any], path: FieldPath) -> tuple[str, Reference | None]:
        """Return the catalog image as text, and its reference, None for a directory."""
        text = self._required(entry, path, "catalog")
        if text.startswith(_OCI):
            directory = text.removeprefix(_OCI).removeprefix("//")
            if not directory:
                raise self._invalid((*path, "catalog"), "has no directory", "write oci://DIR")
            return f"{_OCI}{directory}", None
        reference = self._reference(text, (*path, "catalog"))
        return str(reference), reference

    def _catalog_name(
        self, entry: Mapping[str, Any], path: FieldPath, source: Reference | None
    ) -> tuple[Reference | None, str]:
        """Return the name in the target, None for that of the source, and the tag, "" for one from the digest."""
        repository, tag = self._target(entry, path, "targetCatalog")
        if not repository and self.is_v1 and (name := self._text(entry, path, "targetName")):
            parent = source.repository.rpartition("/")[0] if source else ""
            repository = self._repository(f"{parent}/{name}" if parent else name, (*path, "targetName"))
        if source is None:
            repository = repository or self._repository(
                Path(self._text(entry, path, "catalog").removeprefix(_OCI)).name.lower(), (*path, "catalog")
            )
            return Reference(_LOCAL_REGISTRY, repository), tag or DEFAULT_TAG
        tag = tag or source.tag or ("" if source.digest else DEFAULT_TAG)
        return Reference(source.registry, repository) if repository else None, tag

    def _package(self, value: Any, path: FieldPath, *, full: bool) -> PackageSelection:
        package = self._mapping(value, path, (*_PACKAGE_KEYS, *(("minBundle",) if self.is_v1 else ())))
        channels = self._items(package, path, "channels", self._channel)
        self._check_unique([channel.name for channel in channels], (*path, "channels"), "channel")
        bounds, bundles = self._bounds(package, path), self._bundles(package, path)
        has_bounds = bool(bounds) or any(channel.bounds for channel in channels)
        if bounds and any(channel.bounds for channel in channels):
            raise self._invalid(path, "has versions, and so have its channels", "set the versions of each channel only")
        if full and (has_bounds or bundles):
            raise self._invalid(
                path,
                "selects versions or bundles of a catalog with full: true",
                "remove full, or what the package selects",
            )
        if bundles and (channels or has_bounds):
            raise self._invalid(path, "selects bundles, and also channels or versions", "select by one of them")
        default = self._text(package, path, "defaultChannel")
        return PackageSelection(self._required(package, path, "name"), tuple(channels), default, bounds, bundles)

    def _channel(self, value: Any, path: FieldPath) -> ChannelSelection:
        channel = self._mapping(value, path, ("name", *_BOUND_KEYS, *(("minBundle",) if self.is_v1 else ())))
        return ChannelSelection(self._required(channel, path, "name"), self._bounds(channel, path))

    def _bounds(self, value: Mapping[str, Any], path: FieldPath) -> VersionBounds:
        bounds = []
        for key in _BOUND_KEYS:
            text = self._text(value, path, key)
            try:
                bounds.append(VersionBound.parse(text) if text else None)
            except ValueError as error:
                raise self._invalid((*path, key), f"{error}: {_show(text)}", "write a version such as 1.2.3") from error
        return VersionBounds(*bounds)

    def _bundles(self, package: Mapping[str, Any], path: FieldPath) -> tuple[str, ...]:
        """Return the names of the selected bundles; oc-mirror has had both keys."""
        keys = [key for key in ("bundles", "selectedBundles") if key in package]
        if len(keys) > 1:
            raise self._invalid((*path, keys[1]), "is the same as bundles", "keep one of them")
        names = [name for key in keys for name in self._items(package, path, key, self._name)]
        return tuple(dict.fromkeys(names))

    def _name(self, value: Any, path: FieldPath) -> str:
        return self._required(self._mapping(value, path, ("name",)), path, "name")

    def _image(self, value: Any, path: FieldPath) -> tuple[MirrorRequest, ...]:
        keys = ("name",) if self.is_v1 else ("name", "targetRepo", "targetTag", "platforms")
        image = self._mapping(value, path, keys)
        text = self._required(image, path, "name")
        if text.startswith(_OCI):
            hint = "copy the image to a registry, and name it there"
            raise self._invalid((*path, "name"), "is a directory, which cannot be mirrored", hint)
        reference = self._reference(text, (*path, "name"))
        repository, tag = self._target(image, path, "targetRepo")
        name = Reference(reference.registry, repository) if repository else None
        return tuple(image_requests(reference, (f"additionalImages of {self._locate(path)}",), name, tag))

    def _charts(self, value: Any, path: FieldPath) -> tuple[ImageSetChart, ...]:
        helm = self._mapping({} if value is None else value, path, ("local", "repositories"))
        return tuple(self._items(helm, path, "local", self._chart))

    def _chart(self, value: Any, path: FieldPath) -> ImageSetChart:
        platforms = () if self.is_v1 else ("platforms",)
        chart = self._mapping(value, path, ("name", "path", "imagePaths", "version", *platforms))
        image_paths = tuple(self._items(chart, path, "imagePaths", self._image_path))
        file = self._required(chart, path, "path")
        return ImageSetChart(self._text(chart, path, "name") or file, file, image_paths, self._locate(path))

    def _image_path(self, value: Any, path: FieldPath) -> JsonPath:
        if not isinstance(value, str):
            raise self._invalid(path, f"is {_show(value)}, not a string", "put it in quotes")
        try:
            return JsonPath.parse(value)
        except ValueError as error:
            hint = "write fields, wildcards and indexes in braces, such as '{.spec.images[*].name}'"
            raise self._invalid(path, f"is not a supported JSONPath: {error}: {_show(value)}", hint) from error

    def _target(self, value: Mapping[str, Any], path: FieldPath, key: str) -> tuple[str, str]:
        """Return the repository and the tag that an entry has in the target, "" for none."""
        repository = self._text(value, path, key)
        tag = self._text(value, path, "targetTag")
        if tag:
            self._reference(f"{_LOCAL_REGISTRY}/name:{tag}", (*path, "targetTag"))
        return self._repository(repository, (*path, key)) if repository else "", tag

    def _repository(self, text: str, path: FieldPath) -> str:
        try:
            return Reference(_LOCAL_REGISTRY, text).repository
        except InvalidReference as error:
            hint = "set targetCatalog" if path[-1] == "catalog" else "write lower case letters and digits, and no tag"
            raise self._invalid(path, f"is not a valid repository: {_show(text)}", hint) from error

    def _pattern(self, value: Any, path: FieldPath) -> str:
        text = self._name(value, path)
        where = (*path, "name")
        if len(text) > MAX_INSTRUCTIONS:
            raise self._invalid(where, "is an unsupported regular expression: too large", "use several patterns")
        if _UNSUPPORTED_PATTERN.search(text):
            raise self._invalid(
                where, "is an unsupported regular expression", "use groups, classes and repetitions only"
            )
        try:
            re.compile(text)
            LinearPattern(text)
        except UnsupportedPattern as error:
            raise self._invalid(
                where, f"is an unsupported regular expression: {error}", "use fewer repetitions, and no flag but i"
            ) from error
        except (re.error, RecursionError, OverflowError) as error:
            raise self._invalid(
                where, f"is not a valid regular expression: {error}", "escape special characters"
            ) from error
        return text

    def _reference(self, text: str, path: FieldPath) -> Reference:
        try:
            return Reference.parse(text)
        except InvalidReference as error:
            raise self._invalid(path, f"is not a valid image: {error.message}", error.hint) from error

    def _mapping(self, value: Any, path: FieldPath, keys: Sequence[str]) -> Mapping[str, Any]:
        """Return a mapping with known keys only; refuse content that is not mirrored, and drop what has no effect."""
        if not isinstance(value, dict):
            raise self._invalid(path, f"is {_show(value)}, not a mapping", "write keys and values")
        supported = join_names([key for key in keys if key not in _REFUSED])
        known = {}
        for key, member in value.items():
            if key not in keys:
                hint = did_you_mean(str(key), keys) or f"use one of the keys: {supported}"
                self._report((*path, key), "is an unknown key", hint)
            if key in _REFUSED and member not in (None, {}, [], ""):
                problem = "cannot be mirrored" if path in (("mirror",), ("delete",)) else "is unsupported"
                self._report((*path, key), problem, _REFUSED[key])
            if key in _IGNORED:
                self.warnings.append(f"{self._locate((*path, key))}: {key} has no effect: {_IGNORED[key]}")
            known[key] = member
        return known

    def _items(
        self, value: Mapping[str, Any], path: FieldPath, key: str, parse: Callable[[Any, FieldPath], T]
    ) -> list[T]:
        """Return the valid items of a list; the errors of the others are collected."""
        items = value.get(key)
        if items is not None and not isinstance(items, list):
            self._report((*path, key), f"is {_show(items)}, not a list", "begin each item with a dash")
            return []
        parsed: list[T] = []
        for number, item in enumerate(items or ()):
            with self._collected():
                parsed.append(parse(item, (*path, key, number)))
        return parsed

    def _text(self, value: Mapping[str, Any], path: FieldPath, key: str) -> str:
        text = value.get(key)
        if text is not None and not isinstance(text, str):
            raise self._invalid((*path, key), f"is {_show(text)}, not a string", "put it in quotes")
        return text or ""

    def _required(self, value: Mapping[str, Any], path: FieldPath, key: str) -> str:
        if not (text := self._text(value, path, key)):
            raise self._invalid(path, f"has no {key}", f"add {key}")
        return text

    def _flag(self, value: Mapping[str, Any], path: FieldPath, key: str) -> bool:
        flag = value.get(key)
        if flag is not None and not isinstance(flag, bool):
            self._report((*path, key), f"is {_show(flag)}, not a boolean", "write true or false")
        return bool(flag)

    def _check_unique(self, names: Sequence[str], path: FieldPath, what: str) -> None:
        for number, name in enumerate(names):
            if name in names[:number]:
                self._report((*path, number), f"is a duplicate of {what} {name}", "merge or rename one of both")

    def _locate(self, path: FieldPath) -> str:
        line = self.content.locate(path)[0]
        return f"{self.file}:{line}"

    def _invalid(self, path: FieldPath, problem: str, hint: Any) -> InvalidImageSet:
        message = f"{self._locate(path)}: {format_path(path) or 'the document'} {problem}"
        return InvalidImageSet(message, hint=hint, line=self.content.locate(path)[0])

    def _report(self, path: FieldPath, problem: str, hint: Any) -> None:
        """Collect an error, after which the rest of the configuration can still be checked."""
        with self._collected():
            raise self._invalid(path, problem, hint)


def _show(value: object) -> str:
    """Return a value for a message."""
    return repr(value if value is None or isinstance(value, int | float) else str(value)[:80])
