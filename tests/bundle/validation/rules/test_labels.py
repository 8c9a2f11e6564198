"""Rules of the validator ``labels``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.bundle import labels as names
from opmkit.bundle.validation.bundle_view import BundleView
from opmkit.bundle.validation.rule import Rule
from opmkit.bundle.validation.rules import labels
from opmkit.bundle.validation.run import run_rules

if TYPE_CHECKING:
    from collections.abc import Mapping

GOOD = {
    names.MEDIA_TYPE: "registry+v1",
    names.MANIFESTS: "manifests/",
    names.METADATA: "metadata/",
    names.PACKAGE: "lagoon",
    names.CHANNELS: "alpha,stable",
    names.DEFAULT_CHANNEL: "stable",
    "vendor": "me",
}
RULES = [rule for rule in vars(labels).values() if isinstance(rule, Rule)]


def found(image_labels: Mapping[str, str] | None, files: Mapping[str, bytes] | None = None) -> list[tuple[str, str]]:
    files = files or {}
    view = BundleView("demo", files, frozenset({"metadata"} if files else ()), image_labels)
    return [(finding.rule, finding.subject) for finding in run_rules(view, RULES)]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({names.DEFAULT_CHANNEL: ""}, []),
        ({names.PACKAGE: " "}, [("LABEL-MISSING", names.PACKAGE)]),
        ({names.CHANNELS: ""}, [("LABEL-MISSING", names.CHANNELS), ("LABEL-DEFAULT-CHANNEL", "stable")]),
        ({names.MEDIA_TYPE: "registry/v1"}, [("LABEL-MEDIATYPE", "registry/v1")]),
        ({names.DEFAULT_CHANNEL: "beta"}, [("LABEL-DEFAULT-CHANNEL", "beta")]),
        ({names.CHANNELS: "alpha, stable"}, []),
    ],
)
def test_labels(change: dict[str, str], expected: list[tuple[str, str]]) -> None:
    assert found(GOOD | change) == expected


def test_only_images_need_labels() -> None:
    assert found({"vendor": "me"}) == [("LABEL-NONE", "")]
    assert found(None) == []


def test_labels_are_compared_with_the_annotations() -> None:
    text = "annotations:\n" + "".join(f"  {key}: {value}\n" for key, value in GOOD.items())
    assert found(GOOD, {"metadata/annotations.yaml": text.encode()}) == []
    other = text.replace("lagoon", "laguna").encode()
    assert found(GOOD, {"metadata/annotations.yaml": other}) == [("LABEL-DIFFERS", names.PACKAGE)]
    assert found(GOOD, {"metadata/annotations.yaml": text.replace("vendor", "maker").encode()}) == []
