"""Command line of the benchmarks."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.kit.shared import SHARED

from .add import bench_add, bench_scale
from .figures import bench_figures
from .gate import bench_gate
from .mirror import bench_mirror
from .render import bench_catalog, bench_render
from .scale_out import bench_scale_out
from .serve import bench_serve
from .serve_catalog import bench_serve_catalog
from .soak import bench_soak
from .start import bench_start
from .templates import bench_templates
from .transfer import bench_transfer
from .validate import bench_validate


@dataclass(frozen=True)
class Benchmark:
    """A subcommand, the flags it takes in addition to ``--json``, and their defaults."""

    run: Callable[[argparse.Namespace], dict[str, object]]
    bundles: bool = True
    reference: bool = True
    package: str = ""
    runs: int = 0
    seconds: float = 0
    images: int = 0
    programs: bool = False
    only_directories: bool = False
    figures: bool = False


BENCHMARKS = {
    "figures": Benchmark(
        bench_figures, package="multicluster-operators-subscription", runs=3, images=300, figures=True
    ),
    "add": Benchmark(bench_add, package="multicluster-operators-subscription", runs=1),
    "scale": Benchmark(bench_scale, bundles=False),
    "validate": Benchmark(bench_validate, only_directories=True),
    "render": Benchmark(bench_render),
    "templates": Benchmark(bench_templates),
    "catalog": Benchmark(bench_catalog, runs=5),
    "gate": Benchmark(bench_gate, runs=3),
    "transfer": Benchmark(bench_transfer, bundles=False, reference=False, runs=3),
    "mirror": Benchmark(bench_mirror, bundles=False, reference=False, runs=3, images=300, programs=True),
    "scale-out": Benchmark(bench_scale_out, reference=False, images=100),
    "serve": Benchmark(bench_serve, runs=5),
    "serve-catalog": Benchmark(bench_serve_catalog, runs=5),
    "start": Benchmark(bench_start, runs=15),
    "soak": Benchmark(bench_soak, reference=False, seconds=1800),
}


def main() -> int:
    """Run one benchmark and return the exit code."""
    arguments = _parser().parse_args()
    report = arguments.run(arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/bench", description="Measure opmkit.")
    commands = parser.add_subparsers(required=True, metavar="NAME")
    for name, benchmark in BENCHMARKS.items():
        command = commands.add_parser(name, help=benchmark.run.__doc__, description=benchmark.run.__doc__)
        command.set_defaults(run=benchmark.run)
        command.add_argument("--json", type=Path, metavar="FILE", help="write the results to this file as well")
        if benchmark.bundles:
            corpus = SHARED / "corpus" / "bundles"
            command.add_argument(
                "--bundles", type=Path, default=corpus, metavar="DIR", help="directory of PACKAGE/VERSION directories"
            )
        _add_flags(command, benchmark)
    return parser


def _add_flags(command: argparse.ArgumentParser, benchmark: Benchmark) -> None:
    if benchmark.reference:
        opm = os.environ.get("OPMKIT_REFERENCE_OPM")
        command.add_argument("--reference", default=opm, metavar="OPM", help="path of Go opm, to compare with")
    if benchmark.package:
        command.add_argument("--package", default=benchmark.package, help="package to add alone")
    for number in ("runs", "images"):
        if default := getattr(benchmark, number):
            command.add_argument(f"--{number}", type=int, default=default, metavar="N", help=f"number of {number}")
    if benchmark.programs:
        _add_mirror_flags(command)
    if benchmark.figures:
        _add_figures_flags(command)
    if benchmark.only_directories:
        command.add_argument("--only-directories", action="store_true", help="use no registry")
    if benchmark.seconds:
        command.add_argument(
            "--seconds", type=float, default=benchmark.seconds, metavar="N", help="duration in seconds"
        )


def _add_figures_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("--tree", type=Path, metavar="DIR", help="large tree of PACKAGE/VERSION directories")
    command.add_argument("--write", action="store_true", help="renew docs/development.md and README.md")
    regsync = os.environ.get("OPMKIT_REFERENCE_REGSYNC")
    command.add_argument("--regsync", default=regsync, metavar="PATH", help="path of regsync")


def _add_mirror_flags(command: argparse.ArgumentParser) -> None:
    command.add_argument("--small", type=int, default=0, metavar="BYTES", help="size of the only layer of each image")
    command.add_argument("--only-opmkit", action="store_true", help="do not run other programs")
    for program in ("crane", "regsync"):
        path = os.environ.get(f"OPMKIT_REFERENCE_{program.upper()}")
        command.add_argument(f"--{program}", default=path, metavar="PATH", help=f"path of {program}")


if __name__ == "__main__":
    sys.exit(main())
