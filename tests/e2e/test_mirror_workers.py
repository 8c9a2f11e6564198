"""``opm mirror`` by workers and in shards: the results are those of one process."""

from __future__ import annotations

import json
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.kit.faults import Answer, Delay, Fault, FaultProxy
from tests.kit.foreground import start_command, wait_for
from tests.kit.images import small_image
from tests.kit.mirror_site import MirrorSite, SampleBundle, digest_at, images_of, incomplete_tags

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.kit.dask_cluster import DaskCluster
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

SHARDS = 3
EXECUTORS = ("dask", "processes:2")


@dataclass(frozen=True)
class Site:
    """A catalog, and a second name of its registry, which mirrors are written to: it mounts nothing from the first."""

    catalog: str
    bundles: list[SampleBundle]
    target: FaultProxy

    def to(self, name: str) -> str:
        return f"{self.target.host}/{name}"

    def mirrored_catalog(self, name: str) -> str:
        return f"{self.to(name)}/{self.catalog.partition('/')[2]}"

    def images_at(self, name: str) -> list[str]:
        """Return the names of the images of the bundles in a mirror."""
        return [f"{self.to(name)}/{image.partition('/')[2]}" for image in images_of(self.bundles)]


@pytest.fixture(scope="module")
def _site(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Push a catalog with four bundles that share operands, one of which is signed."""
    site = MirrorSite(registry.host, "src-workers", tmp_path_factory.mktemp("site"))
    bundles = site.sample()
    operands = bundles[0].images
    for patch in range(3):
        bundle = site.push_bundle("cove-bundle", 20 + patch)
        bundles.append(SampleBundle("cove", f"1.0.{patch}", bundle, [operands[patch % 2]]))
    digest = operands[0].partition("@")[2].replace(":", "-")
    site.push("team/fish", f"{digest}.sig", small_image(site.scratch, {"signature": b"signed"}))
    with FaultProxy(registry.host) as target:
        yield Site(site.push_catalog(bundles), bundles, target)


@pytest.fixture
def site(_site: Site) -> Iterator[Site]:
    yield _site
    _site.target.faults.clear()


def executor_of(cluster: DaskCluster, kind: str) -> str:
    return cluster.executor if kind == "dask" else kind


def files_in(directory: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in directory.iterdir()}


@pytest.mark.parametrize("kind", EXECUTORS)
def test_mirror_by_workers_equals_that_of_one_process(
    opm_http: Opm, dask_cluster: DaskCluster, site: Site, kind: str
) -> None:
    ours, alone = f"workers-{kind[:4]}", f"process-{kind[:4]}"  # of equal length, as sizes of files are printed
    executor = ("--executor", executor_of(dask_cluster, kind))
    for more in (("--dry-run",), ("--manifests", "cluster")):
        runs = {}
        for name, flags in ((alone, ()), (ours, executor)):
            done = opm_http.attempt("mirror", site.catalog, "--to", site.to(name), "-o", "json", *more, *flags)
            assert done.returncode == 0, done.stderr
            manifests = files_in(opm_http.directory / "cluster") if "--manifests" in more else {}
            runs[name] = json.dumps([done.stdout, done.stderr, manifests]).replace(name, "NAME")
        assert runs[ours] == runs[alone]
    assert all(digest_at(image) for image in site.images_at(ours))
    again = opm_http.attempt("mirror", site.catalog, "--to", site.to(ours), *executor)
    assert again.stdout == f"{site.mirrored_catalog(ours)}@{digest_at(site.catalog)}\n"
    assert again.stderr == "0 images copied (0 B), 9 already present, 0 failed\n"


def test_killed_workers_lose_nothing(opm_http: Opm, dask_cluster: DaskCluster, site: Site, registry: Registry) -> None:
    delay = Fault("HEAD", "/v2/killed/.*/blobs/", Delay(0.3), times=99)
    site.target.faults.append(delay)
    command = ("mirror", site.catalog, "--to", site.to("killed"), "--executor", dask_cluster.executor)
    process = start_command(opm_http, *command)
    wait_for(lambda: delay.matched > 4)
    dask_cluster.replace_workers()
    delay.times = 0
    output, errors = process.communicate(timeout=60)
    assert (output, process.returncode) == (f"{site.mirrored_catalog('killed')}@{digest_at(site.catalog)}\n", 0), errors
    assert errors.startswith("9 images copied (")
    assert all(digest_at(image) for image in site.images_at("killed"))
    assert incomplete_tags(registry.host, "killed/") == []


def test_signal_leaves_no_catalog(opm_http: Opm, dask_cluster: DaskCluster, site: Site) -> None:
    delay = Fault("HEAD", "/v2/stopped/.*/blobs/", Delay(2), times=99)
    site.target.faults.append(delay)
    command = ("mirror", site.catalog, "--to", site.to("stopped"), "--executor", dask_cluster.executor)
    process = start_command(opm_http, *command)
    wait_for(lambda: delay.matched)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert (output, process.returncode) == ("", 128 + signal.SIGINT)
    assert errors.endswith("Error: interrupted by SIGINT\n")
    assert not digest_at(site.mirrored_catalog("stopped"))


@pytest.mark.parametrize("kind", EXECUTORS)
def test_failures_equal_those_of_one_process(opm_http: Opm, dask_cluster: DaskCluster, site: Site, kind: str) -> None:
    executor, name = ("--executor", executor_of(dask_cluster, kind)), f"failing-{kind[:4]}"
    fish = site.bundles[0].images[0].partition("@")[2]
    site.target.faults.append(Fault("PUT", f"/v2/{name}/.*/manifests/.*{fish[7:]}", Answer(400), times=99))
    command = ("mirror", site.catalog, "--to", site.to(name), "--no-signatures")
    results = []
    for flags in ((), ("--continue",)):
        alone, by_workers = opm_http.attempt(*command, *flags), opm_http.attempt(*command, *flags, *executor)
        for done in (alone, by_workers):
            assert "team/fish@" in done.stderr
            results.append((done.stdout, done.stderr.partition("failed\n")[2], done.returncode))
    assert results[0] == results[1]
    assert results[2] == results[3]
    assert [result[2] for result in results] == [1, 1, 5, 5]


def test_credentials_are_only_sent_if_told(
    opm_http: Opm, dask_cluster: DaskCluster, basic_registry: Registry, site: Site
) -> None:
    authfile = opm_http.directory / "auth.json"
    authfile.write_text(json.dumps({"auths": {basic_registry.host: {"auth": "dGVzdGVyOnNlY3JldA=="}}}))
    command = ("mirror", site.catalog, "--to", f"{basic_registry.host}/private", "--authfile", str(authfile))
    executor = ("--executor", dask_cluster.executor)
    denied = opm_http.attempt(*command, *executor)
    assert (denied.returncode, denied.stdout) == (1, "")
    assert "the registry requires credentials" in denied.stderr
    sent = opm_http.attempt(*command, *executor, "--executor-credentials", str(authfile))
    assert sent.returncode == 0, sent.stderr


def run_shards(opm: Opm, source: str, to: str) -> list[dict[str, Any]]:
    """Mirror all shards, and return their results."""
    command = ("mirror", source, "--to", to, "-o", "json")
    return [json.loads(opm(*command, "--shard", f"{index}/{SHARDS}")) for index in range(1, SHARDS + 1)]


def test_shards_copy_all_images_but_not_the_catalog(opm_http: Opm, site: Site) -> None:
    command = ("mirror", site.catalog, "--manifests", "cluster", "--to")
    alone = opm_http(*command, site.to("in-one"))
    files = files_in(opm_http.directory / "cluster")
    shards = run_shards(opm_http, site.catalog, site.to("shards"))
    assert [(shard["catalog"], shard["failures"]) for shard in shards] == [(None, [])] * SHARDS
    sources = [image["source"] for shard in shards for image in shard["images"]]
    assert len(sources) == len(set(sources)) == 8
    assert not digest_at(site.mirrored_catalog("shards"))
    done = opm_http.attempt(*command, site.to("shards"))
    assert done.stdout == alone.replace("in-one", "shards")
    assert done.stderr.startswith("1 image copied (")
    assert files_in(opm_http.directory / "cluster") == {
        file: text.replace("in-one", "shards") for file, text in files.items()
    }


def test_shards_of_an_archive(opm_http: Opm, site: Site) -> None:
    opm_http("mirror", site.catalog, "--to", "oci-archive:mirror.tar")
    shards = run_shards(opm_http, "mirror.tar", site.to("archive"))
    assert sum(len(shard["images"]) for shard in shards) == 8
    assert not digest_at(site.mirrored_catalog("archive"))
    done = opm_http.attempt("mirror", "mirror.tar", "--to", site.to("archive"))
    assert done.stdout == f"{site.mirrored_catalog('archive')}@{digest_at(site.catalog)}\n"
    assert done.stderr.startswith("1 image copied (")


def test_directories_and_archives_are_not_distributed(opm_http: Opm) -> None:
    message = " requires a registry as the target: a directory or archive is written by one process\n"
    for flag, value in (("--executor", "processes"), ("--shard", "1/2")):
        for to in ("oci-archive:mirror.tar", "./mirror"):
            done = opm_http.attempt("mirror", "example.com/catalog:1", "--to", to, flag, value)
            hint = f"  hint: mirror to a registry, or omit {flag}\n"
            assert (done.returncode, done.stderr) == (1, f"Error: {flag}{message}{hint}")
    done = opm_http.attempt(
        "mirror", "example.com/catalog:1", "--to", "example.com", "--shard", "1/2", "--manifests", "cluster"
    )
    assert "pass --manifests to the command without --shard that copies the catalog" in done.stderr
