"""Benchmark of catalog templates: all templates of a repository for several OpenShift versions."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import TYPE_CHECKING

from tests.kit.template_repository import basic_template, mapped, write_operator

from .bundle_registry import bundle_registry
from .bundles import corpus_packages

if TYPE_CHECKING:
    import argparse
    from pathlib import Path

VERSIONS = {"v4.14": "none", "v4.15": "none", "v4.16": "none"} | dict.fromkeys(
    ("v4.17", "v4.18"), "bundle-object-to-csv-metadata"
)
"""Catalogs of each template, and their migration level."""


def bench_templates(arguments: argparse.Namespace) -> dict[str, object]:
    """Render a basic template per package for five OpenShift versions, next to a shell loop over Go opm."""
    report: dict[str, object] = {}
    with bundle_registry(corpus_packages(arguments.bundles)) as bench:
        packages: dict[str, list[str]] = {}
        for reference in bench.references:
            packages.setdefault(reference.rpartition("/")[2].partition(":")[0], []).append(reference)
        operators = bench.work / "operators"
        for package, images in packages.items():
            template = basic_template({str(number): image for number, image in enumerate(images)}, package)
            write_operator(operators / package, {"basic.yaml": template}, [mapped("basic.yaml", *VERSIONS)])
        render = ["opm", "template", "render", "operators", "--use-http", "--no-validate"]
        commands = {
            "opmkit": render,
            "opmkit, locked and cached": [*render, "--output-dir", "again"],
            "opmkit, unchanged": render,
        }
        if arguments.reference:
            script = "\n".join(("set -e", *_loop(arguments.reference, operators, list(packages))))
            commands["Go opm"] = ["bash", "-c", script]
        count = len(packages) * len(VERSIONS)
        for name, command in commands.items():
            run = bench.run(command, {"OPM_STORE": f"{bench.work}/store"})
            print(f"{name:26} {count} catalogs of {len(bench.references)} bundles {run}")
            report[name] = asdict(run)
    return report


def _loop(program: str, operators: Path, packages: list[str]) -> list[str]:
    """Return the lines of a script that renders all templates, each once per catalog."""
    lines = []
    for package in packages:
        template = shlex.quote(str(operators / package / "catalog-templates" / "basic.yaml"))
        for version, level in VERSIONS.items():
            catalog = f"theirs/{version}/{package}"
            render = f"{shlex.quote(program)} alpha render-template basic --use-http -o yaml --migrate-level {level}"
            lines += [f"mkdir -p {catalog}", f"{render} {template} > {catalog}/catalog.yaml"]
    return lines
