"""``opm bundle rules``: list and explain the rules of bundle validation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.output.console import Output, OutputFormat, print_json, print_table, print_text
from opmkit.cli.output.errors import UsageError

if TYPE_CHECKING:
    from opmkit.bundle.validation.rule import Rule
    from opmkit.index.fbc.check.rules import CatalogRule


def list_rules(
    rule: Annotated[str | None, typer.Argument(metavar="[RULE]", help="Rule to explain")] = None,
    output: Output = OutputFormat.TEXT,
) -> None:
    """List the rules for bundles and catalogs, or explain one with examples

    [bold]Examples:[/]

      opm bundle rules

      opm bundle rules CSV-REPLACES-FORMAT
    """
    from opmkit.bundle.validation.rule_registry import rules
    from opmkit.index.fbc.check.rules import CATALOG_RULES

    known: dict[str, Rule | CatalogRule] = {**rules(), **CATALOG_RULES}
    if rule is not None and rule.upper() not in known:
        raise UsageError(f"unknown rule {rule!r}", hint="list the rules with 'opm bundle rules'")
    chosen = [known[rule.upper()]] if rule else [known[name] for name in sorted(known)]
    if output is OutputFormat.JSON:
        print_json([_rule_as_json(each) for each in chosen])
    elif rule:
        _print_rule(chosen[0])
    else:
        rows = [(each.id, each.severity.value, each.validator, each.summary) for each in chosen]
        print_table(("RULE", "SEVERITY", "VALIDATOR", "SUMMARY"), rows, optional=("VALIDATOR",))


def _rule_as_json(rule: Rule | CatalogRule) -> dict[str, str]:
    return {
        "id": rule.id,
        "validator": rule.validator,
        "severity": rule.severity.value,
        "summary": rule.summary,
        "explanation": rule.explanation,
        "hint": rule.hint,
        "bad": rule.bad,
        "good": rule.good,
    }


def _print_rule(rule: Rule | CatalogRule) -> None:
    from inspect import cleandoc

    print_text(f"{rule.id} ({rule.severity}, validator {rule.validator}): {rule.summary}\n")
    if rule.explanation:
        print_text(f"{cleandoc(rule.explanation)}\n")
    if rule.hint:
        print_text(f"Hint: {rule.hint}")
    for title, example in (("Bad", rule.bad), ("Good", rule.good)):
        if example:
            print_text(f"\n{title}:\n\n" + "\n".join(f"    {line}" for line in example.rstrip().splitlines()))
