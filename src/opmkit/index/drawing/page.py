"""Update graphs as one page for a browser, which holds all that it needs and asks no network for anything.

The policy of the page allows its own script and style alone, by their hashes; the catalog is in it as JSON, which no
browser runs, and each package is read when it is looked at.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import orjson

from opmkit.imagetools.escape import escape_controls
from opmkit.imagetools.hints import Hint, Setting
from opmkit.index.drawing.assets import asset
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.check.catalog import check_blobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit.index.drawing.layout import ChannelLayout, Row
    from opmkit.index.drawing.view import PackageView
    from opmkit.index.fbc.blobs import Blobs, BundleBlob, ChannelBlob, RelatedImage

MAX_PAGE = 96 << 20
"""Bytes that the data of a page may have."""
MAX_TEXT = 2000
"""Characters of any text of a catalog that are shown."""
MAX_RELATED = 500
"""Related images of a bundle that are shown."""
MAX_PROBLEMS = 100
"""Problems of a package that are shown."""

_MARKUP = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))


def render_page(title: str, packages: Sequence[PackageView], problems: Mapping[str, Sequence[str]]) -> bytes:
    """The page for packages; ``problems`` are what is wrong with each, in words.

    Raises:
        CatalogError: the page would be too large.
    """
    scripts = [_data("catalog", {"packages": list(map(_listed, packages))})]
    for number, package in enumerate(packages):
        scripts.append(_data(f"package-{number}", _package(package, problems.get(package.name, ()))))
        if sum(map(len, scripts)) > MAX_PAGE:
            raise CatalogError(
                f"the page would have more than {MAX_PAGE} bytes",
                hint=Hint.any_of("select one package", Hint("select one channel with {}", Setting.CHANNEL)),
            )
    style, script = asset("page.css"), asset("page.js")
    sources = f"script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    parts = {
        "policy": f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'".encode(),
        "title": html.escape(escape_controls(title[:MAX_TEXT])).encode(),
        "style": style.encode(),
        "script": script.encode(),
        "data": b"\n".join(scripts),
    }
    first, *rest = asset("page.html").split("{{")
    pieces = [first.encode()]
    for piece in rest:
        name, _, text = piece.partition("}}")
        pieces += [parts[name], text.encode()]
    return b"".join(pieces)


def package_problems(blobs: Blobs) -> dict[str, list[str]]:
    """Return the errors of a catalog with their hints, as text, by package."""
    problems: defaultdict[str, list[str]] = defaultdict(list)
    for finding in check_blobs(blobs):
        problems[finding.package].append(f"{finding}. {finding.hint}".rstrip())
    return problems


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _data(name: str, value: Mapping[str, Any]) -> bytes:
    """A script element that holds JSON, in which nothing can end the element."""
    text = orjson.dumps(value)
    for sign, escaped in _MARKUP:
        text = text.replace(sign, escaped)
    return b'<script type="application/json" id="' + name.encode() + b'">' + text + b"</script>"


def _text(text: str) -> str:
    """Return text of limited length as it is shown, with line breaks and escapes for other controls."""
    return "\n".join(map(escape_controls, text[:MAX_TEXT].split("\n")))


def _given(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in ("", [], ())}


def _listed(package: PackageView) -> dict[str, Any]:
    """What is searched: names and versions."""
    return {
        "name": _text(package.name),
        "channels": [_text(channel.name) for channel in package.channels],
        "bundles": [[_text(name), _text(package.version(name))] for name in package.bundles],
        **_given(deprecated=_text(package.deprecation)),
    }


def _package(package: PackageView, problems: Sequence[str]) -> dict[str, Any]:
    images: dict[RelatedImage, int] = {}
    numbers = {name: number for number, name in enumerate(package.bundles)}
    more = [f"and {len(problems) - MAX_PROBLEMS} more"] * (len(problems) > MAX_PROBLEMS)
    return {
        "name": _text(package.name),
        "default": _text(package.default_channel),
        **_given(
            description=_text(package.description),
            deprecated=_text(package.deprecation),
            problems=[*map(_text, problems[:MAX_PROBLEMS]), *more],
        ),
        "bundles": [_bundle(package, bundle, images) for bundle in package.bundles.values()],
        "channels": [_channel(package, channel, drawn, numbers) for channel, drawn in package.layouts()],
        "images": [[_text(one.name), _text(one.image)] for one in images],
    }


def _bundle(package: PackageView, bundle: BundleBlob, images: dict[RelatedImage, int]) -> dict[str, Any]:
    related = [one for one in bundle.related_images if one.image and one.image != bundle.image][:MAX_RELATED]
    return {
        "name": _text(bundle.name),
        **_given(
            version=_text(package.version(bundle.name)),
            image=_text(bundle.image),
            deprecated=_text(package.bundle_deprecation(bundle.name)),
            related=[images.setdefault(one, len(images)) for one in related],
        ),
    }


def _channel(
    package: PackageView, channel: ChannelBlob, drawn: ChannelLayout, numbers: Mapping[str, int]
) -> dict[str, Any]:
    return {
        "name": _text(channel.name),
        "rows": list(_rows(drawn.rows, numbers)),
        **_given(deprecated=_text(package.channel_deprecation(channel.name))),
    }


def _rows(rows: Iterable[Row], numbers: Mapping[str, int]) -> Iterable[dict[str, Any]]:
    for row in rows:
        told: dict[str, Any] = {"lane": row.lane, "lanes": row.lanes}
        if row.name in numbers:
            told["bundle"] = numbers[row.name]
        else:
            told["name"] = _text(row.name)
        if row.is_entry:
            told["rank"] = row.rank
        if row.replaces is not None:
            told["replaces"] = row.replaces
        yield told | _given(skips=row.skips, range=_text(row.skip_range), within=row.in_range)
