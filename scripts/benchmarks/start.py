"""Benchmark of short commands, whose time is that of starting."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .bundle_registry import bundle_registry
from .bundles import corpus_packages, package_versions
from .measure import Run, programs, report_comparison

if TYPE_CHECKING:
    import argparse

PACKAGE = "cert-utils-operator"


def bench_start(arguments: argparse.Namespace) -> dict[str, object]:
    """Run short commands: version, help, the validation of a directory, new and again, and of a new image."""
    packages = [package for package in corpus_packages(arguments.bundles) if package.name == PACKAGE]
    directory = package_versions(packages[0])[-1]
    report: dict[str, object] = {}
    with bundle_registry(packages) as bench:
        image = ["alpha", "bundle", "validate", "--image-builder", "none", "--tag", bench.references[-1]]
        for label, command, reference in (
            ("version", ["version"], arguments.reference),
            ("index add --help", ["index", "add", "--help"], None),
            ("bundle validate DIR, new", ["bundle", "validate", str(directory)], None),
            ("bundle validate DIR, again", ["bundle", "validate", str(directory)], None),
            ("alpha bundle validate --tag", image, arguments.reference),
        ):
            runs: dict[str, list[Run]] = {name: [] for name in programs(reference)}
            for number in range(arguments.runs):
                state = "again" if label.endswith("again") else f"{label.replace(' ', '-')}-{number}"
                store = f"{bench.work}/store-{state}"
                env = {**bench.plain_http_settings(), "OPM_STORE": store}
                for name, program in programs(reference).items():
                    runs[name].append(bench.run([program, *command], env))
            report[label] = report_comparison(label, runs["opmkit"], runs.get("Go opm", []))
    return report
