"""Repositories with operators, their catalog templates and the bundle images in a registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from tests.kit.bundles import bundle_image, push_image

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def push_bundle(repository: str, version: str, scratch: Path, package: str = "reef", *, changed: bool = False) -> str:
    """Push the bundle ``PACKAGE.vVERSION`` with its version as the tag, or a later version in its place."""
    directory = scratch / f"{package}-{version}-{changed}"
    directory.mkdir(exist_ok=True)
    content = f"{version}-changed" if changed else version
    return push_image(f"{repository}:{version}", bundle_image(package, content, directory))


def basic_template(images: Mapping[str, str], package: str = "reef") -> dict[str, Any]:
    """Return a basic template with the images of versions, each of which replaces the one before."""
    names = [f"{package}.v{version}" for version in images]
    entries: list[dict[str, Any]] = [
        {"name": name, **({"replaces": below} if below else {})}
        for name, below in zip(names, ["", *names], strict=False)
    ]
    return {
        "schema": "olm.template.basic",
        "entries": [
            {"schema": "olm.package", "name": package, "defaultChannel": "alpha"},
            {"schema": "olm.channel", "name": "alpha", "package": package, "entries": entries},
            *({"schema": "olm.bundle", "image": image} for image in images.values()),
        ],
    }


def semver_template(images: Sequence[str]) -> dict[str, Any]:
    return {"schema": "olm.semver", "stable": {"bundles": [{"image": image} for image in images]}}


def mapped(template: str, *catalogs: str, schema: str = "olm.template.basic") -> dict[str, Any]:
    """Return an entry of the catalog mapping in ``ci.yaml``."""
    return {"template_name": template, "catalog_names": list(catalogs), "type": schema}


def write_operator(directory: Path, templates: Mapping[str, Any], mapping: Sequence[Any] | None) -> Path:
    """Write an operator's directory with its templates; without a mapping there is no ``ci.yaml``."""
    (directory / "catalog-templates").mkdir(parents=True)
    for name, template in templates.items():
        (directory / "catalog-templates" / name).write_text(yaml.safe_dump(template))
    if mapping is not None:
        config = {"reviewers": ["me"], "fbc": {"enabled": True, "catalog_mapping": list(mapping)}}
        (directory / "ci.yaml").write_text(yaml.safe_dump(config))
    return directory


def tree(directory: Path) -> dict[str, bytes]:
    """Return the files below a directory, by path."""
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
