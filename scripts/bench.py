"""Benchmarks: whole commands against a local registry, in seconds, peak memory and bytes moved."""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from bench_serve import bench_serve, bench_soak
from bench_serve_catalog import bench_serve_catalog
from tests.kit.catalogmaker import catalog_of
from tests.kit.corpus import bundle_files, bundle_labels, save_files
from tests.kit.registry import Registry
from tests.kit.shared import SHARED

from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.image import Image
from opmkit.imagetools.layer import LayerFile, write_layer
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.store import LayoutRepository
from opmkit.index.fbc.directory import write_catalog
from opmkit.index.fbc.write import to_json, to_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

BASE_BYTES = 100 << 20
PIECE = 1 << 18

# A small process between: a child's peak memory counts that of the process it was forked from.
LAUNCHER = """
import json, os, sys, time
start = time.perf_counter()
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)])
_, status, usage = os.wait4(pid, 0)
seconds = time.perf_counter() - start
print(json.dumps([os.waitstatus_to_exitcode(status), seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss]))
"""


@dataclass(frozen=True)
class Run:
    """One finished command: wall and processor seconds, peak memory in MB, MB read from and written to the registry."""

    seconds: float
    cpu: float
    memory: float
    read: float
    written: float

    def __str__(self) -> str:
        moved = f" {self.read:8.1f} MB read {self.written:8.1f} MB written" if self.read or self.written else ""
        return f"{self.seconds:8.2f} s {self.cpu:8.2f} s cpu {self.memory:8.0f} MB memory{moved}"


class Meter:
    """A TCP relay in front of the registry that counts the bytes of each direction."""

    def __init__(self, target: str) -> None:
        self._target = target.rpartition(":")[0], int(target.rpartition(":")[2])
        self._server = socket.create_server(("127.0.0.1", 0))
        self.host = f"127.0.0.1:{self._server.getsockname()[1]}"
        self.read = self.written = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._server.accept()
            upstream = socket.create_connection(self._target)
            for source, sink, name in ((client, upstream, "written"), (upstream, client, "read")):
                threading.Thread(target=self._relay, args=(source, sink, name), daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket, name: str) -> None:
        buffer = memoryview(bytearray(PIECE))
        try:
            while count := source.recv_into(buffer):
                sink.sendall(buffer[:count])
                setattr(self, name, getattr(self, name) + count)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            source.close()
            sink.close()


class Workbench:
    """A registry behind a meter, a directory to work in, and the commands under measurement."""

    def __init__(self, registry: Registry, work: Path) -> None:
        self.meter = Meter(registry.host)
        self.work = work
        self.host = self.meter.host

    def run(self, argv: list[str], env: dict[str, str] | None = None, *, statuses: tuple[int, ...] = (0,)) -> Run:
        """Run one command to its end; raises where it fails, which is to exit with another status."""
        self.meter.read = self.meter.written = 0
        log = self.work / "log"
        environment = {**os.environ, **(env or {})}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have their bytecode beside them
        with log.open("wb") as out:
            done = subprocess.run(
                [sys.executable, "-ISc", LAUNCHER, *argv],
                cwd=self.work,
                stdout=subprocess.PIPE,
                stderr=out,
                env=environment,
                check=True,
            )
        status, seconds, cpu, memory = json.loads(done.stdout)
        if status not in statuses:
            raise SystemExit(f"{argv[:4]}… failed:\n{log.read_text()[-3000:]}")
        return Run(seconds, cpu, memory / 1e3, self.meter.read / 1e6, self.meter.written / 1e6)


class Bench(Workbench):
    """A registry full of bundles, and a base image."""

    def __init__(self, registry: Registry, work: Path, bundles: Path, packages: list[str]) -> None:
        super().__init__(registry, work)
        self._client = RegistryClient(RegistryOptions(plain_http=True))
        self._direct = registry.host
        self.base = f"{self.host}/base/opm:latest"
        self.references = [reference for package in packages for reference in self.push(bundles / package)]
        self._push_base()

    def push(self, package: Path) -> list[str]:
        """Push the versions of a package; their references, the lowest version first."""
        return [self._push(directory) for directory in _versions(package)]

    def _push(self, directory: Path) -> str:
        name = f"bundles/{directory.parent.name}"
        tag = directory.name.replace("+", "_")
        repository = self._client.repository(Reference.parse(f"{self._direct}/{name}"))
        save_files(bundle_files(directory), bundle_labels(directory), repository, tag)
        return f"{self.host}/{name}:{tag}"

    def _push_base(self) -> None:
        blob = self.work / "opm"
        blob.write_bytes(os.urandom(BASE_BYTES))
        repository = self._client.repository(Reference.parse(f"{self._direct}/base/opm"))
        save_files({"bin/opm": blob}, {}, repository, "latest")
        blob.unlink()

    def layer_size(self, reference: str) -> float:
        """MB of the top layer of an image."""
        from opmkit.imagetools.image import load_image

        parsed = Reference.parse(reference.replace(self.host, self._direct))
        image = load_image(self._client.repository(parsed), parsed.identifier)
        return image.manifest.layers[-1].size / 1e6


def _versions(package: Path) -> list[Path]:
    def key(path: Path) -> list[tuple[int, int | str]]:
        return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"[.+-]", path.name)]

    return sorted((path for path in package.iterdir() if (path / "manifests").is_dir()), key=key)


@contextmanager
def _registry_settings(work: Path, host: str) -> Iterator[dict[str, str]]:
    """Podman's settings: storage of its own, and the registry marked as one that speaks plain HTTP."""
    settings = work / "registries.conf"
    settings.write_text(f'[[registry]]\nlocation = "{host}"\ninsecure = true\n')
    storage = work / "storage.conf"
    storage.write_text(f'[storage]\ndriver = "vfs"\nrunroot = "{work}/run"\ngraphroot = "{work}/graph"\n')
    yield {"CONTAINERS_REGISTRIES_CONF": str(settings), "CONTAINERS_STORAGE_CONF": str(storage)}


def _opmkit_add(bench: Bench, bundles: list[str], tag: str, *, from_index: str | None = None) -> Run:
    argv = ["opm", "index", "add", "--use-http", "--permissive", "--push", "--bundles", ",".join(bundles), "--tag", tag]
    argv += ["--from-index", from_index] if from_index else ["--binary-image", bench.base]
    store = bench.work / "store"
    shutil.rmtree(store, ignore_errors=True)
    return bench.run(argv, {"OPM_STORE": str(store)})


def _reference_add(bench: Bench, opm: str, bundles: list[str], tag: str, from_index: str | None = None) -> list[Run]:
    """The reference's two steps: index add with podman, then podman push."""
    argv = [opm, "index", "add", "--use-http", "--permissive", "--build-tool", "podman", "--bundles", ",".join(bundles)]
    argv += ["--tag", tag, "--binary-image", bench.base, *(["--from-index", from_index] if from_index else [])]
    with _registry_settings(bench.work, bench.host) as env:
        return [bench.run(argv, env), bench.run(["podman", "push", "--tls-verify=false", tag], env)]


def _both(label: str, ours: list[Run], theirs: list[Run], name: str = "reference") -> dict[str, object]:
    """Print the medians and, where the other program ran, the ratios."""
    print(f"\n{label}")
    mine = _median(ours)
    print(f"  opmkit     {mine}")
    result: dict[str, object] = {"opmkit": mine.__dict__}
    if theirs:
        other = _median(theirs)
        print(f"  {name:<10} {other}")
        ratios = other.seconds / mine.seconds, other.cpu / mine.cpu, other.memory / mine.memory
        print(f"  {name} / opmkit: {ratios[0]:.2f} in time, {ratios[1]:.2f} in cpu, {ratios[2]:.2f} in memory")
        result |= {name: other.__dict__, "time_ratio": ratios[0]}
    return result


def _median(runs: list[Run]) -> Run:
    return Run(*(statistics.median(getattr(run, name) for run in runs) for name in Run.__dataclass_fields__))


def _sum(steps: list[Run]) -> Run:
    return Run(
        seconds=sum(step.seconds for step in steps),
        cpu=sum(step.cpu for step in steps),
        memory=max(step.memory for step in steps),
        read=sum(step.read for step in steps),
        written=sum(step.written for step in steps),
    )


def _compare(
    arguments: argparse.Namespace, bench: Bench, bundles: list[str], label: str, tag: str, from_tag: str = ""
) -> dict[str, object]:
    """Run one add by opmkit and, where it is there, by the reference; print and give the medians."""

    def index(who: str, name: str) -> str:
        return f"{bench.host}/{who}/index:{name}"

    ours, theirs = [], []
    for _ in range(arguments.runs):
        ours.append(_opmkit_add(bench, bundles, index("ours", tag), from_index=from_tag and index("ours", from_tag)))
        if arguments.reference:
            source = from_tag and index("theirs", from_tag)
            theirs.append(_sum(_reference_add(bench, arguments.reference, bundles, index("theirs", tag), source)))
    return _both(label, ours, theirs)


def bench_add(arguments: argparse.Namespace) -> dict[str, object]:
    """All bundles in one add; those of one package; large ones; then one bundle more on the index made first."""
    packages = sorted(path.name for path in arguments.bundles.iterdir() if not path.name.startswith("syn-"))
    if arguments.reference and not shutil.which("podman"):
        raise SystemExit("the reference builds with podman, which is not installed")
    with Registry() as registry, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        work = Path(directory)
        bench = Bench(registry, work, arguments.bundles, packages)
        last = next(r for r in reversed(bench.references) if f"/{arguments.package}:" in r)
        most = [r for r in bench.references if r != last]
        one = [r for r in most if f"/{arguments.package}:" in r]
        large = bench.push(make_large_package(work / "source" / "large", LARGE))
        print(f"{len(bench.references)} bundles of {len(packages)} packages; a base image of {BASE_BYTES >> 20} MiB")
        report = {
            "all": _compare(arguments, bench, most, f"{len(most)} bundles in one add", "all"),
            "package": _compare(arguments, bench, one, f"{len(one)} bundles of {arguments.package}", "package"),
            "large": _compare(arguments, bench, large, f"{LARGE} bundles of one package, 1.3 MB each", "large"),
            "one more": _compare(arguments, bench, [last], "one bundle more, --from-index", "more", from_tag="all"),
        }
        for who in ("ours", "theirs") if arguments.reference else ("ours",):
            print(f"\nlayer of the index of all, {who}: {bench.layer_size(f'{bench.host}/{who}/index:all'):.1f} MB")
    return report


LARGE = 31


def make_large_package(package: Path, count: int, crds: int = 12) -> Path:
    """Versions with large definitions, of which two thirds stay as they are from one version to the next."""
    rng = random.Random(1)  # noqa: S311 - the same bundles each time
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randint(3, 10))) for _ in range(800)]

    def schema(depth: int) -> dict[str, object]:
        described = {"description": " ".join(rng.choices(words, k=rng.randint(6, 30)))}
        if not depth:
            return {"type": rng.choice(["string", "integer", "boolean"]), **described}
        names = ["".join(rng.sample(words, 2)) for _ in range(5)]
        members = {name: schema(depth - 1 if rng.random() < 0.75 else 0) for name in names}
        return {"type": "object", **described, "properties": members}

    def definition(number: int) -> str:
        crd = _crd(f"Kind{number}")
        crd["spec"]["versions"][0]["schema"] = {"openAPIV3Schema": schema(4)}
        return yaml.dump(crd, Dumper=yaml.CSafeDumper)

    definitions = {number: definition(number) for number in range(crds)}
    for version in range(count):
        definitions |= {number: definition(number) for number in rng.sample(range(crds), crds // 3)}
        csv = _csv(package.name, version, [f"Kind{number}" for number in definitions])
        csv["spec"]["description"] = " ".join(rng.choices(words, k=1500))
        files = {f"manifests/kind{number}.yaml": text for number, text in definitions.items()}
        _write_bundle(package, version, files | {"manifests/csv.yaml": yaml.dump(csv, Dumper=yaml.CSafeDumper)})
    return package


SIZES = (100, 300, 1000)


def bench_scale(arguments: argparse.Namespace) -> dict[str, object]:
    """One add of 100, 300 and 1000 bundles of one package, then one bundle more: seconds a bundle."""
    report: dict[str, object] = {}
    with Registry() as registry, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        work = Path(directory)
        package = make_package(work / "source" / "long", max(SIZES) + 1)
        bench = Bench(registry, work, package.parent, [package.name])
        for size in SIZES:
            programs = {"opmkit": "opm"} | ({"reference": arguments.reference} if arguments.reference else {})
            for who, program in programs.items():
                database, store = f"{who}-{size}.db", {"OPM_STORE": f"{work}/store-{size}"}
                add = [program, "registry", "add", "--use-http", "-d", database, "-b"]
                all_at_once = bench.run([*add, ",".join(bench.references[:size])], store)
                one_more = bench.run([*add, bench.references[size]], store)
                each = all_at_once.seconds / size * 1e3
                print(f"{size:5} bundles  {who:9} {each:6.2f} ms a bundle, one more {one_more.seconds:6.2f} s")
                report[f"{who} {size}"] = {"all": all_at_once.__dict__, "one more": one_more.__dict__}
    return report


def make_package(package: Path, count: int) -> Path:
    """A package of so many small versions, each of which replaces the one before."""
    for version in range(count):
        files = {"manifests/csv.yaml": json.dumps(_csv(package.name, version, ["Thing"]))}
        _write_bundle(package, version, files | {"manifests/crd.yaml": json.dumps(_crd("Thing"))})
    return package


def _crd(kind: str) -> dict[str, Any]:
    names = {"kind": kind, "plural": f"{kind.lower()}s"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.example.com"},
        "spec": {
            "group": "example.com",
            "names": names,
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }


def _csv(package: str, version: int, kinds: list[str]) -> dict[str, Any]:
    """The ClusterServiceVersion of 1.0.VERSION, which replaces the one before."""
    owned = [{"name": f"{kind.lower()}s.example.com", "version": "v1", "kind": kind} for kind in kinds]
    spec: dict[str, Any] = {"version": f"1.0.{version}", "customresourcedefinitions": {"owned": owned}}
    if version:
        spec["replaces"] = f"{package}.v1.0.{version - 1}"
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": f"{package}.v1.0.{version}"},
        "spec": spec,
    }


def _write_bundle(package: Path, version: int, files: dict[str, str]) -> None:
    prefix = "operators.operatorframework.io.bundle"
    annotations = {f"{prefix}.package.v1": package.name, f"{prefix}.channels.v1": "stable"}
    for name, text in {**files, "metadata/annotations.yaml": json.dumps({"annotations": annotations})}.items():
        path = package / f"1.0.{version}" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def bench_validate(arguments: argparse.Namespace) -> dict[str, object]:
    """All bundles by opm bundle validate: from directories and by all tags of a registry, cold and kept."""
    packages = sorted(path for path in arguments.bundles.iterdir() if not path.name.startswith("syn-"))
    directories = [str(version) for package in packages for version in _versions(package)]
    report: dict[str, object] = {}
    with Registry() as registry, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        bench = Bench(registry, Path(directory), arguments.bundles, [package.name for package in packages])
        repositories = [f"{bench.host}/bundles/{package.name}" for package in packages]
        few = bench.references[:: max(1, len(bench.references) // 40)]
        programs = [(f"directories, {profile}", profile, directories) for profile in ("all", "opm")]
        programs += [("registry, opm", "opm", repositories), ("registry, labels only", "", repositories)]
        for number, (label, profile, targets) in enumerate(programs):
            argv = ["opm", "bundle", "validate", "--use-http", "--output", "json", *targets]
            argv += ["--profile", profile] if profile else ["--labels-only"]
            for state in ("cold", "kept"):
                run = bench.run(argv, {"OPM_STORE": f"{directory}/store-{number}"}, statuses=(0, 1))
                print(f"{label:24} {state}  {len(directories) / run.seconds:7.1f} bundles a second {run}")
                report[f"{label} {state}"] = run.__dict__
        for who, program in {"opmkit": "opm", "reference": arguments.reference}.items():
            if program:
                argv = [program, "alpha", "bundle", "validate", "--image-builder", "none", "--use-http", "--tag"]
                env = {"OPM_STORE": f"{directory}/store-one-by-one"}
                runs = [bench.run([*argv, one], env, statuses=(0, 1)) for one in few]
                print(
                    f"{who}, one image a run     {len(runs) / sum(run.seconds for run in runs):7.1f} bundles a second"
                )
                report[f"{who} one by one"] = _sum(runs).__dict__
    return report


def bench_render(arguments: argparse.Namespace) -> dict[str, object]:
    """All bundles by one opm render from a registry: for the first time, and as they were kept then."""
    packages = sorted(path for path in arguments.bundles.iterdir() if not path.name.startswith("syn-"))
    report: dict[str, object] = {}
    with Registry() as registry, tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        bench = Bench(registry, Path(directory), arguments.bundles, [package.name for package in packages])
        programs = {"opmkit": "opm", "opmkit, kept": "opm"}
        programs |= {"reference": arguments.reference} if arguments.reference else {}
        for who, program in programs.items():
            argv = [program, "render", "--use-http", *bench.references]
            run = bench.run(argv, {"OPM_STORE": f"{directory}/store"})
            print(f"{who:14} {len(bench.references) / run.seconds:7.1f} bundles a second {run}")
            report[who] = run.__dict__
    return report


def bench_catalog(arguments: argparse.Namespace) -> dict[str, object]:
    """A catalog of all bundles by opm validate, in JSON and in YAML."""
    packages = [path for path in sorted(arguments.bundles.iterdir()) if not path.name.startswith("syn-")]
    bundles = [path for package in packages for path in sorted(package.iterdir()) if (path / "manifests").is_dir()]
    blobs = catalog_of(bundles)
    report: dict[str, object] = {}
    with Registry() as registry, tempfile.TemporaryDirectory() as directory:
        bench = Workbench(registry, Path(directory))
        for form, write in (("json", to_json), ("yaml", to_yaml)):
            catalog = bench.work / form
            write_catalog(blobs, catalog, form, write)
            ours, theirs = [], []
            for _ in range(arguments.runs):
                ours.append(bench.run(["opm", "validate", str(catalog)]))
                if arguments.reference:
                    theirs.append(bench.run([arguments.reference, "validate", str(catalog)]))
            report[form] = _both(f"validate, {len(blobs.bundles)} bundles in {form}", ours, theirs)
    return report


LAYERS = (96, 48, 32, 16, 8)
"""The layers of the image that is moved, in MiB: 200 together."""
MOST_MEMORY = 150


def bench_transfer(arguments: argparse.Namespace) -> dict[str, object]:
    """Push and pull of an image of 200 MiB that doesn't compress, by opmkit and by skopeo in turn."""
    runs: dict[str, tuple[list[Run], list[Run]]] = {}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        source = _large_image(Path(directory))
        for number in range(arguments.runs):
            work = Path(directory, str(number))
            work.mkdir()
            with Registry() as registry:  # a new one each time: skopeo remembers where in a registry a layer is
                for label, (ours, theirs) in _transfers(Workbench(registry, work), registry.host, source).items():
                    mine, others = runs.setdefault(label, ([], []))
                    mine.append(ours)
                    others.extend(theirs)
            if LayoutRepository(work / "ours").resolve("1") != LayoutRepository(source).resolve("1"):
                raise SystemExit("what came back is another image")
            shutil.rmtree(work)
    report: dict[str, object] = {label: _both(label, *both, "skopeo") for label, both in runs.items()}
    memory = max(run.memory for ours, _ in runs.values() for run in ours)
    if memory > MOST_MEMORY:
        raise SystemExit(f"opmkit took {memory:.0f} MB of memory, more than {MOST_MEMORY}")
    return report


def _large_image(directory: Path) -> Path:
    """An OCI layout with the image under the tag ``1``."""
    noise = directory / "noise"
    layers = []
    for number, size in enumerate(LAYERS):
        noise.write_bytes(os.urandom(size << 20))
        layers.append(write_layer([LayerFile(f"data/{number}", noise)], directory))
    copy_image(Image.scratch().append(layers), LayoutRepository(directory / "source"), "1")
    for path in (noise, *(layer.path for layer in layers)):
        path.unlink()
    return directory / "source"


def _transfers(bench: Workbench, host: str, source: Path) -> dict[str, tuple[Run, list[Run]]]:
    """Each transfer by opmkit and, where it is installed, by skopeo, which has no store of its own.

    They go to the registry at ``host`` without the meter, which would take part of the machine that is shared.
    """
    ours, theirs, again = (f"{host}/{name}/image:1" for name in ("ours", "theirs", "again"))
    image = ["opm", "image"]
    store = {"OPM_STORE": str(bench.work / "store")}

    def skopeo(*arguments: str) -> list[Run]:
        return [bench.run(["skopeo", "copy", "--insecure-policy", *arguments])] if shutil.which("skopeo") else []

    push = bench.run([*image, "copy", "--use-http", f"oci:{source}:1", ours])
    skopeo_push = skopeo("--dest-tls-verify=false", f"oci:{source}:1", f"docker://{theirs}")
    pull = bench.run([*image, "copy", "--use-http", ours, f"oci:{bench.work}/ours:1"])
    skopeo_pull = skopeo("--src-tls-verify=false", f"docker://{theirs}", f"oci:{bench.work}/theirs:1")
    return {
        "push from a layout": (push, skopeo_push),
        "pull to a layout": (pull, skopeo_pull),
        "pull to the store": (bench.run([*image, "pull", "--use-http", ours], store), skopeo_pull),
        "push from the store": (bench.run([*image, "push", "--use-http", ours, again], store), skopeo_push),
    }


def main() -> None:
    """Read the command line and run one benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    commands = parser.add_subparsers(required=True)
    add = commands.add_parser("add", help=bench_add.__doc__)
    add.add_argument("--bundles", type=Path, default=SHARED / "corpus" / "bundles", help="PACKAGE/VERSION directories")
    add.add_argument("--package", default="multicluster-operators-subscription", help="one to add alone")
    add.add_argument("--reference", metavar="OPM", default=os.environ.get("OPMKIT_REFERENCE_OPM"))
    add.add_argument("--runs", type=int, default=1)
    add.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file as well")
    add.set_defaults(bench=bench_add)
    scale = commands.add_parser("scale", help=bench_scale.__doc__)
    scale.add_argument("--reference", metavar="OPM", default=os.environ.get("OPMKIT_REFERENCE_OPM"))
    scale.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file as well")
    scale.set_defaults(bench=bench_scale)
    validate = commands.add_parser("validate", help=bench_validate.__doc__)
    validate.add_argument("--bundles", type=Path, default=SHARED / "corpus" / "bundles")
    validate.add_argument("--reference", metavar="OPM", default=os.environ.get("OPMKIT_REFERENCE_OPM"))
    validate.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file as well")
    validate.set_defaults(bench=bench_validate)
    render = commands.add_parser("render", help=bench_render.__doc__)
    render.add_argument("--bundles", type=Path, default=SHARED / "corpus" / "bundles")
    render.add_argument("--reference", metavar="OPM", default=os.environ.get("OPMKIT_REFERENCE_OPM"))
    render.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file as well")
    render.set_defaults(bench=bench_render)
    catalog = commands.add_parser("catalog", help=bench_catalog.__doc__)
    catalog.add_argument("--bundles", type=Path, default=SHARED / "corpus" / "bundles")
    catalog.add_argument("--reference", metavar="OPM", default=os.environ.get("OPMKIT_REFERENCE_OPM"))
    catalog.add_argument("--runs", type=int, default=5)
    catalog.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file as well")
    catalog.set_defaults(bench=bench_catalog)
    transfer = commands.add_parser("transfer", help=bench_transfer.__doc__)
    transfer.add_argument("--runs", type=int, default=3)
    transfer.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file as well")
    transfer.set_defaults(bench=bench_transfer)
    serve = commands.add_parser("serve", help=bench_serve.__doc__)
    serve.add_argument("--bundles", type=Path, default=SHARED / "corpus" / "bundles")
    serve.add_argument("--reference", metavar="OPM", default=os.environ.get("OPMKIT_REFERENCE_OPM"))
    serve.add_argument("--runs", type=int, default=5)
    serve.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file as well")
    serve.set_defaults(bench=bench_serve)
    served = commands.add_parser("serve-catalog", help=bench_serve_catalog.__doc__)
    served.add_argument("--bundles", type=Path, default=SHARED / "corpus" / "bundles")
    served.add_argument("--reference", metavar="OPM", default=os.environ.get("OPMKIT_REFERENCE_OPM"))
    served.add_argument("--runs", type=int, default=5)
    served.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file as well")
    served.set_defaults(bench=bench_serve_catalog)
    soak = commands.add_parser("soak", help=bench_soak.__doc__)
    soak.add_argument("--bundles", type=Path, default=SHARED / "corpus" / "bundles")
    soak.add_argument("--seconds", type=float, default=1800)
    soak.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file as well")
    soak.set_defaults(bench=bench_soak)
    arguments = parser.parse_args()
    report = arguments.bench(arguments)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main())
