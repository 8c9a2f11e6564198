"""Detection of template types, migration of rendered bundles, and conversion of catalogs to templates."""

from __future__ import annotations

import json

import pytest

from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.blobs import Icon
from opmkit.index.fbc.migrate import MigrationLevel
from opmkit.index.fbc.write import to_json
from opmkit.index.templates.basic import to_basic
from opmkit.index.templates.render import template_type
from opmkit.index.templates.substitutes import to_substitutes

from .samples import OTHER, PACKAGE, SVG, catalog, image, render, semver, substitutes, template


def test_only_rendered_bundles_are_migrated() -> None:
    blobs = render(substitutes(("1.2.1", "reef.v1.2.0")), level=MigrationLevel.ALL)
    types = [[prop.type for prop in bundle.properties] for bundle in blobs.bundles]
    assert types[0] == ["olm.package", "olm.bundle.object"]
    assert types[-1] == ["olm.package", "olm.csv.metadata"]
    (package,) = render(semver(stable=("1.0.0",)), level=MigrationLevel.ALL).packages
    assert package.icon == Icon(SVG, "image/svg+xml")


def test_unsupported_schemas_are_rejected() -> None:
    with pytest.raises(InvalidCatalog, match=r"t.yaml:1: unsupported template schema 'olm.package'") as error:
        template_type(template(PACKAGE))
    assert "olm.template.substitutes" in str(error.value.hint)


def test_catalogs_are_converted_to_templates_that_render_to_them() -> None:
    text = "\n".join(map(json.dumps, [*catalog("1.0.0", "1.1.0"), OTHER]))
    basic = json.loads(to_json([to_basic(template(text))]))
    assert basic["entries"][2] == {"schema": "olm.bundle", "image": image("1.0.0")}
    assert list(basic["entries"][-1]) == ["schema", "value"]
    assert to_json(render(basic)) == to_json(render(json.loads(to_json([to_substitutes(template(text))]))))
