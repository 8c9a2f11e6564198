"""Rules of the validator ``operator``: names of the directories, packages and bundles of an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle import labels
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.operator_view import bundle_check, operator_check
from opmkit.bundle.validation.rule import rule
from opmkit.documents.lenient import text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.validation.operator_view import Operator, VersionDirectory

VALIDATOR = "operator"
_SHOWN = 5
_MARKETPLACE = "redhat-marketplace"
_WORKFLOWS = {
    "marketplace.openshift.io/remote-workflow": "pricing",
    "marketplace.openshift.io/support-workflow": "support",
}


def _severity(operator: Operator) -> Severity:
    """Return the severity of inconsistent names: existing operators cannot change them."""
    return Severity.ERROR if len(operator.versions) == 1 else Severity.WARNING


@rule(
    "OPERATOR-CSV-FILE",
    VALIDATOR,
    Severity.ERROR,
    "the file of a ClusterServiceVersion has another name than the pipelines expect",
    hint="Rename the file to PACKAGE.clusterserviceversion.yaml.",
    bad="operators/demo/1.0.0/manifests/csv.yaml",
    good="operators/demo/1.0.0/manifests/demo.clusterserviceversion.yaml",
    compat=OPMKIT_ONLY,
)
@bundle_check
def csv_file(_operator: Operator, version: VersionDirectory) -> Iterator[Finding]:
    """The pipelines find the ClusterServiceVersion by the name of its file."""
    if version.csv is None:
        message = f"no file {version.directory}/manifests/*.clusterserviceversion.yaml with a ClusterServiceVersion"
        yield Finding(message, subject=version.directory)
    elif not version.csv.name.endswith((".clusterserviceversion.yaml", ".clusterserviceversion.yml")):
        yield Finding(f"{version.csv.name} is not named *.clusterserviceversion.yaml", version.csv.path, ("kind",))


@rule(
    "OPERATOR-VERSION-DIRECTORY",
    VALIDATOR,
    Severity.ERROR,
    "the directory of a bundle is not named after its version",
    hint="Rename the directory to the value of spec.version.",
    bad="operators/demo/v1.0.0 with spec.version 1.0.0",
    good="operators/demo/1.0.0 with spec.version 1.0.0",
    compat=OPMKIT_ONLY,
)
@bundle_check
def version_directory(_operator: Operator, version: VersionDirectory) -> Iterator[Finding]:
    """The pipelines release the bundle with the tag of its directory."""
    number = text(version.spec.get("version"))
    if version.csv and number != version.directory:
        message = f"spec.version is {number!r}, but the directory is {version.directory}"
        yield Finding(message, version.csv.path, ("spec", "version"), subject=version.directory)


@rule(
    "OPERATOR-PACKAGE",
    VALIDATOR,
    Severity.ERROR,
    "the package of a bundle is not that of its operator",
    hint="Set the package in metadata/annotations.yaml to the name of the operator's directory.",
    bad=f"operators/demo with {labels.PACKAGE}: demo-operator",
    good=f"operators/demo with {labels.PACKAGE}: demo",
    compat=OPMKIT_ONLY,
    variable_severity=True,
)
@bundle_check
def package(operator: Operator, version: VersionDirectory) -> Iterator[Finding]:
    """The pipelines expect the name of the directory. This is a warning for operators with several versions."""
    if version.package != operator.name:
        file = version.annotations_file.path if version.annotations_file else ""
        problem = f"package is {version.package!r}" if version.package else "package is missing"
        message = f"the {problem}, but the operator's directory is {operator.name}"
        severity = _severity(operator) if version.package else Severity.ERROR
        path = ("annotations", labels.PACKAGE)
        yield Finding(message, file, path, subject=version.directory, severity=severity)


@rule(
    "OPERATOR-NAME",
    VALIDATOR,
    Severity.ERROR,
    "the name of a bundle does not begin with its package",
    hint="Name the ClusterServiceVersion PACKAGE.vVERSION.",
    bad="metadata: {name: demo-operator.v1.0.0}  # in the package demo",
    good="metadata: {name: demo.v1.0.0}  # in the package demo",
    compat=OPMKIT_ONLY,
    variable_severity=True,
)
@bundle_check
def name(operator: Operator, version: VersionDirectory) -> Iterator[Finding]:
    """The pipelines expect consistent names. This is a warning for operators with several versions."""
    prefix, dot, number = version.name.partition(".")
    if version.csv and not (dot and number):
        message = f"the name {version.name!r} is not of the form PACKAGE.vVERSION"
        yield Finding(message, version.csv.path, ("metadata", "name"), subject=version.name)
    elif version.csv and version.package and prefix != version.package:
        message = f"the name {version.name} does not begin with the package {version.package}"
        severity = _severity(operator)
        yield Finding(message, version.csv.path, ("metadata", "name"), subject=version.name, severity=severity)


@rule(
    "OPERATOR-NAMES",
    VALIDATOR,
    Severity.ERROR,
    "the bundles of an operator have different names",
    hint="Begin the names of all bundles with the same package.",
    bad="demo.v1.0.0 and demo-operator.v1.1.0",
    good="demo.v1.0.0 and demo.v1.1.0",
    compat=OPMKIT_ONLY,
)
@operator_check
def names(operator: Operator) -> Iterator[Finding]:
    """The pipeline of community operators identifies an operator by the names of its bundles."""
    by_name = {version.name.partition(".")[0]: version for version in operator.versions if version.name}
    if len(by_name) > 1 and not operator.uses_catalogs:
        last = operator.versions[-1]
        listed = ", ".join(sorted(by_name)[:_SHOWN])
        file = last.csv.path if last.csv else ""
        yield Finding(f"the bundles have several names: {listed}", file, ("metadata", "name"), subject=operator.name)


@rule(
    "OPERATOR-MARKETPLACE",
    VALIDATOR,
    Severity.ERROR,
    "missing or invalid annotation of the marketplace",
    hint="Set the annotations marketplace.openshift.io/remote-workflow and support-workflow to the expected URLs.",
    bad="annotations: {}",
    good="annotations:\n  marketplace.openshift.io/remote-workflow: "
    "https://marketplace.redhat.com/en-us/operators/demo/pricing?utm_source=openshift_console",
    compat=OPMKIT_ONLY,
)
@bundle_check
def marketplace(operator: Operator, version: VersionDirectory) -> Iterator[Finding]:
    """The repository of marketplace operators requires links to the marketplace."""
    organization = operator.repository.object.get("organization") if operator.repository else None
    if organization != _MARKETPLACE or version.csv is None:
        return
    for key, page in _WORKFLOWS.items():
        url = f"https://marketplace.redhat.com/en-us/operators/{version.package}/{page}?utm_source=openshift_console"
        if version.csv_annotations.get(key) != url:
            path = ("metadata", "annotations", key)
            yield Finding(f"annotation {key} is not {url}", version.csv.path, path, subject=key)
