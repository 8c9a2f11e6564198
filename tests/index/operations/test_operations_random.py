"""Tests of random changes of random catalogs."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

import pytest

from opmkit.index.errors import CatalogError
from opmkit.index.fbc.blobs import Blobs, Deprecation
from opmkit.index.fbc.check.catalog import check_blobs
from opmkit.index.fbc.load import parse_blobs
from opmkit.index.modes import UpdateMode
from opmkit.index.operations.add.fbc import add_bundles
from opmkit.index.operations.add.fbc_checks import NewBundle
from opmkit.index.operations.add.options import AddOptions, Placement
from opmkit.index.operations.deprecate import DeprecationEdit, edit_deprecations
from opmkit.index.operations.prune import prune_catalog, prune_stranded_in_catalog
from opmkit.index.operations.remove import remove_from_catalog
from opmkit.index.operations.truncate.fbc import truncate_bundles
from tests.index.builders import bundle
from tests.kit.randomcatalogs import random_catalog

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.index.change import EditResult

CHANNELS = ["alpha", "beta", "stable", "new"]


def test_results_are_valid_and_other_packages_unchanged() -> None:
    rng = random.Random(7)
    succeeded: set[str] = set()
    errors: dict[str, CatalogError] = {}
    for _ in range(150):
        blobs = _catalog(rng)
        package = rng.choice(blobs.packages).name
        change = rng.choice(CHANGES)
        try:
            result = change(rng, blobs, package)
        except CatalogError as error:
            errors[change.__name__] = error
            continue
        succeeded.add(change.__name__)
        assert not check_blobs(result.blobs)
        assert not any(text.startswith("catalog.json") for text in result.warnings)
        others = [] if change is _prune else [blob for blob in blobs if blob.package != package]
        assert [id(blob) for blob in result.blobs if blob.package != package] == [id(blob) for blob in others]
    assert succeeded == {change.__name__ for change in CHANGES}
    assert errors.keys() == {"_add", "_truncate", "_deprecate"}
    assert all(str(error.hint) for error in errors.values())


@pytest.mark.slow
@pytest.mark.parametrize("mode", UpdateMode)
def test_permissive_add_reports_each_rejected_bundle(mode: UpdateMode) -> None:
    rng = random.Random(11)
    for _ in range(40):
        blobs = _catalog(rng)
        package = rng.choice(blobs.packages).name
        bundles = [_new_bundle(rng, package) for _ in range(rng.randint(1, 4))]
        result = add_bundles(blobs, bundles, AddOptions(mode, permissive=True))
        assert not check_blobs(result.blobs)
        added = {bundle.image for bundle in result.blobs.bundles} - {bundle.image for bundle in blobs.bundles}
        assert len(added) + len(result.failures) == len({new.image for new in bundles})


def _catalog(rng: random.Random) -> Blobs:
    documents = random_catalog(rng, packages=3, bundles=6)
    return parse_blobs("\n".join(map(json.dumps, documents)).encode(), "catalog.json")


def _new_bundle(rng: random.Random, package: str) -> NewBundle:
    version = f"1.{rng.randint(0, 9)}.{rng.randint(0, 2)}"
    below = [f"{package}.v1.{minor}.0" for minor in range(7)]
    edges = rng.choice([below[:1], below[-3:], below])
    channels = ",".join(rng.sample(CHANNELS, rng.randint(1, 2)))
    replaces = rng.choice(["", *edges])
    skips = tuple(name for name in rng.sample(edges, rng.randint(0, len(edges))) if name != replaces)
    default = rng.choice(["", "", *CHANNELS])
    return NewBundle.from_bundle(
        bundle(version, package=package, channels=channels, default=default, replaces=replaces, skips=skips)
    )


def _add(rng: random.Random, blobs: Blobs, package: str) -> EditResult:
    placement = rng.choice([None, None, Placement(channels=tuple(rng.sample(CHANNELS, 2)), default_channel="alpha")])
    mode = rng.choice(list(UpdateMode))
    options = AddOptions(mode, overwrite_latest=rng.random() < 0.5, placement=placement)
    return add_bundles(blobs, [_new_bundle(rng, package) for _ in range(rng.randint(1, 3))], options)


def _truncate(rng: random.Random, blobs: Blobs, package: str) -> EditResult:
    images = [bundle.image for bundle in blobs.bundles if bundle.package == package]
    chosen = rng.sample(images, rng.randint(1, len(images)))
    return truncate_bundles(blobs, chosen, permissive=rng.random() < 0.3, allow_package_removal=rng.random() < 0.3)


def _deprecate(rng: random.Random, blobs: Blobs, package: str) -> EditResult:
    names = [blob.name for blob in blobs if blob.package == package]
    references = [("olm.package", ""), *((schema, rng.choice(names)) for schema in ("olm.channel", "olm.bundle"))]
    chosen = rng.sample(references, rng.randint(1, 3))
    return edit_deprecations(
        blobs, [DeprecationEdit(package, Deprecation(*reference, rng.choice(["", "old"]))) for reference in chosen]
    )


def _remove(_: random.Random, blobs: Blobs, package: str) -> EditResult:
    return remove_from_catalog(blobs, [package])


def _prune(_: random.Random, blobs: Blobs, package: str) -> EditResult:
    return prune_catalog(blobs, [package])


def _prune_stranded(_: random.Random, blobs: Blobs, __: str) -> EditResult:
    return prune_stranded_in_catalog(blobs)


CHANGES: list[Callable[[random.Random, Blobs, str], EditResult]] = (
    [_add] * 5 + [_truncate] * 3 + [_deprecate, _remove, _prune, _prune_stranded]
)
