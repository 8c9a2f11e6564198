"""Rendering of plans: conflicts, hostile names, links, unavailable registries and failing disks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from opmkit.core.errors import DiskError
from opmkit.core.files import write_trees
from opmkit.imagetools.registry import RegistryClient, RegistryOptions, RetryPolicy
from opmkit.imagetools.store import ImageStore
from opmkit.imagetools.tools.registry import RegistryTool
from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.blobs import SourceLocation
from opmkit.index.fbc.csv_metadata import MigrationLevel
from opmkit.index.render import open_render_cache
from opmkit.index.templates.repository import images as images_module
from opmkit.index.templates.repository.discovery import find_templates
from opmkit.index.templates.repository.images import ImageOptions
from opmkit.index.templates.repository.outputs import CatalogFiles, FileStatus
from opmkit.index.templates.repository.plan import CatalogTarget, PlanOptions, TemplateJob
from opmkit.index.templates.repository.run import RunOptions, render_plan
from tests.index.templates.repository.test_discovery import component, composite, write
from tests.kit.bundles import bundle_image, push_image
from tests.kit.template_repository import basic_template, mapped, semver_template, tree, write_operator
from tests.kit.webserver import QuietHandler, WebServer

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.index.templates.repository.outputs import RenderedTemplates
    from tests.kit.registry import Registry


@pytest.fixture
def image(registry: Registry, tmp_path: Path) -> str:
    """Return a bundle image."""
    return push_image(f"{registry.host}/template-rendering:1", bundle_image("reef", "1.0.0", tmp_path))


def render(root: Path, *, cached: bool = True, lock: bool = False, **options: Any) -> RenderedTemplates:
    """Render the templates below a directory."""
    store = ImageStore.open(root.parent / "store")
    tool = RegistryTool(
        RegistryClient(RegistryOptions(plain_http=True), retry=RetryPolicy(sleep=lambda _: None)), store
    )
    plan_options = PlanOptions(root / "catalogs", **options.pop("plan", {}))
    warn = options.pop("warn", lambda _: None)
    paths = options.pop("paths", [root])
    images = ImageOptions(cache=open_render_cache(root.parent / "cache") if cached else None, warn=warn)
    run_options = RunOptions(plan_options, images, root / "catalog.lock" if lock else None, **options)
    return render_plan(lambda: tool, find_templates(paths, plan_options), run_options)


def test_two_templates_cannot_write_one_catalog(tmp_path: Path, image: str) -> None:
    root = tmp_path / "repository"
    template = basic_template({"1.0.0": image})
    mapping = [mapped("a.yaml", "v4.16"), mapped("b.yaml", "v4.16"), mapped("a.yaml", "v4.16")]
    write_operator(root / "lagoon", {"a.yaml": template, "b.yaml": template}, mapping)
    with pytest.raises(CatalogError) as caught:
        render(root)
    written = f"catalog {root}/catalogs/v4.16/lagoon/catalog.yaml is also written by"
    first = f"{root}/lagoon/catalog-templates/a.yaml ({root}/lagoon/ci.yaml:4)"
    assert caught.value.lines == (
        f"{root}/lagoon/ci.yaml:8: {written} {first}",
        f"{root}/lagoon/ci.yaml:12: {written} {first}",
    )
    write(root / "lagoon" / "ci.yaml", "")
    with pytest.raises(
        CatalogError, match=r"b.yaml: catalog .*/catalogs/reef/catalog.yaml is also written by .*a.yaml"
    ):
        render(root)
    assert not (root / "catalogs").exists()


def test_catalogs_reached_through_links(tmp_path: Path, image: str) -> None:
    root = tmp_path / "repository"
    write_operator(root / "lagoon", {"a.yaml": basic_template({"1.0.0": image})}, [mapped("a.yaml", "v4.16", "v4.15")])
    (root / "catalogs" / "v4.16").mkdir(parents=True)
    (root / "catalogs" / "v4.15").symlink_to("v4.16")
    with pytest.raises(CatalogError, match=r"v4.15/lagoon/catalog.yaml is also written by"):
        render(root)
    (root / "catalogs" / "v4.15").unlink()
    (tmp_path / "outside").mkdir()
    (root / "catalogs" / "v4.15").symlink_to(tmp_path / "outside")
    with pytest.raises(CatalogError, match=r"ci.yaml:5: refusing to write .*v4.15/lagoon/catalog.yaml"):
        render(root)
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize("name", ["../../outside", "..", "a/b", ".hidden", "", "x\n"])
def test_package_that_is_not_a_file_name(tmp_path: Path, image: str, name: str) -> None:
    root = tmp_path / "repository"
    template = basic_template({"1.0.0": image})
    template["entries"][0]["name"] = name
    write(root / "v4.17.yaml", template)
    with pytest.raises(CatalogError, match=r"v4.17.yaml:(\d+: package| cannot name the catalog)"):
        render(root)
    with pytest.raises(CatalogError, match="cannot name the catalog by its package"):
        render(root, validate=False)
    assert [path.name for path in root.iterdir()] == ["v4.17.yaml"]


def test_catalog_that_is_also_a_template(tmp_path: Path, image: str) -> None:
    root = tmp_path / "repository"
    other = basic_template({"1.0.0": image})["entries"]
    for version in ("v4.16", "v4.17"):
        write(root / "catalogs" / version / "lagoon" / "catalog.yaml", yaml.safe_dump_all(other))
    paths = [f"catalogs/{version}/lagoon/catalog.yaml" for version in ("v4.16", "v4.17")]
    composite(
        root,
        component("raw", {"input": paths[0], "output": "catalog.yaml"}, name="v4.17"),
        component("raw", {"input": paths[1], "output": "catalog.yaml"}, name="v4.16"),
    )
    before = tree(root)
    with pytest.raises(CatalogError) as caught:
        render(root)
    assert len(caught.value.lines) == 2
    written = f"{root}/catalogs/v4.17/lagoon/catalog.yaml, which is also a template"
    assert caught.value.lines[0].endswith(f"config.yaml:2: refusing to write {written}")
    assert tree(root) == before
    in_place = write(root / "catalogs" / "reef" / "catalog.yaml", yaml.safe_dump_all(other))
    with pytest.raises(
        CatalogError, match=r"catalogs/reef/catalog.yaml: refusing to write .*, which is also a template"
    ):
        render(root, paths=[in_place])


def test_invalid_catalogs_are_written_only_without_validation(tmp_path: Path, image: str) -> None:
    root = tmp_path / "repository"
    template = basic_template({"1.0.0": image})
    template["entries"][1]["entries"].append({"name": "reef.v0.9.0"})
    write(root / "v4.17.yaml", template)
    with pytest.raises(InvalidCatalog, match=r'v4.17.yaml:[0-9]+: package "reef", channel "alpha": '):
        render(root)
    assert render(root, validate=False).catalogs[0].status is FileStatus.WRITTEN


def test_catalogs_are_copied_and_migrated(tmp_path: Path, image: str) -> None:
    root = tmp_path / "repository"
    write(root / "v4.16.yaml", basic_template({"1.0.0": image}))
    render(root)
    catalog = root / "catalogs" / "v4.16" / "reef" / "catalog.yaml"
    write(root / "catalog-templates" / "raw-4.17.yaml", catalog.read_text())
    write(root / "catalog-templates" / "raw-4.15.yaml", catalog.read_text())
    result = render(root)
    assert [(item.status, item.migrate_level) for item in result.catalogs] == [
        (FileStatus.WRITTEN, MigrationLevel.NONE),
        (FileStatus.WRITTEN, MigrationLevel.CSV_METADATA),
        (FileStatus.UNCHANGED, MigrationLevel.NONE),
    ]
    assert (root / "catalogs" / "v4.15" / "reef" / "catalog.yaml").read_bytes() == catalog.read_bytes()
    migrated = (root / "catalogs" / "v4.17" / "reef" / "catalog.yaml").read_text()
    assert "olm.csv.metadata" in migrated
    assert "olm.bundle.object" not in migrated


def test_catalog_in_another_format_next_to_a_catalog_is_a_warning(tmp_path: Path, image: str) -> None:
    root = tmp_path / "repository"
    write(root / "v4.16.yaml", basic_template({"1.0.0": image}))
    write(root / "catalogs" / "v4.16" / "reef" / "catalog.json", "{}")
    assert render(root).warnings == (
        f"{root}/catalogs/v4.16/reef/catalog.json: part of the same catalog as "
        f"{root}/catalogs/v4.16/reef/catalog.yaml; remove one of them",
    )


def test_bundles_are_rendered_without_a_cache(tmp_path: Path, image: str) -> None:
    root = tmp_path / "repository"
    for version in ("v4.16", "v4.17"):
        write(root / f"{version}.yaml", semver_template([image]))
    assert len(render(root, cached=False).catalogs) == 2


@pytest.mark.parametrize(
    "name", ["./reef", "../../etc/passwd", "oci:layout:1", "docker-archive:/etc/passwd", "store:reef"]
)
def test_templates_refer_to_registries_only(tmp_path: Path, name: str) -> None:
    root = tmp_path / "repository"
    write(root / "v4.16.yaml", basic_template({"1.0.0": name}))
    with pytest.raises(CatalogError, match=r"v4.16.yaml:10: .*: unsupported: it is not an image in a registry"):
        render(root)


def test_unavailable_registry_is_asked_once_and_all_images_are_reported(tmp_path: Path) -> None:
    root = tmp_path / "repository"
    with WebServer(QuietHandler) as server:
        host = server.host
    pushed = {f"1.{number}.0": f"{host}/reef:1.{number}.0" for number in range(40)}
    write(root / "v4.16.yaml", basic_template(pushed))
    with pytest.raises(CatalogError) as caught:
        render(root)
    assert len(caught.value.lines) == 40
    assert all(f"{root}/v4.16.yaml:" in line for line in caught.value.lines)
    assert sum("not resolved, because" in line for line in caught.value.lines) >= 40 - 16


def test_bundles_of_an_unavailable_registry_are_not_requested_forever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images_module, "MAX_UNAVAILABLE", 2)
    root = tmp_path / "repository"
    with WebServer(QuietHandler) as server:
        host = server.host
    digest = f"sha256:{'0' * 64}"
    pushed = {f"1.{number}.0": f"{host}/reef{number}@{digest}" for number in range(30)}
    write(root / "v4.16.yaml", basic_template(pushed))
    with pytest.raises(CatalogError) as caught:
        render(root)
    assert len(caught.value.lines) == 30
    assert sum("not read after 2 failures" in line for line in caught.value.lines) == 28


def test_failing_write_changes_nothing(tmp_path: Path) -> None:
    directory = tmp_path / "catalogs"
    write(directory / "a" / "catalog.yaml", "old a\n")
    write(directory / "c" / "catalog.yaml", "old c\n")
    paths = [directory / name / "catalog.yaml" for name in "abc"]
    with CatalogFiles(directory) as files:
        statuses = [files.stage(path, b"new\n") for path in paths]
        assert tree(directory / "a") == {"catalog.yaml": b"old a\n"}
        (directory / "b").write_text("in the way")
        with pytest.raises(DiskError):
            write_trees(files.staged())
    assert statuses == [FileStatus.WRITTEN] * 3
    assert [tree(directory / each) for each in "ac"] == [{"catalog.yaml": b"old a\n"}, {"catalog.yaml": b"old c\n"}]
    assert sorted(path.name for path in directory.iterdir()) == ["a", "b", "c"]


def test_lock_is_written_with_the_catalogs(tmp_path: Path, image: str) -> None:
    root = tmp_path / "repository"
    write_operator(root / "lagoon", {"a.yaml": basic_template({"1.0.0": image})}, [mapped("a.yaml", "v4.16")])
    write(root / "catalogs" / "v4.16" / "lagoon", "in the way")
    with pytest.raises(DiskError, match=r"catalogs/v4\.16/lagoon"):
        render(root, lock=True)
    assert not (root / "catalog.lock").exists()
    (root / "catalogs" / "v4.16" / "lagoon").unlink()
    render(root, lock=True)
    assert sorted(each.name for each in root.iterdir()) == ["catalog.lock", "catalogs", "lagoon"]


def test_mode_of_existing_catalogs_is_retained(tmp_path: Path) -> None:
    path = write(tmp_path / "a" / "catalog.yaml", "old\n")
    path.chmod(0o664)
    with CatalogFiles(tmp_path) as files:
        files.stage(path, b"new\n")
        write_trees(files.staged())
    assert path.stat().st_mode & 0o777 == 0o664


def test_catalog_file_that_is_a_directory(tmp_path: Path) -> None:
    (tmp_path / "catalogs" / "a" / "catalog.yaml").mkdir(parents=True)
    target = CatalogTarget("", MigrationLevel.NONE, SourceLocation("t.yaml", 1), "a")
    job = TemplateJob(tmp_path / "t.yaml", None, (target,))
    with (
        CatalogFiles(tmp_path / "catalogs") as files,
        pytest.raises(CatalogError, match=r"t.yaml:1: refusing to write"),
    ):
        files.claim(tmp_path / "catalogs" / "a" / "catalog.yaml", job.path, target.location)
