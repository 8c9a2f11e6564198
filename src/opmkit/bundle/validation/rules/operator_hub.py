"""Rules of the validators ``operatorhubv2``, ``capabilities`` and ``categories``; ``operatorhub`` is all three.

They say what OperatorHub.io asks of a ClusterServiceVersion. In the older reference, ``operatorhub`` is the only one.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import orjson

from opmkit.bundle import fields
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import ALL, RECENT, Compat
from opmkit.bundle.validation.csv_view import Csv, csv_check
from opmkit.bundle.validation.mail_addresses import is_single_address
from opmkit.bundle.validation.option_files import read_given_file
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.rules import csv as csv_rules
from opmkit.bundle.validation.urls import parse_request_url
from opmkit.bundle.versions import strict_version, tolerant_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opmkit.bundle.field_path import FieldPath
    from opmkit.bundle.validation.bundle_view import BundleView

VALIDATOR = "operatorhubv2"
PROVIDER: FieldPath = ("spec", "provider", "name")
MAINTAINERS: FieldPath = ("spec", "maintainers")
LINKS: FieldPath = ("spec", "links")
VERSION: FieldPath = ("spec", "version")
ICON: FieldPath = ("spec", "icon")
MIN_KUBE_VERSION: FieldPath = ("spec", "minKubeVersion")
CAPABILITIES: FieldPath = ("metadata", "annotations", "capabilities")
CATEGORIES: FieldPath = ("metadata", "annotations", "categories")

LEVELS = ("Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot")
_FIRST_CATEGORIES = (
    *("AI/Machine Learning", "Application Runtime", "Big Data", "Cloud Provider", "Developer Tools", "Database"),
    *("Integration & Delivery", "Logging & Tracing", "Monitoring", "Modernization & Migration", "Networking"),
    *("OpenShift Optional", "Security", "Storage", "Streaming & Messaging"),
)
_MEDIA_TYPES = ("image/gif", "image/jpeg", "image/png", "image/svg+xml")


@rule(
    "HUB-DEPRECATED",
    "operatorhub",
    Severity.WARNING,
    "the validator operatorhub has been superseded",
    hint="Select operatorhubv2, capabilities and categories instead.",
    bad="name=operatorhub",
    good="name in (operatorhubv2, capabilities, categories)",
    compat=RECENT,
)
def deprecated(_bundle: BundleView) -> Iterator[Finding]:
    """It was split into three validators, so that each can be selected by itself. It still does what all three do."""
    yield Finding("the validator operatorhub is deprecated")


@rule(
    "HUB-PROVIDER",
    VALIDATOR,
    Severity.ERROR,
    "nobody is named as the provider of the operator",
    hint="Set spec.provider.name to your name, or that of your organisation.",
    bad="spec: {provider: {}}",
    good="spec: {provider: {name: Example Inc.}}",
)
@csv_check
def provider(csv: Csv) -> Iterator[Finding]:
    """The name is shown beside the operator. The older reference takes blanks for a name."""
    name = csv.spec.get("provider", {}).get("name", "")
    named = name if csv.compat is Compat.OPM_1_26 else name.strip()
    if not named and not csv.decoded.has_mismatch(*PROVIDER):
        yield Finding("spec.provider.name is missing or blank", path=PROVIDER)


def _both(csv: Csv, path: FieldPath, first: str, second: str) -> Iterator[Finding]:
    """The entries of a list that lack one of two texts."""
    for place, entry in csv.entries(path):
        lacking = [name for name in (first, second) if not entry.get(name)]
        if lacking and not any(csv.decoded.has_mismatch(*place, name) for name in lacking):
            yield Finding(f"{path[-1]} has an entry without {' and '.join(lacking)}", path=place)


@rule(
    "HUB-MAINTAINER-FIELDS",
    VALIDATOR,
    Severity.ERROR,
    "a maintainer has no name or no email",
    hint="Give each of spec.maintainers a name and an email.",
    bad="maintainers: [{name: Ann}]",
    good="maintainers: [{name: Ann, email: ann@example.com}]",
)
@csv_check
def maintainer_fields(csv: Csv) -> Iterator[Finding]:
    """Who uses the operator should know whom to ask, and where."""
    return _both(csv, MAINTAINERS, "name", "email")


@rule(
    "HUB-MAINTAINER-EMAIL",
    VALIDATOR,
    Severity.ERROR,
    "the email of a maintainer is no mail address",
    hint="Write one address, such as ann@example.com or Ann <ann@example.com>.",
    bad="maintainers: [{name: Ann, email: 'https://example.com'}]",
    good="maintainers: [{name: Ann, email: ann@example.com}]",
)
@csv_check
def maintainer_email(csv: Csv) -> Iterator[Finding]:
    """It must be a single address as RFC 5322 writes it, for it is made a link."""
    for path, maintainer in csv.entries(MAINTAINERS):
        email = maintainer.get("email", "")
        if email and not is_single_address(email):
            yield Finding(f"the email {email!r} of a maintainer is no mail address", path=(*path, "email"))


@rule(
    "HUB-LINK-FIELDS",
    VALIDATOR,
    Severity.ERROR,
    "a link has no name or no url",
    hint="Give each of spec.links a name and a url.",
    bad="links: [{url: 'https://example.com'}]",
    good="links: [{name: Documentation, url: 'https://example.com'}]",
)
@csv_check
def link_fields(csv: Csv) -> Iterator[Finding]:
    """A link is shown under its name."""
    return _both(csv, LINKS, "name", "url")


@rule(
    "HUB-LINK-URL",
    VALIDATOR,
    Severity.ERROR,
    "the url of a link is no URL",
    hint="Write the whole URL, with https:// before it.",
    bad="links: [{name: Documentation, url: example.com/docs}]",
    good="links: [{name: Documentation, url: 'https://example.com/docs'}]",
)
@csv_check
def link_url(csv: Csv) -> Iterator[Finding]:
    """It must be absolute; without a scheme it would lead to a page of the site that shows it."""
    for path, link in csv.entries(LINKS):
        if url := link.get("url"):
            try:
                parse_request_url(url)
            except ValueError as error:
                yield Finding(f"the url {url!r} of a link is no URL: {error}", path=(*path, "url"))


@rule(
    "HUB-VERSION",
    VALIDATOR,
    Severity.ERROR,
    "the operator has no version",
    hint="Set spec.version, such as 1.0.0.",
    bad="spec: {version: 0.0.0}",
    good="spec: {version: 0.1.0}",
)
@csv_check
def version(csv: Csv) -> Iterator[Finding]:
    """Versions order the bundles of a package. 0.0.0 counts as none."""
    text = csv.spec.get("version")
    if csv.decoded.has_mismatch(*VERSION):
        return
    if not text or tolerant_version(text).compare("0.0.0") == 0:
        yield Finding("spec.version is missing, or 0.0.0", path=VERSION)


@rule(
    "HUB-ICON-MISSING",
    VALIDATOR,
    Severity.WARNING,
    "the operator has no icon",
    hint="Add spec.icon with one image, its base64data and its mediatype.",
    bad="spec: {displayName: Demo}",
    good="spec: {displayName: Demo, icon: [{mediatype: image/svg+xml, base64data: PHN2Zy8+}]}",
)
@csv_check
def icon_missing(csv: Csv) -> Iterator[Finding]:
    """The icon is what users know the operator by; without, a common one is shown."""
    if csv.is_unset(*map(str, ICON)):
        yield Finding("spec.icon is missing", path=ICON)


@rule(
    "HUB-ICON-COUNT",
    VALIDATOR,
    Severity.ERROR,
    "the operator has not exactly one icon",
    hint="Keep one icon in spec.icon, or remove the field.",
    bad="icon: []",
    good="icon: [{mediatype: image/svg+xml, base64data: PHN2Zy8+}]",
)
@csv_check
def icon_count(csv: Csv) -> Iterator[Finding]:
    """Of several icons the first is shown. An empty list is what the references crash on."""
    icons = csv.at(ICON)
    if icons is not None and len(icons) != 1:
        yield Finding(f"spec.icon has {len(icons)} entries instead of one", path=ICON)


@rule(
    "HUB-ICON-FIELDS",
    VALIDATOR,
    Severity.ERROR,
    "the icon lacks its data or its media type",
    hint="Give the icon base64data and mediatype.",
    bad="icon: [{mediatype: image/png}]",
    good="icon: [{mediatype: image/png, base64data: iVBORw0KGgo=}]",
)
@csv_check
def icon_fields(csv: Csv) -> Iterator[Finding]:
    """Without both there is nothing to show."""
    for path, icon in list(csv.entries(ICON))[:1]:
        lacking = [name for name in ("base64data", "mediatype") if not icon.get(name)]
        if lacking and not any(csv.decoded.has_mismatch(*path, name) for name in lacking):
            yield Finding(f"the icon has no {' and no '.join(lacking)}", path=path)


@rule(
    "HUB-ICON-MEDIATYPE",
    VALIDATOR,
    Severity.ERROR,
    "the icon is no image that can be shown",
    hint=f"Use an image of the type {', '.join(_MEDIA_TYPES[:-1])} or {_MEDIA_TYPES[-1]}.",
    bad="icon: [{mediatype: image/svg, base64data: PHN2Zy8+}]",
    good="icon: [{mediatype: image/svg+xml, base64data: PHN2Zy8+}]",
)
@csv_check
def icon_media_type(csv: Csv) -> Iterator[Finding]:
    """These are the types that all browsers show."""
    for path, icon in list(csv.entries(ICON))[:1]:
        media_type = icon.get("mediatype")
        if media_type and media_type not in _MEDIA_TYPES:
            told = f"the mediatype of the icon is {media_type!r}, none of {', '.join(_MEDIA_TYPES)}"
            yield Finding(told, path=(*path, "mediatype"))


min_kube_missing = replace(csv_rules.min_kube_missing, validator=VALIDATOR, compat=ALL)


@rule(
    "MINKUBE-INVALID",
    VALIDATOR,
    Severity.ERROR,
    "spec.minKubeVersion is no version",
    hint="Write major, minor and patch, without a v: 1.27.0.",
    bad="spec: {minKubeVersion: v1.27}",
    good="spec: {minKubeVersion: 1.27.0}",
)
@csv_check
def min_kube_invalid(csv: Csv) -> Iterator[Finding]:
    """It is compared with the version of the cluster. The older reference takes ``v1.27`` and ``1.27`` too."""
    text = csv.spec.get("minKubeVersion", "")
    read: Callable[[str], object] = tolerant_version if csv.compat is Compat.OPM_1_26 else strict_version
    if text.strip():
        try:
            read(text)
        except ValueError as error:
            yield Finding(f"spec.minKubeVersion is no version: {error}", path=MIN_KUBE_VERSION)


@rule(
    "HUB-CAPABILITIES",
    "capabilities",
    Severity.ERROR,
    "the level of capabilities is none of those that there are",
    hint=f"Set the annotation capabilities to one of: {', '.join(LEVELS)}.",
    bad="annotations: {capabilities: Full Lifecyle}",
    good="annotations: {capabilities: Full Lifecycle}",
)
@csv_check
def capabilities(csv: Csv) -> Iterator[Finding]:
    """The levels are those of the Operator Capability Levels; one alone is given."""
    level = csv.annotations.get("capabilities")
    if level is not None and level not in LEVELS:
        yield Finding(f"the annotation capabilities is {level!r}, none of {', '.join(LEVELS)}", path=CAPABILITIES)


def default_categories(compat: Compat) -> tuple[str, ...]:
    """The categories that there are unless a file lists others."""
    return _FIRST_CATEGORIES if compat is Compat.OPM_1_26 else (*_FIRST_CATEGORIES, "Observability")


@rule(
    "HUB-CATEGORIES",
    "categories",
    Severity.ERROR,
    "a category is none of those that there are",
    hint=f"Set the annotation categories to some of: {', '.join(default_categories(Compat.OPMKIT))}.",
    bad="annotations: {categories: 'Database, Magic'}",
    good="annotations: {categories: 'Database, Storage'}",
)
def categories(bundle: BundleView) -> Iterator[Finding]:
    """Catalogs sort operators by them, and leave aside those of other names.

    The file that the environment variable OPERATOR_BUNDLE_CATEGORIES names may list others: ``{"categories": [...]}``.
    """
    csv = Csv.from_bundle(bundle)
    if csv is None or bundle.csv is None or "categories" not in csv.annotations:
        return
    try:
        known = _custom_categories(bundle) or default_categories(bundle.compat)
    except InvalidBundle:
        return
    for category in csv.annotations["categories"].split(","):
        if category.strip() not in known:
            told = f"the category {category.strip()!r} is none of those known"
            yield Finding(told, bundle.csv.path, CATEGORIES)


@rule(
    "HUB-CATEGORIES-FILE",
    "categories",
    Severity.ERROR,
    "the file of categories can't be read",
    hint='Name a file of JSON, {"categories": ["Database", "Storage"]}, in OPERATOR_BUNDLE_CATEGORIES.',
    bad="categories: [Database]",
    good='{"categories": ["Database"]}',
)
def categories_file(bundle: BundleView) -> Iterator[Finding]:
    """The environment variable OPERATOR_BUNDLE_CATEGORIES names the file whose categories hold instead of the usual."""
    csv = Csv.from_bundle(bundle)
    if csv is not None and "categories" in csv.annotations:
        try:
            _custom_categories(bundle)
        except InvalidBundle as error:
            yield Finding(str(error), bundle.options.categories_file)


def _custom_categories(bundle: BundleView) -> list[str] | None:
    """The categories of the file that is given, None if none is; InvalidBundle if it can't be read."""
    path = bundle.options.categories_file
    if not path:
        return None
    try:
        document = orjson.loads(read_given_file(path))
        listed = fields.items(fields.member(fields.mapping(document, "the file"), "categories"), "categories")
        return [fields.text(category, "a category") for category in listed]
    except (orjson.JSONDecodeError, OSError) as error:
        raise InvalidBundle(f"the categories of {path} can't be read: {error}") from error
