"""Tests of loading ConfigMaps into index databases."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from opmkit.index.errors import BundleExists, CatalogError
from opmkit.index.operations.initialize.loader import write_config_map_database
from opmkit.index.sqlite import open_database

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from opmkit.index.operations.initialize.loader import InitializeResult

NAME = "olm/catalog"


def csv(name: str, *owned: tuple[str, str], **spec: Any) -> dict[str, Any]:
    """Return a ClusterServiceVersion that owns (plural, version) CRDs of example.com."""
    definitions = [{"name": f"{plural}.example.com", "version": version, "kind": "Thing"} for plural, version in owned]
    return {
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "ClusterServiceVersion",
        "metadata": {"name": name},
        "spec": {"version": "1.0.0", "customresourcedefinitions": {"owned": definitions}, **spec},
    }


def crd(plural: str, *versions: str, **spec: Any) -> dict[str, Any]:
    """Return a CRD of example.com."""
    served = [{"name": version, "served": True, "storage": version == versions[0]} for version in versions]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {"group": "example.com", "names": {"kind": "Thing", "plural": plural}, "versions": served, **spec},
    }


def package(name: str, **heads: str) -> dict[str, Any]:
    return {"packageName": name, "channels": [{"name": channel, "currentCSV": head} for channel, head in heads.items()]}


def data(crds: list[Any], csvs: list[Any], packages: list[Any]) -> dict[str, str]:
    """Return the data of a ConfigMap."""
    lists = {"customResourceDefinitions": crds, "clusterServiceVersions": csvs, "packages": packages}
    return {key: yaml.safe_dump(values) for key, values in lists.items()}


VALID = data(
    [crd("things", "v1", "v2"), crd("others", "v1"), crd("foreign", "v1")],
    [csv("demo.v1", ("things", "v1")), csv("demo.v2", ("things", "v1"), ("others", "v1"), replaces="demo.v1")],
    [package("demo", stable="demo.v2")],
)


def load(content: Mapping[str, str], directory: Path, *, permissive: bool = False) -> InitializeResult:
    return write_config_map_database(directory / "index.db", content, NAME, permissive=permissive)


def rows(directory: Path, query: str) -> list[tuple[Any, ...]]:
    with open_database(directory / "index.db") as database:
        return database.connection.execute(query).fetchall()


def manifests(directory: Path, bundle: str) -> list[dict[str, Any]]:
    """Return the stored objects of a bundle."""
    [(text,)] = rows(directory, f"SELECT CAST(bundle AS TEXT) FROM operatorbundle WHERE name = '{bundle}'")
    return [json.loads(line) for line in text.splitlines()]


def test_bundle_consists_of_csv_and_owned_crds(tmp_path: Path) -> None:
    result = load(VALID, tmp_path)
    assert (result.bundles, result.packages, result.failures) == (("demo.v1", "demo.v2"), ("demo",), ())
    assert manifests(tmp_path, "demo.v1") == [csv("demo.v1", ("things", "v1")), crd("things", "v1", "v2")]
    assert [manifest["metadata"]["name"] for manifest in manifests(tmp_path, "demo.v2")] == [
        *("demo.v2", "things.example.com", "others.example.com")
    ]
    assert rows(tmp_path, "SELECT operatorbundle_name, depth FROM channel_entry ORDER BY depth") == [
        *(("demo.v2", 0), ("demo.v1", 1))
    ]
    assert rows(tmp_path, "SELECT version FROM api_provider WHERE operatorbundle_name = 'demo.v1' ORDER BY 1") == [
        *(("v1",), ("v2",))
    ]
    assert rows(tmp_path, "SELECT DISTINCT bundlepath FROM operatorbundle") in ([("",)], [(None,)])


def test_manifests_are_stored_unmodified(tmp_path: Path) -> None:
    webhook = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}
    definition = crd("things", "v1", conversion=webhook)
    version = csv("demo.v1", ("things", "v1"))
    load(data([definition], [version], [package("demo", stable="demo.v1")]), tmp_path)
    assert manifests(tmp_path, "demo.v1") == [version, definition]


def test_crd_with_two_owned_versions_is_stored_once(tmp_path: Path) -> None:
    owner = csv("demo.v1", ("things", "v1"), ("things", "v2"))
    load(data([crd("things", "v1", "v2")], [owner], [package("demo", stable="demo.v1")]), tmp_path)
    assert len(manifests(tmp_path, "demo.v1")) == 2


@pytest.mark.parametrize("empty", ["", "[]", "null", "# nothing\n"])
def test_empty_lists(empty: str, tmp_path: Path) -> None:
    assert load(dict.fromkeys(VALID, empty), tmp_path).bundles == ()
    assert rows(tmp_path, "SELECT name FROM package") == []


def test_json_lists(tmp_path: Path) -> None:
    assert load({key: json.dumps(yaml.safe_load(text)) for key, text in VALID.items()}, tmp_path).packages == ("demo",)


BROKEN = [
    ("customResourceDefinitions", None, "couldn't find expected key customResourceDefinitions in configmap", 0, 0),
    ("clusterServiceVersions", None, "couldn't find expected key clusterServiceVersions in configmap", 0, 0),
    ("packages", None, "couldn't find expected key packages in configmap", 2, 0),
    ("clusterServiceVersions", "a: [", r"clusterServiceVersions:\d+:\d+: ", 0, 0),
    ("clusterServiceVersions", "hello", "clusterServiceVersions: the document is a string, not a list", 0, 0),
    ("packages", "packageName: demo", "packages: the document is a mapping, not a list", 2, 0),
    ("packages", "[hello]", r"packages\[0\]: the document is a string, not a mapping", 2, 0),
    ("packages", "[{}]", r"packages\[0\]: missing packageName", 2, 0),
    (
        "packages",
        yaml.safe_dump([package("demo", stable="demo.v9")]),
        r"packages\[0\]: channel stable .* demo.v9",
        2,
        0,
    ),
    (
        "clusterServiceVersions",
        yaml.safe_dump([crd("things", "v1")]),
        r"clusterServiceVersions\[0\]: unexpected kind CustomResourceDefinition, not ClusterServiceVersion",
        *(0, 0),
    ),
    (
        "clusterServiceVersions",
        yaml.safe_dump([csv("demo.v1"), csv("demo.v2"), csv("x.v1", version=["3"])]),
        r"clusterServiceVersions\[2\]: spec.version is a list",
        *(2, 1),
    ),
    (
        "customResourceDefinitions",
        yaml.safe_dump([crd("things", "v1"), crd("others", "v1"), crd("things", "v2", "v1")]),
        r"customResourceDefinitions\[2\]: duplicate CRD things.example.com in version v1",
        *(2, 1),
    ),
    (
        "customResourceDefinitions",
        yaml.safe_dump([crd("things", "v1")]),
        r"clusterServiceVersions\[1\]: missing CRDs owned by demo.v2: example.com/v1/Thing \(others\)",
        *(2, 1),
    ),
]


@pytest.mark.parametrize(("key", "text", "message", "bundles", "packages"), BROKEN)
def test_reports_errors_with_their_location(
    key: str, text: str | None, message: str, bundles: int, packages: int, tmp_path: Path
) -> None:
    content = {**VALID, key: text} if text is not None else {name: VALID[name] for name in VALID if name != key}
    with pytest.raises(CatalogError, match=rf"ConfigMap olm/catalog: {message}") as failure:
        load(content, tmp_path)
    assert str(failure.value.hint)
    assert list(tmp_path.iterdir()) == []
    result = load(content, tmp_path, permissive=True)
    assert (len(result.bundles), len(result.packages)) == (bundles, packages)
    assert result.failures


def test_failure_retains_the_existing_database(tmp_path: Path) -> None:
    load(VALID, tmp_path)
    before = (tmp_path / "index.db").read_bytes()
    with pytest.raises(CatalogError):
        load({}, tmp_path)
    assert (tmp_path / "index.db").read_bytes() == before


def test_replaces_the_existing_database(tmp_path: Path) -> None:
    load(VALID, tmp_path)
    first = (tmp_path / "index.db").read_bytes()
    load(data([], [csv("other.v1")], [package("other", stable="other.v1")]), tmp_path)
    assert rows(tmp_path, "SELECT name FROM operatorbundle") == [("other.v1",)]
    load(VALID, tmp_path)
    assert (tmp_path / "index.db").read_bytes() == first


def test_duplicate_bundle(tmp_path: Path) -> None:
    twice = data([], [csv("demo.v1"), csv("demo.v1", version="1.0.1")], [package("demo", stable="demo.v1")])
    with pytest.raises(BundleExists, match=r"clusterServiceVersions\[1\]: bundle demo.v1 already exists"):
        load(twice, tmp_path)
    assert load(twice, tmp_path, permissive=True).bundles == ("demo.v1",)
