"""Benchmarks of adding bundles: ``index add`` to images, and ``registry add`` to databases of growing size."""

from __future__ import annotations

import shutil
from dataclasses import asdict
from typing import TYPE_CHECKING

from .bundle_registry import BASE_IMAGE_SIZE, bundle_registry
from .bundles import corpus_packages, write_large_package, write_small_package
from .measure import Link, programs, report_comparison, total

if TYPE_CHECKING:
    import argparse

    from .bundle_registry import BundleRegistry
    from .measure import Run

LARGE_BUNDLES = 31
SMALL_INDEX = 189
"""Bundles of the index that one more is added to through a slow network."""
LINK = Link(bits_per_second=100e6, round_trip=0.02)
SCALE_SIZES = (100, 300, 1000)


def bench_add(arguments: argparse.Namespace) -> dict[str, object]:
    """Add all bundles of the corpus, those of one package, large ones, and one more to the first index."""
    packages = corpus_packages(arguments.bundles)
    if arguments.reference and not shutil.which("podman"):
        raise SystemExit("podman: not found: Go opm needs it to build images")
    with bundle_registry(packages) as bench:
        compare = _AddComparison(bench, arguments.reference, arguments.runs)
        last = next(r for r in reversed(bench.references) if f"/{arguments.package}:" in r)
        all_but_last = [r for r in bench.references if r != last]
        package = [r for r in all_but_last if f"/{arguments.package}:" in r]
        large = bench.push(write_large_package(bench.work / "source" / "large", LARGE_BUNDLES))
        print(f"{len(bench.references)} bundles of {len(packages)} packages, base image of {BASE_IMAGE_SIZE >> 20} MiB")
        report: dict[str, object] = {
            "all": compare(all_but_last, f"{len(all_but_last)} bundles in one add", "all"),
            "package": compare(package, f"{len(package)} bundles of {arguments.package}", "package"),
            "large": compare(large, f"{LARGE_BUNDLES} bundles of one package, 1.3 MB each", "large"),
            "one more": compare([last], "one more bundle, --from-index", "more", from_tag="all"),
        }
        compare(all_but_last[-SMALL_INDEX:], f"{SMALL_INDEX} bundles, to add one more to", "small", runs=1)
        bench.meter.link = LINK
        label = f"one more bundle to {SMALL_INDEX}, --from-index, 100 Mbit/s and 20 ms round trip"
        report["slow network"] = compare([last], label, "slow", from_tag="small")
        bench.meter.link = None
        for name in ("opmkit", "go-opm") if arguments.reference else ("opmkit",):
            print(f"\nlayer of the index of all, {name}: {bench.layer_size(f'{bench.host}/{name}/index:all'):.1f} MB")
    return report


class _AddComparison:
    """Adds by opmkit and, if its path is given, by Go opm."""

    def __init__(self, bench: BundleRegistry, reference: str | None, runs: int) -> None:
        self._bench = bench
        self._reference = reference
        self._runs = runs

    def __call__(
        self, bundles: list[str], label: str, tag: str, *, from_tag: str = "", runs: int = 0
    ) -> dict[str, object]:
        """Run one add by each program, ``runs`` times instead of the usual number, and print and return the medians."""
        ours, theirs = [], []
        for _ in range(runs or self._runs):
            images = {name: f"{self._bench.host}/{name}/index:" for name in ("opmkit", "go-opm")}
            source = {name: image + from_tag if from_tag else "" for name, image in images.items()}
            ours.append(_add_with_opmkit(self._bench, bundles, images["opmkit"] + tag, source["opmkit"]))
            if self._reference:
                image = images["go-opm"] + tag
                theirs.append(_add_with_go_opm(self._bench, self._reference, bundles, image, source["go-opm"]))
        return {**report_comparison(label, ours, theirs), "bundles": len(bundles)}


def _add_with_opmkit(bench: BundleRegistry, bundles: list[str], tag: str, from_index: str) -> Run:
    argv = ["opm", "index", "add", "--use-http", "--permissive", "--push", "--bundles", ",".join(bundles), "--tag", tag]
    argv += ["--from-index", from_index] if from_index else ["--binary-image", bench.base]
    store = bench.work / "store"
    shutil.rmtree(store, ignore_errors=True)
    return bench.run(argv, {"OPM_STORE": str(store)})


def _add_with_go_opm(bench: BundleRegistry, opm: str, bundles: list[str], tag: str, from_index: str) -> Run:
    """Add with podman as build tool, and push with podman."""
    argv = [opm, "index", "add", "--use-http", "--permissive", "--build-tool", "podman", "--bundles", ",".join(bundles)]
    argv += ["--tag", tag, "--binary-image", bench.base, *(["--from-index", from_index] if from_index else [])]
    env = _podman_settings(bench)
    return total([bench.run(argv, env), bench.run(["podman", "push", "--tls-verify=false", tag], env)])


def _podman_settings(bench: BundleRegistry) -> dict[str, str]:
    """Return the environment of podman with separate storage and plain HTTP for the registry."""
    storage = bench.work / "storage.conf"
    storage.write_text(f'[storage]\ndriver = "vfs"\nrunroot = "{bench.work}/run"\ngraphroot = "{bench.work}/graph"\n')
    return {**bench.plain_http_settings(), "CONTAINERS_STORAGE_CONF": str(storage)}


def bench_scale(arguments: argparse.Namespace) -> dict[str, object]:
    """Add 100, 300 and 1000 bundles of one package at once, then one more to each."""
    report: dict[str, object] = {}
    with bundle_registry() as bench:
        references = bench.push(write_small_package(bench.work / "source" / "long", max(SCALE_SIZES) + 1))
        for size in SCALE_SIZES:
            for name, program in programs(arguments.reference).items():
                database, store = f"{name}-{size}.db", {"OPM_STORE": f"{bench.work}/store-{size}"}
                add = [program, "registry", "add", "--use-http", "-d", database, "-b"]
                at_once = bench.run([*add, ",".join(references[:size])], store)
                one_more = bench.run([*add, references[size]], store)
                per_bundle = at_once.seconds / size * 1e3
                print(f"{size:5} bundles  {name:9} {per_bundle:6.2f} ms per bundle, one more {one_more.seconds:6.2f} s")
                report[f"{name} {size}"] = {"all": asdict(at_once), "one more": asdict(one_more)}
    return report
