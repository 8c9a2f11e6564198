"""The policy file of a project, for bundles and catalogs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from opmkit.cli.output.errors import UsageError
from opmkit.core.files import require_regular

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opmkit import Policy, Severity

_DEFAULT = Path(".opm-validate.yaml")
POLICY_VARIABLE = "OPM_POLICY"
"""Variable that names another policy file: pipelines set it to that of the base branch of a pull request."""
RULES_PANEL = "Rules"
REPORT_PANEL = "Report"

IgnoreOption = Annotated[
    list[str] | None, typer.Option(metavar="RULE,...", help="Rules to ignore", rich_help_panel=RULES_PANEL)
]
ConfigOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Policy file with severities, ignored rules and settings; default: OPM_POLICY or .opm-validate.yaml",
        rich_help_panel=RULES_PANEL,
    ),
]
FailOnOption = Annotated[
    str,
    typer.Option(
        metavar="SEVERITY",
        help="Lowest severity that makes the command fail: error (default) or warning",
        rich_help_panel=REPORT_PANEL,
    ),
]


def find_policy_file(config: Path | None) -> Path | None:
    """Return the path of the policy file, or None if none is given and the default does not exist.

    A default that cannot be read, such as a dangling link, is returned as well: it is an error and not "no policy".

    Raises:
        UsageError: `POLICY_VARIABLE` is empty.
        DiskError: A file that the command line does not name, and that a checkout may contain, is a pipe or device.
    """
    if config is not None:
        return config
    path = _default_policy()
    if path is not None and path.exists():
        require_regular(path)
    return path


def _default_policy() -> Path | None:
    if (named := os.environ.get(POLICY_VARIABLE)) is not None:
        if not named:
            hint = "unset it, or set it to a policy file"
            raise UsageError(f"{POLICY_VARIABLE}: the value is empty", "opm", hint=hint)
        return Path(named)
    return _DEFAULT if os.path.lexists(_DEFAULT) else None


def load_policy(path: Path | None, ignored: Sequence[str], command: str) -> Policy:
    """Return the policy of a file, with the rules that the command line ignores.

    Raises:
        UsageError: an ignored rule is unknown.
        InvalidPolicy, DiskError: the file is invalid or cannot be read.
    """
    from opmkit.api import Opm
    from opmkit.bundle.policy import UnknownRule

    try:
        return Opm().read_policy(path, ignore=ignored)
    except UnknownRule as error:
        raise UsageError(f"{error.message} of --ignore", command, hint=error.hint) from None


def parse_fail_on(text: str, policy: Policy, command: str) -> Severity:
    """Return the lowest severity that makes the command fail; raises UsageError if it is unknown."""
    from opmkit import Severity

    fail_on = text or policy.fail_on or Severity.ERROR
    if fail_on not in tuple(Severity):
        raise UsageError(f"unknown severity {fail_on!r} of --fail-on: error or warning", command)
    return Severity(fail_on)
