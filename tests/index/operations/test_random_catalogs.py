"""Random changes of random catalogs: what comes of them is valid, and what they don't concern is not touched."""

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
from opmkit.index.operations.add.new_bundle import NewBundle
from opmkit.index.operations.add.options import AddOptions, Placement
from opmkit.index.operations.deprecate import DeprecationEdit, edit_deprecations
from opmkit.index.operations.prune import prune_catalog, prune_stranded_in_catalog
from opmkit.index.operations.remove import remove_from_catalog
from opmkit.index.operations.truncate.fbc import truncate_bundles
from tests.index.builders import bundle
from tests.kit.randomcatalogs import random_catalog

if TYPE_CHECKING:
    from collections.abc import Callable

    from opmkit.index.operations.change import EditResult

CHANNELS = ["alpha", "beta", "stable", "new"]


def test_random_edits() -> None:
    dice = random.Random(7)
    made: set[str] = set()
    refused: dict[str, CatalogError] = {}
    for _ in range(150):
        blobs = _catalog(dice)
        package = dice.choice(blobs.packages).name
        change = dice.choice(CHANGES)
        try:
            result = change(dice, blobs, package)
        except CatalogError as error:
            refused[change.__name__] = error
            continue
        made.add(change.__name__)
        assert not check_blobs(result.blobs)
        assert not any(text.startswith("catalog.json") for text in result.warnings)
        others = [] if change is _keep else [blob for blob in blobs if blob.package != package]
        assert [id(blob) for blob in result.blobs if blob.package != package] == [id(blob) for blob in others]
    assert made == {change.__name__ for change in CHANGES}
    assert refused.keys() == {"_add", "_truncate", "_state"}
    assert all(str(error.hint) for error in refused.values())


@pytest.mark.parametrize("mode", UpdateMode)
def test_permissive_additions_fail_one_by_one(mode: UpdateMode) -> None:
    dice = random.Random(11)
    for _ in range(40):
        blobs = _catalog(dice)
        package = dice.choice(blobs.packages).name
        arrivals = [_arrival(dice, package) for _ in range(dice.randint(1, 4))]
        result = add_bundles(blobs, arrivals, AddOptions(mode, permissive=True))
        assert not check_blobs(result.blobs)
        added = {one.image for one in result.blobs.bundles} - {one.image for one in blobs.bundles}
        assert len(added) + len(result.failures) == len({one.image for one in arrivals})


def _catalog(dice: random.Random) -> Blobs:
    documents = random_catalog(dice, packages=3, bundles=6)
    return parse_blobs("\n".join(map(json.dumps, documents)).encode(), "catalog.json")


def _arrival(dice: random.Random, package: str) -> NewBundle:
    version = f"1.{dice.randint(0, 9)}.{dice.randint(0, 2)}"
    below = [f"{package}.v1.{minor}.0" for minor in range(7)]
    edges = dice.choice([below[:1], below[-3:], below])
    channels = ",".join(dice.sample(CHANNELS, dice.randint(1, 2)))
    replaces = dice.choice(["", *edges])
    skips = tuple(name for name in dice.sample(edges, dice.randint(0, len(edges))) if name != replaces)
    default = dice.choice(["", "", *CHANNELS])
    return NewBundle.from_bundle(
        bundle(version, package=package, channels=channels, default=default, replaces=replaces, skips=skips)
    )


def _add(dice: random.Random, blobs: Blobs, package: str) -> EditResult:
    placement = dice.choice([None, None, Placement(channels=tuple(dice.sample(CHANNELS, 2)), default_channel="alpha")])
    mode = dice.choice(list(UpdateMode))
    options = AddOptions(mode, overwrite_latest=dice.random() < 0.5, placement=placement)
    return add_bundles(blobs, [_arrival(dice, package) for _ in range(dice.randint(1, 3))], options)


def _truncate(dice: random.Random, blobs: Blobs, package: str) -> EditResult:
    images = [one.image for one in blobs.bundles if one.package == package]
    chosen = dice.sample(images, dice.randint(1, len(images)))
    return truncate_bundles(blobs, chosen, permissive=dice.random() < 0.3, allow_package_removal=dice.random() < 0.3)


def _state(dice: random.Random, blobs: Blobs, package: str) -> EditResult:
    names = [blob.name for blob in blobs if blob.package == package]
    abouts = [("olm.package", ""), *((schema, dice.choice(names)) for schema in ("olm.channel", "olm.bundle"))]
    chosen = dice.sample(abouts, dice.randint(1, 3))
    return edit_deprecations(
        blobs, [DeprecationEdit(package, Deprecation(*about, dice.choice(["", "old"]))) for about in chosen]
    )


def _remove(_: random.Random, blobs: Blobs, package: str) -> EditResult:
    return remove_from_catalog(blobs, [package])


def _keep(_: random.Random, blobs: Blobs, package: str) -> EditResult:
    return prune_catalog(blobs, [package])


def _tidy(_: random.Random, blobs: Blobs, __: str) -> EditResult:
    return prune_stranded_in_catalog(blobs)


CHANGES: list[Callable[[random.Random, Blobs, str], EditResult]] = (
    [_add] * 5 + [_truncate] * 3 + [_state, _remove, _keep, _tidy]
)
