"""Finding a name anywhere in an image."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

import pytest

from opmkit.core.errors import LimitExceeded
from opmkit.imagetools.errors import InvalidImage
from opmkit.imagetools.layer import Limits, contains_name
from opmkit.imagetools.layer.tree import MAX_NAMED
from tests.kit.images import directory, hardlink, layer, member, symlink

if TYPE_CHECKING:
    from tests.kit.images import Member

PROBE = member("usr/bin/probe")


@pytest.mark.parametrize(
    "entry",
    [
        PROBE,
        member("probe"),
        directory("opt/probe"),
        member("opt/probe/readme"),
        symlink("bin/probe", "nowhere"),
        hardlink("bin/probe", "bin/other"),
        member("dev/probe", kind=tarfile.FIFOTYPE),
    ],
)
def test_entries_of_every_kind_are_found(entry: Member) -> None:
    assert contains_name([layer(member("a")), layer(entry), layer(member("b"))], "probe")


@pytest.mark.parametrize("entry", [member("probes"), member("my-probe"), symlink("a", "probe"), member(".wh.probe")])
def test_other_names_are_not_found(entry: Member) -> None:
    assert not contains_name([layer(entry)], "probe")
    assert not contains_name([], "probe")


@pytest.mark.parametrize(
    "entry",
    [
        member("usr/bin/.wh.probe"),
        member("usr/bin/.wh..wh..opq"),
        member("usr/.wh.bin"),
        member(".wh..wh..opq"),
        member("usr/bin"),
        symlink("usr", "opt"),
    ],
)
def test_deleted_paths_are_not_found(entry: Member) -> None:
    assert not contains_name([layer(PROBE), layer(entry)], "probe")
    assert contains_name([layer(PROBE), layer(entry), layer(member("sbin/probe"))], "probe")


@pytest.mark.parametrize("entry", [directory("usr/bin"), member("usr/bin/.wh.prob"), member("usr/bin/.wh.probe.d")])
def test_other_changes_keep_the_path(entry: Member) -> None:
    assert contains_name([layer(PROBE), layer(entry)], "probe")


def test_whiteouts_hide_only_lower_layers() -> None:
    for members in ((PROBE, member("usr/bin/.wh.probe")), (member("usr/bin/.wh..wh..opq"), PROBE)):
        assert contains_name([layer(member("a")), layer(*members)], "probe")


def test_a_later_entry_of_the_layer_replaces_directories() -> None:
    assert not contains_name([layer(PROBE, member("usr"))], "probe")
    assert contains_name([layer(member("usr"), PROBE)], "probe")


def test_hostile_layers() -> None:
    many = [member(f"{number}/probe") for number in range(MAX_NAMED + 1)]
    assert contains_name([layer(*many[1:])], "probe")
    with pytest.raises(LimitExceeded, match="more than 100 files are named probe"):
        contains_name([layer(*many)], "probe")
    with pytest.raises(LimitExceeded, match="entries"):
        contains_name([layer(*many)], "other", Limits(entries=20))
    with pytest.raises(InvalidImage, match="outside the image"):
        contains_name([layer(member("../probe"))], "probe")
