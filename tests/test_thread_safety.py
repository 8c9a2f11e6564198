"""Threads share the public API, its instances are independent, and it leaves the state of the process alone."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING, Any

import pytest

from opmkit import CatalogClient, ImageToolsError, IndexPlan, Opm, RegistryOptions, to_json
from tests.kit.catalogs import write_library
from tests.kit.opm import LAGOON
from tests.kit.server import Server

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.kit.registry import Registry

THREADS = 8

PROGRAM = """
import json, logging, os, signal, sys, threading, urllib.request, warnings
from pathlib import Path

import grpc, requests  # they change the filters of warnings
import opmkit

def state():
    mask = os.umask(0)
    os.umask(mask)
    return {
        "environment": dict(os.environ),
        "directory": os.getcwd(),
        "umask": mask,
        "signals": [str(signal.getsignal(number)) for number in sorted(signal.valid_signals())],
        "loggers": [(name, str(logging.getLogger(name).handlers), logging.getLogger(name).level)
                    for name in (None, "sigstore", "urllib3", "requests")],
        "opmkit": (logging.getLogger("opmkit").level, logging.getLogger("opmkit").propagate),
        "warnings": list(map(str, warnings.filters)),
        "hooks": list(map(str, (sys.excepthook, sys.unraisablehook, threading.excepthook))),
        "recursion": sys.getrecursionlimit(),
        "threads": threading.active_count(),
    }

before = state()
manifests, host = Path(sys.argv[1]), sys.argv[2]
opm = opmkit.Opm(opmkit.RegistryOptions(verify_tls=False))
options = {"package": "lagoon-operator", "channels": ["alpha"], "output": Path("bundle")}
bundle = opm.build_bundle(manifests, f"{host}/process/bundle:1", push=True, **options).reference
(result,) = opm.validate_bundles([bundle])
assert not result.error, result.error
opm.add_bundles([bundle], opmkit.IndexPlan(tags=(f"{host}/process/index:1",), binary_image="scratch", push=True))
opmkit.to_json(opm.render([f"{host}/process/index:1"]))
try:
    opm.open_index(f"{host}/process/index:missing")
except opmkit.OpmkitError:
    pass
logging.getLogger("opmkit.imagetools").warning("not printed")
after = state()
print(json.dumps({key: [before[key], after[key]] for key in before if before[key] != after[key]}))
print(logging.getLogger("opmkit").handlers)
"""


def in_threads(call: Callable[[int], Any], count: int = THREADS) -> list[Any]:
    """Call a function in threads that begin at the same time, and return the results."""
    barrier = Barrier(count)

    def run(number: int) -> Any:
        barrier.wait(30)
        return call(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


def push_bundle(opm: Opm, image: str, directory: Path) -> str:
    """Push the bundle of the sample operator and return its name with its digest."""
    return opm.build_bundle(
        LAGOON / "0.1.0" / "manifests",
        image,
        package="lagoon-operator",
        channels=["alpha"],
        output=directory,
        push=True,
    ).reference


def test_threads_share_an_instance(registry: Registry, tmp_path: Path) -> None:
    opm = Opm(RegistryOptions(plain_http=True), tmp_path / "store")

    def publish(number: int) -> tuple[str, list[Any], str]:
        bundle = push_bundle(opm, f"{registry.host}/threads/bundle-{number}:1", tmp_path / f"bundle-{number}")
        findings = [finding.to_dict() for result in opm.validate_bundles([bundle]) for finding in result.findings]
        image = f"{bundle}=quay.io/me/lagoon-operator:0.1.0"
        tag = f"{registry.host}/threads/index-{number}:1"
        built = opm.add_bundles([image], IndexPlan(tags=(tag,), binary_image="scratch", push=True))
        assert opm.open_index(tag).catalog().packages.keys() == {"lagoon-operator"}
        return bundle.partition("@")[2], findings, built.digest

    alone = publish(THREADS)
    assert alone[1]
    assert in_threads(publish) == [alone] * THREADS


def test_threads_build_the_same_bundle(tmp_path: Path) -> None:
    opm = Opm(store=tmp_path / "store")

    def build(number: int) -> str:
        return opm.build_bundle(
            LAGOON / "0.1.0" / "manifests",
            f"oci:{tmp_path}/images:{number}",
            package="lagoon-operator",
            channels=["alpha"],
            output=tmp_path / "bundle",
        ).digest

    assert in_threads(build) == [build(THREADS)] * THREADS
    names = [path.name for path in (tmp_path / "bundle").rglob("*") if path.name.startswith(".")]
    assert not names


def test_threads_share_a_client(tmp_path: Path) -> None:
    write_library(tmp_path / "index.db")
    with (
        Server("--database", str(tmp_path / "index.db")) as server,
        CatalogClient.connect(server.address) as client,
    ):

        def query(_: int) -> list[Any]:
            bundles = sorted((bundle.to_dict() for _ in range(5) for bundle in client.list_bundles()), key=str)
            return [sorted(client.list_packages()), client.get_package("shelf").name, bundles]

        results = in_threads(query)
    assert results[0][0] == ["book", "shelf"]
    assert results == [results[0]] * THREADS


def test_instances_with_other_options_do_not_affect_each_other(
    registry: Registry, tls_registry: Registry, tmp_path: Path
) -> None:
    plain = Opm(RegistryOptions(plain_http=True), tmp_path / "plain")
    trusting = Opm(RegistryOptions(ca_file=tls_registry.ca_file), tmp_path / "trusting")
    distrusting = Opm(store=tmp_path / "distrusting")
    for opm, host in ((plain, registry.host), (trusting, tls_registry.host)):
        push_bundle(opm, f"{host}/instances/bundle:1", tmp_path / "bundle")

    def read(number: int) -> str:
        opm, host = ((plain, registry.host), (trusting, tls_registry.host))[number % 2]
        with pytest.raises(ImageToolsError, match="certificate"):
            distrusting.open_index(f"{tls_registry.host}/instances/bundle:1")
        return to_json(opm.render([f"{host}/instances/bundle:1"])).decode().replace(host, "HOST")

    documents = in_threads(read)
    assert "lagoon-operator" in documents[0]
    assert documents == [documents[0]] * THREADS
    assert (tmp_path / "plain").is_dir()
    assert (tmp_path / "trusting").is_dir()


def test_instances_are_created_once(tmp_path: Path) -> None:
    opm = Opm(store=tmp_path)
    assert len({id(tool) for tool in in_threads(lambda _: opm._tool)}) == 1
    assert opm == Opm(store=tmp_path)
    assert hash(opm) == hash(Opm(store=tmp_path))


def test_the_state_of_the_process_is_left_alone(tls_registry: Registry, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, LAGOON / "0.1.0" / "manifests", tls_registry.host],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    changes, handlers = done.stdout.splitlines()
    assert json.loads(changes) == {}
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]
    assert handlers == "[<NullHandler (NOTSET)>]"
    assert done.stderr == ""
