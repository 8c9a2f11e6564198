"""Descriptors and platforms."""

from __future__ import annotations

import pytest

from opmkit.imagetools.errors import ImageToolsError
from opmkit.imagetools.spec import Descriptor, Platform


@pytest.mark.parametrize("text", ["", "linux", "linux/", "/amd64", "linux/arm/", "linux/arm/v7/x"])
def test_invalid_platform(text: str) -> None:
    with pytest.raises(ImageToolsError, match="invalid platform"):
        Platform.parse(text)


def test_descriptor_round_trip() -> None:
    platform = Platform("windows", "amd64", os_version="10.0", os_features=("win32k",))
    digest = "sha256:" + "a" * 64
    descriptor = Descriptor("t/x", digest, 1, platform, {"a": "b"}, ("https://example.com/x",), "a/b", "ZGF0YQ==")
    assert Descriptor.from_json(descriptor.to_json()) == descriptor
    assert len({descriptor, Descriptor.from_json(descriptor.to_json())}) == 1
