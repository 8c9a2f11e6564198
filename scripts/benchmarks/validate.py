"""Benchmark of bundle validation."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from .bundle_registry import bundle_registry
from .bundles import corpus_packages, package_versions
from .measure import programs, total

if TYPE_CHECKING:
    import argparse

SINGLE_IMAGES = 40


def bench_validate(arguments: argparse.Namespace) -> dict[str, object]:
    """Validate all bundles from directories and from a registry, first without and then with cached results."""
    packages = corpus_packages(arguments.bundles)
    directories = [str(version) for package in packages for version in package_versions(package)]
    report: dict[str, object] = {}
    with bundle_registry(packages) as bench:
        repositories = [f"{bench.host}/bundles/{package.name}" for package in packages]
        cases = [(f"directories, {profile}", profile, directories) for profile in ("all", "opm")]
        cases += [("registry, opm", "opm", repositories), ("registry, labels only", "", repositories)]
        for number, (label, profile, targets) in enumerate(cases):
            argv = ["opm", "bundle", "validate", "--use-http", "--output", "json", *targets]
            argv += ["--profile", profile] if profile else ["--labels-only"]
            for state in ("cold", "cached"):
                run = bench.run(argv, {"OPM_STORE": f"{bench.work}/store-{number}"}, statuses=(0, 1))
                print(f"{label:24} {state:6}  {len(directories) / run.seconds:7.1f} bundles per second {run}")
                report[f"{label} {state}"] = asdict(run)
        references = bench.references[:: max(1, len(bench.references) // SINGLE_IMAGES)]
        for name, program in programs(arguments.reference).items():
            argv = [program, "alpha", "bundle", "validate", "--image-builder", "none", "--use-http", "--tag"]
            env = {"OPM_STORE": f"{bench.work}/store-one-by-one"}
            run = total([bench.run([*argv, reference], env, statuses=(0, 1)) for reference in references])
            print(f"{name}, one image per run     {len(references) / run.seconds:7.1f} bundles per second")
            report[f"{name} one by one"] = asdict(run)
    return report
