"""Plans for ClusterExtensions equal what OLM v1 resolves.

``OPMKIT_REFERENCE_OLM_V1`` is the path of a program whose subcommand ``resolve`` runs the resolver of
operator-controller 1.11 on a case in JSON, as described in docs/development.md.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.core.errors import OpmkitError
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.load import parse_blobs
from opmkit.index.plan.extension import ExtensionCatalog, ExtensionRequest, InstalledBundle, resolve_extension
from tests.kit.resolution_cases import random_catalog, random_extension, random_releases

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.index.fbc.blobs import Blobs

OLMV1 = os.environ.get("OPMKIT_REFERENCE_OLM_V1", "")
SEED = int(os.environ.get("OPMKIT_RESOLUTIONS_SEED", "1"))
CASES = int(os.environ.get("OPMKIT_RESOLUTIONS", "300"))
CATALOGS = 25
pytestmark = pytest.mark.skipif(not OLMV1, reason="OPMKIT_REFERENCE_OLM_V1 is not set")


def reference(case: dict[str, Any]) -> dict[str, Any]:
    """Return the bundle, or the error, of OLM v1."""
    done = subprocess.run([OLMV1, "resolve"], input=json.dumps(case), capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def ours(case: dict[str, Any], catalogs: dict[str, Blobs]) -> tuple[str, str]:
    """Return the name of the bundle, and the error, "" for none."""
    installed = InstalledBundle(**case["installed"]) if case["installed"] else None
    request = ExtensionRequest(
        case["package"], case["version"], tuple(case["channels"]), case["selfCertified"], installed
    )
    opened = [ExtensionCatalog(each["name"], catalogs[each["name"]], each["priority"]) for each in case["catalogs"]]
    try:
        return resolve_extension(request, opened).bundle.name, ""
    except CatalogError as error:
        return "", error.message


KINDS = (("several catalogs", "multiple"), ("dependency", "currently not supported"), ("", "no bundles found"))
"""Parts of our errors and of those of OLM v1 for the same kind; the last one is for all others."""


def test_extensions(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    documents: dict[str, list[dict[str, Any]]] = {}
    catalogs: dict[str, Blobs] = {}
    while len(catalogs) < CATALOGS:
        generated = random_releases(rng, random_catalog(rng))
        raw = "\n".join(map(json.dumps, generated)).encode()
        name = f"c{len(catalogs)}"
        try:
            catalogs[name] = parse_blobs(raw, "catalog.json")
        except OpmkitError:
            continue
        (tmp_path / name).mkdir()
        (tmp_path / name / "catalog.json").write_bytes(raw)
        documents[name] = generated
    cases = [random_extension(rng, documents) for _ in range(CASES)]
    for case in cases:
        for each in case["catalogs"]:
            each["dir"] = str(tmp_path / each["name"])
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(reference, cases))
    found = set()
    for case, result in zip(cases, results, strict=True):
        name, error = ours(case, catalogs)
        assert name == (result.get("bundle") or "") or result["error"], (case, result, error)
        assert bool(error) == bool(result["error"]), (case, result, error)
        if error:
            kind = next(theirs for part, theirs in KINDS if part in error)
            found.add(kind)
            assert kind in result["error"], (case, result, error)
    assert len(found) == len(KINDS)
