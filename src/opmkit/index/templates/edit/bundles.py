"""Names, packages and versions of the bundles of a template."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from opmkit.bundle.kinds import CSV_KIND
from opmkit.bundle.source import BundleSource
from opmkit.bundle.versions import strict_version, version_key
from opmkit.core.errors import DiskError
from opmkit.documents.errors import InvalidDocument
from opmkit.documents.fields import member
from opmkit.imagetools.errors import ImageToolsError, InvalidReference
from opmkit.imagetools.reference import Reference
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.from_bundle import with_image
from opmkit.index.fbc.migrate import bundle_objects
from opmkit.index.fbc.versions import version_keys, version_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from opmkit.bundle.versions import VersionKey
    from opmkit.index.fbc.blobs import BundleBlob
    from opmkit.index.templates.renderer import BundleRenderer

_VERSION_START = re.compile(r"\.v?(?=\d)")


@dataclass(frozen=True, slots=True)
class TemplateBundle:
    """A bundle that is added to a template.

    Attributes:
        name: The name of its ClusterServiceVersion.
        package: The name of its package.
        version: Its version.
        image: The image that the template lists.
        blob: What it is rendered to.
        digest: Returns the digest of the image in its registry, or "" if it cannot be asked.
        skip_range: The range in the annotation ``olm.skipRange``, or "" if there is none.
    """

    name: str
    package: str
    version: str
    image: str
    blob: BundleBlob
    skip_range: str = ""
    digest: Callable[[], str] = field(default=str, compare=False)

    @classmethod
    def from_blob(cls, blob: BundleBlob) -> TemplateBundle:
        """Return the bundle of a blob; raises CatalogError if it has no name, package, image or version."""
        try:
            version = version_text(blob)
            strict_version(version)
        except ValueError as error:
            message = f"{blob.image or blob.name}: invalid version: {error}"
            raise CatalogError(message, hint="correct the version of its ClusterServiceVersion") from error
        for value, noun in ((blob.name, "name"), (blob.package, "package")):
            if not value:
                raise CatalogError(
                    f"{blob.image or blob.name}: the bundle has no {noun}", hint="build it again with one"
                )
        return cls(blob.name, blob.package, version, blob.image, blob, _skip_range(blob))

    def with_listed_image(self, listed: Iterable[str]) -> TemplateBundle:
        """Return the bundle with its image as it is listed: images in a template may be pinned by digest."""
        images = set(listed)
        if self.image in images or not (own := _parse(self.image)):
            return self
        pinned = {
            reference.digest: text for text in images if (reference := _parse(text)) and reference.name == own.name
        }
        pinned.pop(None, None)
        with contextlib.suppress(ImageToolsError, DiskError):
            image = pinned.get(own.digest or self.digest()) if pinned else None
            return replace(self, image=image) if image else self
        return self

    def add_to(self, render: BundleRenderer) -> BundleRenderer:
        """Return a function that renders bundle images, but not that of this bundle, which is known."""

        def rendered(images: Sequence[str], /) -> dict[str, BundleBlob]:
            others = [image for image in images if image != self.image]
            found = {**(render(others) if others else {}), self.image: self.blob}
            return {image: found[image] for image in images}

        return rendered


def read_bundle(text: str, render: BundleRenderer, warn: Callable[[str], None]) -> TemplateBundle:
    """Render the bundle ``IMAGE`` or ``SOURCE=IMAGE``, whose image the template will list.

    Raises:
        CatalogError: It is a directory without an image, or not a bundle.
        ImageToolsError: The bundle cannot be read, or the image is invalid.
    """
    source, equals, image = text.rpartition("=")
    if equals:
        Reference.parse(image)
        return TemplateBundle.from_blob(with_image(render([source])[source], image))
    if Path(text).is_dir():
        raise CatalogError(
            f"{text}: a template lists images, not directories", hint=f"pass {text}=IMAGE with its image"
        )
    if BundleSource.parse(text).warning:
        warn(f"the template will list {text}, which clusters cannot pull; name it as {text}=REGISTRY/IMAGE")
    return TemplateBundle.from_blob(render([text])[text])


def _parse(image: str) -> Reference | None:
    """Return the reference to an image in a registry, None for other texts."""
    with contextlib.suppress(InvalidReference):
        return Reference.parse(image)
    return None


def _skip_range(blob: BundleBlob) -> str:
    with contextlib.suppress(InvalidDocument):
        for value in bundle_objects(blob):
            if isinstance(value, dict) and value.get("kind") == CSV_KIND:
                metadata = member(value, "metadata")
                annotations = member(metadata, "annotations") if isinstance(metadata, dict) else None
                text = annotations.get("olm.skipRange") if isinstance(annotations, dict) else None
                return text if isinstance(text, str) else ""
    return ""


@dataclass(slots=True)
class BundleVersions:
    """The versions of bundles by name.

    A version that is not known otherwise is that at the end of the name, such as ``lagoon-operator.v0.1.0``; if the
    name does not end with one, the bundles of the template are read.

    Attributes:
        known: Known versions.
        read: Returns the bundles that the template lists, by image; called at most once.
        use_names: Whether the names of the package's bundles end with their versions.
    """

    known: dict[str, VersionKey]
    read: Callable[[], Mapping[str, BundleBlob]]
    use_names: bool = True
    _listed: dict[str, BundleBlob] | None = field(default=None)

    @classmethod
    def with_bundle(cls, bundle: TemplateBundle, read: Callable[[], Mapping[str, BundleBlob]]) -> BundleVersions:
        """Return the versions for a template that a bundle is added to."""
        key = version_key(strict_version(bundle.version))
        return cls({bundle.name: key}, read, name_version(bundle.name) == key)

    def __call__(self, name: str) -> VersionKey | None:
        """Return the version of a bundle, None if the template does not list it."""
        if name not in self.known:
            key = name_version(name) if self.use_names else None
            if key is None:
                self.known = {**version_keys(self.listed().values(), lenient=True), **self.known}
                return self.known.get(name)
            self.known[name] = key
        return self.known[name]

    def listed(self) -> Mapping[str, BundleBlob]:
        """Return the bundles that the template lists, by image."""
        if self._listed is None:
            self._listed = dict(self.read())
        return self._listed

    def image_of(self, name: str) -> str:
        """Return the image of a bundle that the template lists, or "" if it lists none with that name."""
        return next((image for image, bundle in self.listed().items() if bundle.name == name), "")


def name_version(name: str) -> VersionKey | None:
    """Return the key of the version at the end of a name, None if there is none."""
    version = version_in_name(name)
    return version_key(strict_version(version)) if version else None


def version_in_name(name: str) -> str:
    """Return the version at the end of a name, or "" if there is none.

    >>> version_in_name("lagoon-operator.v0.1.0")
    '0.1.0'
    """
    for match in _VERSION_START.finditer(name):
        try:
            return str(strict_version(name[match.end() :]))
        except ValueError:
            continue
    return ""
