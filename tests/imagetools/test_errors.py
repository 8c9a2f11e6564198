"""Names of images in errors about their content."""

from __future__ import annotations

import pytest

from opmkit.imagetools.errors import InvalidImage, prefix_errors


@pytest.mark.parametrize(
    ("message", "prefixed"),
    [
        ("layer sha256:0: invalid tar archive", "oci:l: layer sha256:0: invalid tar archive"),
        ("l/index.json: not an object", "l/index.json: not an object"),
        ("l: blob sha256:0: digest mismatch", "l: blob sha256:0: digest mismatch"),
    ],
)
def test_errors_name_the_image_once(message: str, prefixed: str) -> None:
    with pytest.raises(InvalidImage) as caught, prefix_errors("oci:l", "l"):
        raise InvalidImage(message)
    assert caught.value.message == prefixed
