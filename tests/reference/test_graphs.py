"""Drawings of random update graphs, and rendered templates, equal those of Go opm byte for byte.

``OPMKIT_REFERENCE_OPM`` and ``OPMKIT_REFERENCE_OPM_NEWEST`` are paths of Go opm of any release.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.fbc.load import read_blobs
from opmkit.index.pictures.mermaid import render_mermaid
from opmkit.index.pictures.view import GraphFilter
from tests.kit.corpus import RegistryCorpus
from tests.kit.opm import Opm
from tests.kit.shared import SHARED, needs_shared

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.registry import Registry

TOOLS = [tool for name in ("", "_NEWEST") if (tool := os.environ.get(f"OPMKIT_REFERENCE_OPM{name}"))]
GRAPHS = 60

pytestmark = pytest.mark.skipif(
    not TOOLS, reason="set OPMKIT_REFERENCE_OPM or OPMKIT_REFERENCE_OPM_NEWEST to the path of Go opm"
)


@cache
def compat(tool: str) -> CatalogCompat:
    done = subprocess.run([tool, "alpha", "render-graph", "--help"], capture_output=True, text=True, check=False)
    return CatalogCompat.NEWEST if "--draw-v0-semantics" in done.stdout else CatalogCompat.OPM_1_26


def theirs(tool: str, *arguments: str) -> str | None:
    """Return the output of Go opm, None if it fails."""
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None


def random_package(rng: random.Random, package: str) -> list[dict[str, Any]]:
    """Return a package whose channels have arbitrary edges."""
    ends = ("", "", "-rc.1", "-alpha")
    versions = {".".join(str(rng.randint(0, 3)) for _ in range(3)) + rng.choice(ends) for _ in range(9)}
    names = {f"{package}.v{version}": version for version in sorted(versions)}
    known = [*names, f"{package}.v0.0.9"]

    def entry(name: str) -> dict[str, Any]:
        result: dict[str, Any] = {"name": name}
        if rng.random() < 0.6:
            result["replaces"] = rng.choice(known)
        if rng.random() < 0.4:
            result["skips"] = rng.sample(known, 2)
        if rng.random() < 0.3:
            result["skipRange"] = rng.choice((">=0.0.0 <1.0.0", "<1.2.0 || 2.x", ">=1.0.0-0 !=1.1.0", "none"))
        return result

    channels = [
        {
            "schema": "olm.channel",
            "package": package,
            "name": name,
            "entries": [entry(bundle) for bundle in rng.sample(list(names), rng.randint(1, len(names)))],
        }
        for name in rng.sample(("a", "b", "c-1"), rng.randint(1, 3))
    ]
    bundles = [
        {
            "schema": "olm.bundle",
            "package": package,
            "name": name,
            "image": f"quay.io/example/{package}:{version}",
            "properties": [{"type": "olm.package", "value": {"packageName": package, "version": version}}],
        }
        for name, version in names.items()
    ]
    return [{"schema": "olm.package", "name": package, "defaultChannel": "a"}, *channels, *bundles]


def deprecations(rng: random.Random, catalog: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a blob that deprecates random channels and bundles of a package, and sometimes the package."""
    package = catalog[0]["name"]
    entries = [
        {"reference": {"schema": blob["schema"], "name": blob["name"]}, "message": "old"}
        for blob in catalog[1:]
        if rng.random() < 0.4
    ]
    whole = [{"reference": {"schema": "olm.package"}, "message": "old"}] * (rng.random() < 0.5)
    return {"schema": "olm.deprecations", "package": package, "entries": entries + whole}


@pytest.mark.parametrize("tool", TOOLS)
def test_drawings_of_graphs_equal_those_of_go_opm(tool: str, tmp_path: Path) -> None:
    for seed in range(GRAPHS):
        rng = random.Random(seed)
        catalog = random_package(rng, "p0")
        several = seed % 3 == 0  # with several packages Go opm confuses deprecations and edges
        catalog += random_package(rng, "p1") if several else [deprecations(rng, catalog)]
        root = tmp_path / str(seed)
        root.mkdir()
        (root / "catalog.json").write_text("\n".join(map(json.dumps, catalog)))
        bundle = rng.choice([blob["name"] for blob in catalog if blob["schema"] == "olm.bundle"])
        selection = rng.choice(
            (GraphFilter(), GraphFilter("p0"), GraphFilter(minimum=bundle), GraphFilter("p0", bundle))
        )
        v0 = compat(tool) is CatalogCompat.NEWEST and not several and rng.random() < 0.5
        flags = ["--package-name", selection.package, "--minimum-edge", selection.minimum]
        flags += ["--draw-v0-semantics"] * v0
        drawn = render_mermaid(read_blobs(root), selection, compat=compat(tool), v0_semantics=v0)
        assert drawn.text == theirs(tool, "alpha", "render-graph", str(root), *flags), (seed, flags)


VERSIONS = ("1.0.0", "1.0.1", "1.0.2", "1.1.0", "1.1.1", "2.0.0-rc.1", "2.0.0", "2.0.1")


def images(*tags: str, package: str = "syn-patch") -> dict[str, Any]:
    return {"bundles": [{"image": f"{{registry}}/{package}:{tag}"} for tag in tags]}


def semver(**fields: Any) -> dict[str, Any]:
    return {"schema": "olm.semver", **fields}


def chain(name: str, *versions: str) -> dict[str, Any]:
    entries = [
        {"name": f"syn-patch.v{version}"}
        | ({"replaces": f"syn-patch.v{versions[number - 1]}", "skipRange": f"<{version}"} if number else {})
        for number, version in enumerate(versions)
    ]
    return {"schema": "olm.channel", "package": "syn-patch", "name": name, "entries": entries}


def full(version: str) -> dict[str, Any]:
    value = {"packageName": "syn-patch", "version": version}
    image = f"{{registry}}/syn-patch:{version}"
    properties = [{"type": "olm.package", "value": value}]
    return {
        "schema": "olm.bundle",
        "name": f"syn-patch.v{version}",
        "package": "syn-patch",
        "image": image,
        "properties": properties,
    }


PACKAGE = {"schema": "olm.package", "name": "syn-patch", "defaultChannel": "a"}
OTHER = {"schema": "example.com.notes", "value": [1, 2.5, None]}


def substitutes(*pairs: tuple[str, str]) -> dict[str, Any]:
    versions = ("1.0.0", "1.0.1", "1.1.0")
    entries = [PACKAGE, chain("a", *versions), chain("b", *versions[1:]), *map(full, versions), OTHER]
    substitutions = [{"name": f"{{registry}}/syn-patch:{tag}", "base": f"syn-patch.v{base}"} for tag, base in pairs]
    return {"schema": "olm.template.substitutes", "entries": entries, "substitutions": substitutions}


BOTH = {"generateMajorChannels": True, "generateMinorChannels": True}
TEMPLATES = {
    "both": semver(**BOTH, candidate=images(*VERSIONS), stable=images("1.0.0", "1.1.0")),
    "major": semver(generateMajorChannels=True, candidate=images(*VERSIONS), fast=images("1.0.0")),
    "unset": semver(candidate=images(*VERSIONS)),
    "neither": semver(generateMajorChannels=False, generateMinorChannels=False, stable=images("1.0.0", "1.0.2")),
    "preferred": semver(**BOTH, defaultChannelTypePreference="major", stable=images("2.0.0-rc.1")),
    "described": semver(**BOTH, candidate=images("0.1.0", "0.17.1", package="yaks")),
    "mismatch": semver(defaultChannelTypePreference="major", candidate=images("1.0.0")),
    "unknown": semver(nothing=1, candidate=images("1.0.0")),
    "twice": semver(candidate=images("1.0.0", "1.0.0")),
    "basic": {
        "schema": "olm.template.basic",
        "entries": [
            PACKAGE,
            chain("a", "1.0.0"),
            {"schema": "olm.bundle", "image": "{registry}/syn-patch:1.0.0"},
            OTHER,
        ],
    },
    "basic-full": {"schema": "olm.template.basic", "entries": [full("1.0.0")]},
    "substitute": substitutes(("1.0.2", "1.0.1"), ("1.1.1", "1.1.0")),
    "substitute-of-substitute": substitutes(("1.0.2", "1.0.1"), ("1.1.1", "1.0.2")),
    "substitute-lower": substitutes(("1.0.2", "1.1.0")),
    "substitute-nothing": substitutes(("1.0.2", "9.9.9")),
}


@needs_shared
@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("tool", [tool for tool in TOOLS if compat(tool) is CatalogCompat.NEWEST])
def test_rendered_templates_equal_those_of_go_opm(tool: str, name: str, registry: Registry, tmp_path: Path) -> None:
    corpus = RegistryCorpus(registry.host)
    (tmp_path / "template.json").write_text(corpus.fill([json.dumps(TEMPLATES[name])])[0])
    opm = Opm(tmp_path, flags=("--use-http",))
    for form in ((), ("-o", "yaml"), ("-o", "mermaid"), ("--migrate-level", "all")):
        ours = opm.attempt("alpha", "render-template", "template.json", *form)
        argv = ("alpha", "render-template", str(tmp_path / "template.json"), "--use-http", *form)
        assert (ours.stdout if ours.returncode == 0 else None) == theirs(tool, *argv), ours.stderr


@needs_shared
@pytest.mark.parametrize("kind", ["basic", "substitutes"])
@pytest.mark.parametrize("form", ["json", "yaml"])
@pytest.mark.parametrize("tool", [tool for tool in TOOLS if compat(tool) is CatalogCompat.NEWEST])
def test_converted_catalogs_equal_those_of_go_opm(tool: str, form: str, kind: str, tmp_path: Path) -> None:
    (tmp_path / "random.json").write_text("\n".join(map(json.dumps, random_package(random.Random(1), "p0"))))
    files = [tmp_path / "random.json", SHARED / "corpus" / "templates" / "basic-two.yaml"]
    for file in files:
        argv = ("alpha", "convert-template", kind, str(file), "-o", form)
        assert Opm(tmp_path)(*argv) == theirs(tool, *argv)
