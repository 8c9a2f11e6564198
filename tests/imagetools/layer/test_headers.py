"""Headers that tarfile and Go's archive/tar read in different ways."""

from __future__ import annotations

import tarfile
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.archive.reader import TarArchive
from opmkit.imagetools.errors import InvalidImage
from opmkit.imagetools.layer import read_tree
from tests.imagetools.layer.helpers import assert_rejected
from tests.kit.images import layer_source, member, tar

if TYPE_CHECKING:
    from pathlib import Path

END = bytes(1024)
CONTENT = b"kind: ClusterRoleBinding\n"


def entry(name: str, body: bytes = CONTENT, kind: bytes = b"0", **fields: bytes) -> bytes:
    """Return an entry with raw fields: ``size``, ``prefix``, ``magic`` or ``flag``, the end of a GNU header."""
    header = bytearray(512)
    values = {"size": b"%011o\0" % len(body), "magic": b"ustar\x0000"} | fields
    places = {"size": 124, "magic": 257, "prefix": 345, "flag": 482}
    header[: len(name)] = name.encode()
    header[100:124] = b"0000644\x000000000\x000000000\0"
    header[136:157] = b"00000000000\0        " + kind
    for field, value in values.items():
        header[places[field] : places[field] + len(value)] = value
    header[148:156] = b"%06o\0 " % sum(header)
    return bytes(header) + body.ljust(-(-len(body) // 512) * 512, b"\0")


def records(**values: str) -> bytes:
    """Return the body of a pax header; two underscores stand for a dot."""
    body = b""
    for key, value in values.items():
        record = f" {key.replace('__', '.')}={value}\n"
        length = len(record) + 2 if len(record) + 2 > 9 else len(record) + 1
        body += f"{length}{record}".encode()
    return body


def pax(kind: bytes = b"x", **values: str) -> bytes:
    return entry("PaxHeaders/x", records(**values), kind)


def long_name(name: str) -> bytes:
    return entry("././@LongLink", name.encode() + b"\0", b"L")


HIDDEN = entry("manifests/x.yaml")
SWALLOWING = entry("junk", size=b"%011o\0" % len(HIDDEN))[:512]
DIFFERENT = {
    "two pax headers": pax(path="junk") + pax(path="manifests/x.yaml") + entry("y"),
    "the second without a path": pax(path="junk") + pax(mtime="1") + HIDDEN,
    "a long name after pax": pax(path="junk") + long_name("manifests/x.yaml") + entry("y"),
    "two long names": long_name("junk") + long_name("manifests/x.yaml") + entry("y"),
    "a global path": pax(b"g", path="junk") + HIDDEN,
    "a global size": pax(b"g", size="0") + HIDDEN,
    "a global header between": pax(path="junk") + pax(b"g", comment="x") + HIDDEN,
    "a global header after a long name": long_name("junk") + pax(b"g", comment="x") + HIDDEN,
    "pax of Solaris": pax(b"X", path="junk") + HIDDEN,
    "no path": pax(path="") + HIDDEN,
    "a size in other digits": pax(size="0_0") + HIDDEN,
    "a record in the padding": entry(
        "PaxHeaders/x", records(mtime="1") + records(path="junk"), b"x", size=b"%011o\0" % len(records(mtime="1"))
    )
    + HIDDEN,
    "a record that is too long": entry("PaxHeaders/x", b"99 path=junk\n", b"x") + HIDDEN,
    "a record without an end": entry("PaxHeaders/x", b"12 path=junk", b"x") + HIDDEN,
    "the name of a sparse file": pax(GNU__sparse__name="junk") + HIDDEN,
    "the size of a sparse file": pax(GNU__sparse__realsize="0") + HIDDEN,
    "a prefix without magic": entry("manifests/x.yaml", prefix=b"junk", magic=b"\0" * 8),
    "a prefix with the magic of GNU": entry("manifests/x.yaml", prefix=b"00000000000", magic=b"ustar  \0"),
    "a prefix with another magic": entry("manifests/x.yaml", prefix=b"junk", magic=b"ustaR\x0000"),
    "a size after a zero": entry("a", SWALLOWING, size=b"\x0000000001000") + HIDDEN,
    "a signed size": entry("a", b"", size=b"+0000000000\0") + HIDDEN,
    "one block of zeros": bytes(512) + HIDDEN,
}


@pytest.mark.parametrize("blocks", DIFFERENT.values(), ids=DIFFERENT)
def test_a_header_that_go_reads_in_another_way(blocks: bytes, tmp_path: Path) -> None:
    content = tar([member("manifests/a.yaml", b"a: 1\n")])[:1024] + blocks + END
    assert_rejected(layer_source(content), tmp_path, InvalidImage, "invalid tar archive")
    path = tmp_path / "archive.tar"
    path.write_bytes(content)
    with pytest.raises(InvalidImage, match="invalid tar archive"):
        TarArchive.open(path)


SAME = {
    "pax": pax(path="manifests/x.yaml", size=str(len(CONTENT)), mtime="1.5") + entry("y", size=b"00000000000\0"),
    "a long name": long_name("manifests/x.yaml") + entry("y"),
    "a long name before pax": long_name("manifests/x.yaml") + pax(mtime="1") + entry("y"),
    "a long target and a long name": entry("././@LongLink", b"z\0", b"K") + long_name("manifests/x.yaml") + entry("y"),
    "a global comment": pax(b"g", comment="0" * 40) + HIDDEN,
    "a binary attribute": entry("PaxHeaders/x", b"34 SCHILY.xattr.security.x=\0\1=\n\xff\0\n", b"x") + HIDDEN,
    "a prefix": entry("x.yaml", prefix=b"manifests"),
    "a binary size": entry("manifests/x.yaml", size=b"\x80" + len(CONTENT).to_bytes(11)),
    "a size with spaces": entry("manifests/x.yaml", size=b"%11o " % len(CONTENT)),
    "a sparse file": entry("holes", bytes(512) + b"x", b"S", magic=b"ustar  \0", size=b"00000000001\0", flag=b"\1")
    + HIDDEN,
    "no blocks at the end": HIDDEN,
}


@pytest.mark.parametrize("blocks", SAME.values(), ids=SAME)
@pytest.mark.parametrize("end", [END, bytes(512), b"", END + b"anything"])
def test_headers_of_usual_tools(blocks: bytes, end: bytes) -> None:
    assert read_tree([layer_source(blocks + end)], ["manifests"]) == {"manifests/x.yaml": CONTENT}


def test_headers_of_tarfile() -> None:
    name = f"manifests/{'x' * 200}.yaml"
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        info = tarfile.TarInfo(name)
        info.size = len(CONTENT)
        blocks = info.tobuf(form) + CONTENT.ljust(512, b"\0")
        assert read_tree([layer_source(blocks + END)], ["manifests"]) == {name: CONTENT}
