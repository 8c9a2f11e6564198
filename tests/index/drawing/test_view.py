"""Selection of packages and channels to draw."""

from __future__ import annotations

import pytest

from opmkit.index.drawing.view import package_views
from opmkit.index.errors import CatalogError, UnknownPackage

from .samples import REEF


def test_unknown_packages_and_channels() -> None:
    with pytest.raises(UnknownPackage, match='package "none" not found') as error:
        package_views(REEF, "none")
    assert "reef" in str(error.value.hint)
    with pytest.raises(CatalogError, match='package "reef" has no channel "beta"'):
        package_views(REEF, "reef", "beta")
