"""Rules of the validator ``csv``: what a ClusterServiceVersion must have for a catalog and a cluster to take it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.kubernetes_names import dns1123_subdomain, label_value
from opmkit.bundle.validation.compat import OPMKIT_ONLY, RECENT, Compat
from opmkit.bundle.validation.csv_view import Csv, csv_check
from opmkit.bundle.validation.examples import ANNOTATIONS, Examples
from opmkit.bundle.validation.gvk import Gvk
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.versions import strict_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opmkit.bundle.field_path import FieldPath

VALIDATOR = "csv"
NAME: FieldPath = ("metadata", "name")
REPLACES: FieldPath = ("spec", "replaces")
ANNOTATIONS_PATH: FieldPath = ("metadata", "annotations")
INSTALL_MODES: FieldPath = ("spec", "installModes")
MIN_KUBE_VERSION: FieldPath = ("spec", "minKubeVersion")

_SPELT = ("olm.operatorGroup", "olm.operatorNamespace", "olm.targetNamespaces", "olm.providedAPIs", "olm.skipRange")
_KEYS = {key.lower(): key for key in _SPELT}


def misspelt_keys(annotations: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The keys that differ in case alone from one that means something to the lifecycle manager, each with that."""
    return ((key, known) for key in annotations if (known := _KEYS.get(key.lower(), key)) != key)


def name_problems(name: str) -> list[str]:
    """What keeps a text from being the name of a ClusterServiceVersion, which clusters also use as a label's value."""
    problems = [*dns1123_subdomain(name), *(label_value(name) if name else ())]
    return list(dict.fromkeys(problems))


@rule(
    "CSV-NAME-FORMAT",
    VALIDATOR,
    Severity.ERROR,
    "the name of a ClusterServiceVersion is missing or misspelt",
    hint="Name it PACKAGE.vVERSION, with lower case letters, digits, '-' and '.' in 63 characters at most.",
    bad="metadata: {name: Demo_Operator.v1.2.3}",
    good="metadata: {name: demo-operator.v1.2.3}",
)
@csv_check
def name_format(csv: Csv) -> Iterator[Finding]:
    """The name is that of an object, and the value of labels on all that belongs to it: it must be spelt as both."""
    if csv.decoded.has_mismatch(*NAME):
        return
    if problems := name_problems(csv.name):
        given = f"the name {csv.name!r} is misspelt: {'; '.join(problems)}" if csv.name else "metadata.name is empty"
        yield Finding(given, path=NAME)


@rule(
    "CSV-REPLACES-FORMAT",
    VALIDATOR,
    Severity.ERROR,
    "spec.replaces is no name of a ClusterServiceVersion",
    hint="Set spec.replaces to the metadata.name of the version that this one replaces.",
    bad="spec: {replaces: demo-operator:1.2.2}",
    good="spec: {replaces: demo-operator.v1.2.2}",
)
@csv_check
def replaces_format(csv: Csv) -> Iterator[Finding]:
    """What is replaced is found by its name; a text that no ClusterServiceVersion may have for a name finds none."""
    replaces = csv.spec.get("replaces")
    if replaces and (problems := name_problems(replaces)):
        yield Finding(f"spec.replaces is {replaces!r}, which is misspelt: {'; '.join(problems)}", path=REPLACES)


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
    """Annotations tell consoles what the operator can do, and hold the examples that people start from."""
    if not csv.annotations and not csv.decoded.has_mismatch(*ANNOTATIONS_PATH):
        yield Finding("metadata.annotations is missing", path=ANNOTATIONS_PATH)


@rule(
    "CSV-NO-EXAMPLES",
    VALIDATOR,
    Severity.WARNING,
    "a ClusterServiceVersion has no examples",
    hint="Add the annotation alm-examples: a JSON list with an object of each API that the operator provides.",
    bad="annotations: {capabilities: Basic Install}",
    good="""annotations:
  alm-examples: |-
    [{"apiVersion": "demo.example.com/v1", "kind": "Demo", "metadata": {"name": "example"}}]""",
)
@csv_check
def no_examples(csv: Csv) -> Iterator[Finding]:
    """Consoles offer the examples to people who create an object of an API; without them, they begin with nothing."""
    if csv.annotations and not Examples.of(csv).annotation:
        yield Finding("neither of the annotations alm-examples and olm.examples is there", path=ANNOTATIONS_PATH)


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
    """Only alm-examples is looked at where both are there."""
    if all(name in csv.annotations for name in ANNOTATIONS):
        yield Finding("olm.examples is not looked at beside alm-examples", path=(*ANNOTATIONS_PATH, ANNOTATIONS[1]))


@rule(
    "CSV-EXAMPLES-JSON",
    VALIDATOR,
    Severity.ERROR,
    "the examples of a ClusterServiceVersion are no JSON",
    hint="Write one JSON list: no comma after the last item, names in double quotes, nothing after the list.",
    bad="annotations: {alm-examples: '[{\"a\": 1,}]'}",
    good='annotations: {alm-examples: \'[{"apiVersion": "demo.example.com/v1", "kind": "Demo"}]\'}',
)
@csv_check
def examples_json(csv: Csv) -> Iterator[Finding]:
    """Consoles read the examples as JSON, and show none of them if they can't."""
    examples = Examples.of(csv)
    if examples.no_json:
        yield Finding(f"the examples in {examples.annotation} are no JSON: {examples.no_json}", path=examples.path)


@rule(
    "CSV-EXAMPLES-DECODE",
    VALIDATOR,
    Severity.ERROR,
    "the examples of a ClusterServiceVersion are not a list of objects",
    hint="Write a list of objects, each with its apiVersion (GROUP/VERSION) and kind.",
    bad='annotations: {alm-examples: \'{"apiVersion": "demo.example.com/v1"}\'}',
    good='annotations: {alm-examples: \'[{"apiVersion": "demo.example.com/v1", "kind": "Demo"}]\'}',
)
@csv_check
def examples_decode(csv: Csv) -> Iterator[Finding]:
    """An example is a whole object, as a cluster would take it: it says which API it is of."""
    examples = Examples.of(csv)
    for problem in examples.problems[: None if csv.compat is Compat.OPMKIT else 1]:
        yield Finding(f"the examples in {examples.annotation} can't be used: {problem}", path=examples.path)


@rule(
    "CSV-OWNED-CRD-NAME",
    VALIDATOR,
    Severity.ERROR,
    "an owned CRD has a name without a group",
    hint="Write the full name of the CRD, PLURAL.GROUP, such as demos.demo.example.com.",
    bad="owned: [{name: demos, version: v1, kind: Demo}]",
    good="owned: [{name: demos.demo.example.com, version: v1, kind: Demo}]",
)
@csv_check
def owned_crd_name(csv: Csv) -> Iterator[Finding]:
    """The group of an owned API is read from the name of its CRD."""
    if Examples.of(csv).readable or csv.compat is Compat.OPMKIT:
        for path, api, name in csv.owned_crds:
            if api is None:
                yield Finding(f"the owned CRD {name!r} has no dot, so no group, in its name", path=(*path, "name"))


@rule(
    "CSV-EXAMPLE-NOT-PROVIDED",
    VALIDATOR,
    Severity.ERROR,
    "an example is of an API that the operator does not own",
    hint="Correct apiVersion and kind of the example, add the API to the owned ones, or remove the example.",
    bad="""annotations: {alm-examples: '[{"apiVersion": "other.example.com/v1", "kind": "Demo"}]'}
owned: [{name: demos.demo.example.com, version: v1, kind: Demo}]""",
    good="""annotations: {alm-examples: '[{"apiVersion": "demo.example.com/v1", "kind": "Demo"}]'}
owned: [{name: demos.demo.example.com, version: v1, kind: Demo}]""",
)
@csv_check
def example_not_provided(csv: Csv) -> Iterator[Finding]:
    """An example shows what the operator does with an API of its own; of any other, it can't be created."""
    provided = _provided(csv)
    for api in dict.fromkeys(api for api, _ in Examples.of(csv).objects):
        if api not in provided:
            yield Finding(
                f"the example of {api} is of no API that is owned", path=Examples.of(csv).path, subject=str(api)
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
    """Consoles offer an example to people who create an object of the API."""
    if Examples.of(csv).readable:
        shown = {api for api, _ in Examples.of(csv).objects}
        for api, path in _provided(csv).items():
            if api not in shown:
                yield Finding(f"the owned API {api} has no example", path=path, subject=str(api))


def _provided(csv: Csv) -> dict[Gvk, FieldPath]:
    """The owned APIs, with the place of the first that names each."""
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
    """The modes say which namespaces the operator can watch; without one, it can't be installed anywhere."""
    if not csv.at(INSTALL_MODES) and not csv.decoded.has_mismatch(*INSTALL_MODES):
        yield Finding("spec.installModes is missing or empty", path=INSTALL_MODES)


@rule(
    "CSV-INSTALLMODES-NONE",
    VALIDATOR,
    Severity.ERROR,
    "a ClusterServiceVersion supports none of its install modes",
    hint="Set supported: true for the modes that the operator can be installed in.",
    bad="installModes: [{type: AllNamespaces, supported: false}]",
    good="installModes: [{type: AllNamespaces, supported: true}]",
)
@csv_check
def install_modes_none(csv: Csv) -> Iterator[Finding]:
    """An operator that supports no mode can't be installed anywhere."""
    modes = list(csv.entries(INSTALL_MODES))
    has_mismatch = any(csv.decoded.has_mismatch(*path, "supported") for path, _ in modes)
    if modes and not has_mismatch and not any(mode.get("supported") for _, mode in modes):
        yield Finding("none of spec.installModes is supported", path=INSTALL_MODES)


@rule(
    "CSV-INSTALLMODES-DUPLICATE",
    VALIDATOR,
    Severity.ERROR,
    "an install mode is listed twice",
    hint="Keep one entry for each type.",
    bad="installModes: [{type: AllNamespaces, supported: true}, {type: AllNamespaces, supported: false}]",
    good="installModes: [{type: AllNamespaces, supported: true}, {type: OwnNamespace, supported: false}]",
    compat=OPMKIT_ONLY,
)
@csv_check
def install_modes_duplicate(csv: Csv) -> Iterator[Finding]:
    """Which of the two entries holds is not defined. The references have this rule, but it never finds anything."""
    seen: set[str] = set()
    for path, mode in csv.entries(INSTALL_MODES):
        kind = mode.get("type", "")
        if kind in seen:
            yield Finding(f"the install mode {kind!r} is listed before already", path=path, subject=kind)
        seen.add(kind)


@rule(
    "CSV-CONVERSION-ALLNAMESPACES",
    VALIDATOR,
    Severity.ERROR,
    "an operator with a conversion webhook supports other modes than AllNamespaces",
    hint="Support AllNamespaces alone, or remove conversionCRDs.",
    bad="""installModes: [{type: AllNamespaces, supported: true}, {type: OwnNamespace, supported: true}]
webhookdefinitions: [{type: ConversionWebhook, conversionCRDs: [demos.demo.example.com]}]""",
    good="""installModes: [{type: AllNamespaces, supported: true}, {type: OwnNamespace, supported: false}]
webhookdefinitions: [{type: ConversionWebhook, conversionCRDs: [demos.demo.example.com]}]""",
)
@csv_check
def conversion_all_namespaces(csv: Csv) -> Iterator[Finding]:
    """A CRD is converted for the whole cluster, by one operator that must be there for all namespaces."""
    modes = [mode for _, mode in csv.entries(INSTALL_MODES)]
    wrong = [mode.get("type") for mode in modes if (mode.get("type") == "AllNamespaces") != bool(mode.get("supported"))]
    for path, webhook in csv.entries(("spec", "webhookdefinitions")):
        if webhook.get("conversionCRDs") and wrong:
            name, modes_text = webhook.get("generateName", ""), ", ".join(map(str, wrong))
            message = (
                f"the webhook {name!r} converts CRDs for all namespaces, which the mode {modes_text} does not allow"
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
"""The required fields, by the names that the references have for them."""


@rule(
    "CSV-REQUIRED-FIELD",
    VALIDATOR,
    Severity.ERROR,
    "a required field of a ClusterServiceVersion is missing or empty",
    hint="Fill it in.",
    bad="spec: {displayName: ''}",
    good="spec: {displayName: Demo Operator}",
)
@csv_check
def required_field(csv: Csv) -> Iterator[Finding]:
    """Without these fields a ClusterServiceVersion can't be shown, or installs nothing."""
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
    "the key of an annotation has capitals in other places than it should",
    hint="Write the key exactly as it is known.",
    bad="annotations: {olm.skiprange: <1.2.3}",
    good="annotations: {olm.skipRange: <1.2.3}",
)
@csv_check
def annotation_key_case(csv: Csv) -> Iterator[Finding]:
    """Case counts in keys: one that differs in case alone is another key, which nobody looks at."""
    for key, known in misspelt_keys(csv.annotations):
        yield Finding(f"the annotation {key} must be written {known}", path=(*ANNOTATIONS_PATH, key), subject=csv.name)


@rule(
    "CSV-OLM-PROPERTIES",
    VALIDATOR,
    Severity.WARNING,
    "properties are in an annotation of the ClusterServiceVersion",
    hint="Move them to metadata/properties.yaml.",
    bad="""annotations: {olm.properties: '[{"type": "olm.maxOpenShiftVersion", "value": "4.14"}]'}""",
    good="properties: [{type: olm.maxOpenShiftVersion, value: '4.14'}]  # in metadata/properties.yaml",
)
@csv_check
def olm_properties(csv: Csv) -> Iterator[Finding]:
    """The file ``metadata/properties.yaml`` is for them, where they are plain YAML and every tool finds them."""
    if "olm.properties" in csv.annotations:
        yield Finding("the annotation olm.properties holds properties", path=(*ANNOTATIONS_PATH, "olm.properties"))


def _api(csv: Csv) -> Gvk:
    """Its API as the references see it: nothing at all where the apiVersion can't be one."""
    value = csv.decoded.value
    return Gvk.of(value.get("apiVersion", ""), value.get("kind", "")) or Gvk("", "", "")


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
    """A cluster knows an object by its apiVersion and kind, and takes none without."""
    if not _api(csv).version and not csv.decoded.has_mismatch("apiVersion"):
        yield Finding("apiVersion is missing, or names no version", path=("apiVersion",))


@rule(
    "CSV-KIND",
    VALIDATOR,
    Severity.ERROR,
    "a ClusterServiceVersion has no kind that can be told",
    hint="Set apiVersion: operators.coreos.com/v1alpha1 and kind: ClusterServiceVersion.",
    bad="apiVersion: operators.coreos.com/v1alpha1/csv\nkind: ClusterServiceVersion",
    good="apiVersion: operators.coreos.com/v1alpha1\nkind: ClusterServiceVersion",
)
@csv_check
def kind(csv: Csv) -> Iterator[Finding]:
    """Where apiVersion has more than one slash, neither it nor the kind means anything to a cluster."""
    if not _api(csv).kind:
        yield Finding("the kind can't be told, for apiVersion has more than one slash", path=("apiVersion",))


@rule(
    "MINKUBE-MISSING",
    VALIDATOR,
    Severity.WARNING,
    "a ClusterServiceVersion does not say which Kubernetes it needs",
    hint="Set spec.minKubeVersion to the oldest version that the operator works on, such as 1.27.0.",
    bad="spec: {minKubeVersion: ''}",
    good="spec: {minKubeVersion: 1.27.0}",
    compat=RECENT,
)
@csv_check
def min_kube_missing(csv: Csv) -> Iterator[Finding]:
    """Without it, the operator claims to work on every version of Kubernetes, and is installed on any."""
    if not csv.spec.get("minKubeVersion", "").strip() and not csv.decoded.has_mismatch(*MIN_KUBE_VERSION):
        yield Finding("spec.minKubeVersion is missing", path=MIN_KUBE_VERSION)


@rule(
    "MINKUBE-INVALID",
    VALIDATOR,
    Severity.ERROR,
    "spec.minKubeVersion is no version",
    hint="Write major, minor and patch, without a v: 1.27.0.",
    bad="spec: {minKubeVersion: v1.27}",
    good="spec: {minKubeVersion: 1.27.0}",
    compat=RECENT,
)
@csv_check
def min_kube_invalid(csv: Csv) -> Iterator[Finding]:
    """It is compared with the version of the cluster, as a semantic version of three numbers."""
    version = csv.spec.get("minKubeVersion", "")
    if version.strip():
        try:
            strict_version(version)
        except ValueError as error:
            yield Finding(f"spec.minKubeVersion is no version: {error}", path=MIN_KUBE_VERSION)
