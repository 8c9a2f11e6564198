"""Findings of the object validator and the optional validators compared with those of the Go validators."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from msgspec import structs

from opmkit.bundle.validation.compat import ALL, Compat, Options
from opmkit.bundle.validation.rule_registry import validators
from opmkit.bundle.validation.run import run_rules
from tests.kit.fake_platforms import platforms_of
from tests.kit.shared import needs_shared
from tests.kit.validation import DOCKERFILES, RECORDS, count_findings, recorded_bundles

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.validation.rule import Rule
    from tests.kit.validation import RecordedBundle

pytestmark = needs_shared

# The Go validators crash on this bundle, where opmkit reports the cause.
_CRASHES = "syn-hub-icon-empty-list"
_HUB = ("operatorhub", "operatorhubv2")

# Validator, options, name of both in the records, corpora.
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


def loaded(compat: Compat, corpora: tuple[str, ...], layouts: str = "bundle manifests") -> Iterator[RecordedBundle]:
    """Yield the bundles that the Go validators could load; they do not check others."""
    for bundle in recorded_bundles(compat, *corpora):
        is_loaded = not any(finding["validator"] == "load" for finding in bundle.findings)
        if bundle.layout in layouts.split() and is_loaded:
            yield bundle


def expected(bundle: RecordedBundle, recorded: str) -> Counter[tuple[str, str, str]]:
    """Return the recorded findings."""
    return bundle.expected(recorded, "value")


def long_unless_versions(validator: str, options: Options) -> list[pytest.MarkDecorator]:
    """Mark the older records as long where the rules are those of the newest ones."""
    return [] if validator == "alpha-deprecated-apis" and not options.k8s_version else [pytest.mark.long]


@pytest.mark.parametrize(
    ("compat", "validator", "options", "recorded", "corpora"),
    [
        *((Compat.NEWEST, *case) for case in (*CASES, *NEWEST_CASES)),
        *(pytest.param(Compat.OPM_1_26, *case, marks=long_unless_versions(*case[:2])) for case in CASES),
    ],
    ids=lambda value: value if isinstance(value, str) else getattr(value, "value", ""),
)
def test_findings_equal_the_recorded_ones(
    compat: Compat, validator: str, options: Options, recorded: str, corpora: tuple[str, ...]
) -> None:
    counted = 0
    for bundle in loaded(compat, corpora):
        wanted = expected(bundle, recorded)
        if validator in _HUB and bundle.path == _CRASHES:
            assert not wanted
            assert count_findings(bundle.view(options), validator)["HUB-ICON-COUNT", "error", ""] == 1
            continue
        assert count_findings(bundle.view(options), validator) == wanted, bundle.path
        counted += wanted.total()
    assert counted > 3


@pytest.mark.parametrize("compat", RECORDS)
def test_channel_names_are_checked_with_annotations(compat: Compat) -> None:
    """The Go validators know the channels only if they get the whole bundle; operator-sdk passes only manifests."""
    rules = [structs.replace(rule, compat=ALL) if rule.id == "GP-CHANNEL-NAME" else rule for rule in good_practices()]
    for bundle in loaded(compat, _BOTH if compat is Compat.OPM_1_26 else ("invalid-api",), "bundle"):
        if not any(finding["validator"] == "load@root" for finding in bundle.findings):
            findings = run_rules(bundle.view(), rules)
            counts = Counter((finding.rule, finding.severity.value, finding.subject) for finding in findings)
            assert counts == expected(bundle, "good-practices@root"), bundle.path


def good_practices() -> list[Rule]:
    return [
        rule for rule in validators()["good-practices"] if Compat.OPMKIT in rule.compat and "PARTIAL" not in rule.id
    ]


@pytest.mark.parametrize("compat", RECORDS)
def test_multiarch_findings_equal_the_recorded_ones(compat: Compat) -> None:
    counted = 0
    for bundle in loaded(compat, _BOTH):
        wanted = expected(bundle, "multiarch@sim")
        assert count_findings(replace(bundle.view(), inspect=platforms_of), "multiarch") == wanted, bundle.path
        counted += wanted.total()
    assert counted > 1000


@pytest.mark.parametrize("compat", [pytest.param(Compat.OPM_1_26, marks=pytest.mark.long), Compat.NEWEST])
def test_object_findings_equal_the_recorded_ones(compat: Compat) -> None:
    """Only rule and level are compared, as the recorded subjects are dumps of Go structs."""
    counted = 0
    for bundle in loaded(compat, ("invalid-api", "bundles"), "bundle manifests file"):
        found = Counter((rule, level) for rule, level, _ in count_findings(bundle.view(), "object").elements())
        wanted = Counter((rule, level) for rule, level, _ in expected(bundle, "object").elements())
        assert found == wanted, bundle.path
        assert not count_findings(bundle.view(), "operatorgroup") + expected(bundle, "operatorgroup")
        counted += wanted.total()
    assert counted == 10
