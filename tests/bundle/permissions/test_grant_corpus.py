"""Permissions of recorded bundles."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.load import read_bundle_directory
from opmkit.bundle.permissions.grant import read_file_permissions
from opmkit.bundle.permissions.kinds import DangerKind
from opmkit.bundle.permissions.report import PermissionReport, compare_permissions
from tests.kit.shared import SHARED, needs_shared

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.bundle.permissions.grant import Permissions

pytestmark = needs_shared

_CORPUS = SHARED / "corpus" / "bundles"
_INVALID = {
    "syn-files": ["1.0.0", "1.1.0", "1.10.0", "1.11.0", "1.12.0", "1.2.0"],
    "syn-text": ["1.2.0"],
    "syn-version": ["number"],
}
"""Bundles that OLM cannot install: no or several ClusterServiceVersions, fields of the wrong type, other files."""


def read(path: Path) -> Permissions | None:
    """Return the permissions of a bundle directory, None for an invalid bundle."""
    try:
        return read_file_permissions(read_bundle_directory(path, path.name))
    except InvalidBundle:
        return None


@pytest.mark.slow
def test_every_bundle_and_every_update() -> None:
    kinds: Counter[DangerKind] = Counter()
    invalid: dict[str, list[str]] = {}
    for package in sorted(_CORPUS.iterdir()):
        found = []
        for path in sorted(package.iterdir()):
            if (permissions := read(path)) is None:
                invalid.setdefault(package.name, []).append(path.name)
                continue
            found.append(permissions)
            report = PermissionReport.of(permissions)
            kinds.update(danger.kind for danger in report.dangers)
            assert not any("  " in str(danger) or "{" in str(danger) for danger in report.dangers)
            assert not compare_permissions(permissions, permissions), path
        for old, new in pairwise(found):
            diff = compare_permissions(old, new)
            back = compare_permissions(new, old)
            assert (diff.gained_dangers, diff.lost_dangers) == (back.lost_dangers, back.gained_dangers)
            now = {danger.kind for danger in PermissionReport.of(new).dangers}
            gained = {danger.kind for danger in diff.gained_dangers}
            # a new API group and a new service account are only dangerous as a change
            assert now >= gained - {DangerKind.APIS, DangerKind.TOKENS}
    assert invalid == _INVALID
    assert kinds.keys() >= set(DangerKind) - {DangerKind.UNKNOWN_ROLE, DangerKind.UNKNOWN_OBJECT}
