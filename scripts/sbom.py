"""The software bill of materials of the runtime image, in CycloneDX JSON: the same content gives the same bytes."""

from __future__ import annotations

import hashlib
import platform
import re
import uuid
from datetime import UTC, datetime
from importlib import metadata
from types import MappingProxyType
from typing import TYPE_CHECKING

from cyclonedx.factory.license import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from cyclonedx.model.license import License

MAX_LICENSE_NAME = 80
"""Characters; longer fields hold the text of a license."""


def cyclonedx_json(
    root: metadata.Distribution,
    needed: Sequence[metadata.Distribution],
    libraries: Mapping[str, Path],
    created: int,
    version: str,
) -> bytes:
    """Describe an image with a distribution, those that it needs, the interpreter and shared libraries.

    ``libraries`` are by their paths in the image; ``created`` is in seconds of Unix time; ``version`` is that of the
    interpreter.
    """
    packages = {normalized(each.name): _package(each) for each in (root, *needed)}
    interpreter = Component(
        type=ComponentType.PLATFORM,
        name=platform.python_implementation(),
        version=version,
        bom_ref=f"python@{version}",
        cpe=f"cpe:2.3:a:python:python:{version}:*:*:*:*:*:*:*",
    )
    files = [_file(path, source) for path, source in sorted(libraries.items())]
    main = packages[normalized(root.name)]
    parts = [*packages.values(), interpreter, *files]
    bom = Bom(components=[part for part in parts if part is not main])
    bom.metadata.component = main
    bom.metadata.timestamp = datetime.fromtimestamp(created, UTC)
    for distribution in (root, *needed):
        names = sorted({normalized(each.name) for each in requirements(distribution)} & packages.keys())
        bom.register_dependency(packages[normalized(distribution.name)], [packages[name] for name in names])
    bom.register_dependency(main, [interpreter])
    bom.register_dependency(interpreter, files)
    # The library's default is random; a document of the same content is the same document.
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, " ".join(sorted(str(part.bom_ref) for part in parts)))
    return JsonV1Dot6(bom).output_as_string(indent=2).encode()


def requirements(
    distribution: metadata.Distribution, extras: Iterable[str] = (), markers: Mapping[str, str] = MappingProxyType({})
) -> list[Requirement]:
    """Return what a distribution requires with these extras, on this machine except for ``markers``."""
    found = map(Requirement, distribution.requires or ())
    chosen = (*extras, "")
    return [
        each
        for each in found
        if each.marker is None or any(each.marker.evaluate({**markers, "extra": one}) for one in chosen)
    ]


def normalized(name: str) -> str:
    """Return the name of a distribution as package indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _package(distribution: metadata.Distribution) -> Component:
    url = PackageURL("pypi", name=normalized(distribution.name), version=distribution.version)
    return Component(
        type=ComponentType.LIBRARY,
        name=normalized(distribution.name),
        version=distribution.version,
        purl=url,
        bom_ref=url.to_string(),
        licenses=_licenses(distribution),
    )


def _licenses(distribution: metadata.Distribution) -> list[License]:
    """Return the license of a distribution by its metadata, none if they do not name one."""
    fields = distribution.metadata
    named = fields.get("License-Expression") or fields.get("License") or ""
    if not named or "\n" in named or len(named) > MAX_LICENSE_NAME:
        classifiers = [each for each in fields.get_all("Classifier", []) if each.startswith("License ::")]
        named = classifiers[0].rpartition(" :: ")[2] if classifiers else ""
    return [LicenseFactory().make_from_string(named)] if named else []


def _file(path: str, source: Path) -> Component:
    digest = hashlib.sha256(source.read_bytes()).hexdigest()
    return Component(
        type=ComponentType.FILE,
        name=path,
        bom_ref=f"{path}@sha256:{digest}",
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
    )
