"""Detection of template types, migration of rendered bundles, and conversion of catalogs to templates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import InvalidReference
from opmkit.index.errors import InvalidCatalog
from opmkit.index.fbc.blobs import Icon
from opmkit.index.fbc.csv_metadata import MigrationLevel
from opmkit.index.fbc.write import to_json
from opmkit.index.templates.basic import to_basic
from opmkit.index.templates.render import render_template, template_type
from opmkit.index.templates.substitutes import to_substitutes

from .samples import OTHER, PACKAGE, SVG, catalog, image, render, semver, substitutes, template

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from opmkit.index.fbc.blobs import BundleBlob


def test_only_rendered_bundles_are_migrated() -> None:
    blobs = render(substitutes(("1.2.1", "reef.v1.2.0")), level=MigrationLevel.ALL)
    types = [[prop.type for prop in bundle.properties] for bundle in blobs.bundles]
    assert types[0] == ["olm.package", "olm.bundle.object"]
    assert types[-1] == ["olm.package", "olm.csv.metadata"]
    (package,) = render(semver(stable=("1.0.0",)), level=MigrationLevel.ALL).packages
    assert package.icon == Icon(SVG, "image/svg+xml")


@pytest.mark.parametrize(
    ("value", "line"),
    [
        (f"schema: olm.semver\nstable:\n  bundles:\n  - image: {image('1.0.0')}\n  - image: Reef\n", 5),
        ("schema: olm.template.basic\nentries:\n- schema: olm.bundle\n  image: Reef\n", 3),
        ("schema: olm.template.substitutes\nentries: []\nsubstitutions:\n- name: Reef\n  base: x\n", 4),
    ],
)
def test_location_of_an_invalid_image(value: str, line: int) -> None:
    def fail(images: Sequence[str], /) -> Mapping[str, BundleBlob]:
        raise InvalidReference("invalid image reference", hint="correct it")

    file = template(value)
    with pytest.raises(InvalidCatalog, match=rf"^t\.yaml:{line}: invalid image reference 'Reef'"):
        render_template(file, template_type(file), fail)


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
