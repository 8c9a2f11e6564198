"""Search of an image's layers for the program that it runs."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import InvalidImage
from opmkit.imagetools.layer import DISK_LIMITS, Limits, find_program
from opmkit.imagetools.spec import ConfigChanges, Descriptor, ImageConfig, Platform, media_types, sha256_digest
from tests.kit.content import noise
from tests.kit.images import directory, hardlink, layer_source, member, symlink, tar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit.imagetools.layer import LayerSource
    from tests.kit.images import Member

CATALOG = [directory("configs"), member("configs/catalog.json", b"{}")]
SERVE = ConfigChanges(entrypoint=("/bin/opm",), cmd=("serve", "/configs"))


def config(changes: ConfigChanges, steps: Sequence[str] = ()) -> ImageConfig:
    built = ImageConfig.scratch(Platform("linux", "amd64"))
    for number, step in enumerate(steps):
        built = built.with_changes(ConfigChanges(), [sha256_digest(b"%d" % number)], created_by=step)
    return built.with_changes(changes)


@pytest.mark.parametrize(
    ("changes", "layers", "expected"),
    [
        (SERVE, [[member("bin/opm", b"x")], CATALOG], True),
        (SERVE, [[member("./bin/opm", b"x")], CATALOG], True),
        (SERVE, [CATALOG], False),
        (SERVE, [], False),
        (SERVE, [[member("bin/opm/other", b"x"), directory("bin/opm")]], False),
        (SERVE, [[member("bin/.wh.opm")]], False),
        (SERVE, [[symlink("bin", "usr/bin")], [member("usr/bin/opm", b"x")]], True),
        (SERVE, [[member("opt/tools/opm", b"x")], [symlink("bin", "/opt/tools")]], True),
        (SERVE, [[symlink("bin", "/opt/tools"), symlink("opt", "bin")]], False),
        (SERVE, [[symlink("bin/opm", "/usr/bin/opm")]], True),
        (SERVE, [[hardlink("bin/opm", "usr/bin/opm")]], True),
        (ConfigChanges(cmd=("opm", "serve")), [[member("usr/local/bin/opm", b"x")]], True),
        (ConfigChanges(cmd=("opm",), env={"PATH": "/tools"}), [[member("tools/opm", b"x")]], True),
        (ConfigChanges(cmd=("opm",), env={"PATH": "/tools"}), [[member("bin/opm", b"x")]], False),
        (ConfigChanges(cmd=("./opm",), working_dir="/srv"), [[member("srv/opm", b"x")]], True),
        (ConfigChanges(entrypoint=("../../etc",)), [[member("etc", b"x")]], False),
        (ConfigChanges(), [[member("bin/opm", b"x")]], False),
        (ConfigChanges(entrypoint=("",)), [[member("bin/opm", b"x")]], False),
        (ConfigChanges(entrypoint=("/",)), [[member("bin/opm", b"x")]], False),
    ],
)
def test_program_is_found_where_a_runtime_finds_it(
    changes: ConfigChanges, layers: list[list[Member]], expected: bool
) -> None:
    sources = [layer_source(tar(members)) for members in layers]
    assert find_program(config(changes), sources, DISK_LIMITS) is expected


def test_only_the_beginning_of_the_layer_that_the_history_names_is_read() -> None:
    read: dict[str, int] = {}

    def counted(name: str, *members: Member) -> LayerSource:
        content = tar(members)
        descriptor = Descriptor(media_types.OCI_LAYER, sha256_digest(content), len(content))

        class Stream(io.BytesIO):
            def readinto(self, buffer: object, /) -> int:
                count = super().readinto(buffer)  # type: ignore[arg-type]
                read[name] = read.get(name, 0) + count
                return count

        return descriptor, lambda: Stream(content)

    layers = [
        counted("libraries", member("usr/lib/x", noise(10_000, 1))),
        counted("server", member("bin/opm", noise(4_000_000, 2)), member("bin/z", noise(4_000_000, 3))),
        counted("catalog", *CATALOG),
    ]
    steps = ("COPY libraries", "COPY opm /bin/opm # buildkit", "opmkit")
    assert find_program(config(SERVE, steps), layers, DISK_LIMITS) is True
    assert list(read) == ["server"]
    assert read["server"] < 1_000_000
    assert find_program(config(SERVE), layers, Limits(total_bytes=100_000)) is True
    assert find_program(config(SERVE), layers[:1], Limits(total_bytes=1000)) is None


def test_damaged_layer() -> None:
    with pytest.raises(InvalidImage):
        find_program(config(SERVE), [layer_source(b"no archive")], DISK_LIMITS)
