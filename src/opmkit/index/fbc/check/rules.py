"""The rules of catalog validation, by the ids that findings and policies refer to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.finding import RuleDescription, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

CATALOG, SUSPICIOUS, REQUIREMENTS, PUBLISHED = "catalog", "suspicious", "requirements", "published"
"""Groups of rules: validity, probably unintended content, settings of pipelines, and the published index."""

_SUMMARIES: Mapping[str, Mapping[str, str]] = {
    CATALOG: {
        "FBC-BUNDLE-IMAGE": "a bundle has neither an image nor objects",
        "FBC-BUNDLE-NAME": "a bundle has no name",
        "FBC-BUNDLE-STRANDED": "a bundle is in no channel",
        "FBC-CHANNEL-EMPTY": "a channel has no entries",
        "FBC-CHANNEL-NAME": "a channel has no name",
        "FBC-DEFAULT-CHANNEL": "the default channel of a package is missing or unknown",
        "FBC-DEPRECATION": "a deprecation is incomplete, duplicate, or refers to an unknown object",
        "FBC-DOCUMENT": "a document is empty or not a mapping",
        "FBC-DUPLICATE": "two documents have the same schema, package and name",
        "FBC-EMPTY": "a catalog has no documents",
        "FBC-ENTRY-BUNDLE": "an entry of a channel has no bundle",
        "FBC-ENTRY-DUPLICATE": "a channel has two entries with the same name",
        "FBC-ENTRY-NAME": "an entry of a channel has no name",
        "FBC-FILE-SIZE": "a file is too large",
        "FBC-GRAPH": "the update graph of a channel has no head, several heads, a cycle or stranded bundles",
        "FBC-ICON-DATA": "the icon of a package is not valid base64",
        "FBC-IMAGE-REFERENCE": "an image reference of a bundle is invalid",
        "FBC-KEY-CASE": "keys of a document differ only in case",
        "FBC-OBJECT": "an embedded object of a bundle is invalid",
        "FBC-PACKAGE-EMPTY": "a package has no channels",
        "FBC-PACKAGE-MISSING": "a channel, bundle or deprecation has no package",
        "FBC-PACKAGE-NAME": "the name of a package is not a DNS label",
        "FBC-PACKAGE-PROPERTY": "a bundle does not have exactly one olm.package property with its package",
        "FBC-PACKAGE-UNKNOWN": "a channel, bundle or deprecation refers to an unknown package",
        "FBC-PROPERTY": "a value of a known property has the wrong type",
        "FBC-RELEASE": "the release of a bundle is invalid",
        "FBC-SCHEMA": "a document has no schema",
        "FBC-SKIPRANGE": "a skip range is invalid",
        "FBC-SKIPS-EMPTY": "an entry of a channel skips an empty name",
        "FBC-SYNTAX": "a document is not valid YAML or JSON",
        "FBC-TYPE": "a field has the wrong type",
        "FBC-VERSION": "the version of a bundle is not a semantic version",
        "FBC-VERSION-DUPLICATE": "two bundles of a package have the same version",
    },
    SUSPICIOUS: {
        "FBC-ENTRY-ORDER": "an entry of a channel replaces or skips a bundle with a higher version",
        "FBC-ENTRY-SELF": "an entry of a channel replaces or skips itself",
        "FBC-GRAPH-BEFORE-1.58": "the update graph of a channel is invalid for releases of Go opm before 1.58",
        "FBC-ICON-IMAGE": "the content of an icon does not match its media type",
        "FBC-KEY-DUPLICATE": "a document repeats a key",
        "FBC-KEY-UNKNOWN": "a document has an unknown key that resembles a known one",
        "FBC-SCHEMA-UNKNOWN": "a document has an unknown schema that resembles a known one",
        "FBC-SKIPRANGE-IGNORED": "a part of a skip range is ignored",
        "FBC-SKIPRANGE-SELF": "a skip range contains the version of the same entry",
        "FBC-SKIPS-DUPLICATE": "an entry of a channel skips the same bundle twice",
    },
    REQUIREMENTS: {
        "GATE-DIGEST": "a bundle image or related image has no digest",
        "GATE-MAX-VERSION": "a bundle does not support the OpenShift version of the catalog",
        "GATE-MAX-VERSION-FORMAT": "the property olm.maxOpenShiftVersion is not a version",
        "GATE-METADATA-FORMAT": "the metadata of a bundle does not have the format of the OpenShift version",
        "GATE-NO-PACKAGE": "a catalog for OpenShift has no package",
        "GATE-REGISTRY": "a bundle image or related image is not in an allowed registry",
        "GATE-SIGNATURE": "a bundle image has no accepted signature",
    },
    PUBLISHED: {
        "GATE-BUNDLE-CHANGED": "the image, properties or related images of a published bundle changed",
        "GATE-BUNDLE-REMOVED": "a published bundle was removed from a channel",
        "GATE-CHANNEL-REMOVED": "a published channel was removed",
        "GATE-DEFAULT-CHANNEL": "the default channel of a published package changed",
        "GATE-HEAD": "the head of a published channel is an older bundle",
        "GATE-PACKAGE-REMOVED": "a published package was removed",
        "GATE-UPGRADE-PATH": "no upgrade leads from a published bundle to the head of the channel",
    },
}
_EXPLANATIONS: Mapping[str, str] = {
    CATALOG: "Go opm rejects such a catalog: it can neither be served nor extended.",
    SUSPICIOUS: "The catalog is valid, but this is probably unintended.",
    REQUIREMENTS: "A flag or the policy file requires it, since a pipeline or an OpenShift version does.",
    PUBLISHED: "Clusters have published bundles installed, and their subscriptions follow published channels.",
}
_WARNINGS = frozenset({*_SUMMARIES[SUSPICIOUS], "GATE-MAX-VERSION"})

CATALOG_RULES: Mapping[str, RuleDescription] = {
    rule: RuleDescription(
        rule, group, summary, Severity.WARNING if rule in _WARNINGS else Severity.ERROR, _EXPLANATIONS[group]
    )
    for group, summaries in _SUMMARIES.items()
    for rule, summary in summaries.items()
}
"""All rules by id, group by group."""
