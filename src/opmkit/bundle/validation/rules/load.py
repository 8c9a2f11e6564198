"""Rules of the validator ``load``: reading the files of a bundle as Kubernetes objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation import loading
from opmkit.bundle.validation.compat import GO_ONLY
from opmkit.bundle.validation.loading import load_findings
from opmkit.bundle.validation.rule import rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from opmkit.bundle.validation.bundle_view import BundleView

VALIDATOR = "load"


@rule(
    loading.NO_FILES,
    VALIDATOR,
    Severity.ERROR,
    "missing or empty manifests directory",
    hint="Put the ClusterServiceVersion and the CRDs directly into the directory that the annotations name.",
    bad="bundle/manifests/1.0.0/demo.clusterserviceversion.yaml",
    good="bundle/manifests/demo.clusterserviceversion.yaml",
)
def no_files(bundle: BundleView) -> Iterable[Finding]:
    """The annotation ``…bundle.manifests.v1`` names the manifests directory, by default ``manifests``."""
    return load_findings(bundle, loading.NO_FILES)


@rule(
    loading.NO_CSV,
    VALIDATOR,
    Severity.ERROR,
    "missing ClusterServiceVersion",
    hint="Add a manifest of kind ClusterServiceVersion, which tools for operator projects generate.",
    bad="kind: Deployment",
    good="kind: ClusterServiceVersion",
)
def no_csv(bundle: BundleView) -> Iterable[Finding]:
    """The ClusterServiceVersion describes the version of the operator that the bundle contains.

    The Go validators also report this for a ClusterServiceVersion with invalid YAML; opmkit reports LOAD-DECODE.
    """
    return load_findings(bundle, loading.NO_CSV)


@rule(
    loading.SEVERAL_CSVS,
    VALIDATOR,
    Severity.ERROR,
    "several ClusterServiceVersions in a bundle",
    hint="Create a bundle for each version.",
    bad="bundle/manifests/demo.v1.0.0.clusterserviceversion.yaml\n"
    "bundle/manifests/demo.v1.1.0.clusterserviceversion.yaml",
    good="demo-1.0.0/manifests/demo.clusterserviceversion.yaml\ndemo-1.1.0/manifests/demo.clusterserviceversion.yaml",
)
def several_csvs(bundle: BundleView) -> Iterable[Finding]:
    """A bundle contains one version of an operator."""
    return load_findings(bundle, loading.SEVERAL_CSVS)


@rule(
    loading.SUBDIRECTORY,
    VALIDATOR,
    Severity.ERROR,
    "directory among the manifests",
    hint="Move its files to the other manifests, or out of the bundle.",
    bad="bundle/manifests/crds/demos.yaml",
    good="bundle/manifests/demos.yaml",
)
def subdirectory(bundle: BundleView) -> Iterable[Finding]:
    """Catalogs read only files directly in the manifests directory and ignore subdirectories."""
    return load_findings(bundle, loading.SUBDIRECTORY)


@rule(
    loading.HIDDEN,
    VALIDATOR,
    Severity.ERROR,
    "hidden file among the manifests",
    hint="Remove it; list such files in a .dockerignore next to the Dockerfile to keep them out of the image.",
    bad="bundle/manifests/.DS_Store",
    good="bundle/manifests/demos.yaml",
)
def hidden_file(bundle: BundleView) -> Iterable[Finding]:
    """Files whose names begin with a dot come from editors and operating systems and are not manifests."""
    return load_findings(bundle, loading.HIDDEN)


@rule(
    loading.UNDECODABLE,
    VALIDATOR,
    Severity.ERROR,
    "a file among the manifests contains no object",
    hint="Correct the YAML, or move files that are not manifests out of the directory.",
    bad="apiVersion: v1\nmetadata: {name: demo}",
    good="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: demo}",
)
def undecodable(bundle: BundleView) -> Iterable[Finding]:
    """All files must be YAML or JSON whose first document is an object with a kind; no README, no empty files."""
    return load_findings(bundle, loading.UNDECODABLE)


@rule(
    loading.CSV_TYPE,
    VALIDATOR,
    Severity.ERROR,
    "wrong type of a field in a ClusterServiceVersion",
    hint="Write a value of the field's type.",
    bad="spec: {version: 1.10}",
    good="spec: {version: 1.10.0}",
)
def csv_type(bundle: BundleView) -> Iterable[Finding]:
    """Clusters reject values of the wrong type.

    In YAML, 1.10 is a number, and yes and no are booleans; put them in quotes to write strings.
    """
    return load_findings(bundle, loading.CSV_TYPE)


@rule(
    loading.CRD_TYPE,
    VALIDATOR,
    Severity.ERROR,
    "wrong type of a field in a CRD",
    hint="Write a value of the field's type.",
    bad="spec: {names: demos}",
    good="spec: {names: {plural: demos, kind: Demo}}",
)
def crd_type(bundle: BundleView) -> Iterable[Finding]:
    """Clusters reject values of the wrong type."""
    return load_findings(bundle, loading.CRD_TYPE)


@rule(
    loading.CRD_VERSION,
    VALIDATOR,
    Severity.ERROR,
    "unsupported apiVersion of a CRD",
    hint="Migrate it to apiextensions.k8s.io/v1.",
    bad="apiVersion: apiextensions.k8s.io/v1alpha1\nkind: CustomResourceDefinition",
    good="apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition",
)
def crd_version(bundle: BundleView) -> Iterable[Finding]:
    """The versions are v1 and, before Kubernetes 1.22, v1beta1."""
    return load_findings(bundle, loading.CRD_VERSION)


@rule(
    loading.ANNOTATIONS,
    VALIDATOR,
    Severity.ERROR,
    "cannot read an annotations file",
    hint="Correct the YAML.",
    bad="annotations: {",
    good="annotations: {}",
)
def annotations_file(bundle: BundleView) -> Iterable[Finding]:
    """Files among the manifests whose names begin with ``annotations`` are read as annotations and must be YAML."""
    return load_findings(bundle, loading.ANNOTATIONS)


@rule(
    loading.NO_BUNDLE_CSV,
    VALIDATOR,
    Severity.ERROR,
    "a ClusterServiceVersion could not be loaded",
    hint="Solve the problem that is reported with this one.",
    bad="spec: {version: 1.10}",
    good="spec: {version: 1.10.0}",
    compat=GO_ONLY,
)
def no_bundle_csv(bundle: BundleView) -> Iterable[Finding]:
    """Another problem in the same directory is the cause. Only the Go validators report this."""
    return load_findings(bundle, loading.NO_BUNDLE_CSV)


@rule(
    loading.NO_BUNDLE,
    VALIDATOR,
    Severity.ERROR,
    "no bundle could be loaded",
    hint="Solve the problem that is reported with this one.",
    bad="spec: {version: 1.10}",
    good="spec: {version: 1.10.0}",
    compat=GO_ONLY,
)
def no_bundle(bundle: BundleView) -> Iterable[Finding]:
    """Another problem is the cause. Only the Go validators report this."""
    return load_findings(bundle, loading.NO_BUNDLE)
