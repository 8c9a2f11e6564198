"""Manifests of indexes in the public API; the tests of the command cover their content."""

from __future__ import annotations

import pytest

from opmkit import CatalogError, CatalogSourceOptions, ClusterExtensionOptions, Installation, InstallerPermissions, Opm
from tests.kit.opm import FIXTURES

CATALOG = str(FIXTURES / "catalogs" / "valid")
IMAGE = "127.0.0.1:1/me/catalog:1"


def test_package_is_looked_up_in_the_index_of_an_address() -> None:
    options = CatalogSourceOptions(address="catalog.olm.svc:50051")
    built = Opm().build_olm_v0_manifests(CATALOG, options, Installation("demo"))
    assert [manifest["kind"] for manifest in built.objects] == [
        *("CatalogSource", "Namespace", "OperatorGroup", "Subscription")
    ]
    assert built.objects[-1]["metadata"]["namespace"] == "demo"
    assert built.objects[-1]["spec"]["channel"]
    assert built.to_dict()["items"] == list(built.objects)
    with pytest.raises(CatalogError, match="not found"):
        Opm().build_olm_v0_manifests(CATALOG, options, Installation("missing"))


def test_cluster_catalog_without_a_package_reads_nothing() -> None:
    built = Opm().build_olm_v1_manifests(IMAGE)
    assert ([manifest["kind"] for manifest in built.objects], built.warnings) == (["ClusterCatalog"], ())


def test_clusters_must_be_able_to_pull_the_index() -> None:
    with pytest.raises(CatalogError, match="clusters cannot pull this index"):
        Opm().build_olm_v1_manifests("oci:catalog:1")
    extension = ClusterExtensionOptions("demo", permissions=InstallerPermissions.NONE, target_namespaces=("a", "b"))
    with pytest.raises(CatalogError, match="several target namespaces"):
        Opm().build_olm_v1_manifests(IMAGE, extension=extension)
