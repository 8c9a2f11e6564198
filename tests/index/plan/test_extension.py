from __future__ import annotations

from typing import Any

import pytest

from opmkit.index.errors import CatalogError
from opmkit.index.fbc.load import parse_blobs
from opmkit.index.plan.extension import (
    ExtensionCatalog,
    ExtensionRequest,
    InstalledBundle,
    UnresolvedExtension,
    resolve_extension,
)
from tests.kit.plans import chain, encode, package, requires_package

LAGOON = package(
    "lagoon",
    {
        "stable": chain("lagoon.v1.0.0", "lagoon.v1.1.0"),
        "fast": [{"name": "lagoon.v1.2.0", "replaces": "lagoon.v1.0.0"}],
    },
)


def catalog(name: str, *documents: Any, priority: int = 0) -> ExtensionCatalog:
    return ExtensionCatalog(
        name, parse_blobs(encode([item for each in documents for item in each]), "c.json"), priority
    )


def deprecated(name: str) -> list[dict[str, Any]]:
    entry = {"reference": {"schema": "olm.bundle", "name": name}, "message": "old"}
    return [{"schema": "olm.deprecations", "package": "lagoon", "entries": [entry]}]


def resolved(*catalogs: ExtensionCatalog, installed: str = "", **settings: Any) -> str:
    bundle = InstalledBundle(installed, installed.partition(".v")[2]) if installed else None
    found = resolve_extension(ExtensionRequest("lagoon", installed=bundle, **settings), catalogs)
    return f"{found.bundle.name} of {found.catalog}"


def test_the_highest_version_that_matches_is_installed() -> None:
    one = catalog("one", LAGOON)
    assert resolved(one) == "lagoon.v1.2.0 of one"
    assert resolved(one, version="<1.2") == "lagoon.v1.1.0 of one"
    assert resolved(one, channels=("stable",)) == "lagoon.v1.1.0 of one"


def test_an_installed_bundle_is_updated_along_the_edges_of_the_selected_channels() -> None:
    one = catalog("one", LAGOON)
    assert resolved(one, installed="lagoon.v1.0.0") == "lagoon.v1.2.0 of one"
    assert resolved(one, installed="lagoon.v1.0.0", channels=("stable",)) == "lagoon.v1.1.0 of one"
    assert resolved(one, installed="lagoon.v1.1.0") == "lagoon.v1.1.0 of one"
    with pytest.raises(UnresolvedExtension, match=r"in the range >=1\.2\.0 replaces or skips lagoon"):
        resolved(one, installed="lagoon.v1.1.0", version=">=1.2.0")
    assert resolved(one, installed="lagoon.v1.1.0", version=">=1.2.0", self_certified=True) == "lagoon.v1.2.0 of one"


def test_deprecated_bundles_come_last() -> None:
    one, other = catalog("one", LAGOON, deprecated("lagoon.v1.2.0")), catalog("two", LAGOON)
    assert resolved(one) == "lagoon.v1.1.0 of one"
    only = catalog("one", LAGOON, deprecated("lagoon.v1.1.0"))
    assert resolved(only, other, version="1.1.0") == resolved(other, only, version="1.1.0") == "lagoon.v1.1.0 of two"


def test_priority_decides_between_catalogs() -> None:
    assert resolved(catalog("one", LAGOON), catalog("two", LAGOON, priority=1)) == "lagoon.v1.2.0 of two"
    with pytest.raises(
        UnresolvedExtension,
        match=r"one \(lagoon\.v1\.2\.0\), two \(lagoon\.v1\.2\.0\)",
    ):
        resolved(catalog("one", LAGOON), catalog("two", LAGOON))


def test_the_release_is_that_of_the_build_metadata() -> None:
    documents = package("lagoon", {"stable": [{"name": "lagoon.v1.0.0+9"}, *chain("lagoon.v1.0.0+10")]})
    for item in documents:
        item["image"] = "quay.io/me/lagoon:1"
    assert resolved(catalog("one", documents)) == "lagoon.v1.0.0+10 of one"


def test_what_olm_v1_refuses() -> None:
    needs = package("lagoon", {"stable": chain("lagoon.v1.0.0")}, {"lagoon.v1.0.0": [requires_package("reef")]})
    with pytest.raises(UnresolvedExtension, match=r"has a dependency \(olm\.package\.required\)"):
        resolved(catalog("one", needs))
    with pytest.raises(UnresolvedExtension, match="package lagoon has no bundle in fast"):
        resolved(catalog("one", needs), channels=("fast",))
    with pytest.raises(CatalogError, match="invalid version range"):
        resolved(catalog("one", LAGOON), version="one")
    with pytest.raises(CatalogError, match="installed bundle lagoon: invalid version"):
        resolved(catalog("one", LAGOON), installed="lagoon")


def test_what_leaves_no_bundle_is_named() -> None:
    one = catalog("one", LAGOON)
    with pytest.raises(UnresolvedExtension, match="no catalog has package lagon") as caught:
        resolve_extension(ExtensionRequest("lagon"), [one])
    assert str(caught.value.hint) == "did you mean lagoon?"
    with pytest.raises(UnresolvedExtension, match="no version of package lagoon is in the range >=9") as caught:
        resolved(one, version=">=9", installed="lagoon.v1.0.0")
    assert str(caught.value.hint).endswith("1.0.0, 1.1.0, 1.2.0")


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("lagoon", ExtensionRequest("lagoon")),
        ("lagoon/stable", ExtensionRequest("lagoon", "", ("stable",))),
        ("lagoon/stable,fast@>=1, <2", ExtensionRequest("lagoon", ">=1, <2", ("stable", "fast"))),
    ],
)
def test_requests_are_parsed(text: str, request_: ExtensionRequest) -> None:
    assert ExtensionRequest.parse(text) == request_


@pytest.mark.parametrize("text", ["", "/stable", "@1", "lagoon@one"])
def test_invalid_requests(text: str) -> None:
    with pytest.raises(CatalogError, match="invalid"):
        ExtensionRequest.parse(text)


def test_the_version_of_the_installed_bundle_is_that_of_a_catalog() -> None:
    one = catalog("one", LAGOON)
    request = ExtensionRequest("lagoon", installed=InstalledBundle("lagoon.v1.1.0", ""))
    assert request.with_installed_version([one]).installed == InstalledBundle("lagoon.v1.1.0", "1.1.0")
    unknown = ExtensionRequest("lagoon", installed=InstalledBundle("lagoon.v0.1.0", ""))
    with pytest.raises(CatalogError, match=r"version of installed bundle 'lagoon\.v0\.1\.0' is unknown"):
        unknown.with_installed_version([one])
