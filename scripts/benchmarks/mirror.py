"""Benchmark of mirroring many images to another registry, compared with skopeo sync, crane copy and regsync."""

from __future__ import annotations

import io
import json
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import yaml
from tests.kit.content import CONFIG, noise
from tests.kit.mirror_site import MirrorSite, SampleBundle
from tests.kit.registry import Registry

from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.spec import Descriptor, Manifest, media_types, sha256_digest

from .measure import Run, Workbench, median

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

PREFIX = "src"
BASE_SIZE, OPERATOR_SIZE, IMAGE_SIZE = 8 << 20, 1 << 20, 200 << 10
"""Bytes of the layers that all images, those of one operator, and none share."""
IMAGES_PER_REPOSITORY = 5
CONCURRENCY = 8
STEPS = ("first copy", "nothing to do", "one more image")


@dataclass(frozen=True)
class ImageSet:
    """Images in a registry, by tag, and the catalogs whose bundles need all, or all but the last, of them."""

    tags: tuple[str, ...]
    catalog: str
    larger_catalog: str


@dataclass(frozen=True)
class Program:
    """A program that mirrors a set of images: its command line for a directory, images, catalog and target registry."""

    name: str
    argv: Callable[[Path, Sequence[str], str, str], list[str]]


def bench_mirror(arguments: argparse.Namespace) -> dict[str, object]:
    """Mirror a set of images that share layers, again, and with one image more."""
    sizes = (IMAGE_SIZE, OPERATOR_SIZE, BASE_SIZE) if not arguments.small else (arguments.small,)
    programs = _programs(arguments)
    runs: dict[str, list[list[Run]]] = {program.name: [] for program in programs}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory, Registry() as source:
        images = _push_set(source.host, Path(directory), arguments.images, sizes)
        for number in range(arguments.runs):
            for program in programs if number % 2 == 0 else programs[::-1]:
                with Registry() as target:
                    work = Path(directory, f"{program.name}-{number}")
                    work.mkdir()
                    runs[program.name].append(_run_steps(program, images, work, target))
    steps = {
        step: _report(step, {name: [steps[at] for steps in all_runs] for name, all_runs in runs.items()})
        for at, step in enumerate(STEPS)
    }
    return {"images": arguments.images, **steps}


def _run_steps(program: Program, images: ImageSet, work: Path, target: Registry) -> list[Run]:
    bench = Workbench(target, work)  # its meter is not used, since it would use CPU time that the registry needs
    steps = []
    all_but_one = images.tags[:-1]
    for tags, catalog in (
        (all_but_one, images.catalog),
        (all_but_one, images.catalog),
        (images.tags, images.larger_catalog),
    ):
        before, requests = stored_bytes(target), len(target.requests())
        run = bench.run(program.argv(work, tags, catalog, target.host))
        sent = (stored_bytes(target) - before) / 1e6
        steps.append(replace(run, read=float(len(target.requests()) - requests), written=sent))
    _check(target, len(images.tags))
    return steps


def _report(step: str, runs: dict[str, list[Run]]) -> dict[str, object]:
    """Print and return the medians of all programs and their ratios to opmkit."""
    print(f"\n{step}")
    medians = {name: median(each) for name, each in runs.items()}
    ours = medians["opmkit"]
    for name, run in medians.items():
        ratios = f"{run.seconds / ours.seconds:6.2f} in time, {run.memory / ours.memory:.2f} in memory"
        print(
            f"  {name:<12} {run.seconds:8.2f} s {run.cpu:8.2f} s cpu {run.memory:6.0f} MB memory "
            f"{run.read:7.0f} requests {run.written:7.1f} MB stored" + ("" if name == "opmkit" else f"  {ratios}")
        )
    return {name: asdict(run) for name, run in medians.items()}


def _programs(arguments: argparse.Namespace) -> list[Program]:
    found = [Program("opmkit", _opm)]
    if shutil.which("skopeo") and not arguments.only_opmkit:
        found.append(Program("skopeo sync", _skopeo))
    if arguments.crane and not arguments.only_opmkit:
        found.append(Program("crane copy", lambda *args: _crane(arguments.crane, *args)))
    if arguments.regsync and not arguments.only_opmkit:
        found.append(Program("regsync", lambda *args: _regsync(arguments.regsync, *args)))
    return found


def _opm(_: Path, tags: Sequence[str], catalog: str, target: str) -> list[str]:
    return ["opm", "mirror", catalog, "--to", target, "--use-http"]


def _skopeo(work: Path, tags: Sequence[str], _: str, target: str) -> list[str]:
    images: dict[str, list[str]] = {}
    host = tags[0].partition("/")[0]
    for name in tags:
        repository, _, tag = name.removeprefix(f"{host}/").rpartition(":")
        images.setdefault(repository, []).append(tag)
    (work / "sync.yml").write_text(yaml.safe_dump({host: {"tls-verify": False, "images": images}}))
    flags = ["--insecure-policy", "sync", "--all", "--dest-tls-verify=false"]
    return ["skopeo", *flags, "--src", "yaml", "--dest", "docker", str(work / "sync.yml"), target]


def _crane(crane: str, work: Path, tags: Sequence[str], _: str, target: str) -> list[str]:
    pairs = [f"{name} {target}/{name.partition('/')[2]}" for name in tags]
    (work / "pairs").write_text("\n".join(pairs) + "\n")
    script = _retry(f'{crane} copy --insecure "$0" "$1"')
    return ["xargs", f"-P{CONCURRENCY}", "-L1", "-a", str(work / "pairs"), "sh", "-c", script]


def _regsync(regsync: str, work: Path, tags: Sequence[str], _: str, target: str) -> list[str]:
    hosts = [{"registry": host, "tls": "disabled"} for host in (tags[0].partition("/")[0], target)]
    sync = [{"source": name, "target": f"{target}/{name.partition('/')[2]}", "type": "image"} for name in tags]
    document = {"version": 1, "creds": hosts, "defaults": {"parallel": CONCURRENCY}, "sync": sync}
    (work / "regsync.yml").write_text(json.dumps(document))
    return ["sh", "-c", _retry(f"{regsync} once --config {work}/regsync.yml")]


def _retry(command: str) -> str:
    """Return a shell script: programs without retries fail when they store a blob twice at the same time."""
    return f"for attempt in 1 2 3 4 5; do {command} && exit; done; exit 1"


def _push_set(host: str, directory: Path, count: int, sizes: Sequence[int]) -> ImageSet:
    """Push the images, in repositories of several each, and the catalogs; the last image is in the larger one only."""
    with RegistryClient(RegistryOptions(plain_http=True)) as client, ThreadPoolExecutor(CONCURRENCY) as pool:
        shared = lru_cache(16)(noise)

        def push(number: int) -> tuple[str, str]:
            group = number // IMAGES_PER_REPOSITORY
            reference = Reference(host, f"{PREFIX}/operator{group}", str(number))
            repository = client.target(reference)
            seeds = (1_000_000 + number, 2_000_000 + group, 3_000_000)
            layers = [shared(size, seed) for size, seed in zip(sizes, seeds, strict=False)]
            config = CONFIG.replace(b'"config":{}', b'"config":{"User":"%d"}' % number)
            described = []
            for content, kind in [
                (config, media_types.OCI_CONFIG),
                *((each, media_types.OCI_LAYER) for each in layers),
            ]:
                descriptor = Descriptor(kind, sha256_digest(content), len(content))
                repository.put_blob(descriptor, _opener(content))
                described.append(descriptor)
            manifest = Manifest.build(described[0], described[:0:-1])
            repository.put_manifest(manifest, str(number))
            return str(reference), str(reference.with_digest(manifest.digest))

        pushed = list(pool.map(push, range(count + 1)))
    site = MirrorSite(host, PREFIX, directory)
    catalogs = [
        site.push_catalog(_bundles([each for _, each in pushed[:end]]), tag) for end, tag in ((-1, "1"), (None, "2"))
    ]
    return ImageSet(tuple(tag for tag, _ in pushed), *catalogs)


def _bundles(images: Sequence[str]) -> list[SampleBundle]:
    """Return bundles with IMAGES_PER_REPOSITORY images each, of which the first is the bundle image."""
    groups = [images[at : at + IMAGES_PER_REPOSITORY] for at in range(0, len(images), IMAGES_PER_REPOSITORY)]
    return [SampleBundle(f"operator{at}", "1.0.0", group[0], group[1:]) for at, group in enumerate(groups)]


def _opener(content: bytes) -> Callable[[], BinaryIO]:
    return lambda: io.BytesIO(content)


def stored_bytes(registry: Registry) -> int:
    """Return the bytes of the blobs that a registry has."""
    blobs = registry.path / "data" / "docker" / "registry" / "v2" / "blobs"
    return sum(path.stat().st_size for path in blobs.rglob("data")) if blobs.exists() else 0


def _check(registry: Registry, count: int) -> None:
    """Raise SystemExit unless a registry has the tags of at least so many images."""
    tags = registry.path / "data" / "docker" / "registry" / "v2" / "repositories"
    found = sum(1 for _ in tags.rglob("_manifests/tags/*/current/link"))
    if found < count:
        raise SystemExit(f"{found} of {count} images were mirrored")
