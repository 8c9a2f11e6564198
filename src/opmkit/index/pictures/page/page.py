"""Update graphs as a self-contained HTML page.

The page's content security policy allows only its own script and style, by hash, and no network access. The catalog is
embedded as JSON, which browsers do not execute; a package is parsed when it is selected.
"""

from __future__ import annotations

import base64
import hashlib
import html
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import orjson

from opmkit.bundle.finding import Severity
from opmkit.core.escape import escape_controls, escape_json
from opmkit.core.hints import Hint
from opmkit.index.diff.model import ChangeKind
from opmkit.index.errors import CatalogError
from opmkit.index.fbc import blobs as schemas
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.pictures.layout import merged_order
from opmkit.index.pictures.page.assets import asset, script
from opmkit.index.pictures.problems import group_problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit.index.diff.differences import Difference
    from opmkit.index.fbc.blobs import BundleBlob, ChannelBlob, RelatedImage
    from opmkit.index.pictures.layout import ChannelLayout, Row
    from opmkit.index.pictures.page.comparison import PackageComparison, RowChange
    from opmkit.index.pictures.problems import PackageProblem
    from opmkit.index.pictures.view import PackageView

    ProblemGroup: TypeAlias = Sequence[PackageProblem]


MAX_DATA = 96 << 20
"""Bytes of the embedded data."""

_MARKUP = ((b"<", b"\\u003c"), (b">", b"\\u003e"), (b"&", b"\\u0026"))


class NextUpdate(NamedTuple):
    """What OLM does with an installed bundle.

    Attributes:
        name: Name of the bundle that it installs next, or "".
        end: Why it installs none although the bundle is not the head of the channel, or "".
    """

    name: str
    end: str


NO_UPDATES: Mapping[tuple[str, str, str], NextUpdate] = {}


def render_page(
    title: str,
    packages: Sequence[PackageView],
    problems: Mapping[str, Sequence[PackageProblem]],
    updates: Mapping[tuple[str, str, str], NextUpdate] = NO_UPDATES,
) -> bytes:
    """Return the page.

    Args:
        title: The title of the page.
        packages: The packages to draw.
        problems: The problems of packages by name.
        updates: What OLM does with installed bundles, by package, channel and bundle.

    Raises:
        CatalogError: The data is larger than `MAX_DATA` bytes.
    """
    found = [group_problems(problems.get(package.name, ())) for package in packages]
    catalog = {"packages": list(map(search_data, packages, found))}
    hint = Hint.any_of("select one package", Hint("select one channel with {}", IndexSetting.CHANNEL))
    data = (package_data(package, each, updates) for package, each in zip(packages, found, strict=True))
    return _join_page(title, catalog, data, hint)


def render_comparison(
    title: str,
    summary: str,
    packages: Sequence[PackageComparison],
    problems: Mapping[str, Sequence[PackageProblem]],
) -> bytes:
    """Return a page of packages with the update graphs of two catalogs.

    Args:
        title: The title of the page.
        summary: A sentence about the comparison.
        packages: The packages to draw.
        problems: The problems of packages of the second catalog by name.

    Raises:
        CatalogError: The data is larger than `MAX_DATA` bytes.
    """
    found = [group_problems(problems.get(comparison.package.name, ())) for comparison in packages]
    counts = change_counts(difference for comparison in packages for difference in comparison.differences)
    catalog = {
        "compared": {"title": clean_text(summary), "counts": counts},
        "packages": list(map(compared_search_data, packages, found)),
    }
    hint = Hint("compare catalogs with fewer packages")
    return _join_page(title, catalog, map(compared_package_data, packages, found), hint)


def _join_page(title: str, catalog: Mapping[str, Any], packages: Iterable[Mapping[str, Any]], hint: Hint) -> bytes:
    data = [_data_element("catalog", catalog)]
    size = len(data[0])
    for number, package in enumerate(packages):
        data.append(_data_element(f"package-{number}", package))
        size += len(data[-1])
        if size > MAX_DATA:
            raise CatalogError(f"the data of the page would be larger than {MAX_DATA} bytes", hint=hint)
    style, code = asset("page.css"), script()
    sources = f"script-src '{_hash(code)}'; style-src '{_hash(style)}'"
    parts = {
        "policy": f"default-src 'none'; {sources}; base-uri 'none'; form-action 'none'".encode(),
        "title": html.escape(escape_controls(title[:MAX_TEXT])).encode(),
        "style": style.encode(),
        "script": code.encode(),
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
    text = escape_json(orjson.dumps(value))
    for character, escaped in _MARKUP:
        text = text.replace(character, escaped)
    return b'<script type="application/json" id="' + name.encode() + b'">' + text + b"</script>"


MAX_TEXT = 2000
"""Characters of a text of the catalog; longer texts are truncated."""
MAX_RELATED = 500
"""Related images of a bundle; further ones are omitted."""
MAX_LABEL = 200
"""Characters of the label of a problem."""
MAX_PROBLEMS = 100
"""Distinct problems of a package; further ones are only counted."""
MAX_CHANGES = 1000
"""Changes of a package; further ones are only counted, and shown in the graph without a text."""


def clean_text(text: str) -> str:
    """Truncate text, and escape control characters other than line breaks."""
    return "\n".join(map(escape_controls, text[:MAX_TEXT].split("\n")))


def non_empty(**fields: Any) -> dict[str, Any]:
    """Return the fields without empty strings, lists and zeros."""
    return {name: value for name, value in fields.items() if value not in ("", [], (), 0)}


def search_data(package: PackageView, problems: Sequence[ProblemGroup]) -> dict[str, Any]:
    """Return the names and versions for the search, and the number of problems."""
    return {
        "name": clean_text(package.name),
        "channels": [clean_text(channel.name) for channel in package.channels],
        "bundles": [[clean_text(name), clean_text(package.version(name))] for name in package.bundles],
        **non_empty(deprecated=clean_text(package.deprecation), problems=len(problems)),
    }


def package_data(
    package: PackageView,
    problems: Sequence[ProblemGroup],
    updates: Mapping[tuple[str, str, str], NextUpdate] = NO_UPDATES,
) -> dict[str, Any]:
    """Return a package with its bundles, channels and problems.

    Bundles are referred to by number. ``order`` has the rows of all channels from top to bottom, as numbers of bundles
    or, for those that do not exist, names; packages with one channel have none.
    """
    images: dict[RelatedImage, int] = {}
    numbers = {name: number for number, name in enumerate(package.bundles)}
    order = merged_order(package.channels, package.keys) if len(package.channels) > 1 else []
    return {
        "name": clean_text(package.name),
        "default": clean_text(package.default_channel),
        **non_empty(
            description=clean_text(package.description),
            deprecated=clean_text(package.deprecation),
            problems=list(map(_problem_data, problems[:MAX_PROBLEMS])),
            errors=sum(problem.severity is Severity.ERROR for problem, *_ in problems),
            warnings=sum(problem.severity is not Severity.ERROR for problem, *_ in problems),
            order=[numbers.get(name, clean_text(name)) for name in order],
        ),
        "bundles": [_bundle_data(package, bundle, images) for bundle in package.bundles.values()],
        "channels": [_channel_data(package, *channel, numbers, updates) for channel in package.layouts()],
        "images": [[clean_text(related.name), clean_text(related.image)] for related in images],
    }


def _problem_data(group: ProblemGroup) -> dict[str, Any]:
    """Return problems with the same cause as one; ``marks`` are the bundles to mark, with the channels to do so in."""
    problem = group[0]
    marks: defaultdict[tuple[tuple[str, ...], str], dict[str, None]] = defaultdict(dict)
    for repeated in group:
        marks[repeated.names, repeated.label] |= {repeated.channel: None} if repeated.channel else {}
    channels = dict.fromkeys(repeated.channel for repeated in group)
    return {
        "text": clean_text(problem.text if len(channels) == 1 else problem.cause),
        "severity": problem.severity,
        "marks": [_mark_data(names, label, list(found)) for (names, label), found in marks.items()],
    }


def _mark_data(names: Sequence[str], label: str, channels: Sequence[str]) -> dict[str, Any]:
    return non_empty(
        channels=list(map(clean_text, channels[:MAX_RELATED])),
        names=list(map(clean_text, names[:MAX_RELATED])),
        label=clean_text(label[:MAX_LABEL]),
    )


def _bundle_data(package: PackageView, bundle: BundleBlob, images: dict[RelatedImage, int]) -> dict[str, Any]:
    others = [related for related in bundle.related_images if related.image and related.image != bundle.image]
    return {
        "name": clean_text(bundle.name),
        **non_empty(
            version=clean_text(package.version(bundle.name)),
            image=clean_text(bundle.image),
            deprecated=clean_text(package.bundle_deprecation(bundle.name)),
            related=[images.setdefault(related, len(images)) for related in others[:MAX_RELATED]],
        ),
    }


def _channel_data(
    package: PackageView,
    channel: ChannelBlob,
    layout: ChannelLayout,
    numbers: Mapping[str, int],
    updates: Mapping[tuple[str, str, str], NextUpdate],
) -> dict[str, Any]:
    rows = list(_row_data(layout.rows, numbers))
    places = {row.name: place for place, row in enumerate(layout.rows)}
    for row, data in zip(layout.rows, rows, strict=True):
        if update := updates.get((package.name, channel.name, row.name)):
            data |= non_empty(end=clean_text(update.end))
            if update.name in places:
                data["next"] = places[update.name]
    return {
        "name": clean_text(channel.name),
        "rows": rows,
        **non_empty(deprecated=clean_text(package.channel_deprecation(channel.name))),
    }


def _row_data(rows: Iterable[Row], numbers: Mapping[str, int]) -> Iterable[dict[str, Any]]:
    for row in rows:
        data: dict[str, Any] = {}
        if row.name in numbers:
            data["bundle"] = numbers[row.name]
        else:
            data["name"] = clean_text(row.name)
        if row.is_entry:
            data["rank"] = row.rank
        if row.replaces is not None:
            data["replaces"] = row.replaces
        if row.cycle is not None:
            data["cycle"] = row.cycle
        yield data | non_empty(skips=row.skips, range=clean_text(row.skip_range), within=row.in_range)


def change_counts(differences: Iterable[Difference]) -> list[int]:
    """Return the numbers of added, removed and changed objects."""
    kinds = Counter(_change_kind(difference) for difference in differences)
    return [kinds[kind] for kind in ChangeKind]


def compared_search_data(comparison: PackageComparison, problems: Sequence[ProblemGroup]) -> dict[str, Any]:
    """Return what `search_data` does for the package with the bundles of both catalogs, and the number of changes."""
    data = search_data(comparison.package, problems)
    for name, texts in zip(comparison.package.bundles, data["bundles"], strict=True):
        if name in comparison.removed:
            texts.append(ChangeKind.REMOVED)
    return data | {"counts": change_counts(comparison.differences)}


def compared_package_data(comparison: PackageComparison, problems: Sequence[ProblemGroup]) -> dict[str, Any]:
    """Return what `package_data` does for the package with the graphs of both catalogs, and the changes."""
    data = package_data(comparison.package, problems)
    for name, bundle in zip(comparison.package.bundles, data["bundles"], strict=True):
        if name in comparison.changed_bundles:
            bundle["change"] = comparison.changed_bundles[name]
        if name in comparison.old_images:
            bundle["oldImage"] = clean_text(comparison.old_images[name])
    for (channel, _, row_changes), values in zip(comparison.layouts(), data["channels"], strict=True):
        if kind := comparison.channels[channel.name].kind:
            values["change"] = kind
        for change, row in zip(row_changes, values["rows"], strict=True):
            _add_row_change(row, change)
    shown = comparison.differences[:MAX_CHANGES]
    changes = [_change_data(difference, comparison.describe(difference)) for difference in shown]
    return data | {"changes": changes, "counts": change_counts(comparison.differences)}


def _add_row_change(row: dict[str, Any], change: RowChange) -> None:
    if not change.is_entry:
        row.pop("rank", None)
    row.pop("cycle", None)
    row |= non_empty(change=change.kind or "", added=change.added, oldSkips=change.old_skips)
    if change.old_replaces is not None:
        row["oldReplaces"] = change.old_replaces
    if change.cycle is not None:
        row["cycle"] = change.cycle


def _change_kind(difference: Difference) -> ChangeKind:
    return difference.kind.change


def _change_data(difference: Difference, label: str) -> dict[str, Any]:
    channel, bundle = difference.channel, difference.bundle
    schema, _, name = difference.details.partition(" ")
    if difference.kind.value.endswith("-deprecation"):
        channel, bundle = (name if schema == subject else "" for subject in (schemas.CHANNEL, schemas.BUNDLE))
        label = str(difference.kind) if bundle else ""
    parts = (("channel", difference.channel), ("bundle", difference.bundle))
    subject = ", ".join(f'{noun} "{value}"' for noun, value in parts if value)
    details = difference.details or (label if label not in ("", _change_kind(difference)) else "")
    return {
        "kind": _change_kind(difference),
        "text": clean_text(": ".join(filter(None, (str(difference.kind), subject, details)))),
        **non_empty(channel=clean_text(channel), bundle=clean_text(bundle), label=clean_text(label[:MAX_LABEL])),
    }
