"""Indexes in the public API: results equal the documents that the installed command prints."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from opmkit import CatalogError, ImageToolsError, IndexPlan, IndexRequirements, OnConflict, Opm, RegistryOptions
from tests.e2e.test_index_merge import write_package
from tests.kit.opm import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm as Command
    from tests.kit.registry import Registry

DIGEST = "sha256:" + "a" * 64


@pytest.fixture
def site(opm: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Write two catalogs with the packages ``coral`` and ``reef``, both with ``shared``."""
    monkeypatch.chdir(opm.directory)
    for name, package, image in (("a", "coral", "quay.io/me/shared:1"), ("b", "reef", "quay.io/me/shared:2")):
        write_package(opm.directory / name, package, f"quay.io/me/{package}@{DIGEST}")
        write_package(opm.directory / name, "shared", image)
    return opm


class Bar:
    """A receiver of progress reports that counts."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended = 0

    def begin(self, label: str, total: int | None, unit: str = "bytes") -> None:
        """Record the label."""
        self.begun.append(label)

    def advance(self, count: int) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Count the end."""
        self.ended += 1


def test_indexes_are_merged(site: Command, registry: Registry, tmp_path: Path) -> None:
    api, bar = Opm(RegistryOptions(plain_http=True), tmp_path / "store"), Bar()
    with pytest.raises(CatalogError, match='package "shared"'):
        api.merge_indexes(["a", "b"], IndexPlan(tags=()), output=tmp_path / "merged")
    assert not (tmp_path / "merged").exists()
    built = api.merge_indexes(["a", "b"], IndexPlan(tags=()), prefer=["last"], output=tmp_path / "merged", progress=bar)
    printed = site("index", "merge", "a", "b", "--prefer", "last", "--dry-run", "--output", "json")
    assert built.to_dict() == json.loads(printed)
    assert bar.begun == ["Reading indexes"]
    assert bar.ended == 1
    tag = f"{registry.host}/api/merged:1"
    plan = IndexPlan(tags=(tag,), binary_image="scratch", push=True)
    pushed = api.merge_indexes(["a", "b"], plan, prefer=["b"])
    assert pushed.digest
    assert set(api.open_index(tag).catalog().packages) == {"coral", "reef", "shared"}


def test_packages_are_copied(site: Command, registry: Registry, tmp_path: Path) -> None:
    api = Opm(RegistryOptions(plain_http=True), tmp_path / "store")
    built = api.copy_packages(["coral"], "a", IndexPlan(from_index="b", tags=()), output=tmp_path / "copied")
    printed = site("index", "copy", "coral", "--from", "a", "--to", "b", "--dry-run", "--output", "json")
    assert built.to_dict() == json.loads(printed)
    tag = f"{registry.host}/api/copied:1"
    api.copy_packages(["reef"], "b", IndexPlan(tags=(tag,), binary_image="scratch", push=True))
    assert set(api.open_index(tag).catalog().packages) == {"reef"}
    with pytest.raises(CatalogError, match="other"):
        api.copy_packages(["other"], "b", IndexPlan(), output=tmp_path / "missing")


@pytest.mark.parametrize("from_index", [None, "a"], ids=["rebase", "from-index"])
def test_plans_that_a_merge_cannot_follow(from_index: str | None) -> None:
    with pytest.raises(ValueError, match="unsupported"):
        Opm().merge_indexes(["a", "b"], IndexPlan(from_index=from_index, on_conflict=OnConflict.REBASE))


def test_images_are_listed(site: Command) -> None:
    images = Opm().list_images("a")
    assert [image.to_dict() for image in images] == json.loads(site("index", "images", "a", "--output", "json"))
    names = [image.image for image in Opm().list_images("a", ["coral"], only="bundle")]
    assert names == [f"quay.io/me/coral@{DIGEST}"]
    assert Opm().list_images("a", only="related") == []


def test_indexes_are_compared(site: Command) -> None:
    for kinds in ((), ("added",), ("removed-package", "changed")):
        result = Opm().compare_indexes("a", "b", fail_on=kinds)
        flags = ("--fail-on", ",".join(kinds)) if kinds else ()
        done = site.attempt("index", "diff", "a", "b", "--output", "json", *flags)
        assert (result.to_dict(), result.passed) == (json.loads(done.stdout), done.returncode == 0)
    assert Opm().compare_indexes("a", "a", fail_on=["changed"]).passed
    with pytest.raises(ValueError, match="unknown kind"):
        Opm().compare_indexes("a", "b", fail_on=["anything"])


@pytest.mark.parametrize(
    ("requirements", "flags"),
    [
        (IndexRequirements(), ()),
        (IndexRequirements(require_digests=True), ("--require-digests",)),
        (IndexRequirements(against="b"), ("--against", "b")),
        (IndexRequirements(against="b", fragment=True), ("--against", "b", "--fragment")),
        (
            IndexRequirements(openshift_version="4.17", allowed_registries=("registry.redhat.io/",)),
            ("--openshift-version", "4.17", "--allowed-registries", "registry.redhat.io/"),
        ),
    ],
    ids=["valid", "digests", "against", "fragment", "registries"],
)
def test_indexes_are_validated(site: Command, requirements: IndexRequirements, flags: tuple[str, ...]) -> None:
    result = Opm().validate_index("a", requirements)
    done = site.attempt("validate", "a", "--output", "json", *flags)
    printed: dict[str, Any] = json.loads(done.stdout)
    assert (result.to_dict(), result.passed) == (printed, done.returncode == 0)
    assert result.passed is not bool(flags)


def test_signatures_are_required(site: Command) -> None:
    key = FIXTURES / "signatures" / "ecdsa.pub"
    write_package(site.directory / "local", "pearl", f"127.0.0.1:1/me/pearl@{DIGEST}")
    result = Opm(RegistryOptions(deadline=5)).validate_index("local", IndexRequirements(require_signature=key))
    assert [finding.rule for finding in result.errors] == ["GATE-SIGNATURE"]


def test_an_empty_requirement_of_signatures_is_an_error(site: Command) -> None:
    for require in (
        lambda: Opm().validate_index("a", IndexRequirements(require_signature="")),
        lambda: Opm().add_bundles(["x"], IndexPlan(("y",)), require_signature=""),
        lambda: Opm().add_to_database(["x"], site.directory / "index.db", require_signature=""),
    ):
        with pytest.raises(ImageToolsError, match="required signature: empty path"):
            require()


def test_mistakes_in_requirements(site: Command) -> None:
    with pytest.raises(CatalogError, match="allowed registries: empty name"):
        Opm().validate_index("a", IndexRequirements(allowed_registries=("",)))
    with pytest.raises(CatalogError, match="invalid OpenShift version"):
        Opm().validate_index("a", IndexRequirements(openshift_version="four"))
    with pytest.raises(ValueError, match="fragment"):
        Opm().validate_index("a", IndexRequirements(fragment=True))
    broken = site.directory / "broken"
    broken.mkdir()
    (broken / "catalog.yaml").write_text(yaml.safe_dump({"schema": "olm.package"}))
    assert Opm().validate_index("broken").errors
