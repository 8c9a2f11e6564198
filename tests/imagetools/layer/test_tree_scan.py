"""Scanning of layers for directories."""

from __future__ import annotations

import pytest

from opmkit.imagetools.layer import scan_layer
from opmkit.imagetools.layer.tree import LayerScan
from tests.imagetools.layer.helpers import OPAQUE
from tests.kit.images import Member, directory, layer, member

CONFIGS = frozenset({"configs"})


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ([member("configs/a")], LayerScan(exclusive=True, hides_lower=False, directories=CONFIGS)),
        ([member("configs/a"), member("tmp/cache/b")], LayerScan(True, False, CONFIGS | {"tmp/cache"})),
        ([directory("tmp"), member("tmp/cache/b")], LayerScan(True, False, frozenset({"tmp/cache"}))),
        ([member("configs/a"), member("bin/opm")], LayerScan(False, False, CONFIGS)),
        ([member(f"configs/{OPAQUE}"), member("configs/a")], LayerScan(True, True, CONFIGS)),
        ([member(".wh.configs")], LayerScan(True, True, CONFIGS)),
        ([member(OPAQUE)], LayerScan(False, True, frozenset())),
        ([member(f"tmp/cache/{OPAQUE}")], LayerScan(True, False, frozenset({"tmp/cache"}))),
        ([], LayerScan(True, False, frozenset())),
    ],
)
def test_scan(members: list[Member], expected: LayerScan) -> None:
    assert scan_layer(layer(*members), ("configs", "tmp/cache")) == expected
