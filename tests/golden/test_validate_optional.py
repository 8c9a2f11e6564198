"""What the references find by their object validator and their optional validators."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.validation.bundle_view import Options
from opmkit.bundle.validation.compat import ALL, Compat
from opmkit.bundle.validation.rule_registry import validators
from opmkit.bundle.validation.run import run_rules
from tests.kit.fake_platforms import platforms_of
from tests.kit.shared import needs_shared
from tests.kit.validation import DOCKERFILES, RECORDS, found, judged

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.validation import Judged

pytestmark = needs_shared

# The bundle that the references crash on; opmkit tells what they should have told.
_CRASHES = "syn-hub-icon-empty-list"
_HUB = ("operatorhub", "operatorhubv2")

# Validator, options, how the record calls the two together, and the corpora that it is in.
_BOTH = ("bundles", "invalid-api")
CASES = [
    *(
        (name, Options(), name, _BOTH)
        for name in ("operatorhub", "alpha-deprecated-apis", "community", "good-practices")
    ),
    *(
        ("alpha-deprecated-apis", Options(k8s_version=version), f"alpha-deprecated-apis@k8s-version={version}", _BOTH)
        for version in ("1.22", "1.25", "1.26")
    ),
    *(
        ("community", Options(index_path=str(path)), f"community@index-path={path.name}", ("invalid-api",))
        for path in sorted(DOCKERFILES.glob("*"))
    ),
]
NEWEST_CASES = [(name, Options(), name, _BOTH) for name in ("operatorhubv2", "capabilities", "categories")]


def loaded(compat: Compat, corpora: tuple[str, ...], layouts: str = "bundle manifests") -> Iterator[Judged]:
    """The bundles that the reference could load, for else it looks no further."""
    for bundle in judged(compat, *corpora):
        if bundle.layout in layouts.split() and not any(one["validator"] == "load" for one in bundle.findings):
            yield bundle


def expected(bundle: Judged, recorded: str) -> Counter[tuple[str, str, str]]:
    """What the reference found."""
    return bundle.expected(recorded, "value")


@pytest.mark.parametrize(
    ("compat", "validator", "options", "recorded", "corpora"),
    [(compat, *case) for compat in RECORDS for case in CASES] + [(Compat.NEWEST, *case) for case in NEWEST_CASES],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "value", ""),
)
def test_findings_are_those_of_the_reference(
    compat: Compat, validator: str, options: Options, recorded: str, corpora: tuple[str, ...]
) -> None:
    counted = 0
    for bundle in loaded(compat, corpora):
        wanted = expected(bundle, recorded)
        if validator in _HUB and bundle.path == _CRASHES:
            assert not wanted
            assert found(bundle.view(options), validator)["HUB-ICON-COUNT", "error", ""] == 1
            continue
        assert found(bundle.view(options), validator) == wanted, bundle.path
        counted += wanted.total()
    assert counted > 3


@pytest.mark.parametrize("compat", RECORDS)
def test_channels_are_looked_at_where_the_annotations_are_known(compat: Compat) -> None:
    """Given all of a bundle, the references know its channels; their command gives them the manifests alone."""
    rules = [replace(rule, compat=ALL) if rule.id == "GP-CHANNEL-NAME" else rule for rule in good_practices()]
    for bundle in loaded(compat, _BOTH if compat is Compat.OPM_1_26 else ("invalid-api",), "bundle"):
        if not any(one["validator"] == "load@root" for one in bundle.findings):
            mine = Counter((one.rule, one.severity.value, one.subject) for one in run_rules(bundle.view(), rules))
            assert mine == expected(bundle, "good-practices@root"), bundle.path


def good_practices() -> list:  # type: ignore[type-arg]
    return [
        rule for rule in validators()["good-practices"] if Compat.OPMKIT in rule.compat and "PARTIAL" not in rule.id
    ]


@pytest.mark.parametrize("compat", RECORDS)
def test_platforms_are_those_of_the_reference(compat: Compat) -> None:
    counted = 0
    for bundle in loaded(compat, _BOTH):
        wanted = expected(bundle, "multiarch@sim")
        assert found(replace(bundle.view(), inspect=platforms_of), "multiarch") == wanted, bundle.path
        counted += wanted.total()
    assert counted > 1000


@pytest.mark.parametrize("compat", RECORDS)
def test_objects_are_those_of_the_reference(compat: Compat) -> None:
    """By rule and level, for the subjects are dumps of Go structs."""
    counted = 0
    for bundle in loaded(compat, ("invalid-api", "bundles"), "bundle manifests file"):
        mine = Counter((rule, level) for rule, level, _ in found(bundle.view(), "object").elements())
        wanted = Counter((rule, level) for rule, level, _ in expected(bundle, "object").elements())
        assert mine == wanted, bundle.path
        assert not found(bundle.view(), "operatorgroup") + expected(bundle, "operatorgroup")
        counted += wanted.total()
    assert counted == 10
