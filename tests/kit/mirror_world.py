"""Catalogs, configurations and people that share a registry in memory, and what they need in it.

What is needed is computed from what was pushed, without reading a record.
"""

from __future__ import annotations

import io
from collections import defaultdict
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from opmkit.bundle import labels
from opmkit.core.progress import NO_PROGRESS
from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.errors import NotFound, RegistryUnavailable
from opmkit.imagetools.image import Image, load_image_or_index
from opmkit.imagetools.layer import LayerFile, write_layer
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.repository import DIGEST_TAG
from opmkit.imagetools.spec import (
    ConfigChanges,
    Descriptor,
    IndexManifest,
    Manifest,
    Platform,
    media_types,
    sha256_digest,
)
from opmkit.imagetools.store import ImageStore
from opmkit.imagetools.store.layout import Layout
from opmkit.imagetools.tools.registry import RegistryTool
from opmkit.supply.mirror.catalog_deletion import CatalogDeletion, DeletionOptions
from opmkit.supply.mirror.image_set import ImageSet, ImageSetCatalog
from opmkit.supply.mirror.model import MirrorRequest
from opmkit.supply.mirror.operation import MirrorAction
from opmkit.supply.mirror.record import is_record_tag
from opmkit.supply.mirror.result import MirrorOptions
from opmkit.supply.mirror.target import RegistryLocation
from tests.kit.images import multi_image, small_image
from tests.kit.memory_registry import MemoryRegistry, MemoryRepository, StoredRepository

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from opmkit.imagetools.image import ImageIndex
    from opmkit.imagetools.registry import RegistryClient
    from opmkit.supply.mirror.catalog_deletion import PlannedDeletion
    from opmkit.supply.mirror.deletion import MirrorDeletion

SOURCE, TARGET = "source.example.com", "target.example.com"
OPERANDS = ("app/db", "app/web", "platform/payroll", "tools/shell", "db")
CATALOGS = ("team/one:1", "team/two:1", "team/two:2", "other:1")


@dataclass
class MirrorWorld:
    """The source, the target, and what is known about both."""

    random: random.Random
    scratch: Path
    registry: MemoryRegistry = field(default_factory=MemoryRegistry)
    source: MemoryRegistry = field(default_factory=MemoryRegistry)
    prefix: str = "m"
    operands: list[Reference] = field(default_factory=list)
    contents: dict[str, list[Reference]] = field(default_factory=dict)
    """The images that a catalog names, by its digest."""
    people: dict[tuple[str, str], str] = field(default_factory=dict)
    """Tags that people have set in the target, by repository and tag."""
    pushed: set[tuple[str, str]] = field(default_factory=set)
    """Manifests that people have pushed to the target, by repository and digest."""
    sets: dict[str, ImageSet] = field(default_factory=dict)
    mirrored: set[str] = field(default_factory=set)
    setters: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    """The subjects that have set a tag in the target."""

    def __post_init__(self) -> None:
        self.client = Client(self)
        self.prefix = self.random.choice(("m", "m/n", ""))
        self.tool = RegistryTool(cast("RegistryClient", self.client), ImageStore(Layout(self.scratch / "store")))
        for at, name in enumerate(OPERANDS):
            for version in (1, 2):
                self.operands.append(self.push(self.source, name, f"v{version}", self.image(10 * at + version)))
        for image in self.operands[::3]:
            self.push_artifact(image)
        for name in CATALOGS:
            self.move_catalog(name)
        for key in ("a", "b", "c"):
            self.sets[key] = self.image_set(key)

    def image(self, seed: int) -> Image | ImageIndex:
        one = small_image(self.scratch, {"file": f"{seed}".encode()})
        if seed % 3:
            return one
        return multi_image([one, small_image(self.scratch, {"file": f"{seed} too".encode()})])

    def push(self, registry: MemoryRegistry, name: str, tag: str, image: Image | ImageIndex) -> Reference:
        """Push an image, and return its reference by digest."""
        host = SOURCE if registry is self.source else TARGET
        reference = Reference.parse(f"{host}/{name}:{tag}")
        return reference.with_digest(copy_image(image, registry.target(reference), tag, workers=1).digest)

    def push_artifact(self, image: Reference) -> None:
        """Push an artifact that refers to an image of the source."""
        repository = self.source.target(image)
        content = Descriptor(media_types.OCI_EMPTY, sha256_digest(b"{}"), 2)
        repository.put_blob(content, lambda: io.BytesIO(b"{}"))
        subject = repository.get_manifest(str(image.digest)).descriptor
        repository.put_manifest(Manifest.build(content, [content], artifact_type="application/test", subject=subject))

    def catalog(self, images: Iterable[Reference], *, label: bool = True) -> Image | ImageIndex:
        """Return the image of a catalog, with its content known."""
        images = list(images)
        blobs = "\n".join(
            f'{{"schema": "olm.bundle", "package": "p", "name": "b{at}", "image": "{each}"}}'
            for at, each in enumerate(images)
        )
        layer = write_layer([LayerFile("configs/p/catalog.json", blobs.encode())], self.scratch)
        changes = ConfigChanges(labels={labels.INDEX_CONFIGS: "/configs"} if label else {})
        image: Image | ImageIndex = Image.scratch(Platform("linux", "amd64")).append([layer], changes)
        self.contents[image.digest] = images
        if self.random.random() < 0.3:
            image = multi_image([cast("Image", image)])
            self.contents[image.digest] = images
        return image

    def named(self, count: int) -> list[Reference]:
        """Return some operands by digest or tag."""
        chosen = self.random.sample(self.operands, count)
        return [each if self.random.random() < 0.6 else self.by_tag(each) for each in chosen]

    def by_tag(self, image: Reference, tag: str = "") -> Reference:
        """Return the reference of an image by a tag, by default the one that names it."""
        stored = self.source.repositories[image.repository]
        return image.with_tag(tag or next(tag for tag, digest in stored.tags.items() if digest == image.digest))

    def move_operand(self) -> None:
        """Exchange the tags of the two images of a repository of the source."""
        tags = self.source.repositories[self.random.choice(OPERANDS)].tags
        tags["v1"], tags["v2"] = tags["v2"], tags["v1"]

    def move_catalog(self, name: str) -> None:
        repository, _, tag = name.partition(":")
        self.push(self.source, repository, tag, self.catalog(self.named(self.random.randint(1, 4))))

    def image_set(self, key: str) -> ImageSet:
        catalogs = self.random.sample(CATALOGS, self.random.randint(0, 2))
        entries = [
            ImageSetCatalog(f"{SOURCE}/{each}", None, None, each.partition(":")[2], f"{key}.yaml") for each in catalogs
        ]
        images = [MirrorRequest(each, ("an additional image",)) for each in self.named(self.random.randint(1, 2))]
        return ImageSet(f"{key}.yaml", tuple(entries), tuple(images))

    def path(self, image: Reference) -> str:
        """Return the repository of an image in the target, relative to which catalogs of the target name it."""
        return f"{self.prefix}/{image.repository}" if self.prefix else image.repository

    def tell_needed(self) -> Iterator[tuple[str, str, str]]:
        """Yield repository, tag or digest, and reason of what is needed in the target."""
        for name, stored in self.registry.repositories.items():
            for tag, digest in stored.tags.items():
                for image in self.contents.get(digest, ()):
                    yield self.path(image), image.identifier, f"{name}:{tag}"
        for key in self.mirrored:
            for request in self.sets[key].images:
                yield self.path(request.reference), request.reference.identifier, f"configuration {key}"
        for name, digest in self.pushed:
            yield name, digest, "people"

    def check(self, before: Mapping[str, StoredRepository], deleted: Collection[str], step: str) -> None:
        """Fail if something is lost that is needed now and existed before, or that people have set.

        The ``deleted`` catalogs may still be there without their images if the deletion has failed.
        """
        for name, identifier, reason in self.tell_needed():
            if reason in deleted:
                continue
            old, new = before.get(name, StoredRepository()), self.registry.repositories.get(name, StoredRepository())
            digest = old.tags.get(identifier, identifier)
            if digest not in old.manifests:
                continue
            current = new.tags.get(identifier, identifier)
            assert current in new.manifests, f"{step}: lost {name}, {identifier}: {reason}"
            manifest = new.manifests[current]
            for child in manifest.manifests if isinstance(manifest, IndexManifest) else ():
                assert child.digest in new.manifests or child.digest not in old.manifests, (
                    f"{step}: lost a part: {reason}"
                )
        for (name, tag), digest in self.people.items():
            stored = self.registry.repositories[name]
            assert (stored.tags.get(tag), digest in stored.manifests) == (digest, True), f"{step}: lost {name}:{tag}"

    def check_tags(self, before: Mapping[str, StoredRepository], subjects: set[str], step: str) -> None:
        """Fail if a mirror of these subjects has moved a tag that it had not set."""
        for name, stored in self.registry.repositories.items():
            old = before.get(name, StoredRepository()).tags
            for tag, digest in stored.tags.items():
                if is_record_tag(tag) or old.get(tag) == digest:
                    continue
                is_related = set(map(_family, self.setters[name, tag])) & set(map(_family, subjects))
                is_artifact = DIGEST_TAG.fullmatch(tag) and self.setters[name, tag] != {"people"}
                assert tag not in old or is_related or is_artifact, f"{step}: moved {name}:{tag}"
                self.setters[name, tag] = subjects if tag not in old else self.setters[name, tag] | subjects

    def mirror(self, content: str | ImageSet, **options: Any) -> None:
        action = MirrorAction(
            self.tool,
            cast("RegistryClient", self.client),
            RegistryLocation(TARGET, self.prefix),
            MirrorOptions(workers=1, **options),
            insecure=True,
            progress=NO_PROGRESS,
        )
        with action.plan(f"{SOURCE}/{content}" if isinstance(content, str) else content, dry_run=False) as planned:
            planned.run()

    def plan_deletion(self, content: str | Sequence[str] | ImageSet, **options: Any) -> PlannedDeletion:
        deletion = CatalogDeletion(
            self.tool,
            cast("RegistryClient", self.client),
            RegistryLocation(TARGET, self.prefix),
            DeletionOptions(workers=1, **options),
        )
        return deletion.open([f"{SOURCE}/{content}"] if isinstance(content, str) else content)

    def delete(self, content: str | ImageSet, **options: Any) -> MirrorDeletion:
        return self.plan_deletion(content, **options).run()

    def push_of_people(self) -> None:
        """Push an image, a tag or a catalog to the target, as other tools and people do."""
        repositories = [name for name, stored in self.registry.repositories.items() if stored.manifests]
        choice = self.random.choice((0, 1, 1, 2))
        if choice == 0 and repositories:
            name = self.random.choice(repositories)
            stored = self.registry.repositories[name]
            tag = self.random.choice(("mine", "v1", "v2"))
            self.set_tag(name, tag, self.random.choice(sorted(stored.manifests)))
        elif choice == 1:
            image = self.random.choice(self.operands)
            name = self.path(image)
            if image.digest not in self.registry.repositories.get(name, StoredRepository()).manifests:
                self.copy_to_target(image)
                self.pushed.add((name, str(image.digest)))
                if self.random.random() < 0.5:
                    self.set_tag(name, self.random.choice(("v1", "theirs")), str(image.digest))
        elif choice > 1:
            name = f"{self.prefix}/people/catalog" if self.prefix else "people/catalog"
            catalog = self.catalog(self.named(2), label=self.random.random() < 0.5)
            self.push(self.registry, name, "new", catalog)
            tag = self.random.choice(("latest", catalog.digest.replace(":", "-")))
            del self.registry.repositories[name].tags["new"]
            self.set_tag(name, tag, catalog.digest)

    def copy_to_target(self, image: Reference) -> Reference:
        """Copy an image to the target without a tag, as people do, and return its reference there."""
        source = load_image_or_index(self.source.target(image), str(image.digest))
        target = Reference(TARGET, self.path(image))
        copy_image(source, self.registry.target(target), None, workers=1)
        return target.with_digest(str(image.digest))

    def forget_records(self, *names: str) -> None:
        """Remove the records of some repositories, by default of all."""
        for name, stored in self.registry.repositories.items():
            if name in names or not names:
                for tag in filter(is_record_tag, tuple(stored.tags)):
                    del stored.tags[tag]

    def set_tag(self, name: str, tag: str, digest: str) -> None:
        stored = self.registry.repositories[name]
        if (name, tag) in self.people or tag not in stored.tags:
            stored.tags[tag] = self.people[name, tag] = digest
            self.setters[name, tag] = {"people"}

    def lie_about(self) -> Callable[[str, str, str], object]:
        """Return a lie: wrong answers for one repository that the registry lists."""
        wrong = self.random.choice(list(self.registry.repositories) or ["none"])
        kind = self.random.choice(("manifest", "config", "tags", "tags", "blob"))
        error = self.random.choice((NotFound("lie"), RegistryUnavailable("429")))

        def lie(asked: str, name: str, _: str) -> object:
            if (asked, name) != (kind, wrong):
                return None
            if kind == "tags" and isinstance(error, NotFound):
                return []
            raise error

        return lie


class Client:
    """A client of both registries."""

    def __init__(self, world: MirrorWorld) -> None:
        self._world = world

    def target(self, reference: Reference) -> MemoryRepository:
        registry = self._world.source if reference.registry == SOURCE else self._world.registry
        return registry.target(reference)

    repository = target

    def open_image(self, reference: Reference) -> tuple[MemoryRepository, str]:
        return self.target(reference), reference.identifier

    def admit(self, _: object, __: object, identifier: str) -> str:
        return identifier

    @property
    def transfers(self) -> Client:
        return self

    def reading(self, _: str) -> AbstractContextManager[None]:
        return nullcontext()


def _family(subject: str) -> str:
    """Return what tags are shared in: all tags of a catalog, and all image sets, which have no name when edited."""
    return subject.rpartition(":")[0] if subject != "people" else subject
