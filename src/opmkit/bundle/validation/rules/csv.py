"""Rules of the validator ``csv``: conditions under which catalogs and clusters accept a ClusterServiceVersion."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.kubernetes_names import dns1123_subdomain, label_value
from opmkit.bundle.validation.compat import OPMKIT_ONLY, RECENT, Compat
from opmkit.bundle.validation.csv_view import ANNOTATIONS, Csv, Examples, csv_check
from opmkit.bundle.validation.object_metadata import Gvk
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.versions import strict_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.documents.fields import FieldPath

VALIDATOR = "csv"
NAME: FieldPath = ("metadata", "name")
REPLACES: FieldPath = ("spec", "replaces")
ANNOTATIONS_PATH: FieldPath = ("metadata", "annotations")
INSTALL_MODES: FieldPath = ("spec", "installModes")
MIN_KUBE_VERSION: FieldPath = ("spec", "minKubeVersion")

_SPELT = ("olm.operatorGroup", "olm.operatorNamespace", "olm.targetNamespaces", "olm.providedAPIs", "olm.skipRange")
_KEYS = {key.lower(): key for key in _SPELT}


def wrong_case_keys(annotations: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Return the keys that differ only in case from a key that OLM reads, each with the correct spelling."""
    return ((key, known) for key in annotations if (known := _KEYS.get(key.lower(), key)) != key)


def name_problems(name: str) -> list[str]:
    """Return why a name is invalid for a ClusterServiceVersion, which OLM also uses as the value of a label."""
    problems = [*dns1123_subdomain(name), *(label_value(name) if name else ())]
    return list(dict.fromkeys(problems))


@rule(
    "CSV-NAME-FORMAT",
    VALIDATOR,
    Severity.ERROR,
    "missing or invalid name of a ClusterServiceVersion",
    hint="Name it PACKAGE.vVERSION, in at most 63 lower case letters, digits, '-' and '.'.",
    bad="metadata: {name: Demo_Operator.v1.2.3}",
    good="metadata: {name: demo-operator.v1.2.3}",
)
@csv_check
def name_format(csv: Csv) -> Iterator[Finding]:
    """The name must be valid both as an object name and as a label value, which OLM sets on all owned objects."""
    if csv.decoded.has_mismatch(*NAME):
        return
    if problems := name_problems(csv.name):
        given = f"invalid name {csv.name!r}: {'; '.join(problems)}" if csv.name else "metadata.name is empty"
        yield Finding(given, path=NAME)


@rule(
    "CSV-REPLACES-FORMAT",
    VALIDATOR,
    Severity.ERROR,
    "invalid name in spec.replaces",
    hint="Set spec.replaces to the metadata.name of the version that this one replaces.",
    bad="spec: {replaces: demo-operator:1.2.2}",
    good="spec: {replaces: demo-operator.v1.2.2}",
)
@csv_check
def replaces_format(csv: Csv) -> Iterator[Finding]:
    """``spec.replaces`` is the name of another ClusterServiceVersion, so it must be a valid name."""
    replaces = csv.spec.get("replaces")
    if replaces and (problems := name_problems(replaces)):
        yield Finding(f"spec.replaces is {replaces!r}: {'; '.join(problems)}", path=REPLACES)


@rule(
    "CSV-NO-ANNOTATIONS",
    VALIDATOR,
    Severity.WARNING,
    "a ClusterServiceVersion has no annotations",
    hint="Add metadata.annotations, with alm-examples, capabilities and categories.",
    bad="metadata: {name: demo.v1.2.3}",
    good="metadata: {name: demo.v1.2.3, annotations: {alm-examples: '[]', capabilities: Basic Install}}",
)
@csv_check
def no_annotations(csv: Csv) -> Iterator[Finding]:
    """Consoles read the capability level, categories and examples of the operator from annotations."""
    if not csv.annotations and not csv.decoded.has_mismatch(*ANNOTATIONS_PATH):
        yield Finding("metadata.annotations is missing", path=ANNOTATIONS_PATH)


@rule(
    "CSV-NO-EXAMPLES",
    VALIDATOR,
    Severity.WARNING,
    "a ClusterServiceVersion has no examples",
    hint="Add the annotation alm-examples: a JSON list with an example object of each API that the operator owns.",
    bad="annotations: {capabilities: Basic Install}",
    good="""annotations:
  alm-examples: |-
    [{"apiVersion": "demo.example.com/v1", "kind": "Demo", "metadata": {"name": "example"}}]""",
)
@csv_check
def no_examples(csv: Csv) -> Iterator[Finding]:
    """Consoles offer the examples as templates for new objects."""
    if csv.annotations and not Examples.from_csv(csv).annotation:
        yield Finding("annotations alm-examples and olm.examples not found", path=ANNOTATIONS_PATH)


@rule(
    "CSV-BOTH-EXAMPLES",
    VALIDATOR,
    Severity.WARNING,
    "a ClusterServiceVersion has examples in two annotations",
    hint="Move all examples to alm-examples, and remove olm.examples.",
    bad="annotations: {alm-examples: '[]', olm.examples: '[]'}",
    good="annotations: {alm-examples: '[]'}",
)
@csv_check
def both_examples(csv: Csv) -> Iterator[Finding]:
    """If both annotations exist, only alm-examples is read."""
    if all(name in csv.annotations for name in ANNOTATIONS):
        yield Finding("olm.examples is ignored because alm-examples exists", path=(*ANNOTATIONS_PATH, ANNOTATIONS[1]))


@rule(
    "CSV-EXAMPLES-JSON",
    VALIDATOR,
    Severity.ERROR,
    "the examples of a ClusterServiceVersion are not valid JSON",
    hint="Write one JSON list, without trailing commas, with keys in double quotes and nothing after the list.",
    bad="annotations: {alm-examples: '[{\"a\": 1,}]'}",
    good='annotations: {alm-examples: \'[{"apiVersion": "demo.example.com/v1", "kind": "Demo"}]\'}',
)
@csv_check
def examples_json(csv: Csv) -> Iterator[Finding]:
    """Consoles parse the examples as JSON and show none of them if that fails."""
    examples = Examples.from_csv(csv)
    if examples.json_error:
        yield Finding(f"invalid JSON in {examples.annotation}: {examples.json_error}", path=examples.path)


@rule(
    "CSV-EXAMPLES-DECODE",
    VALIDATOR,
    Severity.ERROR,
    "the examples of a ClusterServiceVersion are not a list of objects",
    hint="Write a list of objects, each with apiVersion (GROUP/VERSION) and kind.",
    bad='annotations: {alm-examples: \'{"apiVersion": "demo.example.com/v1"}\'}',
    good='annotations: {alm-examples: \'[{"apiVersion": "demo.example.com/v1", "kind": "Demo"}]\'}',
)
@csv_check
def examples_decode(csv: Csv) -> Iterator[Finding]:
    """An example is a complete object with apiVersion and kind, as a cluster accepts it."""
    examples = Examples.from_csv(csv)
    for problem in examples.problems[: None if csv.compat is Compat.OPMKIT else 1]:
        yield Finding(f"invalid examples in {examples.annotation}: {problem}", path=examples.path)


@rule(
    "CSV-OWNED-CRD-NAME",
    VALIDATOR,
    Severity.ERROR,
    "the name of an owned CRD has no group",
    hint="Write the full name of the CRD, PLURAL.GROUP, such as demos.demo.example.com.",
    bad="owned: [{name: demos, version: v1, kind: Demo}]",
    good="owned: [{name: demos.demo.example.com, version: v1, kind: Demo}]",
)
@csv_check
def owned_crd_name(csv: Csv) -> Iterator[Finding]:
    """The group of an owned API is part of the name of its CRD."""
    if Examples.from_csv(csv).valid or csv.compat is Compat.OPMKIT:
        for path, api, name in csv.owned_crds:
            if api is None:
                yield Finding(f"the name of the owned CRD {name!r} has no group", path=(*path, "name"))


@rule(
    "CSV-EXAMPLE-NOT-PROVIDED",
    VALIDATOR,
    Severity.ERROR,
    "an example of an API that the operator does not own",
    hint="Correct apiVersion and kind of the example, add the API to the owned ones, or remove the example.",
    bad="""annotations: {alm-examples: '[{"apiVersion": "other.example.com/v1", "kind": "Demo"}]'}
owned: [{name: demos.demo.example.com, version: v1, kind: Demo}]""",
    good="""annotations: {alm-examples: '[{"apiVersion": "demo.example.com/v1", "kind": "Demo"}]'}
owned: [{name: demos.demo.example.com, version: v1, kind: Demo}]""",
)
@csv_check
def example_not_provided(csv: Csv) -> Iterator[Finding]:
    """Consoles show examples only for owned APIs."""
    provided = _provided(csv)
    for api in dict.fromkeys(api for api, _ in Examples.from_csv(csv).objects):
        if api not in provided:
            yield Finding(
                f"an example has the API {api}, which is not owned", path=Examples.from_csv(csv).path, subject=str(api)
            )


@rule(
    "CSV-PROVIDED-NO-EXAMPLE",
    VALIDATOR,
    Severity.WARNING,
    "an owned API has no example",
    hint="Add an object of that API to the annotation alm-examples.",
    bad="""annotations: {alm-examples: '[]'}
owned: [{name: demos.demo.example.com, version: v1, kind: Demo}]""",
    good="""annotations: {alm-examples: '[{"apiVersion": "demo.example.com/v1", "kind": "Demo"}]'}
owned: [{name: demos.demo.example.com, version: v1, kind: Demo}]""",
)
@csv_check
def provided_no_example(csv: Csv) -> Iterator[Finding]:
    """Consoles offer the example as a template for new objects of the API."""
    if Examples.from_csv(csv).valid:
        shown = {api for api, _ in Examples.from_csv(csv).objects}
        for api, path in _provided(csv).items():
            if api not in shown:
                yield Finding(f"the owned API {api} has no example", path=path, subject=str(api))


def _provided(csv: Csv) -> dict[Gvk, FieldPath]:
    """Return the owned APIs, each with the path of the first entry that names it."""
    crds = [(api, path) for path, api, _ in csv.owned_crds if api]
    services = [(api, path) for path, api in csv.owned_services]
    return dict(reversed([*crds, *services]))


@rule(
    "CSV-INSTALLMODES-MISSING",
    VALIDATOR,
    Severity.ERROR,
    "a ClusterServiceVersion has no install modes",
    hint="List OwnNamespace, SingleNamespace, MultiNamespace and AllNamespaces, each with supported true or false.",
    bad="spec: {installModes: []}",
    good="spec: {installModes: [{type: AllNamespaces, supported: true}]}",
)
@csv_check
def install_modes_missing(csv: Csv) -> Iterator[Finding]:
    """Install modes specify which namespaces the operator can watch; without any, it cannot be installed."""
    if not csv.at(INSTALL_MODES) and not csv.decoded.has_mismatch(*INSTALL_MODES):
        yield Finding("spec.installModes is missing or empty", path=INSTALL_MODES)


@rule(
    "CSV-INSTALLMODES-NONE",
    VALIDATOR,
    Severity.ERROR,
    "a ClusterServiceVersion supports no install mode",
    hint="Set supported: true for the modes in which the operator works.",
    bad="installModes: [{type: AllNamespaces, supported: false}]",
    good="installModes: [{type: AllNamespaces, supported: true}]",
)
@csv_check
def install_modes_none(csv: Csv) -> Iterator[Finding]:
    """An operator that supports no install mode cannot be installed."""
    modes = list(csv.entries(INSTALL_MODES))
    has_mismatch = any(csv.decoded.has_mismatch(*path, "supported") for path, _ in modes)
    if modes and not has_mismatch and not any(mode.get("supported") for _, mode in modes):
        yield Finding("no mode in spec.installModes is supported", path=INSTALL_MODES)


@rule(
    "CSV-INSTALLMODES-DUPLICATE",
    VALIDATOR,
    Severity.ERROR,
    "duplicate install mode",
    hint="Keep one entry for each type.",
    bad="installModes: [{type: AllNamespaces, supported: true}, {type: AllNamespaces, supported: false}]",
    good="installModes: [{type: AllNamespaces, supported: true}, {type: OwnNamespace, supported: false}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def install_modes_duplicate(csv: Csv) -> Iterator[Finding]:
    """Which of the two entries applies is undefined. The Go validators have this check, but a defect disables it."""
    seen: set[str] = set()
    for path, mode in csv.entries(INSTALL_MODES):
        kind = mode.get("type", "")
        if kind in seen:
            yield Finding(f"install mode {kind!r} is listed twice", path=path, subject=kind)
        seen.add(kind)


@rule(
    "CSV-CONVERSION-ALLNAMESPACES",
    VALIDATOR,
    Severity.ERROR,
    "an operator with a conversion webhook supports install modes other than AllNamespaces",
    hint="Support only AllNamespaces, or remove conversionCRDs.",
    bad="""installModes: [{type: AllNamespaces, supported: true}, {type: OwnNamespace, supported: true}]
webhookdefinitions: [{type: ConversionWebhook, conversionCRDs: [demos.demo.example.com]}]""",
    good="""installModes: [{type: AllNamespaces, supported: true}, {type: OwnNamespace, supported: false}]
webhookdefinitions: [{type: ConversionWebhook, conversionCRDs: [demos.demo.example.com]}]""",
)
@csv_check
def conversion_all_namespaces(csv: Csv) -> Iterator[Finding]:
    """A conversion webhook serves the whole cluster, so the operator must be installed for all namespaces."""
    modes = [mode for _, mode in csv.entries(INSTALL_MODES)]
    wrong = [mode.get("type") for mode in modes if (mode.get("type") == "AllNamespaces") != bool(mode.get("supported"))]
    for path, webhook in csv.entries(("spec", "webhookdefinitions")):
        if webhook.get("conversionCRDs") and wrong:
            name, modes_text = webhook.get("generateName", ""), ", ".join(map(str, wrong))
            message = (
                f"conversion webhook {name!r} requires AllNamespaces as the only supported mode; change {modes_text}"
            )
            yield Finding(message, path=(*path, "conversionCRDs"))


_REQUIRED: tuple[tuple[str, FieldPath], ...] = (
    ("ObjectMeta", ("metadata",)),
    ("Spec", ("spec",)),
    ("Spec.InstallStrategy", ("spec", "install")),
    ("Spec.InstallStrategy.StrategyName", ("spec", "install", "strategy")),
    ("Spec.InstallStrategy.StrategySpec.DeploymentSpecs", ("spec", "install", "spec", "deployments")),
    ("Spec.DisplayName", ("spec", "displayName")),
)
"""The required fields, with their names in the Go validators."""


@rule(
    "CSV-REQUIRED-FIELD",
    VALIDATOR,
    Severity.ERROR,
    "a required field of a ClusterServiceVersion is missing or empty",
    hint="Set the field.",
    bad="spec: {displayName: ''}",
    good="spec: {displayName: Demo Operator}",
)
@csv_check
def required_field(csv: Csv) -> Iterator[Finding]:
    """Without these fields, a ClusterServiceVersion cannot be displayed or installs nothing."""
    for field, path in _REQUIRED:
        has_parent = csv.at(path[:-1]) is not None
        if has_parent and csv.is_unset(*map(str, path)):
            name = ".".join(map(str, path))
            yield Finding(
                f"{name} is missing or empty", path=path, subject=name if csv.compat is Compat.OPMKIT else field
            )


@rule(
    "ANNOTATION-KEY-CASE",
    VALIDATOR,
    Severity.ERROR,
    "wrong case in an annotation key",
    hint="Write the key exactly as in the message.",
    bad="annotations: {olm.skiprange: <1.2.3}",
    good="annotations: {olm.skipRange: <1.2.3}",
)
@csv_check
def annotation_key_case(csv: Csv) -> Iterator[Finding]:
    """Annotation keys are case-sensitive, and a key in another case is ignored."""
    for key, known in wrong_case_keys(csv.annotations):
        yield Finding(f"annotation {key} must be written as {known}", path=(*ANNOTATIONS_PATH, key), subject=csv.name)


@rule(
    "CSV-OLM-PROPERTIES",
    VALIDATOR,
    Severity.WARNING,
    "properties in an annotation of the ClusterServiceVersion",
    hint="Move them to metadata/properties.yaml.",
    bad="""annotations: {olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.14"}]'}""",
    good="properties: [{type: olm.maxOpenShiftVersion, value: '4.14'}]  # in metadata/properties.yaml",
)
@csv_check
def olm_properties(csv: Csv) -> Iterator[Finding]:
    """Properties belong in ``metadata/properties.yaml``, which all tools read."""
    if "olm.properties" in csv.annotations:
        yield Finding("annotation olm.properties contains properties", path=(*ANNOTATIONS_PATH, "olm.properties"))


def _api(csv: Csv) -> Gvk:
    """Return its API; as in Go, all parts are empty if the apiVersion is invalid."""
    value = csv.decoded.value
    return Gvk.parse(value.get("apiVersion", ""), value.get("kind", "")) or Gvk("", "", "")


@rule(
    "CSV-APIVERSION",
    VALIDATOR,
    Severity.ERROR,
    "a ClusterServiceVersion has no apiVersion",
    hint="Set apiVersion: operators.coreos.com/v1alpha1.",
    bad="kind: ClusterServiceVersion",
    good="apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion",
)
@csv_check
def api_version(csv: Csv) -> Iterator[Finding]:
    """Clusters reject objects without apiVersion."""
    if not _api(csv).version and not csv.decoded.has_mismatch("apiVersion"):
        yield Finding("apiVersion is missing or has no version", path=("apiVersion",))


@rule(
    "CSV-KIND",
    VALIDATOR,
    Severity.ERROR,
    "the kind of a ClusterServiceVersion cannot be read",
    hint="Set apiVersion: operators.coreos.com/v1alpha1 and kind: ClusterServiceVersion.",
    bad="apiVersion: operators.coreos.com/v1alpha1/csv\nkind: ClusterServiceVersion",
    good="apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion",
)
@csv_check
def kind(csv: Csv) -> Iterator[Finding]:
    """If apiVersion has more than one slash, clusters read neither it nor the kind."""
    if not _api(csv).kind:
        yield Finding("the kind cannot be read: apiVersion has more than one slash", path=("apiVersion",))


@rule(
    "MINKUBE-MISSING",
    VALIDATOR,
    Severity.WARNING,
    "a ClusterServiceVersion has no minimum Kubernetes version",
    hint="Set spec.minKubeVersion to the oldest version on which the operator works, such as 1.27.0.",
    bad="spec: {minKubeVersion: ''}",
    good="spec: {minKubeVersion: 1.27.0}",
    compat=RECENT,
)
@csv_check
def min_kube_missing(csv: Csv) -> Iterator[Finding]:
    """Without it, the operator is installed on every version of Kubernetes."""
    if not csv.spec.get("minKubeVersion", "").strip() and not csv.decoded.has_mismatch(*MIN_KUBE_VERSION):
        yield Finding("spec.minKubeVersion is missing", path=MIN_KUBE_VERSION)


@rule(
    "MINKUBE-INVALID",
    VALIDATOR,
    Severity.ERROR,
    "invalid version in spec.minKubeVersion",
    hint="Write major, minor and patch, without a v: 1.27.0.",
    bad="spec: {minKubeVersion: v1.27}",
    good="spec: {minKubeVersion: 1.27.0}",
    compat=RECENT,
)
@csv_check
def min_kube_invalid(csv: Csv) -> Iterator[Finding]:
    """The value is compared with the version of the cluster as a semantic version."""
    version = csv.spec.get("minKubeVersion", "")
    if version.strip():
        try:
            strict_version(version)
        except ValueError as error:
            yield Finding(f"invalid spec.minKubeVersion: {error}", path=MIN_KUBE_VERSION)
