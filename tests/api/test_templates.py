"""Templates in the public API: results equal the documents that the installed command prints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from opmkit import CatalogError, Opm, RegistryOptions, TemplateOptions
from tests.kit.template_repository import basic_template, mapped, push_bundle, tree, write_operator

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm as Command
    from tests.kit.registry import Registry


@pytest.fixture
def operators(opm: Command, registry: Registry, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write an operator with a template for two OpenShift versions, and return the directory to search."""
    monkeypatch.chdir(opm.directory)
    scratch = opm.directory / "scratch"
    scratch.mkdir()
    image = push_bundle(f"{registry.host}/api-templates", "1.0.0", scratch)
    template = {"basic.yaml": basic_template({"1.0.0": image})}
    write_operator(opm.directory / "operators" / "reef", template, [mapped("basic.yaml", "v4.16", "v4.17")])
    return opm.directory / "operators"


def test_templates_are_rendered_and_checked(operators: Path, opm: Command) -> None:
    root = operators.parent
    api, catalogs = Opm(RegistryOptions(plain_http=True), root / "store"), root / "catalogs"
    stale = api.render_templates([operators], catalogs, check=True)
    assert stale.is_stale
    assert not catalogs.exists()

    written = api.render_templates([operators], catalogs)
    assert {catalog.status.value for catalog in written.catalogs} == {"written"}
    assert json.loads(json.dumps(written.to_dict())) == written.to_dict()
    checked = api.render_templates([operators], catalogs, check=True)
    printed = opm(
        "template", "render", str(operators), "--output-dir", str(catalogs), "--check", "-o", "json", "--use-http"
    )
    assert not checked.is_stale
    assert checked.to_dict() == json.loads(printed)

    content = tree(catalogs)
    frozen = TemplateOptions(lock_mode="frozen", offline=True, openshift_versions=("4.17",))
    (catalog,) = api.render_templates([operators], catalogs, frozen).catalogs
    assert (catalog.bundles, catalog.path) == (1, catalogs / "v4.17" / "reef" / "catalog.yaml")
    assert tree(catalogs) == content


def test_errors_write_nothing(operators: Path) -> None:
    root = operators.parent
    api = Opm(RegistryOptions(plain_http=True), root / "store")
    with pytest.raises(CatalogError, match="not in the lock file"):
        api.render_templates([operators], root / "catalogs", TemplateOptions(lock_mode="frozen"))
    with pytest.raises(CatalogError, match="no templates found"):
        api.render_templates([root / "scratch"], root / "catalogs")
    with pytest.raises(CatalogError, match="invalid OpenShift version"):
        api.render_templates([operators], root / "catalogs", TemplateOptions(openshift_versions=("four",)))
    assert not (root / "catalogs").exists()
    assert not (root / "catalog.lock").exists()


@pytest.mark.parametrize(
    "options",
    [
        TemplateOptions(lock_mode="later"),
        TemplateOptions(file_format="toml"),
        TemplateOptions(lock=None, lock_mode="update"),
        TemplateOptions(lock_mode="update", offline=True),
    ],
    ids=["mode", "format", "no-lock", "offline"],
)
def test_options_that_exclude_each_other(tmp_path: Path, options: TemplateOptions) -> None:
    with pytest.raises(ValueError, match=r"not a valid|require|cannot"):
        Opm(store=tmp_path / "store").render_templates([tmp_path], tmp_path / "catalogs", options)
