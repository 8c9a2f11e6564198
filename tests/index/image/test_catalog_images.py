"""Index images that hold file-based catalogs: what is read of them, and what new ones are layered on."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.labels import INDEX_CONFIGS, INDEX_DATABASE
from opmkit.imagetools.image import Image, ImageIndex, load_image_or_index
from opmkit.imagetools.layer import LayerFile, write_layer
from opmkit.imagetools.layer.write import write_tar
from opmkit.imagetools.reference import parse_image_reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.spec import ConfigChanges
from opmkit.imagetools.store import ImageStore, LayoutRepository
from opmkit.imagetools.tools.open_engine import open_engine
from opmkit.imagetools.tools.registry import RegistryTool
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.blobs import BlobProperty, Blobs, BundleBlob, ChannelBlob, EntryBlob, PackageBlob
from opmkit.index.fbc.load import parse_blobs
from opmkit.index.fbc.write import to_json, to_yaml
from opmkit.index.image.base import parent_digest
from opmkit.index.image.build import BuiltIndex, IndexPlan, build_index
from opmkit.index.modes import OnConflict
from opmkit.index.operations.prune import PrunePackages
from opmkit.index.operations.remove import RemovePackages
from tests.index.changes import NO_CHANGE, CustomChange
from tests.kit.bundles import put_under
from tests.kit.images import member, multi_image, small_image, symlink, tar
from tests.kit.requirements import require

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.index.operations.change import Change
    from opmkit.index.sqlite import IndexDatabase
    from tests.kit.engines import Engine

LABELS = {INDEX_CONFIGS: "/configs"}
CACHED = ("serve", "/configs", "--cache-dir=/tmp/cache")


def catalog(*packages: str) -> Blobs:
    """Packages with a bundle each."""
    return Blobs.from_blobs(
        blob
        for name in packages
        for blob in (
            PackageBlob(name, "stable"),
            ChannelBlob("stable", name, (EntryBlob(f"{name}.v1.0.0"),)),
            BundleBlob(
                f"{name}.v1.0.0",
                name,
                f"quay.io/me/{name}:1",
                (BlobProperty("olm.package", {"packageName": name, "version": "1.0.0"}),),
            ),
        )
    )


A, B = (to_json(catalog(name)) for name in "ab")


class Site:
    """Images ``oci:DIRECTORY/index:TAG``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = ImageStore.open(directory / "store")
        self.tool = RegistryTool(RegistryClient(), self.store)

    def name(self, tag: str) -> str:
        return f"oci:{self.directory}/index:{tag}"

    def image(self, tag: str) -> Image | ImageIndex:
        return load_image_or_index(LayoutRepository(self.directory / "index"), tag)

    def one(self, tag: str) -> Image:
        image = self.image(tag)
        assert isinstance(image, Image)
        return image

    def put(self, tag: str, image: Image | ImageIndex) -> str:
        return put_under(self.name(tag), image)

    def built_by_dockerfile(self, platform: str = "linux/amd64") -> Image:
        """What engines make of a Dockerfile: a base, a layer with the catalog, and one with the cache."""
        base = small_image(self.directory, {"bin/opm": platform.encode()}, platform=platform)
        configs = {"configs/a/catalog.json": A, "configs/b/catalog.yaml": to_yaml(catalog("b"))}
        layers = [
            write_layer([LayerFile(path, content) for path, content in files.items()], self.directory)
            for files in (configs, {"tmp/cache/digest": b"1", "tmp/cache/cache/packages.json": b"{}"})
        ]
        changes = ConfigChanges(labels={INDEX_CONFIGS: "/configs", "vendor": "me"}, cmd=CACHED)
        return base.append(layers, changes)

    def change(self, change: Change, start: str | None, tag: str | None, **more: object) -> BuiltIndex:
        tags = (self.name(tag),) if tag else ()
        plan = replace(IndexPlan(tags=tags, from_index=start), **more)  # type: ignore[arg-type]
        return build_index(self.tool, self.tool, plan, change)

    def tree(self, tag: str) -> dict[str, bytes]:
        return self.tool.read_tree(self.one(tag), [""])


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A place for images."""
    return Site(tmp_path)


def test_an_image_made_by_a_dockerfile_is_changed_without_growing(site: Site) -> None:
    old = site.built_by_dockerfile()
    built = site.change(RemovePackages(["b"]), site.put("1", old), "2")
    new = site.one("2")
    assert built.result.diff.packages[0].name == "b"
    assert new.manifest.layers[:-1] == old.manifest.layers[:1]
    assert parent_digest(new.manifest) == old.digest
    assert (new.labels[INDEX_CONFIGS], new.labels["vendor"]) == ("/configs", "me")
    assert new.config.cmd == ("serve", "/configs")
    assert site.tree("2") == {"bin/opm": b"linux/amd64", "configs/a/catalog.json": A}


def test_files_of_packages_that_stay_keep_their_bytes(site: Site) -> None:
    odd = to_yaml(catalog("b")).replace(b"---\n", b"---  # kept by hand\n", 1)
    image = small_image(site.directory, {"configs/a.json": A, "configs/b.yaml": odd}, labels=LABELS)
    site.change(RemovePackages(["a"]), site.put("1", image), "2")
    assert site.tree("2") == {"configs/b.yaml": odd}


def test_what_lies_under_an_own_catalog_is_not_read(site: Site) -> None:
    first = site.put("1", site.built_by_dockerfile())
    site.change(RemovePackages(["b"]), first, "2")
    base = site.one("2").manifest.layers[0]
    (site.directory / "index" / "blobs" / "sha256" / base.digest.partition(":")[2]).unlink()
    site.change(RemovePackages(["a"]), site.name("2"), "3", binary_image="scratch")
    assert site.tree("3") == {"configs/.indexignore": b""}


def test_a_change_and_its_opposite_give_the_image_of_before(site: Site) -> None:
    first = site.change(RemovePackages(["b"]), site.put("1", site.built_by_dockerfile()), "2")
    same = site.change(PrunePackages(["a"]), site.name("2"), "3")
    assert same.digest == first.digest


def test_a_catalog_among_other_files_is_hidden(site: Site) -> None:
    files = {"bin/opm": b"", "etc/x": b"y", "srv/catalogs/a.json": A, "srv/catalogs/b.json": B}
    changes = ConfigChanges(cmd=("serve", "/srv/catalogs", "--cache-dir", "/tmp/cache"))
    image = small_image(
        site.directory, {**files, "tmp/cache/digest": b"1"}, labels={INDEX_CONFIGS: "/srv/catalogs/"}
    ).append((), changes)
    site.change(RemovePackages(["a"]), site.put("1", image), "2")
    new = site.one("2")
    assert site.tree("2") == {"bin/opm": b"", "etc/x": b"y", "srv/catalogs/b.json": B}
    assert new.labels[INDEX_CONFIGS] == "/srv/catalogs"
    assert new.config.cmd == ("serve", "/srv/catalogs")


def test_every_platform_gets_the_same_catalog(site: Site) -> None:
    images = [site.built_by_dockerfile(platform) for platform in ("linux/amd64", "linux/arm64")]
    site.change(RemovePackages(["b"]), site.put("1", multi_image(images)), "2")
    new = site.image("2")
    assert isinstance(new, ImageIndex)
    for image, old in zip(new.images, images, strict=True):
        assert image.manifest.layers[0] == old.manifest.layers[0]
        assert image.config.platform == old.config.platform
        assert site.tool.read_tree(image, ["configs"]) == {"configs/a/catalog.json": A}
    assert len({image.manifest.layers[-1].digest for image in new.images}) == 1


@pytest.mark.parametrize("label", ["/", "", "../x", "/nowhere"])
def test_a_label_that_names_no_catalog(site: Site, label: str) -> None:
    image = small_image(site.directory, {"configs/a.json": A}, labels={INDEX_CONFIGS: label})
    with pytest.raises(CatalogError, match=INDEX_CONFIGS if label else INDEX_DATABASE):
        site.change(RemovePackages(["a"]), site.put("1", image), "2")


def test_a_link_in_an_image_leads_to_nothing_of_this_machine(site: Site) -> None:
    secret = site.directory / "secret"
    secret.write_bytes(B)
    archive = tar([member("configs/a.json", A), symlink("configs/b.json", str(secret)), symlink("configs/c", "a.json")])
    image = Image.scratch().append([write_tar([archive], site.directory)], ConfigChanges(labels=LABELS))
    site.change(PrunePackages(["a"]), site.put("1", image), "2")
    assert set(site.tree("2")) == {"configs/a.json", "configs/c"}


def test_a_directory_is_changed_itself(site: Site) -> None:
    root = site.directory / "catalog"
    (root / "b").mkdir(parents=True)
    (root / "a.json").write_bytes(A)
    (root / "b" / "b.yaml").write_bytes(to_yaml(catalog("b")))
    assert site.change(RemovePackages(["b"]), str(root), None, dry_run=True).result.diff.packages[0].name == "b"
    assert (root / "b" / "b.yaml").exists()
    built = site.change(RemovePackages(["b"]), str(root), None)
    assert (built.references, built.digest) == ((), "")
    assert [path.name for path in root.rglob("*") if path.is_file()] == ["a.json"]


def test_an_image_is_made_of_a_directory_that_stays_as_it_is(site: Site) -> None:
    root = site.directory / "catalog"
    root.mkdir()
    (root / "all.json").write_bytes(A + B)
    (root / "outside").symlink_to(site.directory)
    (root / "elsewhere.json").symlink_to("/etc/passwd")
    site.change(RemovePackages(["b"]), str(root), "1", binary_image="scratch")
    assert site.tree("1") == {"configs/all.json": A}
    assert (root / "all.json").read_bytes() == A + B


def test_an_image_of_a_directory_can_not_start_again(site: Site) -> None:
    root = site.directory / "catalog"
    root.mkdir()
    with pytest.raises(CatalogError, match="cannot be rebased"):
        site.change(PrunePackages([]), str(root), "1", on_conflict=OnConflict.REBASE)


def test_a_build_context_of_a_catalog(site: Site) -> None:
    context = site.directory / "context"
    context.mkdir()
    first = site.put("1", site.built_by_dockerfile())
    site.change(RemovePackages(["b"]), first, "2", context=context, binary_image="quay.io/me/opm:1")
    written = {path.relative_to(context).as_posix() for path in context.rglob("*") if path.is_file()}
    assert written == {"catalog/a/catalog.json", "index.Dockerfile"}
    assert "FROM quay.io/me/opm:1\n" in (context / "index.Dockerfile").read_text()
    with pytest.raises(CatalogError, match="not an empty directory"):
        site.change(RemovePackages(["b"]), first, "2", context=context)


def named(package: str) -> Change:
    """A change that adds a package, to a database one that no catalog could have."""

    def insert(database: IndexDatabase) -> None:
        database.connection.execute("INSERT INTO package (name) VALUES (?)", (package,))

    return CustomChange(insert, lambda blobs: blobs + catalog(package))


def test_an_index_keeps_its_kind_unless_it_is_converted(site: Site) -> None:
    site.change(NO_CHANGE, None, "1", binary_image="scratch")
    assert INDEX_DATABASE in site.one("1").labels
    site.change(NO_CHANGE, site.name("1"), "2")
    assert INDEX_DATABASE in site.one("2").labels
    site.change(NO_CHANGE, site.name("2"), "3", to_catalog=True)
    assert dict(site.one("3").labels) == LABELS
    assert site.tree("3") == {"configs/.indexignore": b""}
    site.change(named("a"), site.name("3"), "4")
    assert parse_blobs(site.tree("4")["configs/a/catalog.json"], "a") == catalog("a")
    site.change(named("a"), None, "5", to_catalog=True, binary_image="scratch")
    assert site.tree("5") == site.tree("4")


def test_what_no_catalog_can_be_is_not_converted(site: Site) -> None:
    def misnamed(database: IndexDatabase) -> None:
        script = """
            INSERT INTO operatorbundle (name, bundlepath, version) VALUES ('a.v1', 'quay.io/me/a:1', '1.0.0');
            INSERT INTO properties VALUES
                ('olm.package', '{"packageName": "Not_DNS", "version": "1.0.0"}', 'a.v1', '1.0.0', 'quay.io/me/a:1');
            INSERT INTO package (name) VALUES ('Not_DNS');
            INSERT INTO channel (name, package_name, head_operatorbundle_name) VALUES ('stable', 'Not_DNS', 'a.v1');
            INSERT INTO channel_entry (channel_name, package_name, operatorbundle_name, depth)
                VALUES ('stable', 'Not_DNS', 'a.v1', 0);
            UPDATE package SET default_channel = 'stable'
            """
        for statement in script.split(";"):
            database.connection.execute(statement)

    site.change(CustomChange(misnamed), None, "1", binary_image="scratch")
    with pytest.raises(InvalidCatalog, match='package "Not_DNS"'):
        site.change(NO_CHANGE, site.name("1"), "2", to_catalog=True)


def test_a_change_for_catalogs_alone_is_made_after_the_conversion(site: Site) -> None:
    site.change(NO_CHANGE, None, "1", binary_image="scratch")
    only = CustomChange(None, lambda blobs: blobs + catalog("a"))
    with pytest.raises(CatalogError, match="unsupported by index databases") as refused:
        site.change(only, site.name("1"), "2")
    assert "to_catalog" in str(refused.value.hint)
    site.change(only, site.name("1"), "2", to_catalog=True)
    assert parse_blobs(site.tree("2")["configs/a/catalog.json"], "a") == catalog("a")


def test_a_database_does_not_become_a_catalog_in_its_place(site: Site) -> None:
    context = site.directory / "context"
    context.mkdir()
    site.change(NO_CHANGE, None, "1", context=context)
    database = context / "database" / "index.db"
    for name in (context, context / "database", database):
        site.change(NO_CHANGE, str(name), None)
        with pytest.raises(CatalogError, match="in place"):
            site.change(NO_CHANGE, str(name), None, to_catalog=True)
    assert database.read_bytes().startswith(b"SQLite")


def test_a_path_where_nothing_is(site: Site) -> None:
    with pytest.raises(CatalogError, match="no such file or directory"):
        site.change(NO_CHANGE, "./nowhere", None)


def test_an_engine_builds_catalogs(site: Site, container_storage: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    require("buildah")
    for key, value in container_storage.settings.items():
        monkeypatch.setenv(key, value)
    engine = open_engine("buildah", RegistryOptions(), site.store)
    name = f"localhost/{site.directory.name.replace('_', '-').lower()}"
    for number, change in enumerate((named("a"), named("b"), RemovePackages(["a"]))):
        start = f"{name}:{number - 1}" if number else None
        plan = IndexPlan((f"{name}:{number}",), start, to_catalog=True, binary_image="scratch")
        build_index(engine, engine, plan, change)
    built = parse_image_reference(f"{name}:2")
    assert set(engine.read_tree(built, ["configs"])) == {"configs/b/catalog.json"}
    assert engine.inspect(built).labels[INDEX_CONFIGS] == "/configs"
