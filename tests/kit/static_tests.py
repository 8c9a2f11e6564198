"""Run the static tests of operator-pipelines.

As a program, this file runs with an interpreter that can import ``operatorcert``, and does not import opmkit:
``PYTHON static_tests.py < REPOSITORIES`` reads a path of a repository per line, and prints a JSON object per
operator.
"""

from __future__ import annotations

import json
import logging
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SUITES = ("operatorcert.static_tests.community", "operatorcert.static_tests.common", "operatorcert.static_tests.isv")
PROGRAMS = ("check_osdk_bundle_validate_operatorhub", "check_osdk_bundle_validate_operator_framework")
"""Checks that run operator-sdk."""
CATALOGS = tuple(f"4.{minor}" for minor in range(22, 11, -1))
"""The OpenShift versions whose catalogs are maintained, newest first, instead of those that a server knows."""


def main(repositories: Iterable[str]) -> None:
    """Run the checks on all operators and bundles of the repositories."""
    logging.disable(logging.CRITICAL)
    yaml.safe_load = lambda stream: yaml.load(stream, Loader=yaml.CSafeLoader)  # ten times as fast
    utils = import_module("operatorcert.utils")
    vars(utils)["get_ocp_supported_versions"] = lambda _organization, versions: supported_versions(versions)
    core, checks = import_module("operatorcert.operator_repo"), import_module("operatorcert.operator_repo.checks")
    for path in repositories:
        repository = core.Repo(path)
        for operator in sorted(repository.all_operators(), key=lambda operator: str(operator.operator_name)):
            bundles = sorted(operator.all_bundles(), key=lambda bundle: str(bundle.operator_version))
            versions = {bundle.operator_version: results(checks, bundle) for bundle in bundles}
            record = {"path": str(operator.root), "operator": results(checks, operator), "bundles": versions}
            sys.stdout.write(json.dumps(record) + "\n")


def results(checks: Any, target: Any) -> list[tuple[str, str, str]]:
    """Return check, kind (failure, warning or crash) and reason of the results for an operator or a bundle."""
    return [
        (str(result.check), "crash" if is_crash(result.reason) else str(result.kind), str(result.reason))
        for suite in SUITES
        for result in checks.run_suite([target], suite, skip_tests=list(PROGRAMS))
    ]


def is_crash(reason: str) -> bool:
    """Return whether the reason of a failure is that the check has raised an exception."""
    return reason.startswith("Traceback ")


def supported_versions(selector: Any) -> list[str] | None:
    """Return the catalogs for a value of com.redhat.openshift.versions, None if it is invalid."""
    try:
        return [version for version in CATALOGS if is_selected(version, str(selector).strip() if selector else "")]
    except ValueError:
        return None


def is_selected(version: str, selector: str) -> bool:
    """Return whether a version is in a range."""
    number = minor(version)
    if "-" in selector:
        first, last = map(minor, selector.split("-", 1))
        return first <= number <= last
    if selector.startswith("="):
        return number == minor(selector[1:])
    return not selector or number >= min(map(minor, selector.split(",")))


def minor(version: str) -> tuple[int, int]:
    """Return major and minor of a version such as v4.12."""
    major, _, rest = version.strip().removeprefix("v").partition(".")
    return int(major), int(rest.partition(".")[0])


def read_lines() -> Iterator[str]:
    """Yield the paths on standard input."""
    return (str(Path(line.strip())) for line in sys.stdin)


if __name__ == "__main__":
    main(read_lines())
