"""Rules of the validator ``load``: whether the files of a bundle can be read into objects."""

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
    "the manifests directory is missing, or has no files",
    hint="Put the ClusterServiceVersion and the CRDs right into the directory that the annotations name.",
    bad="bundle/manifests/1.0.0/demo.clusterserviceversion.yaml",
    good="bundle/manifests/demo.clusterserviceversion.yaml",
)
def no_files(bundle: BundleView) -> Iterable[Finding]:
    """The annotation ``…bundle.manifests.v1`` names the directory of the manifests, by default ``manifests``."""
    return load_findings(bundle, loading.NO_FILES)


@rule(
    loading.NO_CSV,
    VALIDATOR,
    Severity.ERROR,
    "there is no ClusterServiceVersion",
    hint="Add one, for instance as `operator-sdk generate bundle` writes it.",
    bad="kind: Deployment",
    good="kind: ClusterServiceVersion",
)
def no_csv(bundle: BundleView) -> Iterable[Finding]:
    """A bundle is one version of an operator, which its ClusterServiceVersion describes.

    The references also say so if there is one with a fault in its YAML; here that fault is told instead.
    """
    return load_findings(bundle, loading.NO_CSV)


@rule(
    loading.SEVERAL_CSVS,
    VALIDATOR,
    Severity.ERROR,
    "there are several ClusterServiceVersions",
    hint="Make a bundle of each version.",
    bad="bundle/manifests/demo.v1.0.0.clusterserviceversion.yaml\n"
    "bundle/manifests/demo.v1.1.0.clusterserviceversion.yaml",
    good="demo-1.0.0/manifests/demo.clusterserviceversion.yaml\ndemo-1.1.0/manifests/demo.clusterserviceversion.yaml",
)
def several_csvs(bundle: BundleView) -> Iterable[Finding]:
    """A bundle is one version of an operator."""
    return load_findings(bundle, loading.SEVERAL_CSVS)


@rule(
    loading.SUBDIRECTORY,
    VALIDATOR,
    Severity.ERROR,
    "there is a directory among the manifests",
    hint="Move its files up to the other manifests, or out of the bundle.",
    bad="bundle/manifests/crds/demos.yaml",
    good="bundle/manifests/demos.yaml",
)
def subdirectory(bundle: BundleView) -> Iterable[Finding]:
    """A catalog reads the files of the manifests directory alone, so those below it would be lost without a word."""
    return load_findings(bundle, loading.SUBDIRECTORY)


@rule(
    loading.HIDDEN,
    VALIDATOR,
    Severity.ERROR,
    "there is a hidden file among the manifests",
    hint="Remove it; what keeps such files away from an image is a .dockerignore beside the Dockerfile.",
    bad="bundle/manifests/.DS_Store",
    good="bundle/manifests/demos.yaml",
)
def hidden_file(bundle: BundleView) -> Iterable[Finding]:
    """Files whose names begin with a dot are left behind by editors and operating systems, and are no manifests."""
    return load_findings(bundle, loading.HIDDEN)


@rule(
    loading.UNDECODABLE,
    VALIDATOR,
    Severity.ERROR,
    "a file among the manifests holds no object",
    hint="Put its YAML right, or move what is no manifest out of the directory.",
    bad="apiVersion: v1\nmetadata: {name: demo}",
    good="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: demo}",
)
def undecodable(bundle: BundleView) -> Iterable[Finding]:
    """All files there must be YAML or JSON whose first document is an object with a kind: no README, no empty file."""
    return load_findings(bundle, loading.UNDECODABLE)


@rule(
    loading.CSV_TYPE,
    VALIDATOR,
    Severity.ERROR,
    "a field of the ClusterServiceVersion has a wrong type",
    hint="Write the value as the type that the field has.",
    bad="spec: {version: 1.10}",
    good="spec: {version: 1.10.0}",
)
def csv_type(bundle: BundleView) -> Iterable[Finding]:
    """Each field has a type: texts, numbers, lists. A cluster refuses values of other types.

    YAML takes 1.10 for a number, and yes and no for booleans: quotes make texts of them.
    """
    return load_findings(bundle, loading.CSV_TYPE)


@rule(
    loading.CRD_TYPE,
    VALIDATOR,
    Severity.ERROR,
    "a field of a CRD has a wrong type",
    hint="Write the value as the type that the field has.",
    bad="spec: {names: demos}",
    good="spec: {names: {plural: demos, kind: Demo}}",
)
def crd_type(bundle: BundleView) -> Iterable[Finding]:
    """Each field has a type: texts, numbers, lists. A cluster refuses values of other types."""
    return load_findings(bundle, loading.CRD_TYPE)


@rule(
    loading.CRD_VERSION,
    VALIDATOR,
    Severity.ERROR,
    "a CRD is of an unknown version",
    hint="Migrate it to apiextensions.k8s.io/v1.",
    bad="apiVersion: apiextensions.k8s.io/v1alpha1\nkind: CustomResourceDefinition",
    good="apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition",
)
def crd_version(bundle: BundleView) -> Iterable[Finding]:
    """There are the versions v1 and, of clusters before Kubernetes 1.22, v1beta1."""
    return load_findings(bundle, loading.CRD_VERSION)


@rule(
    loading.ANNOTATIONS,
    VALIDATOR,
    Severity.ERROR,
    "an annotations file can't be read",
    hint="Put its YAML right.",
    bad="annotations: {",
    good="annotations: {}",
)
def annotations_file(bundle: BundleView) -> Iterable[Finding]:
    """A file among the manifests whose name begins with ``annotations`` is taken for annotations, and must be YAML."""
    return load_findings(bundle, loading.ANNOTATIONS)


@rule(
    loading.NO_BUNDLE_CSV,
    VALIDATOR,
    Severity.ERROR,
    "a ClusterServiceVersion could not be loaded",
    hint="Mend the fault that is told beside this one.",
    bad="spec: {version: 1.10}",
    good="spec: {version: 1.10.0}",
    compat=GO_ONLY,
)
def no_bundle_csv(bundle: BundleView) -> Iterable[Finding]:
    """This follows from another fault of the same directory, and is told by the references alone."""
    return load_findings(bundle, loading.NO_BUNDLE_CSV)


@rule(
    loading.NO_BUNDLE,
    VALIDATOR,
    Severity.ERROR,
    "no bundle could be loaded",
    hint="Mend the fault that is told beside this one.",
    bad="spec: {version: 1.10}",
    good="spec: {version: 1.10.0}",
    compat=GO_ONLY,
)
def no_bundle(bundle: BundleView) -> Iterable[Finding]:
    """This follows from another fault, and is told by the references alone."""
    return load_findings(bundle, loading.NO_BUNDLE)
