"""Software bills of materials of bundle and index images, in CycloneDX 1.6."""

from __future__ import annotations

import os
import uuid
from typing import TYPE_CHECKING, Any

from opmkit._version import __version__
from opmkit.core.epoch import rfc3339, source_date_epoch
from opmkit.supply.attest.contents import image_digest, package_url

if TYPE_CHECKING:
    from opmkit.supply.attest.contents import ContainedBundle, ImageContents


def sbom(contents: ImageContents) -> dict[str, Any]:
    """List the operators and images of a bundle or index image; the same image gives the same document.

    The document has a time only if SOURCE_DATE_EPOCH is set.
    """
    root = _image_component(contents.image)
    components = {root["bom-ref"]: root}
    dependencies: dict[str, set[str]] = {root["bom-ref"]: set()}
    for bundle in contents.bundles:
        component = _bundle_component(bundle)
        components.setdefault(component["bom-ref"], component)
        dependencies[root["bom-ref"]].add(component["bom-ref"])
        needed = dependencies.setdefault(component["bom-ref"], set())
        for image in bundle.related_images:
            components.setdefault(image, _image_component(image))
            needed.add(image)
    if contents.base:
        components.setdefault(contents.base, _image_component(contents.base))
        dependencies[root["bom-ref"]].add(contents.base)
    del components[root["bom-ref"]]
    tool = {"type": "application", "name": "opmkit", "version": __version__}
    time = {"timestamp": rfc3339(source_date_epoch())} if os.environ.get("SOURCE_DATE_EPOCH") else {}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": uuid.uuid5(uuid.NAMESPACE_URL, f"{contents.image} {sorted(components)}").urn,
        "version": 1,
        "metadata": {**time, "tools": {"components": [tool]}, "component": root},
        "components": [components[name] for name in sorted(components)],
        "dependencies": [
            {"ref": name, "dependsOn": sorted(needed - {name})} for name, needed in sorted(dependencies.items())
        ],
    }


def _image_component(image: str) -> dict[str, Any]:
    component: dict[str, Any] = {"type": "container", "bom-ref": image, "name": image.partition("@")[0]}
    digest, purl = image_digest(image), package_url(image)
    if digest:
        component["version"] = digest
    if digest.startswith("sha256:"):
        component["hashes"] = [{"alg": "SHA-256", "content": digest.removeprefix("sha256:")}]
    return component | ({"purl": purl} if purl else {})


def _bundle_component(bundle: ContainedBundle) -> dict[str, Any]:
    """Describe a bundle: its image, or the operator in it if it has no image."""
    component: dict[str, Any] = {"type": "application", "bom-ref": f"bundle:{bundle.package}/{bundle.name}"}
    if bundle.image:
        component = _image_component(bundle.image)
    component["name"] = bundle.name
    if bundle.version:
        component["version"] = bundle.version
    properties = {"opmkit:package": bundle.package, "opmkit:image": bundle.image}
    return component | {"properties": [{"name": name, "value": value} for name, value in properties.items() if value]}
