"""Images and bundles of transports other than registries, in all commands."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.store import LayoutRepository
from tests.kit.engines import skopeo
from tests.kit.images import multi_image, small_image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.engines import DockerDaemon, Engine
    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

KINDS = ("oci-archive", "docker-archive", "docker-daemon", "containers-storage", "store")
CSV = "manifests/lagoon-operator.clusterserviceversion.yaml"


@pytest.fixture
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a unique part for names."""
    return tmp_path.name.lower().replace("_", "-")


def place(kind: str, where: str, name: str) -> str:
    image = f"quay.io/{where}/{name}:1"
    files = {"oci-archive": f"{name}.tar:1", "docker-archive": f"{name}.tar:{image}"}
    return f"{kind}:{files.get(kind, image)}"


@pytest.fixture
def engines(request: pytest.FixtureRequest, opm: Opm) -> Opm:
    """Return the command with a docker daemon and containers-storage."""
    daemon: DockerDaemon = request.getfixturevalue("docker_daemon")
    storage: Engine = request.getfixturevalue("container_storage")
    opm.env.update({**storage.settings, "DOCKER_HOST": daemon.url})
    return opm


def rows(database: Path) -> list[tuple[str, str, bool]]:
    """Return the name, image, and presence of manifests of each bundle."""
    with sqlite3.connect(database) as connection:
        query = "SELECT name, bundlepath, csv IS NOT NULL AND bundle IS NOT NULL FROM operatorbundle ORDER BY name"
        return [(name, image, bool(whole)) for name, image, whole in connection.execute(query)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_command_reads_images_from_every_transport(kind: str, engines: Opm, where: str) -> None:
    opm = engines
    base = place(kind, where, "base")
    small = small_image(opm.directory, {"bin/opm": b"#!"}, labels={"base": "yes"})
    copy_image(small, LayoutRepository(opm.directory / "layout"), "base")
    opm("image", "copy", "oci:layout:base", base)
    bundles = [place(kind, where, f"bundle-{version}") for version in ("0.1.0", "0.2.0")]
    for version, bundle in zip(("0.1.0", "0.2.0"), bundles, strict=True):
        assert opm.build_bundle(version, bundle).startswith(bundle)
    opm("bundle", "unpack", bundles[0], "--out", "unpacked")
    assert (opm.directory / "unpacked" / CSV).read_bytes() == (opm.directory / "bundle-0.1.0" / CSV).read_bytes()
    first, second = place(kind, where, "index"), place(kind, where, "newer")
    opm("index", "add", "--bundles", bundles[0], "--binary-image", base, "--tag", first)
    opm("index", "add", "--bundles", bundles[1], "--from-index", first, "--tag", second)
    listed = json.loads(opm("alpha", "list", "bundles", second, "-o", "json"))
    assert {row["bundle"] for row in listed} == {"lagoon-operator.v0.1.0", "lagoon-operator.v0.2.0"}
    inspected = json.loads(opm("image", "inspect", second, "-o", "json"))["images"]
    assert [len(image["layers"]) for image in inspected] == [2]
    assert inspected[0]["labels"]["base"] == "yes"
    if kind.endswith("archive"):  # other tools reach the names that the index records
        opm("index", "export", "--index", second, "--download-folder", "out")
        assert (opm.directory / "out/lagoon-operator/package.yaml").is_file()


def test_uncompressed_base_is_recorded_with_its_published_digest(opm_http: Opm, registry: Registry, where: str) -> None:
    opm = opm_http
    opm.build_bundle("0.1.0", "oci:layout:bundle")
    base = small_image(opm.directory, {"bin/opm": b"#!" * 10_000})
    copy_image(base, LayoutRepository(opm.directory / "layout"), "base")
    opm("image", "copy", "oci:layout:base", "docker-archive:base.tar:base:1")
    tag = f"{registry.host}/{where}/index:1"
    add = ("index", "add", "--bundles", "oci:layout:bundle", "--push", "--tag", tag, "--binary-image")
    line = opm(*add, "docker-archive:base.tar").strip()
    assert line == f"{tag}@{json.loads(opm('image', 'inspect', tag, '-o', 'json'))['digest']}"
    layers = json.loads(opm("image", "inspect", tag, "-o", "json"))["images"][0]["layers"]
    assert layers[0]["digest"] == base.manifest.layers[0].digest
    opm("index", "add", "--bundles", "", "--from-index", tag, "--push", "--tag", tag)  # the guard of the tag agrees


def test_adding_a_directory_equals_adding_its_image(opm_http: Opm, registry: Registry, where: str) -> None:
    opm = opm_http
    image = f"{registry.host}/{where}/lagoon:0.1.0"
    opm.build_bundle("0.1.0", image, "--push")
    opm("registry", "add", "-d", "image.db", "-b", image)
    opm("registry", "add", "-d", "named.db", "-b", f"./bundle-0.1.0={image}")
    assert (opm.directory / "named.db").read_bytes() == (opm.directory / "image.db").read_bytes()
    done = opm.attempt("registry", "add", "-d", "alone.db", "-b", str(opm.directory / "bundle-0.1.0"))
    assert (done.returncode, done.stderr) == (0, "")
    assert rows(opm.directory / "alone.db") == [("lagoon-operator.v0.1.0", "", True)]
    diff = opm("index", "diff", "image.db", "alone.db")
    assert "lagoon-operator.v0.1.0" in diff  # the image is all that differs
    with sqlite3.connect(opm.directory / "alone.db") as database:
        assert image not in {name for (name,) in database.execute("SELECT image FROM related_image")}


@pytest.mark.parametrize("mode", ["replaces", "semver", "semver-skippatch"])
def test_manifests_of_bundles_without_an_image_are_stored(mode: str, opm: Opm) -> None:
    for version in ("0.1.0", "0.2.0", "0.3.0"):
        opm.build_bundle(version, f"oci:layout:{version}")
        opm("registry", "add", "-d", "index.db", "--mode", mode, "-b", f"./bundle-{version}")
    names = [f"lagoon-operator.v{version}" for version in ("0.1.0", "0.2.0", "0.3.0")]
    assert rows(opm.directory / "index.db") == [(name, "", True) for name in names]


def test_invalid_bundle_directories_are_errors(opm: Opm) -> None:
    opm.build_bundle("0.1.0", "oci:layout:1")
    (opm.directory / "same").symlink_to("bundle-0.1.0")
    for bundles in ("./bundle-0.1.0,./same", "./none", "./layout", "."):
        done = opm.attempt("registry", "add", "-d", "index.db", "-b", bundles)
        assert done.returncode == 1
        assert done.stderr.startswith("Error: ")
        assert not (opm.directory / "index.db").exists()
    opm("registry", "add", "-d", "index.db", "-b", "./bundle-0.1.0")
    before = (opm.directory / "index.db").read_bytes()
    for flags in ((), ("--skip-present",)):
        done = opm.attempt("registry", "add", "-d", "index.db", "-b", "./same", *flags)
        assert done.returncode == 1
        assert "bundle lagoon-operator.v0.1.0: cannot be added: its name is used" in done.stderr
    assert (opm.directory / "index.db").read_bytes() == before


def test_unpacking_a_directory_equals_unpacking_its_image(opm: Opm) -> None:
    opm.build_bundle("0.1.0", "oci:layout:1")
    (opm.directory / "bundle-0.1.0/README").write_text("not of the image")
    for source, out in (("oci:layout:1", "image"), ("./bundle-0.1.0", "directory")):
        opm("bundle", "unpack", source, "--out", out)
    found = [
        {path.relative_to(root): path.read_bytes() for path in root.rglob("*") if path.is_file()}
        for root in (opm.directory / "image", opm.directory / "directory")
    ]
    assert found[0] == found[1]
    assert len(found[0]) > 2
    done = opm.attempt("bundle", "unpack", "./none", "--out", "x")
    assert done.returncode == 1
    assert "none" in done.stderr


def test_local_images_are_recorded_with_a_warning(opm: Opm) -> None:
    opm.build_bundle("0.1.0", "oci-archive:b.tar:1")
    done = opm.attempt("registry", "add", "-d", "text.db", "-b", "oci-archive:b.tar")
    assert done.returncode == 0
    assert done.stderr.startswith(
        "Warning: oci-archive:b.tar: the index will reference oci-archive:b.tar, which clusters cannot pull"
    )
    assert rows(opm.directory / "text.db") == [("lagoon-operator.v0.1.0", "oci-archive:b.tar", True)]
    opm("image", "copy", "oci-archive:b.tar", "store:quay.io/me/lagoon:1")
    for number, source in enumerate(("oci-archive:b.tar=quay.io/me/lagoon:1", "store:quay.io/me/lagoon:1")):
        done = opm.attempt("registry", "add", "-d", f"{number}.db", "-b", source)
        assert (done.returncode, done.stderr) == (0, "")
        assert rows(opm.directory / f"{number}.db") == [("lagoon-operator.v0.1.0", "quay.io/me/lagoon:1", True)]


def test_platforms_of_a_copy(opm: Opm) -> None:
    image = multi_image(
        [small_image(opm.directory, {"a": b"1"}, platform=f"linux/{arch}") for arch in ("amd64", "s390x")]
    )
    copy_image(image, LayoutRepository(opm.directory / "layout"), "1")
    assert opm("image", "cp", "oci:layout:1", "oci-archive:all.tar:1", "--all") == (
        f"oci-archive:all.tar:1@{image.digest}\n"
    )
    one = opm("image", "copy", "oci:layout:1", "docker-archive:s390x.tar:me/x", "--platform", "linux/s390x")
    assert one == "docker-archive:s390x.tar:me/x\n"
    assert json.loads(skopeo("inspect", f"docker-archive:{opm.directory}/s390x.tar"))["Architecture"] == "s390x"
    assert opm("image", "copy", "oci:layout:1", "oci:one:1", "--platform", "linux/s390x").endswith(
        f"{image.images[1].digest}\n"
    )
    done = opm.attempt("image", "copy", "oci:layout:1", "docker-archive:x.tar", "--platform", "linux/riscv64")
    assert "linux/amd64, linux/s390x" in done.stderr
    done = opm.attempt("image", "copy", "oci:layout:1", "docker-archive:x.tar", "--all")
    assert "only one platform" in done.stderr
    assert "--platform" in done.stderr
    assert not (opm.directory / "x.tar").exists()
    assert opm.attempt("image", "copy", "oci:a", "oci:b", "--all", "--platform", "linux/amd64").returncode == 1
    done = opm.attempt("image", "copy", "oci:layout:1", "docker-archive:x.tar")
    assert (done.returncode, done.stdout) == (0, "docker-archive:x.tar\n")
    assert "Warning: docker-archive:x.tar: only one platform is supported here; writing linux/amd64" in done.stderr


def test_failed_archive_leaves_no_files(opm: Opm) -> None:
    (opm.directory / "bad.tar").write_bytes(b"\x1f\x8b" + b"bad" * 100)
    for kind in ("oci-archive", "docker-archive"):
        done = opm.attempt("image", "copy", f"{kind}:bad.tar", "oci-archive:new.tar")
        assert done.returncode == 1
        assert done.stderr.startswith("Error: bad.tar: invalid tar archive: ")
    assert [path.name for path in opm.directory.iterdir()] == ["bad.tar"]
