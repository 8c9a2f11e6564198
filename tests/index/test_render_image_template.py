"""Templates of image names."""

from __future__ import annotations

import pytest

from opmkit.bundle import parse_bundle
from opmkit.index.errors import CatalogError
from opmkit.index.render import ImageTemplate
from tests.bundle.samples import files


@pytest.mark.parametrize(
    ("template", "image"),
    [
        ("quay.io/me/{{.Package}}:v{{ .Version }}", "quay.io/me/op:v1.0.0"),
        ("a{{ .Name}}b", "aop.v1.0.0b"),
        ("{{.Version}}{{.Version}}}}", "1.0.01.0.0}}"),
        ("plain", "plain"),
    ],
)
def test_fields_are_replaced(template: str, image: str) -> None:
    assert ImageTemplate.parse(template).image(parse_bundle(files())) == image


@pytest.mark.parametrize(
    "template", ["{{.Foo}}", "{{Name}}", "{{", "a{{.Name", "{{}}", "{{- .Name -}}", "{{printf .Name}}", "{{.Name.x}}"]
)
def test_invalid_templates_are_rejected(template: str) -> None:
    with pytest.raises(CatalogError, match="invalid image template") as error:
        ImageTemplate.parse(template)
    assert "{{.Version}}" in str(error.value.hint)
