"""Benchmark of the gate: comparison of a large catalog with a published one."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kit.catalogmaker import build_catalog
from tests.kit.registry import Registry

from opmkit.index.fbc.blobs import PACKAGE, BlobProperty, Blobs, BundleBlob, PackageBlob
from opmkit.index.fbc.write import to_json, write_catalog

from .bundles import corpus_packages
from .measure import Run, Workbench, median

if TYPE_CHECKING:
    import argparse

    from opmkit.index.fbc.blobs import Blob

SIZES = (1, 10)
"""How often the catalogs contain the bundles, each time in packages with other names."""


def bench_gate(arguments: argparse.Namespace) -> dict[str, object]:
    """Compare catalogs of all bundles, once and ten times, of which one bundle changed, with published ones."""
    packages = corpus_packages(arguments.bundles)
    bundles = [path for package in packages for path in sorted(package.iterdir()) if (path / "manifests").is_dir()]
    blobs = build_catalog(bundles)
    report: dict[str, object] = {}
    with Registry() as registry, tempfile.TemporaryDirectory() as directory:
        bench = Workbench(registry, Path(directory))
        for copies in SIZES:
            old, new = (_write(blobs, copies, bench.work / f"{name}-{copies}") for name in ("old", "new"))
            first = min(new.glob("*/catalog.json"))
            first.write_text(first.read_text().replace("quay.io/example", "quay.io/changed", 1))
            size = sum(path.stat().st_size for path in old.glob("*/*")) / 1e6
            print(f"\n{copies * len(blobs.bundles)} bundles, two catalogs of {size:.0f} MB")
            commands = {
                "index diff": ["opm", "index", "diff", str(old), str(new), "--fail-on", "changed"],
                "validate --against": ["opm", "validate", str(new), "--against", str(old)],
                "validate": ["opm", "validate", str(new)],
            }
            if arguments.reference:
                commands["Go opm validate"] = [arguments.reference, "validate", str(new)]
            for name, argv in commands.items():
                run = _median(bench, argv, arguments.runs)
                print(f"  {name:20} {run}")
                report[f"{copies}: {name}"] = asdict(run)
    return report


def _median(bench: Workbench, argv: list[str], runs: int) -> Run:
    return median([bench.run(argv, statuses=(0, 1)) for _ in range(runs)])


def _write(blobs: Blobs, copies: int, directory: Path) -> Path:
    renamed = (_rename(blob, f"{blob.package}-{number}") for number in range(copies) for blob in blobs)
    write_catalog(Blobs.from_blobs(renamed), directory, "json", to_json)
    return directory


def _rename(blob: Blob, package: str) -> Blob:
    """Return a blob of another package."""
    if isinstance(blob, PackageBlob):
        return replace(blob, name=package)
    if not isinstance(blob, BundleBlob):
        return replace(blob, package=package)
    version = next(value for value in blob.property_values(PACKAGE) if isinstance(value, dict))
    renamed = BlobProperty(PACKAGE, {**version, "packageName": package})
    properties = tuple(renamed if item.type == PACKAGE else item for item in blob.properties)
    return replace(blob, package=package, properties=properties)
