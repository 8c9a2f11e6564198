"""Benchmarks of file-based catalogs: rendering bundles, and validating a catalog."""

from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kit.catalogmaker import build_catalog
from tests.kit.registry import Registry

from opmkit.index.fbc.write import to_json, to_yaml, write_catalog

from .bundle_registry import bundle_registry
from .bundles import corpus_packages
from .measure import Workbench, programs, report_comparison

if TYPE_CHECKING:
    import argparse

SOME = 100
"""Images that are rendered in addition to all."""


def bench_render(arguments: argparse.Namespace) -> dict[str, object]:
    """Render all bundles of a registry, and some, first without and then with cached results."""
    report: dict[str, object] = {}
    with bundle_registry(corpus_packages(arguments.bundles)) as bench:
        for label, images in (("all", bench.references), ("some", bench.references[:SOME])):
            runs: dict[str, object] = {"images": len(images)}
            for name, program in {"opmkit": "opm", "opmkit, cached": "opm", **programs(arguments.reference)}.items():
                store = {"OPM_STORE": f"{bench.work}/store-{label}"}
                run = bench.run([program, "render", "--use-http", *images], store)
                print(f"{name:14} {len(images) / run.seconds:7.1f} bundles per second {run}")
                runs[name] = asdict(run)
            report[label] = runs
    return report


def bench_catalog(arguments: argparse.Namespace) -> dict[str, object]:
    """Validate a catalog of all bundles, in JSON and in YAML."""
    packages = corpus_packages(arguments.bundles)
    bundles = [path for package in packages for path in sorted(package.iterdir()) if (path / "manifests").is_dir()]
    blobs = build_catalog(bundles)
    report: dict[str, object] = {}
    with Registry() as registry, tempfile.TemporaryDirectory() as directory:
        bench = Workbench(registry, Path(directory))
        for form, write in (("json", to_json), ("yaml", to_yaml)):
            catalog = bench.work / form
            write_catalog(blobs, catalog, form, write)
            ours, theirs = [], []
            for _ in range(arguments.runs):
                ours.append(bench.run(["opm", "validate", str(catalog)]))
                if arguments.reference:
                    theirs.append(bench.run([arguments.reference, "validate", str(catalog)]))
            report[form] = report_comparison(f"validate, {len(blobs.bundles)} bundles in {form}", ours, theirs)
    return report
