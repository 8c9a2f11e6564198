"""Version constraints; the results are those of Masterminds/semver v3.4.0."""

from __future__ import annotations

import pytest

from opmkit.bundle.versions import strict_version, version_key
from opmkit.index.plan.constraint import VersionConstraint


@pytest.mark.parametrize(
    ("constraint", "matching", "others"),
    [
        ("1.2.3", "1.2.3 1.2.3+b", "1.2.4 1.2.3-rc"),
        ("=v1.2", "1.2.0 1.2.9", "1.3.0 1.1.9"),
        ("1", "1.0.0 1.9.9", "2.0.0 0.9.0"),
        ("*", "0.0.0 9.9.9", "1.0.0-rc"),
        ("!=1.2.3", "1.2.4 2.0.0", "1.2.3"),
        ("!=1.2", "1.3.0 2.2.0", "1.2.0 1.2.5"),
        ("!=1", "2.0.0 0.1.0", "1.0.0 1.5.5"),
        (">1", "2.0.0", "1.9.9 1.0.0"),
        (">1.1", "1.2.0 2.0.0", "1.1.9"),
        (">1.1.1", "1.1.2", "1.1.1 1.1.2-rc"),
        (">=1.2, <2", "1.2.0 1.9.9", "2.0.0 1.1.9"),
        ("=>1.2 =<2.0", "1.2.0 2.0.9", "2.1.0"),
        ("<=1", "1.9.9 0.1.0", "2.0.0"),
        ("<1.2 || >=3", "1.1.0 3.0.0", "1.2.0 2.9.9"),
        ("~1.2.3", "1.2.3 1.2.9", "1.3.0 1.2.2"),
        ("~>1", "1.0.0 1.9.0", "2.0.0"),
        ("~1.2.x", "1.2.0", "1.3.0"),
        ("~0.0.0", "0.0.0 5.0.0", "0.0.0-rc"),
        ("^1.2.3", "1.2.3 1.9.0", "2.0.0 1.2.2"),
        ("^0.2.3", "0.2.3 0.2.9", "0.3.0 1.0.0"),
        ("^0.0.3", "0.0.3", "0.0.4 0.1.0"),
        ("^0.0", "0.0.0 0.0.9", "0.1.0 1.0.0"),
        ("^0", "0.0.0 0.9.9", "1.0.0"),
        ("^*", "0.0.0", "0.1.0 1.0.0"),  # unlike its documentation says
        (">=1.0.0-rc.1", "1.0.0-rc.2 1.0.0 2.0.0-a", "1.0.0-rc.0 0.9.0"),
        (">=1.0.0-rc.1 <2 || ^3", "1.0.0-rc.1 3.1.0", "3.1.0-rc"),
        ("!=1.2-rc", "1.2.0-a 1.3.0-rc", "1.2.1-rc"),
    ],
)
def test_matches(constraint: str, matching: str, others: str) -> None:
    parsed = VersionConstraint.parse(constraint)
    for version in (*matching.split(), *others.split()):
        assert parsed.matches(version_key(strict_version(version))) is (version in matching.split()), version


@pytest.mark.parametrize(
    "constraint",
    ["", "latest", "1.2.3.4", "1,", ",1", "1 ||", "|| 1", "==1", ">>1", "01.2.3", "1.2.3-", "1 - 2", "1;2"],
)
def test_invalid_constraints(constraint: str) -> None:
    with pytest.raises(ValueError):
        VersionConstraint.parse(constraint)
