"""Completion of command lines."""

from __future__ import annotations

import pytest

from opmkit.bundle import policy
from opmkit.bundle.finding import Severity
from opmkit.bundle.validation.profiles import PROFILES
from opmkit.cli.help.completion import CHOICES, Directive, complete
from opmkit.cli.help.completion_names import BUNDLE_PROFILES, CATALOG_PROFILES
from opmkit.cli.main import build_app
from opmkit.cli.output.validation import ReportFormat
from opmkit.imagetools.tools import ENGINES
from opmkit.index.fbc.csv_metadata import MigrationLevel
from opmkit.index.modes import UpdateMode
from tests.kit.opm import FIXTURES


def completed(*words: str) -> tuple[list[str], Directive]:
    found = complete(build_app(load_all=False), words)
    return [candidate.value for candidate in found.candidates], found.directive


@pytest.mark.parametrize(
    ("metavar", "values"),
    [
        ("TOOL", ("none", *ENGINES)),
        ("MODE", UpdateMode),
        ("LEVEL", MigrationLevel),
        ("FORM", ReportFormat),
        ("SEVERITY", Severity),
    ],
)
def test_choices_are_the_values_that_commands_accept(metavar: str, values: tuple[str, ...]) -> None:
    assert set(CHOICES[metavar]) == set(map(str, values))


@pytest.mark.parametrize(
    ("words", "values", "directive"),
    [
        (("nope", ""), [], Directive.NO_FILES),
        (("version", "--", "-"), [], Directive.NO_FILES),
        (("index", "add", "--cert-dir", ""), [], Directive.DIRECTORIES),
        (("index", "add", "--cert-dir=x"), [], Directive.DIRECTORIES),
        (("index", "add", "--tag", ""), [], Directive.DEFAULT),
        (("index", "add", "--replaces", ""), [], Directive.NO_FILES),
        (("index", "add", "-c", "po"), ["podman"], Directive.NO_FILES),
        (("index", "add", "-cpodman", "--mode", "r"), ["replaces"], Directive.NO_FILES),
        (("--authfile", ""), [], Directive.DEFAULT),
        (("--authfile", "x", "gen"), ["generate"], Directive.NO_FILES),
        (("migrate", "index", ""), [], Directive.DIRECTORIES),
        (("migrate", "index", "directory", ""), [], Directive.NO_FILES),
        (("render", "a", "b", ""), [], Directive.DEFAULT),
        (("render", "--output", "json", "--out"), [], Directive.NO_FILES),
        (("help", "alpha", "list", "c"), ["channels"], Directive.NO_FILES),
    ],
)
def test_completions(words: tuple[str, ...], values: list[str], directive: Directive) -> None:
    assert completed(*words) == (values, directive)


def test_profiles_are_those_of_bundles_and_catalogs() -> None:
    assert set(BUNDLE_PROFILES) == set(PROFILES)
    assert CATALOG_PROFILES == policy.CATALOG_PROFILES


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("bundle", "validate", "--profile", "operator"), ["operator-sdk", "operatorhub"]),
        (("validate", "--profile", ""), ["konflux"]),
        (("validate", "--fail-on="), ["--fail-on=error", "--fail-on=warning"]),
        (("index", "diff", "--fail-on", "removed-b"), ["removed-bundle"]),
        (("index", "diff", "--fail-on", "removed-bundle,changed-h"), ["removed-bundle,changed-head"]),
        (("index", "plan", "--fail-on", "st"), ["stuck"]),
        (("bundle", "permissions", "--fail-on", "sec"), ["secrets", "security-context"]),
        (("bundle", "rules", "CSV-REPLACES-F"), ["CSV-REPLACES-FORMAT"]),
        (("bundle", "validate", "--ignore", "FBC-EMPTY,CSV-REPLACES-F"), ["FBC-EMPTY,CSV-REPLACES-FORMAT"]),
        (("alpha", "list", "bundles", str(FIXTURES / "graphs" / "channels"), ""), ["demo"]),
        (("index", "graph", "quay.io/me/catalog:1", ""), []),
    ],
)
def test_names_are_completed(words: tuple[str, ...], values: list[str]) -> None:
    assert completed(*words) == (values, Directive.NO_FILES)


def test_flags_are_completed() -> None:
    values, _ = completed("index", "add", "-")
    assert {"--mode", "-f", "--from-index", "--skip-tls-verify"} <= set(values)
    assert "--debug" not in values
