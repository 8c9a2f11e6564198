"""Fixtures of the tests of bundles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.generate import AnnotationsInput, GeneratedMetadata, generate
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.store import ImageStore
from opmkit.imagetools.tools.registry import RegistryTool
from tests.bundle.samples import FIXTURE

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def tool(tmp_path: Path) -> RegistryTool:
    return RegistryTool(RegistryClient(RegistryOptions(plain_http=True)), ImageStore.open(tmp_path / "store"))


@pytest.fixture
def bundle(tmp_path: Path) -> GeneratedMetadata:
    """Return the sample operator with its annotations, in ``tmp_path/bundle``."""
    given = AnnotationsInput("lagoon-operator", "alpha,stable", "stable")
    source = FIXTURE / "0.2.0" / "manifests"
    return generate(source, given, output=tmp_path / "bundle", working_directory=tmp_path)
