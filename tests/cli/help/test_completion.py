"""Completion of command lines."""

from __future__ import annotations

import pytest

from opmkit.bundle.finding import Severity
from opmkit.cli.help.completion import CHOICES, Directive, complete
from opmkit.cli.main import build_app
from opmkit.cli.output.validation import ReportFormat
from opmkit.imagetools.tools import ENGINES
from opmkit.index.fbc.csv_metadata import MigrationLevel
from opmkit.index.modes import UpdateMode


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


def test_flags_are_completed() -> None:
    values, _ = completed("index", "add", "-")
    assert {"--mode", "-f", "--from-index", "--skip-tls-verify"} <= set(values)
    assert "--debug" not in values
