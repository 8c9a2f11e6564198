"""Benchmark of bundle validation."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from .bundle_registry import bundle_registry
from .bundles import corpus_packages, package_versions
from .measure import programs, total

if TYPE_CHECKING:
    import argparse

    from .bundle_registry import BundleRegistry

SINGLE_BUNDLES = 40
"""Number of bundles that are validated by a run each."""


def bench_validate(arguments: argparse.Namespace) -> dict[str, object]:
    """Validate all bundles from directories and from a registry, without and with cached results, then one per run."""
    packages = corpus_packages(arguments.bundles)
    directories = [str(version) for package in packages for version in package_versions(package)]
    with bundle_registry([] if arguments.only_directories else packages) as bench:
        repositories = [f"{bench.host}/bundles/{package.name}" for package in packages]
        cases = [(f"directories, {profile}", profile, directories) for profile in ("all", "opm")]
        if not arguments.only_directories:
            cases += [("registry, opm", "opm", repositories), ("registry, labels only", "", repositories)]
        report: dict[str, object] = {}
        for number, (label, profile, targets) in enumerate(cases):
            targets_file = bench.work / f"targets-{number}"
            targets_file.write_text("\n".join(targets))
            argv = ["opm", "bundle", "validate", "--use-http", "--output", "json", f"@{targets_file}"]
            argv += ["--profile", profile] if profile else ["--labels-only"]
            for state in ("cold", "cached"):
                run = bench.run(argv, {"OPM_STORE": f"{bench.work}/store-{number}"}, statuses=(0, 1))
                print(f"{label:24} {state:6}  {len(directories) / run.seconds:7.1f} bundles per second {run}")
                report[f"{label} {state}"] = asdict(run)
        report |= _one_per_run(bench, "opmkit, one directory", ["opm", "bundle", "validate"], directories)
        if not arguments.only_directories:
            for name, program in programs(arguments.reference).items():
                argv = [program, "alpha", "bundle", "validate", "--image-builder", "none", "--tag"]
                report |= _one_per_run(bench, f"{name}, one image", argv, bench.references)
    return report


def _one_per_run(bench: BundleRegistry, label: str, argv: list[str], bundles: list[str]) -> dict[str, object]:
    """Validate some of the bundles, each for the first time, and print and return the mean of a run."""
    env = {**bench.plain_http_settings(), "OPM_STORE": f"{bench.work}/store-one-per-run"}
    some = bundles[:: max(1, len(bundles) // SINGLE_BUNDLES)]
    run = total([bench.run([*argv, bundle], env, statuses=(0, 1)) for bundle in some])
    run = replace(run, **{name: getattr(run, name) / len(some) for name in ("seconds", "cpu", "read", "written")})
    print(f"{label} per run: {run}")
    return {f"{label} per run": asdict(run)}
