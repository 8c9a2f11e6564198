"""Selection of tags."""

from __future__ import annotations

import pytest

from opmkit.bundle.errors import NoMatchingTag
from opmkit.bundle.validation.sources import SkippedTags, TagSelector, is_attachment
from opmkit.imagetools.reference import Reference

SHA256, SHA512 = "sha256-" + "a" * 64, "sha512-" + "0" * 128
ONE, OTHER = Reference.parse("quay.io/me/one"), Reference.parse("quay.io/me/other")


@pytest.mark.parametrize(
    ("tag", "attachment"),
    [
        (SHA256, True),
        (f"{SHA256}.sig", True),
        (f"{SHA256}.att", True),
        (f"{SHA256}.sbom", True),
        (f"{SHA256}.src.1", True),
        (SHA512, True),
        (SHA512[: 7 + 64], True),  # the referrers tag schema cuts digests after 64 characters
        ("v1.0.0", False),
        ("latest.sig", False),
        ("sha256-abc", False),
        (f"v{SHA256}", False),
        (f"{SHA256}-1", False),
    ],
)
def test_tags_of_attachments(tag: str, attachment: bool) -> None:
    assert is_attachment(tag) is attachment


def test_pattern_must_match_in_one_repository() -> None:
    tags = {ONE: ["v1", SHA256], OTHER: ["v2"]}
    selector = TagSelector(tags.__getitem__, ["v1"])
    assert (selector(ONE), selector(OTHER)) == (["v1"], [])
    selector.check_patterns()
    assert selector.skipped == SkippedTags(attachments=1, excluded=1)
    assert str(selector.skipped) == ("1 tag of signatures, attestations or SBOMs and 1 tag excluded by patterns")


def test_repository_without_tags() -> None:
    selector = TagSelector(lambda _: [])
    assert selector(ONE) == []
    assert selector.skipped.total == 0


def test_error_about_a_pattern_without_match() -> None:
    selector = TagSelector(lambda _: [f"v{number}" for number in range(9)], ["V*"])
    selector(ONE)
    with pytest.raises(NoMatchingTag, match=r"tag pattern V\*: no matching tag in quay\.io/me/one") as raised:
        selector.check_patterns()
    assert str(raised.value.hint).endswith("such as v0, v1, v2, v3, v4, ...")
