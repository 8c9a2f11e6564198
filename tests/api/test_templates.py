"""Templates in the public API: results equal the documents that the installed command prints."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from opmkit import (
    CatalogError,
    OnboardingOptions,
    Opm,
    PromoteOptions,
    RegistryOptions,
    TemplateOptions,
    TemplateType,
    to_yaml,
)
from tests.kit.opm import LAGOON
from tests.kit.template_repository import basic_template, mapped, push_bundle, tree, write_operator

if TYPE_CHECKING:
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


TEMPLATE = """\
schema: olm.template.basic
entries:
  - {schema: olm.package, name: lagoon-operator, defaultChannel: alpha}
  - {schema: olm.channel, package: lagoon-operator, name: alpha, entries: [{name: lagoon-operator.v0.1.0}]}
  - {schema: olm.bundle, image: "quay.io/me/lagoon:0.1.0"}
"""


def test_edits_equal_those_of_the_command(opm: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(opm.directory)
    api, path, bundle = Opm(store=opm.directory / "store"), Path("t.yaml"), "bundle=quay.io/me/lagoon:0.2.0"
    manifests = LAGOON / "0.2.0" / "manifests"
    api.build_bundle(manifests, "oci:images:2", package="lagoon-operator", channels=["alpha"], output=Path("bundle"))
    path.write_text(TEMPLATE)
    steps = {
        ("add", "t.yaml", bundle): partial(api.add_to_template, path, bundle),
        ("promote", "t.yaml", "lagoon-operator.v0.2.0", "--to", "stable", "--create-channel"): partial(
            api.promote_in_template,
            path,
            "lagoon-operator.v0.2.0",
            PromoteOptions("", ("stable",), create_channels=True),
        ),
        ("deprecate", "t.yaml", "--channel", "alpha", "--message", "Old."): partial(
            api.deprecate_in_template, path, "Old.", channels=["alpha"]
        ),
    }
    for arguments, edit in steps.items():
        before = path.read_bytes()
        printed = json.loads(opm("template", *arguments, "--dry-run", "--output", "json"))
        (expected,) = edit(dry_run=True)
        assert path.read_bytes() == before
        assert edit() == (expected,)
        assert {"templates": [expected.to_dict()]} == printed
        assert (expected.is_changed, path.read_bytes()) == (True, expected.after)
    (unchanged,) = api.deprecate_in_template(path, "Old.", channels=["alpha"])
    assert not unchanged.is_changed


def test_catalogs_are_converted_as_by_the_command(opm: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(opm.directory)
    Path("t.yaml").write_text(TEMPLATE.partition("entries:\n")[2].replace("  - ", "---\n"))
    for kind in (TemplateType.BASIC, TemplateType.SUBSTITUTES):
        printed = opm("alpha", "convert-template", kind, "t.yaml", "-o", "yaml")
        assert to_yaml(Opm().convert_to_template(Path("t.yaml"), kind)).decode() + "\n" == printed
    with pytest.raises(ValueError, match="semver"):
        Opm().convert_to_template(Path("t.yaml"), TemplateType.SEMVER)


def test_operators_are_onboarded(operators: Path, opm: Command) -> None:
    root = operators.parent
    api = Opm(RegistryOptions(plain_http=True), root / "store")
    api.render_templates([operators], root / "catalogs", TemplateOptions(lock=None))
    options = OnboardingOptions(("catalogs/v4.16", "catalogs/v4.17"), force=True, dry_run=True)
    result = api.onboard_operators(operators / "reef", options)
    (operator,) = result.operators
    assert (operator.status, [template.name for template in operator.templates]) == ("planned", ["basic.yaml"])
    assert not result.needs_person
    flags = ("--from", ",".join(options.catalogs), "--force", "--dry-run", "-o", "json", "--use-http")
    printed = json.loads(opm("template", "onboard", str(operators / "reef"), *flags))
    assert printed == json.loads(json.dumps(result.to_dict()))
