"""Names of mirrored images."""

from __future__ import annotations

from pathlib import Path

import pytest

from opmkit.imagetools.errors import InvalidReference
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.spec import Platform
from opmkit.supply.mirror.model import digest_tag, is_digest_tag, repository_below
from opmkit.supply.mirror.target import RegistryLocation, parse_location, parse_name_in_target

DIGEST = f"sha256:{'ab' * 32}"


def test_digest_tags_are_valid_and_differ_from_those_of_referrers() -> None:
    platforms = [Platform("linux", "arm64"), Platform("linux", "amd64")]
    complete, partial = digest_tag(DIGEST), digest_tag(DIGEST, platforms)
    assert complete == f"mirrored-sha256-{'ab' * 32}"
    assert partial == digest_tag(DIGEST, platforms[::-1])
    assert len({complete, partial, digest_tag(DIGEST, platforms[:1])}) == 3
    for tag in (complete, partial, digest_tag(f"sha512:{'ab' * 64}")):
        assert Reference("quay.io", "a").with_tag(tag).tag == tag
        assert is_digest_tag(tag)
    assert not is_digest_tag(complete.removeprefix("mirrored-"))


@pytest.mark.parametrize(
    ("prefix", "limit", "expected"),
    [
        ("", None, "org/team/name"),
        ("mirror", None, "mirror/org/team/name"),
        ("mirror", 4, "mirror/org/team/name"),
        ("mirror", 3, "mirror/org/team-name"),
        ("mirror/a", 2, "mirror/a-org-team-name"),
        ("", 2, "org/team-name"),
    ],
)
def test_repositories_are_below_the_prefix(prefix: str, limit: int | None, expected: str) -> None:
    assert repository_below(prefix, Reference.parse("quay.io/org/team/name@" + DIGEST), limit) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("quay.io", RegistryLocation("quay.io")),
        ("docker://quay.io/a/b/", RegistryLocation("quay.io", "a/b")),
        ("localhost:5000/a", RegistryLocation("localhost:5000", "a")),
        ("localhost", RegistryLocation("localhost")),
        ("./mirror", Path("mirror")),
        ("/var/mirror", Path("/var/mirror")),
        ("..", Path("..")),
        ("oci:mirror", Path("mirror")),
    ],
)
def test_targets_are_registries_or_directories(text: str, expected: object) -> None:
    assert parse_location(text) == expected


@pytest.mark.parametrize(
    "text", ["", "mirror", "quay.io/A", "quay.io/a:1", "quay.io//a", "oci:", "a b.c/d", "docker://"]
)
def test_invalid_targets_are_rejected(text: str) -> None:
    with pytest.raises(InvalidReference, match="invalid target"):
        parse_location(text)


def test_existing_directories_need_no_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mirror").mkdir()
    assert parse_location("mirror") == Path("mirror")


@pytest.mark.parametrize(
    ("to", "text", "expected"),
    [
        ("registry.test/mirror", "me/all:2", "registry.test/me/all:2"),
        ("registry.test/mirror", "all:2", "registry.test/all:2"),
        ("registry.test:5000/mirror", "registry.test:5000/mirror/me/all:2", "registry.test:5000/me/all:2"),
        ("registry.test", "registry.test/me/all", "registry.test/me/all"),
        ("registry.test/mirror", "quay.io/me/all:2", "quay.io/me/all:2"),
        ("./mirror", "quay.io/me/all:2", "quay.io/me/all:2"),
    ],
)
def test_names_in_a_target(to: str, text: str, expected: str) -> None:
    assert str(parse_name_in_target(text, parse_location(to))) == expected
