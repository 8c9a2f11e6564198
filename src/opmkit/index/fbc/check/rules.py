"""The rules of catalogs: summaries, hints and examples."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opmkit.bundle.finding import RuleDescription, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

CATALOG, SUSPICIOUS, REQUIREMENTS, PUBLISHED = "catalog", "suspicious", "requirements", "published"
"""Groups of rules: validity, probably unintended content, settings of pipelines, and the published index."""
KONFLUX, KONFLUX_IMAGE = "konflux", "konflux-image"
"""Groups of rules of the profile for Konflux: those that a catalog directory can break, and those for images."""


class _Text(NamedTuple):
    """The summary and the hint of a rule, and a document of a catalog that breaks the rule, and that does not."""

    summary: str
    hint: str
    bad: str = ""
    good: str = ""


_PROPERTY = "{type: olm.package, value: {packageName: reef, version: 1.1.0}}"
_IMAGE = "image: quay.io/me/reef:1.1.0"


def _bundle(*more: str, image: str = _IMAGE, package: str = _PROPERTY) -> str:
    """Return a bundle with further properties."""
    properties = ", ".join(filter(None, (package, *more)))
    head = ", ".join(filter(None, ("schema: olm.bundle, package: reef, name: reef.v1.1.0", image)))
    return f"{{{head}, properties: [{properties}]}}"


def _channel(entries: str, name: str = "fast") -> str:
    """Return a channel."""
    return f"{{schema: olm.channel, package: reef, name: {name}, entries: [{entries}]}}"


def _deprecation(name: str) -> str:
    """Return the deprecation of a bundle."""
    entry = f"{{reference: {{schema: olm.bundle, name: {name}}}, message: Update.}}"
    return f"{{schema: olm.deprecations, package: reef, entries: [{entry}]}}"


def _icon(data: str, media_type: str) -> str:
    """Return a package with an icon."""
    icon = f"{{base64data: {data}, mediatype: {media_type}}}"
    return f"{{schema: olm.package, name: reef, defaultChannel: stable, icon: {icon}}}"


_TEXTS: Mapping[str, Mapping[str, _Text]] = {
    CATALOG: {
        "FBC-BUNDLE-IMAGE": _Text(
            "a bundle has neither an image nor objects",
            "Set its image, or embed its objects as olm.bundle.object properties.",
            _bundle(image=""),
            _bundle(),
        ),
        "FBC-BUNDLE-NAME": _Text(
            "a bundle has no name",
            "Set the name of its ClusterServiceVersion.",
            _bundle().replace("name: reef.v1.1.0, ", ""),
            _bundle(),
        ),
        "FBC-BUNDLE-STRANDED": _Text(
            "a bundle is in no channel",
            "Add an entry for it to a channel, or remove the bundle.",
            _channel("{name: reef.v1.0.0}", "stable"),
            _channel("{name: reef.v1.0.0}, {name: reef.v1.1.0, replaces: reef.v1.0.0}", "stable"),
        ),
        "FBC-CHANNEL-EMPTY": _Text(
            "a channel has no entries",
            "Add entries, or remove the channel.",
            _channel(""),
            _channel("{name: reef.v1.0.0}"),
        ),
        "FBC-CHANNEL-NAME": _Text(
            "a channel has no name",
            "Set the name of the channel.",
            _channel("{name: reef.v1.0.0}").replace("name: fast, ", ""),
            _channel("{name: reef.v1.0.0}"),
        ),
        "FBC-DEFAULT-CHANNEL": _Text(
            "the default channel of a package is missing or unknown",
            "Set defaultChannel to the name of a channel of the package.",
            "{schema: olm.package, name: reef, defaultChannel: beta}",
            "{schema: olm.package, name: reef, defaultChannel: stable}",
        ),
        "FBC-DEPRECATION": _Text(
            "a deprecation is incomplete, duplicate, or refers to an unknown object",
            "Name an existing package, channel or bundle once, with a message.",
            _deprecation("reef.v1"),
            _deprecation("reef.v1.0.0"),
        ),
        "FBC-DOCUMENT": _Text(
            "a document is empty or not a mapping",
            "Write each document as a mapping with a schema.",
            "- olm.package",
            "{schema: olm.package, name: reef, defaultChannel: stable}",
        ),
        "FBC-DUPLICATE": _Text(
            "two documents have the same schema, package and name",
            "Keep one of them.",
            f"{_channel('{name: reef.v1.0.0}')}\n---\n{_channel('{name: reef.v1.1.0}')}",
            _channel("{name: reef.v1.1.0}"),
        ),
        "FBC-ENTRY-BUNDLE": _Text(
            "an entry of a channel has no bundle",
            "Add the olm.bundle document of this name, or remove the entry from the channel.",
            _channel("{name: reef.v2.0.0}"),
            _channel("{name: reef.v1.1.0}"),
        ),
        "FBC-ENTRY-DUPLICATE": _Text(
            "a channel has two entries with the same name",
            "Merge the entries.",
            _channel("{name: reef.v1.0.0}, {name: reef.v1.0.0}"),
            _channel("{name: reef.v1.0.0}"),
        ),
        "FBC-ENTRY-NAME": _Text(
            "an entry of a channel has no name",
            "Set the name of a bundle.",
            _channel("{replaces: reef.v1.0.0}"),
            _channel("{name: reef.v1.1.0, replaces: reef.v1.0.0}"),
        ),
        "FBC-FILE-SIZE": _Text("a file is too large", "Split the file: each document can be in a file of its own."),
        "FBC-GRAPH": _Text(
            "the update graph of a channel has no head, several heads, a cycle or stranded bundles",
            "Let one entry, the head, lead to each other entry by replaces and skips.",
            _channel("{name: reef.v1.0.0}, {name: reef.v1.1.0}"),
            _channel("{name: reef.v1.0.0}, {name: reef.v1.1.0, skips: [reef.v1.0.0]}"),
        ),
        "FBC-ICON-DATA": _Text(
            "the icon of a package is not valid base64",
            "Encode the image with base64, or remove the icon.",
            _icon("'<svg/>'", "image/svg+xml"),
            _icon("PHN2Zy8+", "image/svg+xml"),
        ),
        "FBC-IMAGE-REFERENCE": _Text(
            "an image reference of a bundle is invalid",
            "Write REGISTRY/REPOSITORY with a tag or a digest, in lower case.",
            _bundle(image="image: quay.io/me/Reef:1.1.0"),
            _bundle(),
        ),
        "FBC-KEY-CASE": _Text(
            "keys of a document differ only in case",
            "Keep one of them.",
            "{schema: olm.package, name: reef, defaultChannel: stable, DefaultChannel: fast}",
            "{schema: olm.package, name: reef, defaultChannel: stable}",
        ),
        "FBC-OBJECT": _Text(
            "an embedded object of a bundle is invalid",
            "Encode a manifest in JSON or YAML with base64.",
            _bundle("{type: olm.bundle.object, value: {data: 'kind: Service'}}"),
            _bundle("{type: olm.bundle.object, value: {data: a2luZDogU2VydmljZQ==}}"),
        ),
        "FBC-PACKAGE-EMPTY": _Text(
            "a package has no channels",
            "Add a document with schema: olm.channel.",
            "{schema: olm.package, name: atoll, defaultChannel: stable}",
        ),
        "FBC-PACKAGE-MISSING": _Text(
            "a channel, bundle or deprecation has no package",
            "Set the package of the document.",
            "{schema: olm.channel, name: fast, entries: [{name: reef.v1.0.0}]}",
            _channel("{name: reef.v1.0.0}"),
        ),
        "FBC-PACKAGE-NAME": _Text(
            "the name of a package is not a DNS label",
            "Use lower-case letters, digits and dashes, in all documents of the package.",
            "{schema: olm.package, name: Reef_Operator, defaultChannel: stable}",
            "{schema: olm.package, name: reef, defaultChannel: stable}",
        ),
        "FBC-PACKAGE-PROPERTY": _Text(
            "a bundle does not have exactly one olm.package property with its package",
            "Add one property olm.package with the fields packageName and version.",
            _bundle(package=""),
            _bundle(),
        ),
        "FBC-PACKAGE-UNKNOWN": _Text(
            "a channel, bundle or deprecation refers to an unknown package",
            "Add a document with schema: olm.package for it, or correct the name.",
            "{schema: olm.channel, package: reaf, name: fast, entries: [{name: reef.v1.0.0}]}",
            _channel("{name: reef.v1.0.0}"),
        ),
        "FBC-PROPERTY": _Text(
            "a value of a known property has the wrong type",
            "Write the value in the form of its type.",
            _bundle("{type: olm.gvk, value: Reef}"),
            _bundle("{type: olm.gvk, value: {group: reef.example.com, kind: Reef, version: v1}}"),
        ),
        "FBC-RELEASE": _Text(
            "the release of a bundle is invalid",
            "Write dot-separated identifiers, such as 1 or rc.2, and no build metadata in the version.",
            _bundle(package=_PROPERTY.replace("1.1.0", "1.1.0, release: a_b")),
            _bundle(),
        ),
        "FBC-SCHEMA": _Text(
            "a document has no schema",
            "Set the schema, such as schema: olm.bundle.",
            "{package: reef, name: fast, entries: [{name: reef.v1.0.0}]}",
            _channel("{name: reef.v1.0.0}"),
        ),
        "FBC-SKIPRANGE": _Text(
            "a skip range is invalid",
            'Write a range such as ">=1.0.0 <1.2.0".',
            _channel("{name: reef.v1.1.0, skipRange: before 1.1.0}"),
            _channel("{name: reef.v1.1.0, skipRange: '>=1.0.0 <1.1.0'}"),
        ),
        "FBC-SKIPS-EMPTY": _Text(
            "an entry of a channel skips an empty name",
            "Remove it.",
            _channel("{name: reef.v1.1.0, skips: ['']}"),
            _channel("{name: reef.v1.1.0, skips: [reef.v1.0.9]}"),
        ),
        "FBC-SYNTAX": _Text(
            "a document is not valid YAML or JSON",
            "Correct the YAML or JSON of the document.",
            "{schema: olm.channel, package: reef",
            _channel("{name: reef.v1.0.0}"),
        ),
        "FBC-TYPE": _Text(
            "a field has the wrong type",
            "Write a value of the type that the field has.",
            "{schema: olm.channel, package: reef, name: fast, entries: reef.v1.0.0}",
            _channel("{name: reef.v1.0.0}"),
        ),
        "FBC-VERSION": _Text(
            "the version of a bundle is not a semantic version",
            "Write MAJOR.MINOR.PATCH, such as 1.0.0 or 1.0.0-rc.1, without a leading v.",
            _bundle(package=_PROPERTY.replace("1.1.0", "v1.1")),
            _bundle(),
        ),
        "FBC-VERSION-DUPLICATE": _Text(
            "two bundles of a package have the same version",
            "Give each its own version, or remove one.",
            _bundle(package=_PROPERTY.replace("1.1.0", "1.0.0")),
            _bundle(),
        ),
    },
    SUSPICIOUS: {
        "FBC-EMPTY": _Text(
            "a catalog has no documents",
            "Pass the directory of a catalog; files that .indexignore excludes are not read.",
        ),
        "FBC-ENTRY-ORDER": _Text(
            "an entry of a channel replaces or skips a bundle with a higher version",
            "Reverse the edge: the newer version replaces the older one.",
            _channel("{name: reef.v1.0.0, replaces: reef.v1.1.0}, {name: reef.v1.1.0}"),
            _channel("{name: reef.v1.0.0}, {name: reef.v1.1.0, replaces: reef.v1.0.0}"),
        ),
        "FBC-ENTRY-SELF": _Text(
            "an entry of a channel replaces or skips itself",
            "Remove its own name.",
            _channel("{name: reef.v1.1.0, skips: [reef.v1.1.0]}"),
            _channel("{name: reef.v1.1.0}"),
        ),
        "FBC-GRAPH-BEFORE-1.58": _Text(
            "the update graph of a channel is invalid for releases of Go opm before 1.58",
            "Correct the graph if older releases of Go opm serve the catalog.",
        ),
        "FBC-ICON-IMAGE": _Text(
            "the content of an icon does not match its media type",
            "Encode the image again, or correct the mediatype; otherwise consoles do not show the icon.",
            _icon("PHN2Zy8+", "image/png"),
        ),
        "FBC-KEY-DUPLICATE": _Text(
            "a document repeats a key",
            "Keep one of them.",
            "{schema: olm.channel, package: reef, name: fast, name: quick, entries: [{name: reef.v1.0.0}]}",
            _channel("{name: reef.v1.0.0}"),
        ),
        "FBC-KEY-UNKNOWN": _Text(
            "a document has an unknown key that resembles a known one",
            "Correct the spelling of the key.",
            _channel("{name: reef.v1.1.0, replace: reef.v1.0.0}"),
            _channel("{name: reef.v1.1.0, replaces: reef.v1.0.0}"),
        ),
        "FBC-LIFECYCLE": _Text(
            "the lifecycle of a package for OpenShift's console is invalid or duplicate",
            "Keep one document for each package, with the fields that OpenShift's console reads.",
        ),
        "FBC-RELATED-IMAGE": _Text(
            "a related image of a bundle has no reference",
            "Set its image, or remove it.",
            _bundle(image=f"{_IMAGE}, relatedImages: [{{name: tool, image: ''}}]"),
            _bundle(image=f"{_IMAGE}, relatedImages: [{{name: tool, image: quay.io/me/tool:1}}]"),
        ),
        "FBC-SCHEMA-UNKNOWN": _Text(
            "a document has an unknown schema that resembles a known one",
            "Correct the spelling of the schema.",
            "{schema: olm.bundles, package: reef, name: reef.v1.2.0}",
        ),
        "FBC-SKIPRANGE-IGNORED": _Text(
            "a part of a skip range is ignored",
            'Write a range such as ">=1.0.0 <1.2.0", with || only between ranges.',
            _channel("{name: reef.v1.1.0, skipRange: 1.0.0 - 1.1.0}"),
            _channel("{name: reef.v1.1.0, skipRange: <1.1.0}"),
        ),
        "FBC-SKIPRANGE-SELF": _Text(
            "a skip range contains the version of the same entry",
            "End the range before the version of the entry.",
            _channel("{name: reef.v1.1.0, skipRange: <=1.1.0}"),
            _channel("{name: reef.v1.1.0, skipRange: <1.1.0}"),
        ),
        "FBC-SKIPS-DUPLICATE": _Text(
            "an entry of a channel skips the same bundle twice",
            "Keep each name once.",
            _channel("{name: reef.v1.1.0, skips: [reef.v1.0.9, reef.v1.0.9]}"),
            _channel("{name: reef.v1.1.0, skips: [reef.v1.0.9]}"),
        ),
    },
    REQUIREMENTS: {
        "GATE-DIGEST": _Text(
            "a bundle image or related image has no digest", "Write the image as REPOSITORY@sha256:DIGEST."
        ),
        "GATE-MAX-VERSION": _Text(
            "a bundle does not support the OpenShift version of the catalog",
            "Remove the bundle from the catalogs of later versions.",
        ),
        "GATE-MAX-VERSION-FORMAT": _Text(
            "the property olm.maxOpenShiftVersion is not a version",
            "Write major and minor as a string, such as '4.14'.",
        ),
        "GATE-METADATA-FORMAT": _Text(
            "the metadata of a bundle does not have the format of the OpenShift version",
            "Migrate the catalog to the format that the OpenShift version reads.",
        ),
        "GATE-NO-PACKAGE": _Text("a catalog for OpenShift has no package", "Add the documents of a package."),
        "GATE-REGISTRY": _Text(
            "a bundle image or related image is not in an allowed registry",
            "Copy the image to an allowed registry, and refer to that image.",
        ),
        "GATE-SIGNATURE": _Text(
            "a bundle image has no accepted signature",
            "Sign the bundle image, or refer to an image that is signed with a trusted key.",
        ),
    },
    PUBLISHED: {
        "GATE-BUNDLE-CHANGED": _Text(
            "the image, properties or related images of a published bundle changed",
            "Restore it, and publish the change as a bundle with a new name and version.",
        ),
        "GATE-BUNDLE-REMOVED": _Text(
            "a published bundle was removed from a channel",
            "Add its entry again; clusters can have the bundle installed.",
        ),
        "GATE-CHANNEL-REMOVED": _Text(
            "a published channel was removed", "Add it again; subscriptions of clusters can refer to it."
        ),
        "GATE-CRD": _Text(
            "OLM refuses to replace a CRD of a published bundle by that of a new bundle",
            "Make the new CustomResourceDefinition compatible with the stored objects and served versions.",
        ),
        "GATE-DEFAULT-CHANNEL": _Text(
            "the default channel of a published package changed",
            "Restore defaultChannel; subscriptions without a channel follow it.",
        ),
        "GATE-HEAD": _Text(
            "the head of a published channel is an older bundle",
            "Make the published head, or a newer bundle that replaces it, the head of the channel.",
        ),
        "GATE-PACKAGE-REMOVED": _Text(
            "a published package was removed", "Add its documents again; clusters can have it installed."
        ),
        "GATE-PERMISSIONS": _Text(
            "a new bundle has dangerous permissions that the version before it does not have",
            "Narrow the permissions of the operator, or allow their kind.",
        ),
        "GATE-UPGRADE-PATH": _Text(
            "no upgrade leads from a published bundle to the head of the channel",
            "Let the head, or an entry from which it can be reached, replace or skip the bundle.",
        ),
    },
    KONFLUX: {
        "KONFLUX-DIGEST": _Text("a bundle image has no digest", "Write the image as REPOSITORY@sha256:DIGEST."),
        "KONFLUX-NO-PACKAGE": _Text("a catalog has no package", "Add the documents of a package."),
        "KONFLUX-PACKAGE-DIRECTORY": _Text(
            "a catalog has no directories of packages, or one of them is empty",
            "Move the documents of each package to a separate directory: PACKAGE/catalog.yaml",
        ),
        "KONFLUX-REGISTRY": _Text(
            "a bundle image is not in Red Hat's registry", "Release the bundle image, and refer to it in that registry."
        ),
    },
    KONFLUX_IMAGE: {
        "KONFLUX-ARCHITECTURE": _Text("an image index has no image for amd64", "Build the image for linux/amd64, too."),
        "KONFLUX-BASE-IMAGE": _Text(
            "the base image in the annotations is missing or not allowed",
            "Build on an allowed base image with buildah or opm, which record it.",
        ),
        "KONFLUX-CONFIGS": _Text(
            "the label with the directory of the catalog is missing or invalid, or that is empty",
            "Set the label operators.operatorframework.io.index.configs.v1 to /configs, and copy the catalog there.",
        ),
        "KONFLUX-HEALTH-PROBE": _Text(
            "an image does not contain grpc_health_probe", "Build on an image that contains it; allowed base images do."
        ),
        "KONFLUX-METADATA-FORMAT": _Text(
            "the metadata of bundles does not have the format of the OpenShift version",
            "Migrate the catalog to the format that the OpenShift version reads.",
        ),
        "KONFLUX-OPENSHIFT-VERSION": _Text(
            "the OpenShift version of an image is missing or invalid",
            'Set the label com.redhat.fbc.openshift.version to a JSON array of versions such as ["v4.17"].',
        ),
        "KONFLUX-UNKNOWN-VERSION": _Text(
            "the format of metadata is not checked without a single OpenShift version",
            "Require the OpenShift version when the catalog is validated, once per version.",
        ),
    },
}
_EXPLANATIONS: Mapping[str, str] = {
    CATALOG: "Go opm rejects such a catalog: it can neither be served nor extended.",
    SUSPICIOUS: "The catalog is valid, but this is probably unintended.",
    REQUIREMENTS: "A flag or the policy file requires it, since a pipeline or an OpenShift version does.",
    PUBLISHED: "Clusters have published bundles installed, and their subscriptions follow published channels.",
    KONFLUX: "The task validate-fbc of Konflux fails; the profile konflux checks the same.",
    KONFLUX_IMAGE: "The task validate-fbc of Konflux fails; the profile konflux checks the same of images.",
    "KONFLUX-UNKNOWN-VERSION": "The task validate-fbc of Konflux does not fail: it skips this check.",
}
"""Explanations of groups, and of rules that differ from their group."""
_WARNINGS = frozenset({*_TEXTS[SUSPICIOUS], "GATE-MAX-VERSION", "KONFLUX-UNKNOWN-VERSION"})

CATALOG_RULES: Mapping[str, RuleDescription] = {
    rule: RuleDescription(
        rule,
        group,
        text.summary,
        Severity.WARNING if rule in _WARNINGS else Severity.ERROR,
        _EXPLANATIONS.get(rule, _EXPLANATIONS[group]),
        *text[1:],
    )
    for group, texts in _TEXTS.items()
    for rule, text in texts.items()
}
"""All rules by id, group by group."""
