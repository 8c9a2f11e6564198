"""The figures of docs/development.md and README.md, measured and written in one run."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.kit.registry import Registry

from .add import bench_add
from .bundles import corpus_packages, package_versions
from .measure import Workbench
from .mirror import bench_mirror
from .render import bench_render
from .serve_catalog import bench_serve_catalog
from .start import bench_start

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Report = Mapping[str, Any]

ROOT = Path(__file__).parents[2]
DEVELOPMENT, README = "docs/development.md", "README.md"
BEGIN, END = "<!-- figures -->\n", "<!-- end of figures -->\n"
_CHUNK = 500
"""Directories in one flag, whose length the kernel limits."""


def bench_figures(arguments: argparse.Namespace) -> dict[str, object]:
    """Measure everything that the tables of docs/development.md and README.md name; --write renews them."""
    common = {"bundles": arguments.bundles, "reference": arguments.reference}
    steps: dict[str, Callable[[], dict[str, object]]] = {
        "start": lambda: bench_start(Namespace(**common, runs=15)),
        "add": lambda: bench_add(Namespace(**common, package=arguments.package, runs=arguments.runs)),
        "serve-catalog": lambda: bench_serve_catalog(Namespace(**common, runs=5)),
        "render": lambda: bench_render(Namespace(**common)),
        "mirror": lambda: bench_mirror(
            Namespace(
                images=arguments.images, small=0, only_opmkit=False, crane=None, regsync=arguments.regsync, runs=3
            )
        ),
        "install": _installed_size,
    }
    if arguments.tree:
        steps["tree"] = lambda: _tree(arguments.tree)
    reports: dict[str, object] = {name: step() for name, step in steps.items()}
    if arguments.write:
        for page, change in ((DEVELOPMENT, renew_table), (README, renew_rows)):
            path = ROOT / page
            path.write_text(change(path.read_text(), reports))
    return reports


def renew_table(text: str, reports: Report) -> str:
    """Return docs/development.md with the rows of the table between its marks replaced."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise SystemExit(f"{DEVELOPMENT}: the marks of the table of figures are missing")
    header = "| work | opmkit | Go opm | Go opm takes |\n|---|---|---|---|\n"
    rows = "".join(f"| {' | '.join(row)} |\n" for row in table(reports))
    return f"{before}{BEGIN}\n{header}{rows}\n{END}{after}"


def renew_rows(text: str, reports: Report) -> str:
    """Return README.md with the rows of its table that have figures replaced."""
    add = reports["add"]
    for label, name, figure in (
        (r"add \d+ bundles to a new index¹", "all", "memory"),
        (r"add one bundle with `--from-index`¹", "one more", "traffic"),
        (r"the same at 100 Mbit/s, 20 ms away¹", "slow network", "traffic"),
    ):
        ours, theirs = (_in_words(add[name][program], figure) for program in ("opmkit", "Go opm"))
        text, count = re.subn(rf"(?m)^\| ({label}) \|.*$", rf"| \1 | {ours} | {theirs} |", text)
        if count != 1:
            raise SystemExit(f"{README}: no row {label}")
    return text


def _in_words(run: Report, figure: str) -> str:
    detail = (
        f"{run['memory']:.0f} MB of memory"
        if figure == "memory"
        else f"{run['read'] + run['written']:.0f} MB transferred"
    )
    return f"{run['seconds']:.1f} s, {detail}"


def table(reports: Report) -> Iterator[Sequence[str]]:
    """Yield the cells of each row, of the benchmarks that were run."""
    start, add = reports["start"], reports["add"]
    yield _compared("`opm version`", start["version"], precision=2)
    yield _compared("`opm index add --help`", start["index add --help"], precision=2)
    new, again = (start[f"bundle validate DIR, {state}"]["opmkit"] for state in ("new", "again"))
    yield (
        "`opm bundle validate DIR`, new / validated before",
        f"{new['seconds']:.2f} / {again['seconds']:.2f} s, {new['memory']:.0f} MB",
        "",
        "",
    )
    yield _compared("`opm alpha bundle validate --tag`, new image", start["alpha bundle validate --tag"], precision=2)
    yield _compared(f"`index add`, {add['all']['bundles']} bundles in one command", add["all"])
    yield _compared(f"{add['large']['bundles']} bundles of 1.3 MB", add["large"])
    yield _compared(f"{add['package']['bundles']} bundles", add["package"])
    yield _compared("one bundle more, `--from-index`", add["one more"], read=True)
    yield _compared("the same to 189 bundles, 100 Mbit/s, 20 ms", add["slow network"], read=True)
    yield from _catalog_rows(reports)
    render = reports["render"]
    for label, entry in (("nothing cached", "all"), ("nothing cached", "some")):
        yield _compared(f"`render`, {render[entry]['images']} images, {label}", render[entry])
    if tree := reports.get("tree"):
        add_run, new, again = tree["add"], tree["new"], tree["again"]
        count = f"{tree['directories']:,} directories"
        yield (
            f"`registry add --mode semver`, {count}",
            f"{add_run['seconds']:.0f} s, {add_run['memory']:.0f} MB",
            "",
            "",
        )
        times = f"{new['seconds']:.0f} / {again['seconds']:.1f} s, {new['memory']:.0f} MB"
        yield f"`bundle validate --profile all`, {count}, new / again", times, "", ""
    idle = reports["mirror"]["nothing to do"]
    others = f"regsync {idle['regsync']['seconds']:.2f} s" if "regsync" in idle else ""
    yield f"`mirror`, {reports['mirror']['images']} images, nothing to do", _run(idle["opmkit"], 2), others, ""
    yield "packages that `pip install` adds", f"{reports['install']['size']:.0f} MB", "", ""


def _catalog_rows(reports: Report) -> Iterator[Sequence[str]]:
    served = reports["serve-catalog"]
    cells = {
        name: f"{each['cold']:.2f} / {each['warm']:.2f} s, {each['memory_cold']:.0f} / {each['memory_warm']:.0f} MB"
        for name, each in served.items()
        if isinstance(each, dict)
    }
    ratios = ""
    if "Go opm" in cells:
        ours, theirs = served["opmkit"], served["Go opm"]
        ratios = f"{theirs['cold'] / ours['cold']:.1f} / {theirs['warm'] / ours['warm']:.1f} times as long"
    label = f"catalog server, {served['bundles']} bundles: ready without / with a cache"
    yield label, cells["opmkit"], cells.get("Go opm", ""), ratios


def _compared(label: str, report: Report, *, precision: int = 1, read: bool = False) -> Sequence[str]:
    theirs = report.get("Go opm")
    ratio = f"{theirs['seconds'] / report['opmkit']['seconds']:.1f} times as long" if theirs else ""
    return (
        label,
        _run(report["opmkit"], precision, read=read),
        _run(theirs, precision, read=read) if theirs else "",
        ratio,
    )


def _run(run: Report, precision: int, *, read: bool = False) -> str:
    detail = f"{run['read']:.1f} MB read" if read else f"{run['memory']:.0f} MB"
    return f"{run['seconds']:.{precision}f} s, {detail}"


def _tree(tree: Path) -> dict[str, object]:
    """Add the bundles of a large tree to a database, and validate the tree twice."""
    directories = [str(version) for package in corpus_packages(tree) for version in package_versions(package)]
    with Registry() as registry, tempfile.TemporaryDirectory() as work:
        bench, database = Workbench(registry, Path(work)), f"{work}/index.db"
        chunks = [directories[at : at + _CHUNK] for at in range(0, len(directories), _CHUNK)]
        flags = [flag for chunk in chunks for flag in ("-b", ",".join(chunk))]
        added = bench.run(["opm", "registry", "add", "--mode", "semver", "--permissive", "-d", database, *flags])
        targets = Path(work, "targets")
        targets.write_text("\n".join(directories))
        argv = ["opm", "bundle", "validate", "--profile", "all", "--output", "json", f"@{targets}"]
        runs = [bench.run(argv, {"OPM_STORE": f"{work}/store"}, statuses=(0, 1)) for _ in ("new", "again")]
    report = {"add": asdict(added), "new": asdict(runs[0]), "again": asdict(runs[1])}
    for name, run in report.items():
        print(f"{len(directories)} directories, {name}: {run['seconds']:.1f} s, {run['memory']:.0f} MB")
    return {"directories": len(directories), **report}


def _installed_size() -> dict[str, object]:
    """Install the project with pip in a new environment, and return the MB of what that adds."""
    with tempfile.TemporaryDirectory() as directory:
        subprocess.run([sys.executable, "-m", "venv", directory], check=True)
        packages = next(Path(directory, "lib").glob("python3*")) / "site-packages"
        before = _size(packages)
        subprocess.run([f"{directory}/bin/pip", "install", "-q", str(ROOT)], check=True)
        size = (_size(packages) - before) / 1e6
    print(f"pip install adds {size:.0f} MB")
    return {"size": size}


def _size(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
