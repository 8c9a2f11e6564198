"""``opm serve``: file-based catalogs and their cache."""

from __future__ import annotations

import base64
import json
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.kit.bundles import push_image
from tests.kit.images import small_image
from tests.kit.opm import PROGRAM
from tests.kit.server import Server, call, channel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from tests.kit.opm import Opm

SERVE = (str(PROGRAM), "serve")
CSV = {"kind": "ClusterServiceVersion", "metadata": {"name": "lagoon.v1"}}
METADATA = {"displayName": "Lagoon", "labels": {"a": "b"}, "crdDescriptions": {"owned": []}, "installModes": [{}]}


def bundle(version: int, *properties: Mapping[str, object], image: str = "") -> dict[str, object]:
    own = {"type": "olm.package", "value": {"packageName": "lagoon", "version": f"{version}.0.0"}}
    name = f"lagoon.v{version}"
    return {"schema": "olm.bundle", "package": "lagoon", "name": name, "image": image, "properties": [own, *properties]}


BLOBS: list[dict[str, object]] = [
    {
        "schema": "olm.package",
        "name": "lagoon",
        "defaultChannel": "stable",
        "icon": {"base64data": "aGk=", "mediatype": "image/png"},
        "description": "pools",
    },
    {
        "schema": "olm.channel",
        "package": "lagoon",
        "name": "stable",
        "entries": [
            {"name": "lagoon.v3", "replaces": "lagoon.v2", "skips": ["lagoon.v1"], "skipRange": "<3.0.0"},
            {"name": "lagoon.v2", "replaces": "lagoon.v1"},
            {"name": "lagoon.v1"},
        ],
    },
    bundle(1, {"type": "olm.bundle.object", "value": {"data": base64.encodebytes(json.dumps(CSV).encode()).decode()}}),
    bundle(2, {"type": "olm.csv.metadata", "value": METADATA}, image="example.com/lagoon:2"),
    bundle(3, {"type": "olm.gvk", "value": {"group": "g", "version": "v1", "kind": "K"}}, image="example.com/lagoon:3"),
    {
        "schema": "olm.deprecations",
        "package": "lagoon",
        "entries": [
            {"reference": {"schema": "olm.package"}, "message": "use pools"},
            {"reference": {"schema": "olm.channel", "name": "stable"}, "message": "use fast"},
            {"reference": {"schema": "olm.bundle", "name": "lagoon.v2"}, "message": "use v3"},
        ],
    },
]


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    """A directory with the catalog."""
    directory = tmp_path / "catalog"
    directory.mkdir()
    (directory / "catalog.json").write_text("\n".join(map(json.dumps, BLOBS)))
    return directory


def test_responses_contain_the_content_of_the_catalog(catalog: Path) -> None:
    with Server(str(catalog), program=SERVE) as server, channel(server.address) as connection:
        package = call(connection, "GetPackage", name="lagoon")
        listed = call(connection, "ListBundles")
        with_objects, with_metadata, plain = (
            call(connection, "GetBundle", pkgName="lagoon", channelName="stable", csvName=f"lagoon.v{number}")
            for number in (1, 2, 3)
        )
        replacing = call(
            connection, "GetBundleThatReplaces", csvName="lagoon.v1", pkgName="lagoon", channelName="stable"
        )
        assert server.stop() == 0
    assert (package.deprecation.message, package.channels[0].deprecation.message) == ("use pools", "use fast")
    assert [(each.csvName, each.replaces, list(each.skips), each.skipRange) for each in listed] == [
        ("lagoon.v1", "", [], ""),
        ("lagoon.v2", "lagoon.v1", [], ""),
        ("lagoon.v3", "lagoon.v2", ["lagoon.v1"], "<3.0.0"),
    ]
    assert [bool(each.csvJson) for each in listed] == [True, False, False]  # manifests only without an image
    assert json.loads(with_objects.csvJson) == CSV
    assert list(with_objects.object) == [with_objects.csvJson]
    generated = json.loads(with_metadata.csvJson)
    assert generated["metadata"] == {"name": "lagoon.v2", "labels": {"a": "b"}}
    assert generated["spec"]["customresourcedefinitions"] == {}
    assert (generated["spec"]["description"], generated["spec"]["version"]) == ("pools", "2.0.0")
    assert generated["spec"]["installModes"] == [{"type": "", "supported": False}]
    assert generated["spec"]["icon"] == [{"base64data": "aGk=", "mediatype": "image/png"}]
    assert with_metadata.deprecation.message == "use v3"
    assert [each.type for each in with_metadata.properties] == ["olm.package"]
    assert (plain.csvJson, plain.version, plain.providedApis[0].kind) == ("", "3.0.0", "K")
    assert not plain.HasField("deprecation")
    assert replacing.csvName == "lagoon.v3"  # v2 replaces it as well, but is further from the head


def test_valid_cache_is_not_rebuilt(catalog: Path, tmp_path: Path, opm: Opm) -> None:
    cache = tmp_path / "cache"
    opm("serve", str(catalog), "--cache-dir", str(cache), "--cache-only", "-t", str(tmp_path / "log"))
    before = {path: path.stat() for path in cache.rglob("*")}
    assert sorted(path.name for path in cache.iterdir()) == ["cache", "digest"]
    opm("serve", str(catalog), "--cache-dir", str(cache), "--cache-only", "-t", str(tmp_path / "log"))
    with (
        Server(str(catalog), "--cache-dir", str(cache), program=SERVE) as server,
        channel(server.address) as connection,
    ):
        (bundle,) = (each for each in call(connection, "ListBundles") if each.csvName == "lagoon.v2")
    assert bundle.deprecation.message == "use v3"
    after = {path: path.stat() for path in cache.rglob("*")}
    assert {path: (status.st_ino, status.st_mtime_ns) for path, status in after.items()} == {
        path: (status.st_ino, status.st_mtime_ns) for path, status in before.items()
    }


@pytest.mark.parametrize("link", ["cache", "digest", "cache/packages.json", "cache/lagoon"])
def test_links_in_a_cache_are_refused(link: str, catalog: Path, tmp_path: Path, opm: Opm) -> None:
    cache, outside = tmp_path / "cache", tmp_path / "outside"
    flags = ("serve", str(catalog), "--cache-dir", str(cache), "--cache-only", "-t", str(tmp_path / "log"))
    opm(*flags)
    shutil.copytree(cache / "cache", outside)
    (outside / "notes").write_text("not a part of the cache")
    path = cache / link
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(outside)
    before = {each: each.read_bytes() for each in outside.iterdir()}
    done = opm.attempt(*flags, "--cache-enforce-integrity=false")
    assert done.returncode == 1
    assert f'msg="cache directory has unexpected contents: {path} is a link" hint="remove it"\n' in done.stderr
    assert {each: each.read_bytes() for each in outside.iterdir()} == before


@pytest.mark.parametrize("damage", ["catalog changed", "bundle truncated", "index changed", "file added", "none"])
def test_invalid_cache_is_refused_or_rebuilt(damage: str, catalog: Path, tmp_path: Path, opm: Opm) -> None:
    cache, log = tmp_path / "cache", ("-t", str(tmp_path / "log"))
    opm("serve", str(catalog), "--cache-dir", str(cache), "--cache-only", *log)
    bundle = cache / "cache" / "lagoon_stable_lagoon.v1.json"
    actions: dict[str, Callable[[], object]] = {
        "catalog changed": lambda: (catalog / "more.json").write_text(json.dumps({"schema": "note"})),
        "bundle truncated": lambda: bundle.write_bytes(bundle.read_bytes()[:100]),
        "index changed": lambda: (cache / "cache" / "packages.json").write_text("{}"),
        "file added": lambda: (cache / "cache" / "more").touch(),
        "none": lambda: shutil.rmtree(cache),
    }
    actions[damage]()
    done = opm.attempt("serve", str(catalog), "--cache-dir", str(cache), *log)
    assert done.returncode == 1
    expected = "existing cache digest" if damage == "none" else "cache requires rebuild: cache reports digest as"
    assert expected in done.stderr
    flags = ("--cache-dir", str(cache), "--cache-enforce-integrity=false")
    with Server(str(catalog), *flags, program=SERVE) as server, channel(server.address) as connection:
        assert len(call(connection, "ListBundles")) == 3
    opm("serve", str(catalog), "--cache-dir", str(cache), "--cache-only", "--cache-enforce-integrity", *log)


def test_errors(catalog: Path, tmp_path: Path, opm: Opm) -> None:
    log = ("-t", str(tmp_path / "log"))

    def refused(*arguments: str) -> str:
        done = opm.attempt("serve", *arguments, *log)
        assert done.returncode == 1
        assert "Traceback" not in done.stderr
        return done.stderr

    assert "--cache-dir must be specified" in refused(str(catalog), "--cache-enforce-integrity")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious").touch()
    errors = refused(str(catalog), "--cache-dir", str(tmp_path / "other"))
    assert "unexpected contents" in errors
    assert "precious" in errors
    assert "gone" in refused("./gone")
    (catalog / "bad.yaml").write_text(
        "schema: olm.channel\npackage: lagoon\nname: fast\nentries: [{name: lagoon.v9}]\n"
    )
    assert "bad.yaml:1" in refused(str(catalog))
    assert "lagoon.v9" in (tmp_path / "log").read_text()


def test_server_ends_if_the_cache_cannot_be_completed(catalog: Path, tmp_path: Path, opm: Opm) -> None:
    path = catalog / "catalog.json"
    path.write_text(path.read_text().replace('"stable"', f'"{"stable" * 50}"'))  # too long for the name of a file
    done = opm.attempt("serve", str(catalog), "--port", "0", "-t", str(tmp_path / "log"))
    assert done.returncode == 1
    assert "File name too long" in done.stderr
    assert "Traceback" not in done.stderr
    assert "process" in (tmp_path / "log").read_text()


def test_bundles_with_the_same_cache_file_are_refused(catalog: Path, tmp_path: Path, opm: Opm) -> None:
    path = catalog / "catalog.json"
    channels = [
        {"schema": "olm.channel", "package": "lagoon", "name": name, "entries": [{"name": "lagoon.v1"}]}
        for name in ("a/b", "a//b")
    ]
    path.write_text("\n".join([path.read_text(), *map(json.dumps, channels)]))
    done = opm.attempt("serve", str(catalog), "--port", "0", "-t", str(tmp_path / "log"))
    assert done.returncode == 1
    assert "two bundles have the same cache file" in done.stderr


def test_index_image_is_served(catalog: Path, tmp_path: Path) -> None:
    files = {f"configs/{path.name}": path.read_bytes() for path in catalog.iterdir()}
    labels = {"operators.operatorframework.io.index.configs.v1": "/configs"}
    name = push_image(f"oci:{tmp_path}/index:1", small_image(tmp_path, files, labels=labels))
    with Server(name, program=SERVE) as server, channel(server.address) as connection:
        assert [each.name for each in call(connection, "ListPackages")] == ["lagoon"]
