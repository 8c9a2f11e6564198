"""ClusterCatalogs and ClusterExtensions."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from opmkit.imagetools.reference import Reference
from opmkit.index.errors import CatalogError
from opmkit.index.operations.manifests.olm_v1.cluster_extension import ClusterCatalog, ClusterExtension

CATALOG = ClusterCatalog("catalog", Reference.parse("quay.io/me/catalog:1"))
EXTENSION = ClusterExtension("my.shelf", "shelves", "catalog")
TEXT, NUMBER = str, int
# The fields of operator-controller v1.9.0 (api/v1) that opmkit writes, with those in capital letters required.
CATALOG_FIELDS: dict[str, Any] = {
    "SOURCE": {"TYPE": TEXT, "image": {"REF": TEXT, "pollIntervalMinutes": NUMBER}},
    "priority": NUMBER,
    "availabilityMode": TEXT,
}
EXTENSION_FIELDS: dict[str, Any] = {
    "NAMESPACE": TEXT,
    "serviceAccount": {"NAME": TEXT},
    "SOURCE": {
        "SOURCETYPE": TEXT,
        "catalog": {"PACKAGENAME": TEXT, "version": TEXT, "channels": [TEXT], "selector": {"matchLabels": dict}},
    },
    "config": {"CONFIGTYPE": TEXT, "inline": dict},
}


def check_fields(value: Any, fields: Any) -> None:
    """Check that a value has only known fields with the right types, and all that are required."""
    if isinstance(fields, list):
        assert isinstance(value, list)
        for item in value:
            check_fields(item, fields[0])
    elif isinstance(fields, dict):
        required = {name.upper() for name in fields if name.isupper()}
        known = {name.lower(): kind for name, kind in fields.items()}
        assert required <= {name.upper() for name in value}
        for name, member in value.items():
            check_fields(member, known[name.lower()])
    else:
        assert isinstance(value, fields)


def test_cluster_catalog() -> None:
    assert CATALOG.manifest() == {
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterCatalog",
        "metadata": {"name": "catalog"},
        "spec": {"source": {"type": "Image", "image": {"ref": "quay.io/me/catalog:1"}}},
    }
    full = replace(CATALOG, poll_interval="1h30m", priority=-7, availability="Unavailable").manifest()
    assert full["spec"] == {
        "source": {"type": "Image", "image": {"ref": "quay.io/me/catalog:1", "pollIntervalMinutes": 90}},
        "priority": -7,
        "availabilityMode": "Unavailable",
    }
    check_fields(full["spec"], CATALOG_FIELDS)


def test_cluster_extension() -> None:
    catalog = {
        "packageName": "my.shelf",
        "selector": {"matchLabels": {"olm.operatorframework.io/metadata.name": "catalog"}},
    }
    assert EXTENSION.manifest() == {
        "apiVersion": "olm.operatorframework.io/v1",
        "kind": "ClusterExtension",
        "metadata": {"name": "my-shelf"},
        "spec": {"namespace": "shelves", "source": {"sourceType": "Catalog", "catalog": catalog}},
    }
    settings: dict[str, Any] = {"service_account": "installer", "watch_namespace": "library"}
    full = replace(EXTENSION, channels=("stable", "beta"), version=">=1.2, <2", **settings).manifest()
    assert full["spec"] == {
        "namespace": "shelves",
        "serviceAccount": {"name": "installer"},
        "source": {
            "sourceType": "Catalog",
            "catalog": {**catalog, "version": ">=1.2, <2", "channels": ["stable", "beta"]},
        },
        "config": {"configType": "Inline", "inline": {"watchNamespace": "library"}},
    }
    check_fields(full["spec"], EXTENSION_FIELDS)


@pytest.mark.parametrize(("interval", "minutes"), [("30m", 30), ("1h", 60), ("90s", 0), ("120s", 2), ("0.5h", 30)])
def test_polling_intervals(interval: str, minutes: int) -> None:
    if minutes:
        manifest = replace(CATALOG, poll_interval=interval).manifest()
        assert manifest["spec"]["source"]["image"]["pollIntervalMinutes"] == minutes
    else:
        with pytest.raises(CatalogError, match="not in whole minutes"):
            replace(CATALOG, poll_interval=interval)


@pytest.mark.parametrize(
    "version", ["1.2.3", "v1", "1.x", ">= 1.2, < 2", "~1.2 || ^3", ">=1 <2", "!=1.0.0-rc.1+b.2", "*"]
)
def test_version_ranges(version: str) -> None:
    replace(EXTENSION, version=version)


@pytest.mark.parametrize(
    ("value", "wrong", "message"),
    [
        (CATALOG, {"name": "My Catalog"}, "catalog name 'My Catalog'"),
        (CATALOG, {"priority": 2**31}, "priority 2147483648: not an integer of 32 bits"),
        (CATALOG, {"priority": -(2**31) - 1}, "not an integer of 32 bits"),
        (CATALOG, {"availability": "Never"}, "invalid availability 'Never'"),
        (CATALOG, {"poll_interval": "30"}, "invalid polling interval '30'"),
        (CATALOG, {"poll_interval": "0m"}, "invalid polling interval '0m': zero"),
        (
            CATALOG,
            {"image": Reference.parse(f"quay.io/me/c@sha256:{'0' * 64}"), "poll_interval": "1h"},
            "never changes",
        ),
        (EXTENSION, {"package": "a_b"}, "package 'a_b'"),
        (EXTENSION, {"namespace": "a.b"}, "install namespace 'a.b'"),
        (EXTENSION, {"channels": ("original_40",)}, "channel 'original_40'"),
        (EXTENSION, {"service_account": "A"}, "service account 'A'"),
        (EXTENSION, {"watch_namespace": "A"}, "target namespace 'A'"),
        (EXTENSION, {"version": "latest"}, "invalid version range 'latest'"),
        (EXTENSION, {"version": "1.2.3.4"}, "invalid version range"),
        (EXTENSION, {"version": "1" * 65}, "invalid version range"),
    ],
)
def test_invalid_values(value: Any, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(CatalogError) as failure:
        replace(value, **wrong)
    assert message in failure.value.message
    assert failure.value.hint
