"""Benchmark of validation, rendering and mirroring by one process, local processes and workers of Dask."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kit.corpus import bundle_files, bundle_labels, save_files
from tests.kit.dask_cluster import DaskCluster
from tests.kit.mirror_site import MirrorSite, SampleBundle
from tests.kit.registry import Registry

from opmkit.core.executors import MAX_BATCH, ExecutorLocation
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions

from .bundles import corpus_packages, package_versions
from .measure import Workbench
from .mirror import stored_bytes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

COMMANDS = ("validate", "render", "mirror")
PLANNED_WORKERS = (1, 2, 10, 100)
REGISTRY_CPUS = 8
"""CPUs of the registry that the calculation assumes."""
TASKS = 1000
FEW = 8
"""References of runs that show the costs that do not depend on the number of references."""


@dataclass(frozen=True)
class Costs:
    """Wall and CPU seconds of one run, and what it has requested from the registries.

    ``read`` and ``written`` are MB of response bodies and of stored blobs.
    """

    seconds: float
    command: float
    workers: float
    scheduler: float
    registry: float
    requests: float
    read: float
    written: float

    def per_tag(self, few: Costs, count: int) -> Costs:
        """Return the costs of one of ``count`` tags that the run had in addition to those of another one."""
        return Costs(*(max(getattr(self, each.name) - getattr(few, each.name), 1e-6) / count for each in fields(Costs)))


@dataclass(frozen=True)
class Images:
    """Bundle images in a registry, and a catalog of each size."""

    registry: Registry
    references: Sequence[str]
    catalogs: dict[int, str]


def bench_scale_out(arguments: argparse.Namespace) -> dict[str, object]:
    """Validate, render and mirror bundles with one process, two processes, and one and two workers of Dask."""
    report: dict[str, object] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory, Registry() as registry:
        work = Path(directory)
        images = _push(registry, work, arguments.bundles, arguments.images)
        count = len(images.references)
        print(f"{count} tags\n\n{_row('work', 'by', *_COLUMNS)}\n{_row(*['---'] * (2 + len(_COLUMNS)))}")
        measured: dict[str, dict[str, Costs]] = {name: {} for name in COMMANDS}
        few: dict[str, Costs] = {}
        for name in COMMANDS:
            for label, executor in (("one process", ""), ("2 processes", "processes:2")):
                measured[name][label] = _measure(name, images, work, count, executor)
        for label, workers in (("1 Dask worker", 1), ("2 Dask workers", 2)):
            with _cluster(work, workers) as cluster:
                per_task = _task_cost(cluster)
                for name in COMMANDS:
                    for _ in range(2):  # workers import what they need in the first run
                        few[name] = _measure(name, images, work, FEW, cluster=cluster)
                    measured[name][label] = _measure(name, images, work, count, cluster=cluster)
        for name, runs in measured.items():
            for label, costs in runs.items():
                print(_row(name, label, *_cells(costs)))
        print(f"\nscheduler: {per_task * 1e3:.1f} ms of CPU per task, which has up to {MAX_BATCH} references")
        per_tag = {name: measured[name]["2 Dask workers"].per_tag(few[name], count - FEW) for name in COMMANDS}
        _print_per_tag(per_tag)
        _print_calculation(per_tag, per_task)
        report |= {name: {label: asdict(costs) for label, costs in runs.items()} for name, runs in measured.items()}
    return {**report, "tags": count, "scheduler_seconds_per_task": per_task}


_COLUMNS = (
    *("s", "CPU s of the command", "of workers", "of the scheduler", "of registries"),
    *("requests", "MB read", "MB written"),
)


def _cells(costs: Costs) -> list[str]:
    seconds = (costs.seconds, costs.command, costs.workers, costs.scheduler, costs.registry)
    return [*(f"{each:.1f}" for each in seconds), f"{costs.requests:.0f}", f"{costs.read:.1f}", f"{costs.written:.1f}"]


def _row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def _print_per_tag(costs: Mapping[str, Costs]) -> None:
    columns = ("command", "registries", "requests", "kB read", "kB written", "requests a second and CPU of a registry")
    print(f"\n{_row('work', 'worker, ms of CPU', *columns)}\n{_row('---', *['---:'] * 7)}")
    for name, each in costs.items():
        cpu = (f"{seconds * 1e3:.1f}" for seconds in (each.workers, each.command, each.registry))
        traffic = (f"{each.requests:.1f}", f"{each.read * 1e3:.0f}", f"{each.written * 1e3:.0f}")
        print(_row(name, *cpu, *traffic, f"{each.requests / each.registry:.0f}"))


def _print_calculation(costs: Mapping[str, Costs], per_task: float) -> None:
    """Print the rates of many workers with one CPU each, from the costs per tag."""
    print(f"\n{_row('work', 'workers', 'tags a second', 'requests a second', 'limit')}")
    print(_row("---", *["---:"] * 3, "---"))
    for name, each in costs.items():
        limits = {
            "command": 1 / each.command,
            "scheduler": MAX_BATCH / per_task,
            "registry": REGISTRY_CPUS / each.registry,
        }
        for workers in PLANNED_WORKERS:
            rates = {"workers": workers / each.workers, **limits}
            limit = min(rates, key=lambda candidate, rates=rates: rates[candidate])
            print(_row(name, str(workers), f"{rates[limit]:.0f}", f"{rates[limit] * each.requests:.0f}", limit))


def _measure(
    name: str, images: Images, work: Path, count: int, executor: str = "", *, cluster: DaskCluster | None = None
) -> Costs:
    """Run a command for the first ``count`` images without cached results, and return its costs."""
    with Registry() as target:
        registries = (images.registry, target) if name == "mirror" else (images.registry,)
        argv = _argv(name, images, work, count, target.host)
        if chosen := cluster.executor if cluster else executor:
            argv += ["--executor", chosen]
        store = work / "store"  # without the layers of earlier runs, as are those of the workers
        shutil.rmtree(store, ignore_errors=True)
        if cluster:
            cluster.clear_stores()
        before, requests, start = _usage(registries, cluster), [len(each.requests()) for each in registries], _now()
        run = Workbench(images.registry, work).run(argv, {"OPM_STORE": str(store)}, statuses=(0, 1))
        seconds, after = _now() - start, _usage(registries, cluster)
        accesses = [access for each, at in zip(registries, requests, strict=True) for access in each.requests()[at:]]
        scheduler, workers, registry = (late - early for early, late in zip(before, after, strict=True))
        read = sum(access.size for access in accesses if access.method == "GET") / 1e6
        return Costs(seconds, run.cpu, workers, scheduler, registry, len(accesses), read, stored_bytes(target) / 1e6)


def _argv(name: str, images: Images, work: Path, count: int, target: str) -> list[str]:
    if name == "mirror":
        return ["opm", "mirror", images.catalogs[count], "--to", target, "--use-http"]
    (work / "references").write_text("\n".join(images.references[:count]))
    command = ["opm", "bundle", "validate", "--output", "json"] if name == "validate" else ["opm", "render"]
    return [*command, "@references", "--no-cache", "--use-http"]


def _usage(registries: Sequence[Registry], cluster: DaskCluster | None) -> tuple[float, float, float]:
    """Return the CPU seconds of the scheduler, the workers and the registries so far."""
    scheduler = _cpu_seconds(cluster.scheduler.pid) if cluster and cluster.scheduler else 0.0
    workers = sum(_cpu_seconds(worker.pid) for worker in cluster.workers) if cluster else 0.0
    return scheduler, workers, sum(_cpu_seconds(registry.pid) for registry in registries)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _now() -> float:
    return time.perf_counter()


def _task_cost(cluster: DaskCluster) -> float:
    """Return the CPU seconds of the scheduler for a task that does nothing."""
    with ExecutorLocation.parse(cluster.executor).open() as pool:
        before, _, _ = _usage((), cluster)
        for _ in pool.map(list, range(TASKS * MAX_BATCH)):
            pass
        after, _, _ = _usage((), cluster)
    return (after - before) / TASKS


@contextmanager
def _cluster(work: Path, workers: int) -> Iterator[DaskCluster]:
    directory = work / f"dask-{workers}"
    directory.mkdir()
    with DaskCluster(directory, workers) as cluster:
        cluster.wait_for_workers()
        yield cluster


def _push(registry: Registry, work: Path, bundles: Path, count: int) -> Images:
    """Push about ``count`` bundles of a corpus, and catalogs that contain the first ones or all."""
    directories = [version for package in corpus_packages(bundles) for version in package_versions(package)]
    chosen = directories[:: max(1, len(directories) // count)][:count]
    client, references, samples = RegistryClient(RegistryOptions(plain_http=True)), [], []
    for at, directory in enumerate(chosen):
        name, tag = f"{registry.host}/bundles/{directory.parent.name}", directory.name.replace("+", "_")
        repository = client.repository(Reference.parse(name))
        save_files(bundle_files(directory), bundle_labels(directory), repository, tag)
        digest = repository.resolve(tag).digest
        references.append(f"{name}:{tag}")
        samples.append(SampleBundle(f"package{at}", "1.0.0", f"{name}@{digest}"))
    site = MirrorSite(registry.host, "catalogs", work)
    sizes = {FEW, len(chosen)}
    return Images(registry, references, {size: site.push_catalog(samples[:size], str(size)) for size in sizes})
