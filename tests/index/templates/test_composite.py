"""Composite templates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from opmkit.index.errors import CatalogError, InvalidCatalog
from opmkit.index.fbc.compat import CatalogCompat
from opmkit.index.templates.composite import Builder, Component, CompositeOptions, build_components, parse_components

from .samples import catalog, render_images, semver, template

OPTIONS = CompositeOptions()


def component(schema: str, config: dict[str, Any], path: str = "pkg") -> dict[str, Any]:
    strategy = {"name": "any", "template": {"schema": schema, "config": config}}
    return {"name": "one", "destination": {"path": path}, "strategy": strategy}


def parse(root: Path, *components: dict[str, Any], **config: Any) -> list[Component]:
    """Parse components of the catalog "one", which allows all builders."""
    destination = {"workingDir": str(root), "baseImage": "x"}
    catalogs = [{"name": "one", "destination": destination, "builders": [*Builder], **config}]
    return parse_components(
        template({"schema": "olm.composite.catalogs", "catalogs": catalogs}, "catalogs.yaml"),
        template({"schema": "olm.composite", "components": list(components)}, "config.yaml"),
        CatalogCompat.OPM_1_26,
    )


def test_components_are_built_and_validated(tmp_path: Path) -> None:
    (tmp_path / "semver.yaml").write_text(json.dumps(semver(candidate=("1.0.0",))))
    (tmp_path / "raw.yaml").write_text("\n".join(map(json.dumps, catalog("1.0.0"))))
    (tmp_path / "basic.yaml").write_text("\n".join(map(json.dumps, [*catalog("1.0.0")[:2], {"schema": "olm.bundle"}])))
    components = parse(
        tmp_path / "work",
        component("olm.builder.semver", {"input": str(tmp_path / "semver.yaml"), "output": "semver.json"}, "s"),
        component("olm.builder.raw", {"input": str(tmp_path / "raw.yaml"), "output": "deep/raw.json"}, "r"),
    )
    build_components(components, OPTIONS, render_images)
    assert b"candidate-v1.0" in (tmp_path / "work/s/semver.json").read_bytes()
    assert b"reef.v1.0.0" in (tmp_path / "work/r/deep/raw.json").read_bytes()
    invalid = parse(
        tmp_path / "work", component("olm.builder.basic", {"input": str(tmp_path / "basic.yaml"), "output": "b"})
    )
    with pytest.raises(InvalidCatalog, match=r"component 'one': .*basic.yaml:3: the bundle has no image"):
        build_components(invalid, OPTIONS, render_images)


def test_programs_are_run_only_if_allowed(tmp_path: Path) -> None:
    (tmp_path / "raw.yaml").write_text("\n".join(map(json.dumps, catalog("1.0.0"))))
    components = parse(
        tmp_path, component("olm.builder.custom", {"command": "cat", "args": ["raw.yaml"], "output": "c.json"})
    )
    with pytest.raises(CatalogError, match=r"refusing to run programs: cat raw\.yaml"):
        build_components(components, OPTIONS, render_images)
    assert not (tmp_path / "pkg").exists()
    allowed = CompositeOptions(run_programs=True)
    build_components(components, allowed, render_images)
    assert (tmp_path / "pkg/c.json").exists()
    for config in ({"command": "cat", "args": ["missing"]}, {"command": "/no-such-program"}):
        failing = parse(tmp_path, component("olm.builder.custom", {**config, "output": "c.json"}))
        with pytest.raises(CatalogError, match=r"cat missing: exited with status 1: cat|no-such-program"):
            build_components(failing, allowed, render_images)


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (component("olm.builder.raw", {"input": "x", "output": "../../out"}), "not below"),
        (component("olm.builder.raw", {"input": "x", "output": "x"}, "/etc"), "not below"),
        (component("olm.builder.raw", {"input": "x", "output": "."}, "."), "not below"),
        (component("olm.builder.raw", {"inptu": "x", "output": "x"}), "config.inptu"),
        (component("olm.builder.raw", {"output": "x"}), "the config has no input"),
        (component("olm.builder.other", {}), "catalog 'one' does not allow builder 'olm.builder.other'"),
        ({**component("olm.builder.raw", {}), "name": "two"}, "catalog 'two' not found"),
        ({"name": "one", "strategy": {"template": {"schema": "olm.builder.raw"}}}, "strategy.template has no config"),
    ],
)
def test_invalid_contributions(value: dict[str, Any], problem: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidCatalog) as error:
        parse(tmp_path, value)
    assert problem in error.value.message
    assert error.value.message.startswith("config.yaml:1: ")


def test_invalid_catalogs_configuration(tmp_path: Path) -> None:
    with pytest.raises(InvalidCatalog) as error:
        parse(tmp_path, destination={}, builders=["olm.builder.magic"])
    for problem in (
        "has no destination.baseImage",
        "has no destination.workingDir",
        "unsupported builder 'olm.builder.magic'",
    ):
        assert problem in error.value.message


@pytest.mark.parametrize("command", ["./mycmd", "bin/mycmd", "../mycmd"])
def test_programs_of_the_working_directory_are_refused(tmp_path: Path, command: str) -> None:
    config = {"input": "missing.yaml", "output": "a.json"}
    components = parse(
        tmp_path,
        component("olm.builder.raw", config),
        component("olm.builder.custom", {"command": command, "output": "c.json"}),
    )
    with pytest.raises(CatalogError, match=f"refusing to run {command}, which is relative"):
        build_components(components, CompositeOptions(run_programs=True), render_images)


def test_working_directories_that_lead_out_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "checkout").mkdir()
    monkeypatch.chdir(tmp_path / "checkout")
    Path("composite").symlink_to("../outside")
    with pytest.raises(InvalidCatalog, match="refusing to write to composite: a symbolic link leads out"):
        parse(Path("composite"), component("olm.builder.raw", {"input": "a", "output": "a.json"}))
