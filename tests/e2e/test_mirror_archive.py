"""``opm mirror`` to archives and directories that are carried to another network, and loaded there."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import tarfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from opmkit.imagetools.archive import growing
from opmkit.imagetools.image import load_image_or_index
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.spec import sha256_digest
from opmkit.supply.mirror.model import digest_tag
from opmkit.supply.mirror.record import MirrorRecord, is_record_tag, read_records
from tests.kit.mirror_site import MirrorSite, SampleBundle
from tests.kit.opm import run
from tests.kit.registry import Registry
from tests.kit.requirements import require

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.kit.opm import Opm

ARCHIVE = "oci-archive:mirror.tar"


@dataclass(frozen=True)
class Network:
    """A catalog in a registry, the command, and the prefixes of two mirrors in a registry behind an air gap."""

    site: MirrorSite
    opm: Opm
    catalog: str
    bundles: list[SampleBundle]
    direct: str
    carried: str

    @property
    def directory(self) -> Path:
        return self.opm.directory


@pytest.fixture(scope="module")
def target() -> Iterator[Registry]:
    """Start a registry that is behind an air gap."""
    with Registry() as started:
        yield started


@pytest.fixture
def network(opm_http: Opm, registry: Registry, target: Registry, tmp_path: Path) -> Network:
    prefix = f"src-{tmp_path.name.replace('_', '-').lower()}"
    site = MirrorSite(registry.host, prefix, tmp_path)
    fish, kelp = site.push_operand("team/fish", 31), site.push_operand("kelp", 32)
    bundles = [
        SampleBundle("reef", "1.0.0", site.push_bundle("reef-bundle", 1), [fish, kelp.replace("@", ":1@")]),
        SampleBundle("atoll", "0.1.0", site.push_bundle("atoll-bundle", 2), [f"{kelp.partition('@')[0]}:1"]),
    ]
    direct, carried = (f"{target.host}/{name}-{prefix}" for name in ("direct", "carried"))
    return Network(site, opm_http, site.push_catalog(bundles), bundles, direct, carried)


def tags_below(prefix: str, target: Registry) -> dict[str, str]:
    """Return the digests of all tags of the repositories below a prefix, by repository and tag without the prefix.

    Records name repositories with the prefix, and are left out.
    """
    path = prefix.partition("/")[2]
    root = target.path / "data" / "docker" / "registry" / "v2" / "repositories" / path
    return {
        f"{link.parents[4].relative_to(root)}:{link.parents[1].name}": link.read_text()
        for link in root.rglob("_manifests/tags/*/current/link")
        if not is_record_tag(link.parents[1].name)
    }


def recorded(prefix: str, network: Network) -> MirrorRecord:
    """Return the record of the catalog in a mirror, without the prefix."""
    name = f"{prefix}/{network.catalog.partition('/')[2].rpartition(':')[0]}"
    with RegistryClient(RegistryOptions(plain_http=True)) as client:
        record = read_records(client.target(Reference.parse(name)))["catalog:1"]
    path = f"{prefix.partition('/')[2]}/"
    return replace(
        record, images=tuple(replace(each, repository=each.repository.removeprefix(path)) for each in record.images)
    )


@pytest.mark.parametrize("to", [ARCHIVE, "./carried"])
def test_carried_mirror_equals_a_direct_one(network: Network, target: Registry, to: str) -> None:
    done = network.opm.attempt("mirror", network.catalog, "--to", to)
    assert done.returncode == 0, done.stderr
    path = to.removeprefix("oci-archive:")
    loaded = network.opm.attempt("mirror", path, "--to", network.carried, "--manifests", "cluster")
    assert loaded.returncode == 0, loaded.stderr
    assert "images copied (" in loaded.stderr
    direct = network.opm("mirror", network.catalog, "--to", network.direct, "--manifests", "direct-cluster")
    assert loaded.stdout == direct.replace(network.direct, network.carried)
    assert tags_below(network.carried, target) == tags_below(network.direct, target) != {}
    assert recorded(network.carried, network) == recorded(network.direct, network)
    for name in ("idms-operator.yaml", "itms-operator.yaml", "registries.conf", "cs-catalog-1.yaml"):
        expected = (network.directory / "direct-cluster" / name).read_text()
        written = (network.directory / "cluster" / name).read_text()
        assert written == expected.replace(network.direct, network.carried)
    again = json.loads(network.opm("mirror", path, "--to", network.carried, "-o", "json"))
    assert {image["status"] for image in again["images"]} == {"present"}


def test_archive_is_read_by_other_tools_and_unchanged_by_a_second_run(network: Network, tmp_path: Path) -> None:
    skopeo = require("skopeo")
    network.opm("mirror", network.catalog, "--to", ARCHIVE)
    archive = network.directory / "mirror.tar"
    assert not (network.directory / "mirror.tar.partial").exists()
    before = archive.read_bytes()
    again = network.opm.attempt("mirror", network.catalog, "--to", ARCHIVE)
    assert (archive.read_bytes() == before, "mirror.tar: unchanged" in again.stderr) == (True, True)
    fish = Reference.parse(network.bundles[0].images[0])
    name = f"oci-archive:{archive}:{fish.name}:{digest_tag(str(fish.digest))}"
    command = [skopeo, "--insecure-policy", "copy", "--all", name, f"dir:{tmp_path}/copy"]
    subprocess.run(command, capture_output=True, check=True)
    assert sha256_digest((tmp_path / "copy" / "manifest.json").read_bytes()) == fish.digest


def test_extended_archive_has_the_images_of_both_runs(network: Network, target: Registry) -> None:
    network.opm("mirror", network.catalog, "atoll", "--to", ARCHIVE, "--target-catalog", "me/atoll:1")
    network.opm("mirror", network.catalog, "--to", ARCHIVE)
    network.opm("mirror", "mirror.tar", "--to", network.carried)
    tags = tags_below(network.carried, target)
    assert {"me/atoll:1", f"{network.site.prefix}/catalog:1"} <= tags.keys()


def test_selected_platforms_are_loaded(network: Network) -> None:
    network.opm("mirror", network.catalog, "--to", ARCHIVE, "--platform", "linux/arm64")
    plan = json.loads(network.opm("mirror", "mirror.tar", "--to", network.carried, "--dry-run", "-o", "json"))
    assert (len(plan["images"]), plan["failures"]) == (6, [])
    with RegistryClient(RegistryOptions(plain_http=True)) as client:
        index = load_image_or_index(client.repository(Reference.parse(network.catalog)), "1")
    assert plan["catalog"]["digest"] == index.digest


def test_incremental_archives(network: Network, target: Registry) -> None:
    have = ("--have", "state/carried.json")
    network.opm("mirror", network.catalog, "--to", "oci-archive:1.tar", *have)
    site = network.site
    crab = site.push_operand("crab", 33)
    bundles = [*network.bundles, SampleBundle("cove", "0.1.0", site.push_bundle("cove-bundle", 3), [crab])]
    catalog = site.push_catalog(bundles, "2")
    network.opm("mirror", catalog, "--to", "oci-archive:2.tar", *have)
    with tarfile.open(network.directory / "2.tar") as archive:
        (description,) = [json.load(archive.extractfile(each)) for each in archive if each.name == "mirror.json"]  # type: ignore[arg-type]
        blobs = {name for name in archive.getnames() if name.startswith("blobs/")}
    names = [image["name"].rpartition("/")[2].partition(":")[0] for image in description["images"]]
    assert {"catalog", "cove-bundle", "crab"} <= set(names)
    assert {"fish", "reef-bundle"}.isdisjoint(names)
    assert description["omitted"]
    assert not {f"blobs/{digest.replace(':', '/')}" for digest in description["omitted"]} & blobs
    early = network.opm.attempt("mirror", "2.tar", "--to", f"{target.host}/early")
    assert early.returncode == 1, early.stderr
    assert "load the earlier archives into the same target first" in early.stderr
    network.opm("mirror", "1.tar", "--to", network.carried)
    network.opm("mirror", "2.tar", "--to", network.carried)
    for each in (network.catalog, catalog):
        network.opm("mirror", each, "--to", network.direct)
    assert tags_below(network.carried, target) == tags_below(network.direct, target)


def test_killed_command_leaves_no_archive_and_the_next_one_continues(network: Network, registry: Registry) -> None:
    big = network.site.push_operand("whale", 34, 4_000_000)
    catalog = network.site.push_catalog([SampleBundle("sea", "1.0.0", network.bundles[0].image, [big])], "3")
    argv = network.opm.argv("mirror", catalog, "--to", ARCHIVE, "--workers", "1")
    partial, archive = network.directory / "mirror.tar.partial", network.directory / "mirror.tar"
    with subprocess.Popen(argv, cwd=network.directory, stderr=subprocess.PIPE) as process:
        while not (partial.exists() and partial.stat().st_size > 4_000_000) and process.poll() is None:
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
    assert (partial.exists(), archive.exists()) == (True, False)
    before = len(registry.requests())
    network.opm("mirror", catalog, "--to", ARCHIVE)
    assert (partial.exists(), archive.exists()) == (False, True)
    read = [each for each in registry.requests()[before:] if each.method == "GET" and "/blobs/" in each.path]
    assert sum(each.size for each in read) < 8_500_000
    done = json.loads(network.opm("mirror", "mirror.tar", "--to", network.carried, "-o", "json"))
    assert {image["status"] for image in done["images"]} == {"copied"}


def test_two_commands_do_not_write_the_same_archive(
    network: Network, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import fcntl

    monkeypatch.chdir(network.directory)
    monkeypatch.setattr(growing, "LOCK_TIMEOUT_SECONDS", 0.1)
    with (network.directory / "mirror.tar.partial").open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        status = run(["mirror", network.catalog, "--to", ARCHIVE, *network.opm.flags])
    assert (status, "another process is writing this archive" in capsys.readouterr().err) == (1, True)


def run_together(network: Network, *commands: tuple[str, ...]) -> list[tuple[int, str]]:
    """Run commands at the same time, and return their exit codes and messages."""
    started = [
        subprocess.Popen(
            network.opm.argv(*command),
            cwd=network.directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for command in commands
    ]
    return [(process.returncode, stderr) for process in started for stderr in [process.communicate(timeout=120)[1]]]


def described_catalogs(network: Network, path: str) -> set[str]:
    """Return the names of the catalogs in a mirror on disk, without their registry."""
    location = network.directory / path
    if location.is_dir():
        description = json.loads((location / "mirror.json").read_bytes())
    else:
        with tarfile.open(location) as archive:
            description = json.load(archive.extractfile("mirror.json"))  # type: ignore[arg-type]
    names = [image["name"] for image in description["images"] if image.get("catalog")]
    return {name.partition("/")[2] for name in names}


@pytest.mark.parametrize("to", [ARCHIVE, "./carried"])
def test_commands_at_the_same_time_lose_no_catalog(network: Network, to: str) -> None:
    names = [f"me/{package}:{number}" for number in range(3) for package in ("reef", "atoll")]
    for reef, atoll in zip(names[::2], names[1::2], strict=True):
        commands = [
            ("mirror", network.catalog, package, "--to", to, "--target-catalog", name)
            for package, name in (("reef", reef), ("atoll", atoll))
        ]
        assert [code for code, _ in run_together(network, *commands)] == [0, 0]
    assert described_catalogs(network, to.removeprefix("oci-archive:")) == set(names)
    loaded = network.opm.attempt("mirror", to.removeprefix("oci-archive:"), "--to", network.carried)
    assert loaded.returncode == 0, loaded.stderr


def test_record_of_archives_written_at_the_same_time_has_all_images(network: Network) -> None:
    for number in range(3):
        commands = [
            (
                *("mirror", network.catalog, package, "--to", f"oci-archive:{package}-{number}.tar"),
                *("--target-catalog", f"me/{package}:{number}", "--have", "carried.json"),
            )
            for package in ("reef", "atoll")
        ]
        assert [code for code, _ in run_together(network, *commands)] == [0, 0]
    carried = {
        name.partition("/")[2] for name in json.loads((network.directory / "carried.json").read_bytes())["images"]
    }
    assert {f"me/{package}:{number}" for package in ("reef", "atoll") for number in range(3)} <= carried


def rewrite(path: Path, change: Callable[[str, bytes], bytes | None], *more: tarfile.TarInfo) -> None:
    """Rewrite the members of an archive; None removes one."""
    output = io.BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=output, mode="w") as new:
        for member in old:
            content = old.extractfile(member)
            assert content is not None
            data = change(member.name, content.read())
            if data is not None:
                member.size = len(data)
                new.addfile(member, io.BytesIO(data))
        for member in more:
            new.addfile(member)
    path.write_bytes(output.getvalue())


def _edit(**fields: object) -> Callable[[str, bytes], bytes]:
    """Return a change of fields of the first image in the description."""

    def change(name: str, data: bytes) -> bytes:
        if name != "mirror.json":
            return data
        document = json.loads(data)
        document["images"][0] |= fields
        return json.dumps(document).encode()

    return change


def _link(name: str, target: str) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    return info


@pytest.mark.parametrize(
    ("change", "more", "message"),
    [
        (lambda name, data: data[:-1] + b"x" if len(data) > 1500 and "blobs" in name else data, (), "mismatch"),
        (lambda name, data: None if len(data) > 1500 and "blobs" in name else data, (), "not found"),
        (lambda name, data: data[:40] if name == "mirror.json" else data, (), "mirror.json: invalid JSON"),
        (_edit(name="../../etc/passwd"), (), "invalid image reference"),
        (_edit(name="quay.io/me/app"), (), "mirror.json.images[0].name: expected a name with a tag"),
        (_edit(digest="sha256:../x"), (), "invalid digest"),
        (_edit(digest=f"sha256:{'0' * 64}"), (), "reserved for another digest"),
        (_edit(platforms=[7]), (), "mirror.json.images[0].platforms[0]: expected a string"),
        (lambda _, data: data, (_link("../evil", "/etc/passwd"),), "points outside the archive"),
        (lambda _, data: data, (tarfile.TarInfo("mirror.json"),), "duplicate member"),
    ],
    ids=["damaged", "missing", "truncated", "name", "tag", "digest", "unknown image", "type", "path", "duplicate"],
)
def test_hostile_archives_are_rejected(
    network: Network,
    target: Registry,
    change: Callable[[str, bytes], bytes | None],
    more: tuple[tarfile.TarInfo, ...],
    message: str,
) -> None:
    network.opm("mirror", network.catalog, "atoll", "--to", ARCHIVE, "--target-catalog", "me/atoll:1")
    rewrite(network.directory / "mirror.tar", change, *more)
    done = network.opm.attempt("mirror", "mirror.tar", "--to", network.carried)
    assert (done.returncode, done.stdout) == (1, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "me/atoll:1" not in tags_below(network.carried, target)


def test_links_in_archives_stay_inside(network: Network) -> None:
    network.opm("mirror", network.catalog, "atoll", "--to", ARCHIVE, "--target-catalog", "me/atoll:1")
    secret = network.directory / "secret"
    secret.write_bytes(b"secret")
    blob = f"blobs/{sha256_digest(b'secret').replace(':', '/')}"
    rewrite(network.directory / "mirror.tar", lambda _, data: data, _link(blob, str(secret)))
    network.opm("mirror", "mirror.tar", "--to", network.carried)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("mirror.tar", "--to", "./dir"), "can only be loaded into a registry"),
        (("mirror.tar", "reef", "--to", "localhost:1"), "packages cannot be selected"),
        (("mirror.tar", "--to", "localhost:1", "--platform", "linux/amd64"), "--platform cannot be used"),
        (("localhost:1/catalog", "--to", "localhost:1", "--have", "x"), "--have requires oci-archive:FILE"),
        (("localhost:1/catalog", "--to", "oci-archive:other"), "other: refusing to overwrite: it is not the archive"),
    ],
)
def test_unsupported_combinations(opm_http: Opm, arguments: tuple[str, ...], message: str) -> None:
    for name, members in (
        ("mirror.tar", {"mirror.json": b'{"version":1,"images":[]}', "oci-layout": b"{}"}),
        ("other", {}),
    ):
        with tarfile.open(opm_http.directory / name, "w") as archive:
            for member, content in members.items():
                info = tarfile.TarInfo(member)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    done = opm_http.attempt("mirror", *arguments)
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr
