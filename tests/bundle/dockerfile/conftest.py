"""Fixtures of the tests of Dockerfiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.bundle.dockerfile.projects import Project

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """Return a project with the manifests and the annotations of a bundle in ``bundle``."""
    return Project.create(tmp_path / "project")
