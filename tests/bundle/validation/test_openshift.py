"""OpenShift versions and their ranges."""

from __future__ import annotations

import pytest

from opmkit.bundle.validation.openshift import OpenShiftRange, OpenShiftVersion


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("v4.12", "4.12 and later"),
        (" 4.12 ", "4.12 and later"),
        ("v4.12.3", "4.12 and later"),
        ("=v4.12", "4.12"),
        ("v4.9-v4.12", "4.9 to 4.12"),
        ("4.9 - 4.12", "4.9 to 4.12"),
        ("v4.5,v4.6", "4.5 and later"),
        ("v4.14, v4.12", "4.12 and later"),
        ("v5.0", "5.0 and later"),
    ],
)
def test_ranges(text: str, meaning: str) -> None:
    versions = OpenShiftRange.parse(text)
    assert str(versions) == meaning
    assert versions.unsupported_list is (text == "v4.14, v4.12")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "v4",
        "4.x",
        ">=4.12",
        "v4.12-",
        "-v4.12",
        "v4.12-v4.9",
        "=v4.12-v4.14",
        "v4.12,",
        "latest",
        "v4.١",
        "v4.12\n5",
    ],
)
def test_invalid_ranges(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a version of the form|ends before it begins"):
        OpenShiftRange.parse(text)


def test_versions_of_kubernetes() -> None:
    assert OpenShiftVersion.of_kubernetes("1.22") == (4, 9)
    assert OpenShiftVersion.of_kubernetes("1.25") == (4, 12)
    contained = {text: OpenShiftVersion.parse(text).kubernetes for text in ("4.1", "4.2", "4.3", "4.17", "5.0")}
    assert contained == {"4.1": (1, 13), "4.2": (1, 14), "4.3": (1, 16), "4.17": (1, 30), "5.0": None}


def test_last_version() -> None:
    assert OpenShiftRange.parse("v4.12").reaches(OpenShiftVersion(9, 0))
    assert OpenShiftRange.parse("v4.12-v4.14").reaches(OpenShiftVersion(4, 14))
    assert not OpenShiftRange.parse("v4.12-v4.14").reaches(OpenShiftVersion(4, 15))
