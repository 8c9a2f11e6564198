"""Benchmark of copying a large image to and from a registry, compared with skopeo."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.kit.registry import Registry

from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.image import Image
from opmkit.imagetools.layer import LayerFile, write_layer
from opmkit.imagetools.store import LayoutRepository

from .measure import Workbench, report_comparison

if TYPE_CHECKING:
    import argparse

    from .measure import Run

LAYER_SIZES = (96, 48, 32, 16, 8)
"""Sizes of the layers of the copied image in MiB, 200 in total."""
MAX_MEMORY = 150
"""Peak memory in MB that opmkit must not exceed."""


def bench_transfer(arguments: argparse.Namespace) -> dict[str, object]:
    """Push and pull an incompressible image of 200 MiB with opmkit and skopeo."""
    runs: dict[str, tuple[list[Run], list[Run]]] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        source = _write_large_image(Path(directory))
        for number in range(arguments.runs):
            work = Path(directory, str(number))
            work.mkdir()
            with Registry() as registry:  # an empty one each time: skopeo caches the locations of layers
                for label, (ours, theirs) in _transfers(Workbench(registry, work), registry.host, source).items():
                    all_ours, all_theirs = runs.setdefault(label, ([], []))
                    all_ours.append(ours)
                    all_theirs.extend(theirs)
            if LayoutRepository(work / "opmkit").resolve("1") != LayoutRepository(source).resolve("1"):
                raise SystemExit("the pulled image differs from the pushed one")
            shutil.rmtree(work)
    report: dict[str, object] = {label: report_comparison(label, *both, "skopeo") for label, both in runs.items()}
    memory = max(run.memory for ours, _ in runs.values() for run in ours)
    if memory > MAX_MEMORY:
        raise SystemExit(f"opmkit used {memory:.0f} MB of memory, more than {MAX_MEMORY} MB")
    return report


def _write_large_image(directory: Path) -> Path:
    """Write the image to an OCI layout under the tag ``1``."""
    noise = directory / "noise"
    layers = []
    for number, size in enumerate(LAYER_SIZES):
        noise.write_bytes(os.urandom(size << 20))
        layers.append(write_layer([LayerFile(f"data/{number}", noise)], directory))
    copy_image(Image.scratch().append(layers), LayoutRepository(directory / "source"), "1")
    for path in (noise, *(layer.path for layer in layers)):
        path.unlink()
    return directory / "source"


def _transfers(bench: Workbench, host: str, source: Path) -> dict[str, tuple[Run, list[Run]]]:
    """Run each transfer by opmkit and, if it is installed, by skopeo, which has no store.

    The commands access the registry at ``host`` directly, since the meter would use CPU time that they need.
    """
    ours, theirs, again = (f"{host}/{name}/image:1" for name in ("opmkit", "skopeo", "again"))
    image = ["opm", "image"]
    store = {"OPM_STORE": str(bench.work / "store")}

    def skopeo(*arguments: str) -> list[Run]:
        return [bench.run(["skopeo", "copy", "--insecure-policy", *arguments])] if shutil.which("skopeo") else []

    push = bench.run([*image, "copy", "--use-http", f"oci:{source}:1", ours])
    skopeo_push = skopeo("--dest-tls-verify=false", f"oci:{source}:1", f"docker://{theirs}")
    pull = bench.run([*image, "copy", "--use-http", ours, f"oci:{bench.work}/opmkit:1"])
    skopeo_pull = skopeo("--src-tls-verify=false", f"docker://{theirs}", f"oci:{bench.work}/skopeo:1")
    return {
        "push from a layout": (push, skopeo_push),
        "pull to a layout": (pull, skopeo_pull),
        "pull to the store": (bench.run([*image, "pull", "--use-http", ours], store), skopeo_pull),
        "push from the store": (bench.run([*image, "push", "--use-http", ours, again], store), skopeo_push),
    }
