"""The results of checks in the JSON of openshift-preflight, as certification pipelines read them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from opmkit.bundle.validation.preflight import RELEASE, CheckName, CheckOutcome, enforced_checks, unreadable

if TYPE_CHECKING:
    from opmkit.bundle.validation.preflight import CheckResult
    from opmkit.bundle.validation.result import ValidationResult

_DESCRIPTIONS = {
    CheckName.VALID: "Validates the manifests and annotations of the bundle",
    CheckName.ANNOTATIONS: "Checks that the annotations about features of OpenShift are present and valid",
}
_LISTS = {CheckOutcome.PASSED: "passed", CheckOutcome.FAILED: "failed", CheckOutcome.ERROR: "errors"}
_POLICY = "https://docs.redhat.com/en/documentation/red_hat_software_certification/"
_URLS = {
    CheckName.VALID: "https://sdk.operatorframework.io/docs/olm-integration/tutorial-bundle/",
    CheckName.ANNOTATIONS: _POLICY,
}


def report(result: ValidationResult, version: str) -> dict[str, Any]:
    """Return the results of the checks that certification requires for a bundle.

    ``not_run`` names the check that needs a cluster; preflight has no such member, and lists its result as well.

    Args:
        result: The result of a bundle in the profile ``preflight``.
        version: Version of opmkit.
    """
    checks = unreadable(result.error) if result.error else enforced_checks(result.findings)
    lists: dict[str, list[dict[str, Any]]] = {name: [] for name in _LISTS.values()}
    for check in checks:
        lists[_LISTS[check.outcome]].append(_execution(check))
    return {
        "image": result.target,
        "passed": all(check.outcome is CheckOutcome.PASSED for check in checks),
        "test_library": {"name": f"opmkit (checks of openshift-preflight {RELEASE})", "version": version, "commit": ""},
        "results": lists,
        "not_run": [CheckName.DEPLOYABLE],
    }


def _execution(check: CheckResult) -> dict[str, Any]:
    """Return a check as preflight lists it; messages have the problems."""
    listed: dict[str, Any] = {"name": check.name, "elapsed_time": 0, "description": _DESCRIPTIONS[check.name]}
    if check.outcome is not CheckOutcome.PASSED:
        listed["help"] = "; ".join(
            f"{problem.file}: {problem.message}" if problem.file else problem.message for problem in check.problems
        )
    if check.outcome is CheckOutcome.FAILED:
        hints = dict.fromkeys(filter(None, (str(problem.hint) for problem in check.problems)))
        urls = {"knowledgebase_url": _URLS[check.name], "check_url": _URLS[check.name]}
        listed |= {"suggestion": " ".join(hints), **urls}
    return listed
