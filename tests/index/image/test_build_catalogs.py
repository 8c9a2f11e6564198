"""Index images with file-based catalogs: extraction, changes, and conversion from databases."""

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
from opmkit.imagetools.tools.engine import open_engine
from opmkit.imagetools.tools.registry import RegistryTool
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.blobs import BlobProperty, Blobs, BundleBlob, ChannelBlob, EntryBlob, PackageBlob
from opmkit.index.fbc.load import parse_blobs
from opmkit.index.fbc.write import to_json, to_yaml
from opmkit.index.image.base import parent_digest
from opmkit.index.image.build import build_index
from opmkit.index.image.plan import BuiltIndex, IndexPlan
from opmkit.index.modes import OnConflict
from opmkit.index.operations.prune import PrunePackages
from opmkit.index.operations.remove import RemovePackages
from tests.index.changes import NO_CHANGE, CustomChange
from tests.kit.bundles import push_image
from tests.kit.images import member, multi_image, small_image, symlink, tar
from tests.kit.requirements import require

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.index.change import Change
    from opmkit.index.sqlite import IndexDatabase
    from tests.kit.engines import Engine

LABELS = {INDEX_CONFIGS: "/configs"}
CACHED = ("serve", "/configs", "--cache-dir=/tmp/cache")


def catalog(*packages: str) -> Blobs:
    """Return a catalog of packages with one bundle each."""
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


class Workspace:
    """Images ``oci:DIRECTORY/index:TAG``."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.store = ImageStore.open(directory / "store")
        self.tool = RegistryTool(RegistryClient(), self.store)

    def name(self, tag: str) -> str:
        return f"oci:{self.directory}/index:{tag}"

    def image(self, tag: str) -> Image | ImageIndex:
        return load_image_or_index(LayoutRepository(self.directory / "index"), tag)

    def single_image(self, tag: str) -> Image:
        image = self.image(tag)
        assert isinstance(image, Image)
        return image

    def put(self, tag: str, image: Image | ImageIndex) -> str:
        return push_image(self.name(tag), image)

    def dockerfile_image(self, platform: str = "linux/amd64") -> Image:
        """Return an image as engines build it: a base, a layer with the catalog, and one with the cache."""
        base = small_image(self.directory, {"bin/opm": platform.encode()}, platform=platform)
        configs = {"configs/a/catalog.json": A, "configs/b/catalog.yaml": to_yaml(catalog("b"))}
        layers = [
            write_layer([LayerFile(path, content) for path, content in files.items()], self.directory)
            for files in (configs, {"tmp/cache/digest": b"1", "tmp/cache/cache/packages.json": b"{}"})
        ]
        changes = ConfigChanges(labels={INDEX_CONFIGS: "/configs", "vendor": "me"}, cmd=CACHED)
        return base.append(layers, changes)

    def change(self, change: Change, start: str | None, tag: str | None, **fields: object) -> BuiltIndex:
        tags = (self.name(tag),) if tag else ()
        plan = replace(IndexPlan(tags=tags, from_index=start), **fields)  # type: ignore[arg-type]
        return build_index(self.tool, self.tool, plan, change)

    def tree(self, tag: str) -> dict[str, bytes]:
        return self.tool.read_tree(self.single_image(tag), [""])


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A directory for images."""
    return Workspace(tmp_path)


def test_change_of_an_image_built_from_a_dockerfile_adds_no_layer(workspace: Workspace) -> None:
    old = workspace.dockerfile_image()
    built = workspace.change(RemovePackages(["b"]), workspace.put("1", old), "2")
    new = workspace.single_image("2")
    assert built.result.diff.packages[0].name == "b"
    assert new.manifest.layers[:-1] == old.manifest.layers[:1]
    assert parent_digest(new.manifest) == old.digest
    assert (new.labels[INDEX_CONFIGS], new.labels["vendor"]) == ("/configs", "me")
    assert new.config.cmd == ("serve", "/configs")
    assert workspace.tree("2") == {"bin/opm": b"linux/amd64", "configs/a/catalog.json": A}


def test_files_of_unchanged_packages_are_kept(workspace: Workspace) -> None:
    odd = to_yaml(catalog("b")).replace(b"---\n", b"---  # written by hand\n", 1)
    image = small_image(workspace.directory, {"configs/a.json": A, "configs/b.yaml": odd}, labels=LABELS)
    workspace.change(RemovePackages(["a"]), workspace.put("1", image), "2")
    assert workspace.tree("2") == {"configs/b.yaml": odd}


def test_layers_below_a_catalog_of_opmkit_are_not_read(workspace: Workspace) -> None:
    first = workspace.put("1", workspace.dockerfile_image())
    workspace.change(RemovePackages(["b"]), first, "2")
    base = workspace.single_image("2").manifest.layers[0]
    (workspace.directory / "index" / "blobs" / "sha256" / base.digest.partition(":")[2]).unlink()
    workspace.change(RemovePackages(["a"]), workspace.name("2"), "3", binary_image="scratch")
    assert workspace.tree("3") == {"configs/.indexignore": b""}


def test_change_without_effect_keeps_the_digest(workspace: Workspace) -> None:
    first = workspace.change(RemovePackages(["b"]), workspace.put("1", workspace.dockerfile_image()), "2")
    same = workspace.change(PrunePackages(["a"]), workspace.name("2"), "3")
    assert same.digest == first.digest


def test_old_catalog_in_a_shared_layer_is_hidden(workspace: Workspace) -> None:
    files = {"bin/opm": b"", "etc/x": b"y", "srv/catalogs/a.json": A, "srv/catalogs/b.json": B}
    changes = ConfigChanges(cmd=("serve", "/srv/catalogs", "--cache-dir", "/tmp/cache"))
    image = small_image(
        workspace.directory, {**files, "tmp/cache/digest": b"1"}, labels={INDEX_CONFIGS: "/srv/catalogs/"}
    ).append((), changes)
    workspace.change(RemovePackages(["a"]), workspace.put("1", image), "2")
    new = workspace.single_image("2")
    assert workspace.tree("2") == {"bin/opm": b"", "etc/x": b"y", "srv/catalogs/b.json": B}
    assert new.labels[INDEX_CONFIGS] == "/srv/catalogs"
    assert new.config.cmd == ("serve", "/srv/catalogs")


def test_all_platforms_contain_the_same_catalog(workspace: Workspace) -> None:
    images = [workspace.dockerfile_image(platform) for platform in ("linux/amd64", "linux/arm64")]
    workspace.change(RemovePackages(["b"]), workspace.put("1", multi_image(images)), "2")
    new = workspace.image("2")
    assert isinstance(new, ImageIndex)
    for image, old in zip(new.images, images, strict=True):
        assert image.manifest.layers[0] == old.manifest.layers[0]
        assert image.config.platform == old.config.platform
        assert workspace.tool.read_tree(image, ["configs"]) == {"configs/a/catalog.json": A}
    assert len({image.manifest.layers[-1].digest for image in new.images}) == 1


@pytest.mark.parametrize("label", ["/", "", "../x", "/nowhere"])
def test_invalid_label(workspace: Workspace, label: str) -> None:
    image = small_image(workspace.directory, {"configs/a.json": A}, labels={INDEX_CONFIGS: label})
    with pytest.raises(CatalogError, match=INDEX_CONFIGS if label else INDEX_DATABASE):
        workspace.change(RemovePackages(["a"]), workspace.put("1", image), "2")


def test_links_do_not_lead_out_of_the_image(workspace: Workspace) -> None:
    secret = workspace.directory / "secret"
    secret.write_bytes(B)
    archive = tar([member("configs/a.json", A), symlink("configs/b.json", str(secret)), symlink("configs/c", "a.json")])
    image = Image.scratch().append([write_tar([archive], workspace.directory)], ConfigChanges(labels=LABELS))
    workspace.change(PrunePackages(["a"]), workspace.put("1", image), "2")
    assert set(workspace.tree("2")) == {"configs/a.json", "configs/c"}


def test_directory_is_changed_in_place(workspace: Workspace) -> None:
    root = workspace.directory / "catalog"
    (root / "b").mkdir(parents=True)
    (root / "a.json").write_bytes(A)
    (root / "b" / "b.yaml").write_bytes(to_yaml(catalog("b")))
    assert workspace.change(RemovePackages(["b"]), str(root), None, dry_run=True).result.diff.packages[0].name == "b"
    assert (root / "b" / "b.yaml").exists()
    built = workspace.change(RemovePackages(["b"]), str(root), None)
    assert (built.references, built.digest) == ((), "")
    assert [path.name for path in root.rglob("*") if path.is_file()] == ["a.json"]


def test_image_is_built_from_a_directory_without_changing_it(workspace: Workspace) -> None:
    root = workspace.directory / "catalog"
    root.mkdir()
    (root / "all.json").write_bytes(A + B)
    (root / "outside").symlink_to(workspace.directory)
    (root / "elsewhere.json").symlink_to("/etc/passwd")
    workspace.change(RemovePackages(["b"]), str(root), "1", binary_image="scratch")
    assert workspace.tree("1") == {"configs/all.json": A}
    assert (root / "all.json").read_bytes() == A + B


def test_image_from_a_directory_cannot_be_rebased(workspace: Workspace) -> None:
    root = workspace.directory / "catalog"
    root.mkdir()
    with pytest.raises(CatalogError, match="cannot be rebased"):
        workspace.change(PrunePackages([]), str(root), "1", on_conflict=OnConflict.REBASE)


def test_build_context(workspace: Workspace) -> None:
    context = workspace.directory / "context"
    context.mkdir()
    first = workspace.put("1", workspace.dockerfile_image())
    workspace.change(RemovePackages(["b"]), first, "2", context=context, binary_image="quay.io/me/opm:1")
    written = {path.relative_to(context).as_posix() for path in context.rglob("*") if path.is_file()}
    assert written == {"catalog/a/catalog.json", "index.Dockerfile"}
    assert "FROM quay.io/me/opm:1\n" in (context / "index.Dockerfile").read_text()
    with pytest.raises(CatalogError, match="not an empty directory"):
        workspace.change(RemovePackages(["b"]), first, "2", context=context)


def insert_package(package: str) -> Change:
    """A change that adds a package, to a database one that no catalog could have."""

    def insert(database: IndexDatabase) -> None:
        database.connection.execute("INSERT INTO package (name) VALUES (?)", (package,))

    return CustomChange(insert, lambda blobs: blobs + catalog(package))


def test_index_keeps_its_kind_unless_it_is_converted(workspace: Workspace) -> None:
    workspace.change(NO_CHANGE, None, "1", binary_image="scratch")
    assert INDEX_DATABASE in workspace.single_image("1").labels
    workspace.change(NO_CHANGE, workspace.name("1"), "2")
    assert INDEX_DATABASE in workspace.single_image("2").labels
    workspace.change(NO_CHANGE, workspace.name("2"), "3", to_catalog=True)
    assert dict(workspace.single_image("3").labels) == LABELS
    assert workspace.tree("3") == {"configs/.indexignore": b""}
    workspace.change(insert_package("a"), workspace.name("3"), "4")
    assert parse_blobs(workspace.tree("4")["configs/a/catalog.json"], "a") == catalog("a")
    workspace.change(insert_package("a"), None, "5", to_catalog=True, binary_image="scratch")
    assert workspace.tree("5") == workspace.tree("4")


def test_database_that_is_invalid_as_a_catalog_is_not_converted(workspace: Workspace) -> None:
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

    workspace.change(CustomChange(misnamed), None, "1", binary_image="scratch")
    with pytest.raises(InvalidCatalog, match='package "Not_DNS"'):
        workspace.change(NO_CHANGE, workspace.name("1"), "2", to_catalog=True)


def test_change_of_catalogs_is_applied_after_the_conversion(workspace: Workspace) -> None:
    workspace.change(NO_CHANGE, None, "1", binary_image="scratch")
    only = CustomChange(None, lambda blobs: blobs + catalog("a"))
    with pytest.raises(CatalogError, match="index databases do not support this change") as refused:
        workspace.change(only, workspace.name("1"), "2")
    assert "to_catalog" in str(refused.value.hint)
    workspace.change(only, workspace.name("1"), "2", to_catalog=True)
    assert parse_blobs(workspace.tree("2")["configs/a/catalog.json"], "a") == catalog("a")


def test_database_is_not_converted_in_place(workspace: Workspace) -> None:
    context = workspace.directory / "context"
    context.mkdir()
    workspace.change(NO_CHANGE, None, "1", context=context)
    database = context / "database" / "index.db"
    for name in (context, context / "database", database):
        workspace.change(NO_CHANGE, str(name), None)
        with pytest.raises(CatalogError, match="in place"):
            workspace.change(NO_CHANGE, str(name), None, to_catalog=True)
    assert database.read_bytes().startswith(b"SQLite")


def test_missing_path(workspace: Workspace) -> None:
    with pytest.raises(CatalogError, match="no such file or directory"):
        workspace.change(NO_CHANGE, "./nowhere", None)


def test_build_in_an_engine(workspace: Workspace, container_storage: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    require("buildah")
    for key, value in container_storage.settings.items():
        monkeypatch.setenv(key, value)
    engine = open_engine("buildah", RegistryOptions(), workspace.store)
    name = f"localhost/{workspace.directory.name.replace('_', '-').lower()}"
    for number, change in enumerate((insert_package("a"), insert_package("b"), RemovePackages(["a"]))):
        start = f"{name}:{number - 1}" if number else None
        plan = IndexPlan((f"{name}:{number}",), start, to_catalog=True, binary_image="scratch")
        build_index(engine, engine, plan, change)
    built = parse_image_reference(f"{name}:2")
    assert set(engine.read_tree(built, ["configs"])) == {"configs/b/catalog.json"}
    assert engine.inspect(built).labels[INDEX_CONFIGS] == "/configs"
