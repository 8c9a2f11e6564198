"""Sample catalogs to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.index.fbc.blobs import (
    BlobProperty,
    Blobs,
    BundleBlob,
    ChannelBlob,
    Deprecation,
    DeprecationsBlob,
    EntryBlob,
    PackageBlob,
    RelatedImage,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

HOSTILE = '</script><script>alert(1)</script>"]; evil[" `**x**` #quot; %%{init}%% &amp; \\ \n\u2028 \ud800'
OPERATOR = f"quay.io/example/op@sha256:{0:064x}"


def bundle(version: str, package: str = "reef", name: str = "") -> BundleBlob:
    properties = (BlobProperty("olm.package", {"packageName": package, "version": version}),)
    images = (RelatedImage("op", OPERATOR),)
    return BundleBlob(name or f"{package}.v{version}", package, f"quay.io/example/{package}:1", properties, images)


def channel(*entries: EntryBlob, name: str = "stable", package: str = "reef") -> ChannelBlob:
    return ChannelBlob(name, package, entries)


def entry(version: str, replaces: str = "", skips: Iterable[str] = (), skip_range: str = "") -> EntryBlob:
    names = tuple(f"reef.v{skip}" for skip in skips)
    return EntryBlob(f"reef.v{version}", f"reef.v{replaces}" if replaces else "", names, skip_range)


def deprecations(package: str, *entries: tuple[str, str]) -> DeprecationsBlob:
    return DeprecationsBlob(package, tuple(Deprecation(f"olm.{kind}", name, "Old.") for kind, name in entries))


REEF = Blobs(
    (PackageBlob("reef", "stable"),),
    (channel(entry("1.0.0"), entry("1.1.0", "1.0.0"), entry("1.2.0", "1.1.0", ["1.1.0"], ">=1.0.0 <1.1.0")),),
    tuple(map(bundle, ("1.0.0", "1.1.0", "1.2.0"))),
    (
        deprecations(
            "reef", ("package", ""), ("channel", "stable"), ("bundle", "reef.v1.0.0"), ("bundle", "reef.v1.1.0")
        ),
    ),
)


def hostile_catalog() -> Blobs:
    """Return a catalog whose texts try to break out of every format."""
    name = f"{HOSTILE}1"
    entries = (EntryBlob(name, HOSTILE, (f"{HOSTILE}2",), ">=0.0.0 <imgx1.x"), EntryBlob("b.v1.0.0"))
    return Blobs(
        (PackageBlob(HOSTILE, HOSTILE, None, HOSTILE),),
        (ChannelBlob(HOSTILE, HOSTILE, entries),),
        (bundle("1.0.0", HOSTILE, name), bundle("1.5.0", HOSTILE, "b.v1.0.0")),
        (
            DeprecationsBlob(
                HOSTILE, (Deprecation("olm.bundle", name, HOSTILE), Deprecation("olm.package", "", HOSTILE))
            ),
        ),
    )
