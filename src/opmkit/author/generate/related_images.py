"""Related images of an operator, from the environment variables RELATED_IMAGE_* of its containers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from opmkit.author.generate.manifests import DEPLOYMENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.author.generate.manifests import Manifests

_PREFIX = "RELATED_IMAGE_"


@dataclass(frozen=True, slots=True)
class RelatedImages:
    """Entries of ``relatedImages`` in the CSV, and warnings about ambiguous names."""

    entries: tuple[dict[str, str], ...]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Variable:
    name: str
    image: str
    container: str


def find_related_images(objects: Manifests) -> RelatedImages:
    """Return the images in the variables of all containers and init containers, without duplicates.

    A name that several images have is prefixed with that of its Deployment and container. An image with several names
    has one entry without a name, as operator-sdk writes it.

    Raises:
        InvalidBundle: if a variable has no constant value.
    """
    variables: dict[tuple[str, str], _Variable] = {}
    for variable in _variables(objects):
        variables.setdefault((variable.name, variable.image), variable)
    entries, warnings = [], []
    for variable in variables.values():
        names = [name for name, image in variables if image == variable.image]
        images = [image for name, image in variables if name == variable.name]
        name = variable.name if len(images) == 1 else f"{variable.container}-{variable.name}"
        if len(names) > 1:
            if variable.name != names[0]:
                continue
            warnings.append(f"related image {variable.image} has several names: {', '.join(names)}")
            name = ""
        entries.append({"name": name, "image": variable.image})
    return RelatedImages(tuple(entries), tuple(warnings))


def _variables(objects: Manifests) -> Iterator[_Variable]:
    for deployment in objects.of_kind(DEPLOYMENT):
        pod = deployment.value["spec"]["template"]["spec"]
        containers = [
            (kind, number, container)
            for kind in ("containers", "initContainers")
            for number, container in enumerate(pod.get(kind) or ())
        ]
        for kind, number, container in containers:
            where = deployment.name if len(containers) == 1 else f"{deployment.name}-{container['name']}"
            for position, variable in enumerate(container.get("env") or ()):
                if not variable["name"].startswith(_PREFIX):
                    continue
                if variable.get("valueFrom") is not None:
                    path = ("spec", "template", "spec", kind, number, "env", position, "valueFrom")
                    raise deployment.error(
                        f"is unsupported for {variable['name']}", path, hint="write the image into the manifest"
                    )
                name = variable["name"].removeprefix(_PREFIX).replace("_", "-").lower()
                yield _Variable(name, variable.get("value", ""), where)
