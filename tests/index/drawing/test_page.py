"""The HTML page."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

import pytest

from opmkit.index.drawing import page
from opmkit.index.drawing.page import package_problems, render_page
from opmkit.index.drawing.view import package_views
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import Blobs, PackageBlob

from .samples import HOSTILE, OPERATOR, REEF, bundle, channel, entry, hostile_catalog

DATA_ELEMENT = re.compile(r'<script type="application/json" id="([\w-]+)">(.*?)</script>', re.DOTALL)


def data(raw: bytes) -> dict[str, Any]:
    """Return the embedded JSON documents by id."""
    return {name: json.loads(text) for name, text in DATA_ELEMENT.findall(raw.decode())}


def test_policy_allows_only_the_script_and_style_of_the_page() -> None:
    blobs = hostile_catalog()
    text = render_page(HOSTILE, package_views(blobs), package_problems(blobs)).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none';")
    for element in ("script", "style"):
        (content,) = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}'" in policy
    assert len(re.findall("<script", text)) == 3
    assert "alert(1)" not in re.sub(DATA_ELEMENT, "", text).replace("&lt;script&gt;alert(1)", "")
    assert "{{" not in text


def test_data_of_a_package() -> None:
    documents = data(render_page("t", package_views(REEF), package_problems(REEF)))
    assert documents["catalog"]["packages"] == [
        {
            "name": "reef",
            "channels": ["stable"],
            "bundles": [[f"reef.v1.{minor}.0", f"1.{minor}.0"] for minor in range(3)],
            "deprecated": "Old.",
        }
    ]
    (stable,) = documents["package-0"]["channels"]
    assert stable["deprecated"] == "Old."
    assert stable["rows"][0] == {
        "lane": 0,
        "lanes": 1,
        "bundle": 2,
        "rank": 2,
        "replaces": 1,
        "skips": [1],
        "range": ">=1.0.0 <1.1.0",
        "within": [[0, 1]],
    }
    assert documents["package-0"]["bundles"][0] == {
        "name": "reef.v1.0.0",
        "version": "1.0.0",
        "image": "quay.io/example/reef:1",
        "deprecated": "Old.",
        "related": [0],
    }
    assert documents["package-0"]["images"] == [["op", OPERATOR]]


def test_problems_of_an_invalid_catalog_are_listed() -> None:
    blobs = Blobs((PackageBlob("reef", "none"),), (channel(entry("1.0.0"), entry("2.0.0")),), (bundle("1.0.0"),))
    problems = data(render_page("t", package_views(blobs), package_problems(blobs)))["package-0"]["problems"]
    assert any("multiple channel heads" in problem for problem in problems)
    assert len(problems) > 2
    valid = Blobs((PackageBlob("reef", "stable"),), (channel(entry("1.0.0")),), (bundle("1.0.0"),))
    assert package_problems(valid) == {}


def test_size_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_DATA", 100)
    with pytest.raises(CatalogError, match="larger than 100 bytes"):
        render_page("x", package_views(REEF), {})
