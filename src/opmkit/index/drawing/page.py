"""Update graphs as a self-contained HTML page.

The page's content security policy allows only its own script and style, by hash, and no network access. The catalog is
embedded as JSON, which browsers do not execute; a package is parsed when it is selected.
"""

from __future__ import annotations

import base64
import hashlib
import html
from typing import TYPE_CHECKING, Any

import orjson

from opmkit.bundle.finding import Severity
from opmkit.imagetools.escape import escape_controls
from opmkit.imagetools.hints import Hint, Setting
from opmkit.index.drawing.assets import asset
from opmkit.index.errors import CatalogError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit.index.drawing.layout import ChannelLayout, Row
    from opmkit.index.drawing.problems import PackageProblem
    from opmkit.index.drawing.view import PackageView
    from opmkit.index.fbc.blobs import BundleBlob, ChannelBlob, RelatedImage

MAX_DATA = 96 << 20
"""Bytes of the embedded data."""
MAX_TEXT = 2000
"""Characters of a text of the catalog; longer texts are truncated."""
MAX_RELATED = 500
"""Related images of a bundle; further ones are omitted."""
MAX_LABEL = 200
"""Characters of the label of a problem."""
MAX_PROBLEMS = 100
"""Problems of a package; further ones are only counted."""

_MARKUP = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))


def render_page(title: str, packages: Sequence[PackageView], problems: Mapping[str, Sequence[PackageProblem]]) -> bytes:
    """Return the page.

    Args:
        title: The title of the page.
        packages: The packages to draw.
        problems: The problems of packages by name.

    Raises:
        CatalogError: The data is larger than `MAX_DATA` bytes.
    """
    found = [problems.get(package.name, ()) for package in packages]
    data = [_data_element("catalog", {"packages": list(map(_search_data, packages, found))})]
    for number, package in enumerate(packages):
        data.append(_data_element(f"package-{number}", _package_data(package, found[number])))
        if sum(map(len, data)) > MAX_DATA:
            raise CatalogError(
                f"the data of the page would be larger than {MAX_DATA} bytes",
                hint=Hint.any_of("select one package", Hint("select one channel with {}", Setting.CHANNEL)),
            )
    style, script = asset("page.css"), asset("page.js")
    sources = f"script-src '{_hash(script)}'; style-src '{_hash(style)}'"
    parts = {
        "policy": f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'".encode(),
        "title": html.escape(escape_controls(title[:MAX_TEXT])).encode(),
        "style": style.encode(),
        "script": script.encode(),
        "data": b"\n".join(data),
    }
    first, *rest = asset("page.html").split("{{")
    pieces = [first.encode()]
    for piece in rest:
        name, _, text = piece.partition("}}")
        pieces += [parts[name], text.encode()]
    return b"".join(pieces)


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _data_element(name: str, value: Mapping[str, Any]) -> bytes:
    """Return a script element with JSON that can't end the element."""
    text = orjson.dumps(value)
    for character, escaped in _MARKUP:
        text = text.replace(character, escaped)
    return b'<script type="application/json" id="' + name.encode() + b'">' + text + b"</script>"


def _text(text: str) -> str:
    """Truncate text, and escape control characters other than line breaks."""
    return "\n".join(map(escape_controls, text[:MAX_TEXT].split("\n")))


def _non_empty(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in ("", [], (), 0)}


def _search_data(package: PackageView, problems: Sequence[PackageProblem]) -> dict[str, Any]:
    """Return the names and versions for the search, and the number of problems."""
    return {
        "name": _text(package.name),
        "channels": [_text(channel.name) for channel in package.channels],
        "bundles": [[_text(name), _text(package.version(name))] for name in package.bundles],
        **_non_empty(deprecated=_text(package.deprecation), problems=len(problems)),
    }


def _package_data(package: PackageView, problems: Sequence[PackageProblem]) -> dict[str, Any]:
    images: dict[RelatedImage, int] = {}
    numbers = {name: number for number, name in enumerate(package.bundles)}
    return {
        "name": _text(package.name),
        "default": _text(package.default_channel),
        **_non_empty(
            description=_text(package.description),
            deprecated=_text(package.deprecation),
            problems=list(map(_problem_data, problems[:MAX_PROBLEMS])),
            errors=sum(problem.severity is Severity.ERROR for problem in problems),
            warnings=sum(problem.severity is not Severity.ERROR for problem in problems),
        ),
        "bundles": [_bundle_data(package, bundle, images) for bundle in package.bundles.values()],
        "channels": [_channel_data(package, channel, layout, numbers) for channel, layout in package.layouts()],
        "images": [[_text(related.name), _text(related.image)] for related in images],
    }


def _problem_data(problem: PackageProblem) -> dict[str, Any]:
    return {
        "text": _text(problem.text),
        "severity": problem.severity,
        **_non_empty(
            channel=_text(problem.channel),
            names=list(map(_text, problem.names[:MAX_RELATED])),
            label=_text(problem.label[:MAX_LABEL]),
        ),
    }


def _bundle_data(package: PackageView, bundle: BundleBlob, images: dict[RelatedImage, int]) -> dict[str, Any]:
    others = [related for related in bundle.related_images if related.image and related.image != bundle.image]
    return {
        "name": _text(bundle.name),
        **_non_empty(
            version=_text(package.version(bundle.name)),
            image=_text(bundle.image),
            deprecated=_text(package.bundle_deprecation(bundle.name)),
            related=[images.setdefault(related, len(images)) for related in others[:MAX_RELATED]],
        ),
    }


def _channel_data(
    package: PackageView, channel: ChannelBlob, layout: ChannelLayout, numbers: Mapping[str, int]
) -> dict[str, Any]:
    return {
        "name": _text(channel.name),
        "rows": list(_row_data(layout.rows, numbers)),
        **_non_empty(deprecated=_text(package.channel_deprecation(channel.name))),
    }


def _row_data(rows: Iterable[Row], numbers: Mapping[str, int]) -> Iterable[dict[str, Any]]:
    for row in rows:
        data: dict[str, Any] = {"lane": row.lane, "lanes": row.lanes}
        if row.name in numbers:
            data["bundle"] = numbers[row.name]
        else:
            data["name"] = _text(row.name)
        if row.is_entry:
            data["rank"] = row.rank
        if row.replaces is not None:
            data["replaces"] = row.replaces
        if row.cycle is not None:
            data["cycle"] = row.cycle
        yield data | _non_empty(skips=row.skips, range=_text(row.skip_range), within=row.in_range)
