"""Catalog caches are interchangeable between Go opm and opmkit.

``OPMKIT_REFERENCE_OPM_NEWEST`` is the path of the newest Go opm. It writes its cache in the format ``json`` if it finds
an empty one of that format, otherwise in the format ``pogreb.v1``.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from opmkit.index.fbc.load import read_blobs
from opmkit.index.fbc.write import to_json
from opmkit.index.fbc.write import write_catalog as write_blobs
from tests.golden.test_grpc import CATALOG, GOLDEN
from tests.index.recorded_adds import REGISTRY
from tests.kit.cachedcatalog import BLOBS, DIGEST, ODD_TREE_DIGEST, write_catalog, write_odd_tree
from tests.kit.catalogmaker import build_catalog
from tests.kit.catalogs import free_port
from tests.kit.opm import PROGRAM
from tests.kit.randomcatalogs import requests_for_catalog
from tests.kit.server import Server, channel
from tests.kit.shared import SHARED, needs_shared
from tests.reference.test_serve import INVALID_REQUESTS, NEWEST, assert_same, needs_newest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = needs_newest
LOG = ("-t", os.devnull)
METADATA = {"displayName": "Lagoon", "annotations": {"a": "<&>"}, "crdDescriptions": {"owned": []}}


def build_theirs(catalog: Path, cache: Path, *, json_format: bool = True) -> None:
    cache.mkdir(mode=0o750)
    if json_format:
        (cache / "cache").mkdir(mode=0o750)
        (cache / "digest").touch()
    run_theirs(catalog, cache, "--cache-only").check_returncode()


def run_theirs(catalog: Path, cache: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    argv = [NEWEST, "serve", str(catalog), "--cache-dir", str(cache), "--pprof-addr=", *LOG, *flags]
    return subprocess.run(argv, capture_output=True, text=True, check=False, timeout=120)


def build_ours(catalog: Path, cache: Path, *flags: str) -> None:
    argv = [str(PROGRAM), "serve", str(catalog), "--cache-dir", str(cache), "--cache-only", *LOG, *flags]
    subprocess.run(argv, check=True, capture_output=True, timeout=120)


def theirs(catalog: Path, cache: Path) -> Server:
    flags = ("--cache-dir", str(cache), "--cache-enforce-integrity=true", "--pprof-addr=")
    argv = ("sh", "-c", 'exec "$@" 2>&1', "sh", NEWEST, "serve", str(catalog), *flags)
    return Server(program=argv, port=free_port())


def contents(cache: Path) -> dict[str, object]:
    """Return the mode and parsed JSON of each file of a cache."""
    paths = (path for path in cache.rglob("*") if path.name != "digest")
    return {
        str(path.relative_to(cache)): (path.stat().st_mode, _parsed(path) if path.is_file() else None) for path in paths
    }


def _parsed(path: Path) -> object:
    document = json.loads(path.read_bytes())
    if "csvJson" in document:
        document["csvJson"] = json.loads(document["csvJson"])
        document["object"] = [json.loads(text) for text in document["object"]]
    return document


def with_metadata(root: Path) -> Path:
    """Write the small catalog with a bundle that has metadata in place of its manifests."""
    (root / "lagoon").mkdir(parents=True)
    blobs = json.loads(json.dumps(BLOBS[:-1]))
    blobs[4]["properties"].append({"type": "olm.csv.metadata", "value": METADATA})
    (root / "lagoon" / "catalog.json").write_text("\n".join(map(json.dumps, blobs)))
    return root


def golden(root: Path) -> Path:
    root.mkdir()
    text = (GOLDEN / f"{CATALOG}.catalog.json").read_text().replace("{registry}", REGISTRY)
    (root / "catalog.json").write_text(text)
    return root


def corpus(root: Path) -> Path:
    """Write a catalog of all published bundles of the corpus, several hundred."""
    directories = sorted(path.parent for path in (SHARED / "corpus" / "bundles").glob("*/*/metadata"))
    published = [path for path in directories if not path.parent.name.startswith(("syn-", "opreg-"))]
    blobs = build_catalog(published)
    assert len(blobs.bundles) > 300
    write_blobs(blobs, root, "json", to_json)
    return root


@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    "make",
    [write_catalog, with_metadata, pytest.param(golden, marks=needs_shared), pytest.param(corpus, marks=needs_shared)],
)
def test_each_program_serves_from_the_cache_of_the_other(make: Callable[[Path], Path], tmp_path: Path) -> None:
    catalog = make(tmp_path / "catalog")
    build_theirs(catalog, tmp_path / "theirs")
    build_ours(catalog, tmp_path / "ours")
    assert contents(tmp_path / "ours") == contents(tmp_path / "theirs")
    before = contents(tmp_path / "theirs")
    with (
        theirs(catalog, tmp_path / "ours") as first,
        Server(str(catalog), "--cache-dir", str(tmp_path / "theirs"), program=(str(PROGRAM), "serve")) as second,
        channel(first.address) as their_channel,
        channel(second.address) as our_channel,
    ):
        assert_same(their_channel, our_channel, requests_for_catalog(read_blobs(catalog)), INVALID_REQUESTS)
    assert contents(tmp_path / "theirs") == before


def test_recorded_digests_equal_those_of_go_opm(tmp_path: Path) -> None:
    build_theirs(write_catalog(tmp_path / "catalog"), tmp_path / "cache")
    assert (tmp_path / "cache" / "digest").read_text() == DIGEST
    (tmp_path / "empty" / "cache").mkdir(parents=True)
    (tmp_path / "empty" / "cache").chmod(0o750)
    (tmp_path / "empty" / "digest").touch()
    done = run_theirs(write_odd_tree(tmp_path / "odd"), tmp_path / "empty", "--cache-enforce-integrity=true")
    assert f'computed digest is \\"{ODD_TREE_DIGEST}\\"' in done.stderr


def test_go_opm_rejects_a_cache_of_another_catalog(tmp_path: Path) -> None:
    catalog = write_catalog(tmp_path / "catalog")
    build_ours(catalog, tmp_path / "cache")
    (catalog / "more.json").write_text('{"schema": "note"}')
    done = run_theirs(catalog, tmp_path / "cache", "--cache-enforce-integrity=true")
    assert done.returncode == 1
    assert "cache requires rebuild" in done.stderr


def test_pogreb_cache_is_ignored_and_replaced_on_request(tmp_path: Path) -> None:
    catalog, cache = write_catalog(tmp_path / "catalog"), tmp_path / "cache"
    build_theirs(catalog, cache, json_format=False)
    assert [path.name for path in cache.iterdir()] == ["pogreb.v1"]
    with (
        theirs(catalog, cache) as first,
        Server(str(catalog), "--cache-dir", str(cache), program=(str(PROGRAM), "serve")) as second,
        channel(first.address) as their_channel,
        channel(second.address) as our_channel,
    ):
        assert_same(their_channel, our_channel, requests_for_catalog(read_blobs(catalog)), INVALID_REQUESTS)
    assert "pogreb.v1" in second.err
    build_ours(catalog, cache)
    assert sorted(path.name for path in cache.iterdir()) == ["cache", "digest"]
    with theirs(catalog, cache):
        pass


def test_go_opm_serves_from_a_cache_with_documents_of_the_web_api(tmp_path: Path) -> None:
    catalog = write_catalog(tmp_path / "catalog")
    build_ours(catalog, tmp_path / "cache", "--http-port", "0")
    assert (tmp_path / "cache" / "documents").is_file()
    with theirs(catalog, tmp_path / "cache"):
        pass
    assert (tmp_path / "cache" / "digest").read_text() == DIGEST
