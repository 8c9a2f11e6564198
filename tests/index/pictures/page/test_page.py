"""The HTML page."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any

import pytest

from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import Blobs, EntryBlob, PackageBlob
from opmkit.index.pictures.page import page
from opmkit.index.pictures.page import page as page_data
from opmkit.index.pictures.page.page import NextUpdate, render_page
from opmkit.index.pictures.problems import package_problems
from opmkit.index.pictures.view import package_views
from tests.index.pictures.samples import HOSTILE, OPERATOR, REEF, bundle, channel, entry, hostile_catalog

DATA_ELEMENT = re.compile(r'<script type="application/json" id="([\w-]+)">(.*?)</script>', re.DOTALL)


def data(raw: bytes) -> dict[str, Any]:
    """Return the embedded JSON documents by id."""
    return {name: json.loads(text) for name, text in DATA_ELEMENT.findall(raw.decode())}


def test_policy_allows_only_the_script_and_style_of_the_page() -> None:
    blobs = hostile_catalog()
    packages = package_views(blobs)
    text = render_page(HOSTILE, packages, package_problems(blobs, packages)).decode()
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none';")
    for element in ("script", "style"):
        (content,) = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{element}-src 'sha256-{digest}'" in policy
    assert len(re.findall("<script", text)) == 3
    assert "alert(1)" not in re.sub(DATA_ELEMENT, "", text).replace("&lt;script&gt;alert(1)", "")
    assert "{{" not in text


def test_commands_to_ci_systems_are_escaped() -> None:
    name = "##vso[task.complete]"
    blobs = Blobs((), (channel(EntryBlob(name)),), (bundle("1.0.0", name=name),))
    packages = package_views(blobs)
    raw = render_page("a", packages, package_problems(blobs, packages))
    assert b"##vso[" not in raw
    assert name in json.dumps(data(raw), ensure_ascii=False)


def test_next_updates() -> None:
    packages = package_views(REEF)
    name = "reef.v1.{}.0".format
    updates = {
        ("reef", "stable", name(0)): NextUpdate(name(1), ""),
        ("reef", "stable", name(1)): NextUpdate("", "no\x1b entry"),
        ("reef", "other", name(2)): NextUpdate(name(1), "unused"),
    }
    (stable,) = data(render_page("t", packages, {}, updates))["package-0"]["channels"]
    assert [(row.get("next"), row.get("end")) for row in stable["rows"]] == [
        (None, None),
        (None, r"no\x1b entry"),
        (1, None),
    ]


def test_data_of_a_package() -> None:
    packages = package_views(REEF)
    documents = data(render_page("t", packages, package_problems(REEF, packages)))
    assert documents["catalog"]["packages"] == [
        {
            "name": "reef",
            "channels": ["stable"],
            "bundles": [[f"reef.v1.{minor}.0", f"1.{minor}.0"] for minor in range(3)],
            "deprecated": "Old.",
            "problems": 1,
        }
    ]
    (stable,) = documents["package-0"]["channels"]
    assert stable["deprecated"] == "Old."
    assert stable["rows"][0] == {
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


def test_problems_are_embedded_and_further_ones_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_data, "MAX_PROBLEMS", 1)
    blobs = Blobs((PackageBlob("reef", "stable"),), (channel(entry("1.0.0"), entry("2.0.0")),), (bundle("1.0.0"),))
    packages = package_views(blobs)
    problems = package_problems(blobs, packages)
    documents = data(render_page("t", packages, problems))
    assert documents["catalog"]["packages"][0]["problems"] == len(problems["reef"]) == 2
    package = documents["package-0"]
    assert (package["errors"], "warnings" in package) == (2, False)
    (problem,) = package["problems"]
    assert problem["severity"] == "error"
    label = "no olm.bundle blob found for the entry"
    assert problem["marks"] == [{"channels": ["stable"], "names": ["reef.v2.0.0"], "label": label}]


def test_problems_with_the_same_cause_are_one() -> None:
    entries = (entry("1.0.0", "0.9.0"), entry("1.1.0", "0.9.0"), entry("1.2.0", "1.1.0", ["1.0.0"]))
    channels = (channel(entries[0], name="alpha"), channel(*entries, name="beta"))
    blobs = Blobs((PackageBlob("reef", "beta"),), channels, tuple(map(bundle, ("1.0.0", "1.1.0", "1.2.0"))))
    packages = package_views(blobs)
    documents = data(render_page("t", packages, package_problems(blobs, packages)))
    assert documents["catalog"]["packages"][0]["problems"] == 1
    (problem,) = documents["package-0"]["problems"]
    assert problem["text"].startswith("reef.v0.9.0 does not exist, but is replaced.")
    assert [(mark["channels"], mark["label"]) for mark in problem["marks"]] == [
        (["alpha"], "does not exist, replaced by reef.v1.0.0"),
        (["beta"], "does not exist, replaced by reef.v1.0.0 and 1 more"),
    ]


def test_size_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "MAX_DATA", 100)
    with pytest.raises(CatalogError, match="larger than 100 bytes"):
        render_page("x", package_views(REEF), {})
