"""Sample templates and bundles, and helpers to render them."""

from __future__ import annotations

import base64
import io
import json
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.blobs import BlobProperty, Blobs, BundleBlob
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.csv_metadata import MigrationLevel
from opmkit.index.fbc.write import to_json
from opmkit.index.templates.document import TemplateFile
from opmkit.index.templates.render import TemplateType, render_template, template_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.documents.json_value import JsonValue

SVG = base64.b64encode(b"<svg/>").decode()
PACKAGE = {"schema": "olm.package", "name": "reef", "defaultChannel": "a"}
OTHER = {"schema": "custom", "value": [1, {"b": 1, "a": 2.5}]}


def bundle(version: str, package: str = "reef", release: str = "") -> BundleBlob:
    """Return a bundle with an embedded ClusterServiceVersion."""
    spec = {"description": f"Reef {version}", "icon": [{"base64data": SVG, "mediatype": "image/svg+xml"}]}
    csv = {"kind": "ClusterServiceVersion", "metadata": {"name": f"{package}.v{version}"}, "spec": spec}
    value: JsonValue = {"packageName": package, "version": version, **({"release": release} if release else {})}
    properties = (
        BlobProperty("olm.package", value),
        BlobProperty("olm.bundle.object", {"data": base64.b64encode(json.dumps(csv).encode()).decode()}),
    )
    name = f"{package}-v{version}-{release}" if release else f"{package}.v{version}"
    return BundleBlob(name, package, image(version, package), properties)


def image(version: str, package: str = "reef") -> str:
    return f"quay.io/example/{package}:{version.replace('+', '_')}"


def render_images(images: Sequence[str]) -> dict[str, BundleBlob]:
    """Return a bundle for each image, with the package and the version in its reference."""
    assert len(images) == len(set(images))
    bundles = {}
    for reference in images:
        name, tag = reference.rsplit(":", 1)
        version, _, release = tag.replace("_", "+").partition("-r")
        bundles[reference] = bundle(version, name.rsplit("/", 1)[1], release)
    return bundles


def template(value: Any, name: str = "t.yaml") -> TemplateFile:
    text = value if isinstance(value, str) else json.dumps(value)
    return TemplateFile.read(io.BytesIO(text.encode()), name)


def render(
    value: Any,
    type_: TemplateType | None = None,
    compat: CatalogCompat = CatalogCompat.NEWEST,
    level: MigrationLevel = MigrationLevel.NONE,
) -> Blobs:
    file = template(value)
    return render_template(file, type_ or template_type(file), render_images, level=level, compat=compat)


def render_error(value: Any, type_: TemplateType | None = None) -> str:
    """Return the message of the error with which rendering fails; it must have a hint."""
    with pytest.raises(InvalidCatalog) as error:
        render(value, type_)
    assert error.value.hint
    return error.value.message


def semver(**fields: Any) -> dict[str, Any]:
    archetypes: dict[str, Any] = {
        name: {"bundles": [{"image": image(version)} for version in fields.pop(name)]}
        for name in ("candidate", "fast", "stable")
        if name in fields
    }
    return {"schema": "olm.semver", **fields, **archetypes}


def substitutes(*pairs: tuple[str, str], entries: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    substitutions = [{"name": image(tag), "base": base} for tag, base in pairs]
    entries = catalog("1.0.0", "1.1.0", "1.2.0") if entries is None else entries
    return {"schema": "olm.template.substitutes", "entries": entries, "substitutions": substitutions}


def channel(*entries: dict[str, Any], name: str = "a") -> dict[str, Any]:
    return {"schema": "olm.channel", "name": name, "package": "reef", "entries": list(entries)}


def entry(version: str, **edges: Any) -> dict[str, Any]:
    return {"name": f"reef.v{version}", **edges}


def catalog(*versions: str) -> list[dict[str, Any]]:
    """Return a catalog with one channel, a chain of these versions."""
    chain = [
        entry(version, **({"replaces": f"reef.v{versions[number - 1]}"} if number else {}))
        for number, version in enumerate(versions)
    ]
    bundles = [json.loads(to_json([bundle(version)])) for version in versions]
    return [PACKAGE, channel(*chain), *bundles]
