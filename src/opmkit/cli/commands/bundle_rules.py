"""``opm bundle rules``: list and explain the rules of bundle validation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.cli.flags.output import TableOutput
from opmkit.cli.output.console import TableFormat, print_json, print_line, print_prose, print_table, print_text
from opmkit.cli.output.errors import UsageError
from opmkit.cli.parser.declaration import argument

if TYPE_CHECKING:
    from opmkit import RuleDescription


def list_rules(
    rule: str | None = argument(None, "Rule to explain", metavar="[RULE]"), output: TableOutput = TableFormat.TEXT
) -> None:
    """List the rules for bundles and catalogs, or explain one with examples

    [bold]Examples:[/]
      opm bundle rules
      opm bundle rules CSV-REPLACES-FORMAT
    """
    from opmkit.api import Opm

    known = Opm().list_rules()
    chosen = [each for each in known if rule is None or each.id == rule.upper()]
    if not chosen:
        raise UsageError(f"unknown rule {rule!r}", hint="list the rules with 'opm bundle rules'")
    if output is TableFormat.JSON:
        print_json([each.to_dict() for each in chosen])
    elif rule:
        _print_rule(chosen[0])
    else:
        rows = [(each.id, each.severity.value, each.validator, each.summary) for each in chosen]
        print_table(
            ("RULE", "SEVERITY", "VALIDATOR", "SUMMARY"), rows, optional=("VALIDATOR",), wide=output is TableFormat.WIDE
        )


def _print_rule(rule: RuleDescription) -> None:
    parts = [f"{rule.id} ({rule.severity}, validator {rule.validator}): {rule.summary}", rule.explanation]
    parts += [f"Hint: {rule.hint}"] if rule.hint else []
    print_prose("\n\n".join(filter(None, parts)))
    for title, example in (("Bad", rule.bad), ("Good", rule.good)):
        if example:
            print_text(f"\n{title}:\n")
            for line in example.rstrip().splitlines():
                print_line(f"    {line}")
