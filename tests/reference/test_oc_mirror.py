"""Bundles that an ImageSetConfiguration selects equal those that the filter of oc-mirror v2 selects.

``OPMKIT_REFERENCE_OC_MIRROR`` is the path of a program that runs this filter: it reads lines with a JSON list of two
paths, of a configuration with one catalog and of a catalog directory, and prints a line with a JSON object for each:
``bundles`` as ``PACKAGE/BUNDLE``, ``defaultChannels`` by package, or ``error``. ``OPMKIT_IMAGE_SETS`` is the number of
random configurations, ``OPMKIT_IMAGE_SETS_SEED`` the seed, and ``OPMKIT_IMAGE_SET_CATALOG`` a real catalog directory.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

from opmkit.core.errors import OpmkitError
from opmkit.index.fbc.load import read_blobs
from opmkit.supply.mirror.image_set import ImageSet
from opmkit.supply.mirror.selection import SelectedContent, select_bundles

if TYPE_CHECKING:
    from opmkit.index.fbc.blobs import Blobs

PROGRAM = os.environ.get("OPMKIT_REFERENCE_OC_MIRROR", "")
CATALOG = os.environ.get("OPMKIT_IMAGE_SET_CATALOG", "")
COUNT, SEED = int(os.environ.get("OPMKIT_IMAGE_SETS", "400")), int(os.environ.get("OPMKIT_IMAGE_SETS_SEED", "1"))
pytestmark = [
    pytest.mark.skipif(not PROGRAM, reason="set OPMKIT_REFERENCE_OC_MIRROR to the path of a program with its filter"),
    pytest.mark.timeout(1800),
]

Document: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Known:
    """The names in a catalog that configurations select."""

    channels: dict[str, list[str]]
    bundles: dict[str, dict[str, str]]

    @classmethod
    def from_blobs(cls, blobs: Blobs) -> Known:
        channels: dict[str, list[str]] = {blob.name: [] for blob in blobs.packages}
        bundles: dict[str, dict[str, str]] = {blob.name: {} for blob in blobs.packages}
        for channel in blobs.channels:
            channels[channel.package].append(channel.name)
        for bundle in blobs.bundles:
            (value,) = bundle.property_values("olm.package")
            assert isinstance(value, dict)
            bundles[bundle.package][bundle.name] = str(value["version"])
        return cls(channels, bundles)


def random_catalog(rng: random.Random) -> list[Document]:
    """Return a catalog with prereleases, build metadata, truncated channels and, rarely, an invalid graph."""
    documents: list[Document] = []
    for number in range(rng.randint(1, 3)):
        package = f"pack-{number}"
        versions = list(dict.fromkeys(_random_version(rng) for _ in range(rng.randint(1, 9))))
        names = [f"{package}.v{version}" for version in versions]
        channels = rng.sample(["alpha", "beta", "stable"], rng.randint(1, 3))
        documents.append({"schema": "olm.package", "name": package, "defaultChannel": rng.choice(channels)})
        for channel in channels:
            members = names if rng.random() < 0.5 else names[rng.randrange(len(names)) :]
            entries = _random_entries(rng, members, names)
            documents.append({"schema": "olm.channel", "package": package, "name": channel, "entries": entries})
        for name, version in zip(names, versions, strict=True):
            properties = [{"type": "olm.package", "value": {"packageName": package, "version": version}}]
            image = f"quay.io/example/{package}@sha256:{'ab' * 32}"
            documents.append(
                {"schema": "olm.bundle", "package": package, "name": name, "image": image, "properties": properties}
            )
    return documents


def _random_version(rng: random.Random) -> str:
    text = f"{rng.randint(0, 2)}.{rng.randint(0, 3)}.{rng.randint(0, 3)}"
    return text + rng.choice(["", "", "", "-rc.1", "-5", f"+{rng.randint(1, 9)}.p", "-5-0.123.p"])


def _random_entries(rng: random.Random, members: list[str], names: list[str]) -> list[Document]:
    """Return a chain of updates, of which some are skips; the lowest may replace a bundle below the channel."""
    below = names[: names.index(members[0])]
    last = rng.choice(below) if below and rng.random() < 0.5 else ""
    entries: list[Document] = []
    skipped: list[str] = []
    for name in members:
        entry: Document = {"name": name}
        if last and rng.random() < 0.97:
            entry["replaces"] = last
        if skipped:
            entry["skips"] = list(skipped)
        entries.append(entry)
        if rng.random() < 0.75:
            last, skipped = name, rng.sample(skipped, rng.randint(0, len(skipped)))
        else:
            skipped.append(name)
    rest = [skip for skip in skipped if skip != members[-1]]
    if rest:
        entries[-1]["skips"] = sorted({*entries[-1].get("skips", ()), *rest})
    rng.shuffle(entries)
    return entries


def random_image_set(rng: random.Random, known: Known) -> Document:
    """Return a configuration with one catalog."""
    operator: Document = {"catalog": "quay.io/example/catalog:1"}
    if rng.random() < 0.2:
        operator["full"] = True
    if rng.random() < 0.9:
        names = rng.sample(sorted(known.channels), rng.randint(1, len(known.channels)))
        if rng.random() < 0.05:
            names.append("unknown")
        operator["packages"] = [_random_package(rng, name, known, full=operator.get("full", False)) for name in names]
    return {
        "apiVersion": "mirror.openshift.io/v2alpha1",
        "kind": "ImageSetConfiguration",
        "mirror": {"operators": [operator]},
    }


def _random_package(rng: random.Random, name: str, known: Known, *, full: bool) -> Document:
    package: Document = {"name": name}
    channels, bundles = known.channels.get(name, ["x"]), known.bundles.get(name, {"x": "1.0.0"})
    if name == "unknown":
        return package
    chance = rng.random()
    if chance < 0.15:
        package["bundles"] = [{"name": each} for each in rng.sample(sorted(bundles), rng.randint(1, len(bundles)))]
    elif chance < 0.55:
        selected = rng.sample(channels, rng.randint(1, len(channels)))
        package["channels"] = [
            {"name": each, **(_random_bounds(rng, bundles) if not full and rng.random() < 0.6 else {})}
            for each in selected
        ]
        if rng.random() < 0.1:
            package["channels"].append({"name": "unknown"})
        if rng.random() < 0.6:
            package["defaultChannel"] = rng.choice(selected)
    if "bundles" not in package and rng.random() < (0.05 if full else 0.4):
        package.update(_random_bounds(rng, bundles))
    if rng.random() < 0.1:
        package["defaultChannel"] = rng.choice(channels)
    return package


def _random_bounds(rng: random.Random, bundles: dict[str, str]) -> Document:
    versions = [*bundles.values(), *(_random_version(rng) for _ in range(2)), "1", "v1.2", "1.2", "0.0.0", "9.9.9"]
    bounds: Document = {}
    if rng.random() < 0.7:
        bounds["minVersion"] = rng.choice(versions)
    if rng.random() < 0.7:
        bounds["maxVersion"] = bounds["minVersion"] if bounds and rng.random() < 0.2 else rng.choice(versions)
    return bounds


def select(config: Path, blobs: Blobs) -> Document:
    """Return what opmkit selects, in the form of the program."""
    try:
        (entry,) = ImageSet.read(config).catalogs
        rules = entry.selection
        if rules is None:
            names = sorted(f"{bundle.package}/{bundle.name}" for bundle in blobs.bundles)
            return {"bundles": names, "defaultChannels": {each.name: each.default_channel for each in blobs.packages}}
        found: SelectedContent = select_bundles(blobs, rules.packages, full=rules.full)
    except OpmkitError as error:
        return {"error": error.message}
    names = sorted(f"{package}/{name}" for package, members in found.bundles.items() for name in members)
    return {"bundles": names, "defaultChannels": dict(found.default_channels)}


def is_ambiguous(config: Path, ours: Document, theirs: Document) -> bool:
    """Return whether a bound selects one of several versions that only differ in their build metadata.

    The filter then takes the first one in the random order of a map.
    """
    (operator,) = json.loads(config.read_text())["mirror"]["operators"]
    packages = operator.get("packages", ())
    entries = [*packages, *(channel for package in packages for channel in package.get("channels", ()))]
    single = any(entry.get("minVersion", "-") == entry.get("maxVersion", "") for entry in entries)
    ours_only, theirs_only = (
        set(one["bundles"]) - set(two["bundles"]) for one, two in ((ours, theirs), (theirs, ours))
    )
    return single and len(ours_only) <= 1 and len(theirs_only) <= 1


def compare(cases: list[tuple[Path, Path]]) -> tuple[int, int, list[str]]:
    """Return the numbers of equal selections and of errors of both, and descriptions of the differences."""
    lines = "".join(json.dumps([str(config), str(catalog)]) + "\n" for config, catalog in cases)
    done = subprocess.run([PROGRAM], input=lines, capture_output=True, text=True, check=True)
    equal = errors = 0
    different: list[str] = []
    loaded: dict[Path, Blobs] = {}
    for (config, catalog), line in zip(cases, done.stdout.splitlines(), strict=True):
        if catalog not in loaded:
            loaded = {catalog: read_blobs(catalog)}
        ours, theirs = select(config, loaded[catalog]), json.loads(line)
        if "error" in ours and "error" in theirs:
            errors += 1
        elif all(ours.get(key) == theirs.get(key) for key in ("bundles", "defaultChannels")):
            equal += 1
        elif "bundles" in ours and "bundles" in theirs and is_ambiguous(config, ours, theirs):
            print(f"ambiguous: {config.read_text()}")
        else:
            different.append(f"{config.read_text()}\n{catalog}\nours: {ours}\ntheirs: {theirs}")
    return equal, errors, different


def test_random_configurations_of_random_catalogs(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    cases = []
    for number in range(COUNT):
        catalog, config = tmp_path / f"catalog-{number}", tmp_path / f"config-{number}.yaml"
        catalog.mkdir()
        documents = random_catalog(rng)
        (catalog / "catalog.json").write_text("\n".join(map(json.dumps, documents)))
        config.write_text(json.dumps(random_image_set(rng, Known.from_blobs(read_blobs(catalog)))))
        cases.append((config, catalog))
    equal, errors, different = compare(cases)
    print(f"{equal} equal selections, {errors} errors of both, {len(different)} different")
    assert not different, different[0]
    assert equal > COUNT / 3


@pytest.mark.skipif(not CATALOG, reason="set OPMKIT_IMAGE_SET_CATALOG to a real catalog")
def test_random_configurations_of_a_real_catalog(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    known = Known.from_blobs(read_blobs(Path(CATALOG)))
    cases = []
    for number in range(COUNT):
        config = tmp_path / f"config-{number}.yaml"
        config.write_text(json.dumps(random_image_set(rng, known)))
        cases.append((config, Path(CATALOG)))
    equal, errors, different = compare(cases)
    print(f"{equal} equal selections, {errors} errors of both, {len(different)} different")
    assert not different, different[0]
