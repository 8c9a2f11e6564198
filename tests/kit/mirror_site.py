"""A catalog with bundle images and related images in a registry, to mirror."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit.imagetools.copy import all_blobs, copy_image
from opmkit.imagetools.errors import NotFound
from opmkit.imagetools.image import Image, load_image_or_index
from opmkit.imagetools.layer import LayerFile, write_layer
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.spec import Platform
from opmkit.index.image.base import Base
from opmkit.index.image.build import build_image
from opmkit.index.image.content import CatalogContent
from opmkit.supply.mirror.record import is_record_tag
from tests.kit.content import noise
from tests.kit.images import multi_image, small_image

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from opmkit.imagetools.image import ImageIndex

PLATFORMS = ("linux/amd64", "linux/arm64")
_PLAIN_HTTP = RegistryOptions(plain_http=True)


@dataclass(frozen=True)
class SampleBundle:
    """A bundle of the catalog; ``images`` are references of its related images."""

    package: str
    version: str
    image: str
    images: Sequence[str] = ()

    @property
    def name(self) -> str:
        return f"{self.package}.v{self.version}"

    def blobs(self) -> list[dict[str, Any]]:
        channel = {"schema": "olm.channel", "package": self.package, "name": f"stable-{self.version}"}
        return [
            {**channel, "entries": [{"name": self.name}]},
            {
                "schema": "olm.bundle",
                "package": self.package,
                "name": self.name,
                "image": self.image,
                "properties": [
                    {"type": "olm.package", "value": {"packageName": self.package, "version": self.version}}
                ],
                "relatedImages": [{"name": f"related-{at}", "image": each} for at, each in enumerate(self.images)],
            },
        ]


@dataclass(frozen=True)
class MirrorSite:
    """Images in repositories of a registry below a prefix; ``scratch`` receives their layers."""

    host: str
    prefix: str
    scratch: Path

    def push(self, name: str, tag: str, image: Image | ImageIndex) -> str:
        """Push an image and return its reference by digest."""
        reference = Reference.parse(f"{self.host}/{self.prefix}/{name}:{tag}")
        with RegistryClient(_PLAIN_HTTP) as client:
            digest = copy_image(image, client.target(reference), tag).digest
        return str(reference.with_digest(digest))

    def push_operand(self, name: str, seed: int, size: int = 2000) -> str:
        """Push an image for two platforms, whose images share a layer with all others, and return its reference."""
        shared = write_layer([LayerFile("base", noise(5000, 1))], self.scratch)
        images = []
        for platform in PLATFORMS:
            own = write_layer([LayerFile(platform, noise(size, seed))], self.scratch)
            images.append(Image.scratch(Platform.parse(platform)).append([shared, own]))
        return self.push(name, "1", multi_image(images))

    def push_bundle(self, name: str, seed: int) -> str:
        """Push an image for one platform, and return its reference."""
        return self.push(name, str(seed), small_image(self.scratch, {"manifests/csv": noise(500, seed)}))

    def write_catalog(self, directory: Path, bundles: Iterable[SampleBundle]) -> None:
        """Write a catalog directory with a file for each package."""
        blobs: dict[str, list[dict[str, Any]]] = {}
        for bundle in bundles:
            head = {
                "schema": "olm.package",
                "name": bundle.package,
                "defaultChannel": f"stable-{bundle.version}",
            }
            blobs.setdefault(bundle.package, [head]).extend(bundle.blobs())
        for package, documents in blobs.items():
            path = directory / package / "catalog.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(map(json.dumps, documents)))

    def push_catalog(self, bundles: Iterable[SampleBundle], tag: str = "1") -> str:
        """Push a catalog image for two platforms, and return its reference by tag."""
        directory = self.scratch / f"catalog-{tag}"
        self.write_catalog(directory, bundles)
        images = [Image.scratch(Platform.parse(platform)) for platform in PLATFORMS]
        base = Base(multi_image(images))
        image = build_image(base, CatalogContent(directory).build_spec(0), self.scratch)
        self.push("catalog", tag, image)
        return f"{self.host}/{self.prefix}/catalog:{tag}"

    def sample(self) -> list[SampleBundle]:
        """Push the bundles of ``reef``, which needs the operands ``fish`` and ``kelp``, and ``atoll``: ``kelp``."""
        fish, kelp = self.push_operand("team/fish", 11), self.push_operand("kelp", 12)
        return [
            SampleBundle("reef", "1.0.0", self.push_bundle("reef-bundle", 1), [fish, kelp]),
            SampleBundle("atoll", "0.1.0", self.push_bundle("atoll-bundle", 2), [kelp]),
        ]


def images_of(bundles: Iterable[SampleBundle]) -> list[str]:
    """Return the bundle images and related images."""
    return [image for bundle in bundles for image in (bundle.image, *bundle.images)]


def digest_at(reference: str) -> str:
    """Return the digest of an image all of whose manifests and configurations can be read, "" if it does not exist."""
    parsed = Reference.parse(reference)
    with RegistryClient(_PLAIN_HTTP) as client:
        try:
            return load_image_or_index(client.repository(parsed), parsed.identifier).digest
        except NotFound:
            return ""


def incomplete_tags(host: str, prefix: str = "") -> list[str]:
    """Return the tags in a registry whose images lack a manifest or a blob, of repositories below ``prefix``."""
    with urllib.request.urlopen(f"http://{host}/v2/_catalog?n=1000", timeout=30) as response:
        names = json.load(response)["repositories"]
    found = []
    with RegistryClient(_PLAIN_HTTP) as client:
        for name in filter(lambda name: name.startswith(prefix), names):
            repository = client.target(Reference.parse(f"{host}/{name}"))
            try:
                tags = list(repository.tags())
            except NotFound:
                continue
            for tag in tags:
                if is_record_tag(tag):
                    continue
                try:
                    blobs = list(all_blobs(load_image_or_index(repository, tag)))
                except NotFound:
                    found.append(f"{name}:{tag}")
                else:
                    found += [f"{name}:{tag}" for blob in blobs if not repository.has_blob(blob.descriptor)]
    return found
