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

from opmkit.core.escape import escape_controls
from opmkit.core.hints import Hint
from opmkit.index.errors import CatalogError
from opmkit.index.hint_terms import IndexSetting
from opmkit.index.pictures.page.assets import asset, script
from opmkit.index.pictures.page.data import (
    MAX_TEXT,
    change_counts,
    clean_text,
    compared_package_data,
    compared_search_data,
    package_data,
    search_data,
)
from opmkit.index.pictures.problems import group_problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from opmkit.index.pictures.page.comparison import PackageComparison
    from opmkit.index.pictures.problems import PackageProblem
    from opmkit.index.pictures.view import PackageView

MAX_DATA = 96 << 20
"""Bytes of the embedded data."""

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
    found = [group_problems(problems.get(package.name, ())) for package in packages]
    catalog = {"packages": list(map(search_data, packages, found))}
    hint = Hint.any_of("select one package", Hint("select one channel with {}", IndexSetting.CHANNEL))
    return _join_page(title, catalog, map(package_data, packages, found), hint)


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
    text = orjson.dumps(value)
    for character, escaped in _MARKUP:
        text = text.replace(character, escaped)
    return b'<script type="application/json" id="' + name.encode() + b'">' + text + b"</script>"
