"""Unsafe changes of CustomResourceDefinitions equal those that OLM v1 finds.

``OPMKIT_REFERENCE_OLM_V1`` is the path of a program that runs the preflight check of operator-controller 1.11, as
described in docs/development.md. The definitions are random ones, and those of the corpus.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from opmkit.bundle.crd_upgrade import olm_v1_changes
from opmkit.documents.content import Content
from tests.kit.corpus import SHARED_BUNDLES
from tests.kit.crd_pairs import random_pair

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OLM_V1 = os.environ.get("OPMKIT_REFERENCE_OLM_V1", "")
SEED = int(os.environ.get("OPMKIT_CRD_PAIRS_SEED", "1"))
PAIRS = int(os.environ.get("OPMKIT_CRD_PAIRS", "2500"))
CORPUS_PAIRS = int(os.environ.get("OPMKIT_CRD_CORPUS_PAIRS", "300"))
pytestmark = pytest.mark.skipif(not OLM_V1, reason="OPMKIT_REFERENCE_OLM_V1 is not set")

Definition = dict[str, Any]
Change = tuple[str, str, str]
"""Check, versions and path."""

_WHOLE = re.compile(r"(scope|storedVersionRemoval): ")
_REMOVED = re.compile(r"(existingFieldRemoval): removed field : (.*?)\.(\^.*)", re.DOTALL)
_PROPERTY = re.compile(r"(.*?): (\^.*?): (\w+): (?:.*?\[(.*)\])?", re.DOTALL)


def parse(message: str) -> tuple[Change, bool]:
    """Parse an error of OLM v1.

    The second value is True if the error is unstable: crdify ignores problems that the served versions of the old
    definition have as well, but compares them by messages with the names of fields in random order.
    """
    message = message.removeprefix('validating upgrade for CRD "demos.example.com": ')
    if match := _WHOLE.match(message):
        return (match[1], "", ""), False
    if match := _REMOVED.match(message):
        return (match[1], match[2], match[3]), False
    match = _PROPERTY.match(message)
    assert match, message
    unstable = match[3] == "required" and "->" in match[1] and " " in (match[4] or "")
    return (match[3], match[1], match[2]), unstable


def assert_equal(pairs: list[tuple[Path, Path]]) -> int:
    """Compare the changes of each pair, and return the number of pairs with an unsafe change."""
    lines = "".join(f"{old}\t{new}\n" for old, new in pairs)
    done = subprocess.run([OLM_V1, "crdsafety"], input=lines, capture_output=True, text=True, check=True)
    results = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(results) == len(pairs)
    for (old, new), messages in zip(pairs, results, strict=True):
        found = changes(read(old), read(new))
        expected = {parse(message) for message in messages}
        unequal = found ^ {change for change, _ in expected}
        tolerated = {change for change, is_unstable in expected if is_unstable}
        assert unequal - tolerated <= compared_by_text(read(old), read(new)), f"{old} {new}"
    return sum(map(bool, results))


def changes(old: Definition, new: Definition) -> set[Change]:
    """Return what each unsafe change is about."""
    return {(change.check, change.versions, change.path) for change in olm_v1_changes(old, new)}


def compared_by_text(old: Definition, new: Definition) -> set[Change]:
    """Return the unhandled differences between served versions that both definitions have.

    crdify ignores one if its text is the same in both definitions, which omits and abbreviates parts of it.
    """
    versions = [{**version, "served": False} for version in old["spec"]["versions"]]
    unserved = {**old, "spec": {**old["spec"], "versions": versions}}
    both = changes(unserved, old) & changes(unserved, new)
    return {(check, pair, path) for check, pair, path in both if check == "unhandled" and "->" in pair}


def read(path: Path) -> Definition:
    """Return the object in a file."""
    value = Content.read(path.read_bytes()).value
    return value if isinstance(value, dict) else {}


def test_random_definitions(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    pairs = []
    for number in range(PAIRS):
        paths = tmp_path / f"{number}-old.json", tmp_path / f"{number}-new.json"
        for path, definition in zip(paths, random_pair(rng), strict=True):
            path.write_text(json.dumps(definition))
        pairs.append(paths)
    assert assert_equal(pairs) > PAIRS // 2


def corpus_pairs() -> Iterator[tuple[Path, Path]]:
    """Yield the different definitions of neighbouring versions of each operator."""
    for package in sorted(SHARED_BUNDLES.iterdir()):
        versions = sorted(package.iterdir(), key=lambda path: natural_key(path.name))
        for old, new in itertools.pairwise(map(definitions, versions)):
            for name in sorted(old.keys() & new.keys()):
                if old[name].read_bytes() != new[name].read_bytes():
                    yield old[name], new[name]


def natural_key(version: str) -> list[tuple[int, str]]:
    """Return a sort key for versions, of which some are invalid."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", version)]


def definitions(bundle: Path) -> dict[str, Path]:
    """Return the files with definitions of a bundle by the names of these."""
    found = {}
    for path in sorted((bundle / "manifests").glob("*")):
        if path.is_file() and b"apiextensions.k8s.io/v1\n" in path.read_bytes():
            manifest = read(path)
            if manifest.get("kind") == "CustomResourceDefinition":
                found[manifest["metadata"]["name"]] = path
    return found


@pytest.mark.skipif(not SHARED_BUNDLES.is_dir(), reason="the corpus is absent")
def test_definitions_of_the_corpus() -> None:
    assert assert_equal(list(itertools.islice(corpus_pairs(), CORPUS_PAIRS)))
