"""Selection of packages and channels to draw."""

from __future__ import annotations

import pytest

from opmkit.index.errors import CatalogError, UnknownPackage
from opmkit.index.fbc.blobs import Blobs, PackageBlob
from opmkit.index.pictures.view import package_views

from .samples import REEF, channel


def test_unknown_packages_and_channels() -> None:
    with pytest.raises(UnknownPackage, match='package "none" not found') as error:
        package_views(REEF, "none")
    assert "reef" in str(error.value.hint)
    with pytest.raises(CatalogError, match='package "reef" has no channel "beta"'):
        package_views(REEF, "reef", "beta")


def test_natural_order() -> None:
    packages = tuple(PackageBlob(name, "v1.9") for name in ("reef10", "reef9", "reef"))
    channels = tuple(channel(name=name, package="reef9") for name in ("v1.10", "v1.9"))
    views = package_views(Blobs(packages, channels))
    assert [view.name for view in views] == ["reef", "reef9", "reef10"]
    assert [found.name for found in views[1].channels] == ["v1.9", "v1.10"]
