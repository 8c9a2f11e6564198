"""Rules of the validators ``operatorhubv2``, ``capabilities`` and ``categories``; ``operatorhub`` is all three.

They are the requirements of OperatorHub.io. In opm v1.26, ``operatorhub`` is the only one of them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import orjson
from msgspec.structs import replace

from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import ALL, RECENT, Compat
from opmkit.bundle.validation.csv_view import Csv, csv_check
from opmkit.bundle.validation.optional_validators import read_option_file
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.rules import csv as csv_rules
from opmkit.bundle.validation.urls import parse_request_url
from opmkit.bundle.versions import strict_version, tolerant_version
from opmkit.documents import fields
from opmkit.documents.errors import FieldTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.documents.fields import FieldPath


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
CATEGORY_NAMES = (
    *("AI/Machine Learning", "Application Runtime", "Big Data", "Cloud Provider", "Developer Tools", "Database"),
    *("Integration & Delivery", "Logging & Tracing", "Monitoring", "Modernization & Migration", "Networking"),
    *("OpenShift Optional", "Security", "Storage", "Streaming & Messaging"),
)
MEDIA_TYPES = ("image/gif", "image/jpeg", "image/png", "image/svg+xml")


@rule(
    "HUB-DEPRECATED",
    "operatorhub",
    Severity.WARNING,
    "deprecated validator operatorhub",
    hint="Select operatorhubv2, capabilities and categories instead.",
    bad="name=operatorhub",
    good="name in (operatorhubv2, capabilities, categories)",
    compat=RECENT,
)
def deprecated(_bundle: BundleView) -> Iterator[Finding]:
    """The validator was split into three, which can be selected separately. It still runs all of them."""
    yield Finding("validator operatorhub is deprecated")


@rule(
    "HUB-PROVIDER",
    VALIDATOR,
    Severity.ERROR,
    "missing provider",
    hint="Set spec.provider.name to your name or that of your organization.",
    bad="spec: {provider: {}}",
    good="spec: {provider: {name: Example Inc.}}",
)
@csv_check
def provider(csv: Csv) -> Iterator[Finding]:
    """Consoles show the provider with the operator. opm v1.26 accepts a blank name."""
    name = csv.spec.get("provider", {}).get("name", "")
    named = name if csv.compat is Compat.OPM_1_26 else name.strip()
    if not named and not csv.decoded.has_mismatch(*PROVIDER):
        yield Finding("spec.provider.name is missing or blank", path=PROVIDER)


def _missing_fields(csv: Csv, path: FieldPath, first: str, second: str) -> Iterator[Finding]:
    """Report the entries of a list that lack one of two fields."""
    for entry_path, entry in csv.entries(path):
        missing = [name for name in (first, second) if not entry.get(name)]
        if missing and not any(csv.decoded.has_mismatch(*entry_path, name) for name in missing):
            yield Finding(f"an entry of {path[-1]} has no {' and no '.join(missing)}", path=entry_path)


@rule(
    "HUB-MAINTAINER-FIELDS",
    VALIDATOR,
    Severity.ERROR,
    "a maintainer without name or email",
    hint="Set name and email of each entry of spec.maintainers.",
    bad="maintainers: [{name: Ann}]",
    good="maintainers: [{name: Ann, email: ann@example.com}]",
)
@csv_check
def maintainer_fields(csv: Csv) -> Iterator[Finding]:
    """Users need to know whom to contact."""
    return _missing_fields(csv, MAINTAINERS, "name", "email")


@rule(
    "HUB-MAINTAINER-EMAIL",
    VALIDATOR,
    Severity.ERROR,
    "invalid email of a maintainer",
    hint="Write one address, such as ann@example.com or Ann <ann@example.com>.",
    bad="maintainers: [{name: Ann, email: 'https://example.com'}]",
    good="maintainers: [{name: Ann, email: ann@example.com}]",
)
@csv_check
def maintainer_email(csv: Csv) -> Iterator[Finding]:
    """The email must be a single address as defined by RFC 5322, as consoles show it as a link."""
    for path, maintainer in csv.entries(MAINTAINERS):
        email = maintainer.get("email", "")
        if email and not is_single_address(email):
            yield Finding(f"invalid email {email!r} of a maintainer", path=(*path, "email"))


@rule(
    "HUB-LINK-FIELDS",
    VALIDATOR,
    Severity.ERROR,
    "a link without name or url",
    hint="Set name and url of each entry of spec.links.",
    bad="links: [{url: 'https://example.com'}]",
    good="links: [{name: Documentation, url: 'https://example.com'}]",
)
@csv_check
def link_fields(csv: Csv) -> Iterator[Finding]:
    """Consoles show links by their names."""
    return _missing_fields(csv, LINKS, "name", "url")


@rule(
    "HUB-LINK-URL",
    VALIDATOR,
    Severity.ERROR,
    "invalid url of a link",
    hint="Write the full URL, beginning with https://.",
    bad="links: [{name: Documentation, url: example.com/docs}]",
    good="links: [{name: Documentation, url: 'https://example.com/docs'}]",
)
@csv_check
def link_url(csv: Csv) -> Iterator[Finding]:
    """The URL must be absolute; without a scheme, it is relative to the page of the console."""
    for path, link in csv.entries(LINKS):
        if url := link.get("url"):
            try:
                parse_request_url(url)
            except ValueError as error:
                yield Finding(f"invalid url {url!r} of a link: {error}", path=(*path, "url"))


@rule(
    "HUB-VERSION",
    VALIDATOR,
    Severity.ERROR,
    "missing version",
    hint="Set spec.version, such as 1.0.0.",
    bad="spec: {version: 0.0.0}",
    good="spec: {version: 0.1.0}",
)
@csv_check
def version(csv: Csv) -> Iterator[Finding]:
    """Versions order the bundles of a package. 0.0.0 is the same as no version."""
    text = csv.spec.get("version")
    if csv.decoded.has_mismatch(*VERSION):
        return
    if not text or tolerant_version(text).compare("0.0.0") == 0:
        yield Finding("spec.version is missing or 0.0.0", path=VERSION)


@rule(
    "HUB-ICON-MISSING",
    VALIDATOR,
    Severity.WARNING,
    "missing icon",
    hint="Add spec.icon with base64data and mediatype of one image.",
    bad="spec: {displayName: Demo}",
    good="spec: {displayName: Demo, icon: [{mediatype: image/svg+xml, base64data: PHN2Zy8+}]}",
)
@csv_check
def icon_missing(csv: Csv) -> Iterator[Finding]:
    """Consoles show the icon with the operator, or a generic one if it is missing."""
    if csv.is_unset(*map(str, ICON)):
        yield Finding("spec.icon is missing", path=ICON)


@rule(
    "HUB-ICON-COUNT",
    VALIDATOR,
    Severity.ERROR,
    "not exactly one icon",
    hint="Keep one icon in spec.icon, or remove the field.",
    bad="icon: []",
    good="icon: [{mediatype: image/svg+xml, base64data: PHN2Zy8+}]",
)
@csv_check
def icon_count(csv: Csv) -> Iterator[Finding]:
    """Consoles show only the first icon. The Go validators crash on an empty list."""
    icons = csv.at(ICON)
    if icons is not None and len(icons) != 1:
        yield Finding(f"spec.icon has {len(icons)} entries instead of one", path=ICON)


@rule(
    "HUB-ICON-FIELDS",
    VALIDATOR,
    Severity.ERROR,
    "an icon without data or media type",
    hint="Set base64data and mediatype of the icon.",
    bad="icon: [{mediatype: image/png}]",
    good="icon: [{mediatype: image/png, base64data: iVBORw0KGgo=}]",
)
@csv_check
def icon_fields(csv: Csv) -> Iterator[Finding]:
    """Both are required to show the icon."""
    for path, icon in list(csv.entries(ICON))[:1]:
        missing = [name for name in ("base64data", "mediatype") if not icon.get(name)]
        if missing and not any(csv.decoded.has_mismatch(*path, name) for name in missing):
            yield Finding(f"the icon has no {' and no '.join(missing)}", path=path)


@rule(
    "HUB-ICON-MEDIATYPE",
    VALIDATOR,
    Severity.ERROR,
    "unsupported media type of the icon",
    hint=f"Use an image of type {', '.join(MEDIA_TYPES[:-1])} or {MEDIA_TYPES[-1]}.",
    bad="icon: [{mediatype: image/svg, base64data: PHN2Zy8+}]",
    good="icon: [{mediatype: image/svg+xml, base64data: PHN2Zy8+}]",
)
@csv_check
def icon_media_type(csv: Csv) -> Iterator[Finding]:
    """All browsers support these types."""
    for path, icon in list(csv.entries(ICON))[:1]:
        media_type = icon.get("mediatype")
        if media_type and media_type not in MEDIA_TYPES:
            message = f"the mediatype of the icon is {media_type!r}, not one of {', '.join(MEDIA_TYPES)}"
            yield Finding(message, path=(*path, "mediatype"))


min_kube_missing = replace(csv_rules.min_kube_missing, validator=VALIDATOR, compat=ALL)


@rule(
    "MINKUBE-INVALID",
    VALIDATOR,
    Severity.ERROR,
    "invalid version in spec.minKubeVersion",
    hint="Write major, minor and patch, without a v: 1.27.0.",
    bad="spec: {minKubeVersion: v1.27}",
    good="spec: {minKubeVersion: 1.27.0}",
)
@csv_check
def min_kube_invalid(csv: Csv) -> Iterator[Finding]:
    """The value is compared with the version of the cluster. opm v1.26 also accepts ``v1.27`` and ``1.27``."""
    text = csv.spec.get("minKubeVersion", "")
    read: Callable[[str], object] = tolerant_version if csv.compat is Compat.OPM_1_26 else strict_version
    if text.strip():
        try:
            read(text)
        except ValueError as error:
            yield Finding(f"invalid spec.minKubeVersion: {error}", path=MIN_KUBE_VERSION)


@rule(
    "HUB-CAPABILITIES",
    "capabilities",
    Severity.ERROR,
    "unknown capability level",
    hint=f"Set the annotation capabilities to one of: {', '.join(LEVELS)}.",
    bad="annotations: {capabilities: Full Lifecyle}",
    good="annotations: {capabilities: Full Lifecycle}",
)
@csv_check
def capabilities(csv: Csv) -> Iterator[Finding]:
    """The annotation is one of the Operator Capability Levels."""
    level = csv.annotations.get("capabilities")
    if level is not None and level not in LEVELS:
        yield Finding(f"annotation capabilities is {level!r}, not one of {', '.join(LEVELS)}", path=CAPABILITIES)


def default_categories(compat: Compat) -> tuple[str, ...]:
    """Return the categories that are allowed unless a file lists others."""
    return CATEGORY_NAMES if compat is Compat.OPM_1_26 else (*CATEGORY_NAMES, "Observability")


@rule(
    "HUB-CATEGORIES",
    "categories",
    Severity.ERROR,
    "unknown category",
    hint=f"Set the annotation categories to one or more of: {', '.join(default_categories(Compat.OPMKIT))}.",
    bad="annotations: {categories: 'Database, Magic'}",
    good="annotations: {categories: 'Database, Storage'}",
)
def categories(bundle: BundleView) -> Iterator[Finding]:
    """Catalogs group operators by category and ignore unknown ones.

    The environment variable OPERATOR_BUNDLE_CATEGORIES can name a file with others: ``{"categories": [...]}``.
    """
    csv = Csv.from_bundle(bundle)
    if csv is None or bundle.csv is None or "categories" not in csv.annotations:
        return
    try:
        known = _custom_categories(bundle) or default_categories(bundle.compat)
    except (InvalidBundle, FieldTypeError):
        return
    for category in csv.annotations["categories"].split(","):
        if category.strip() not in known:
            message = f"unknown category {category.strip()!r}"
            yield Finding(message, bundle.csv.path, CATEGORIES)


@rule(
    "HUB-CATEGORIES-FILE",
    "categories",
    Severity.ERROR,
    "cannot read the file of categories",
    hint='Set OPERATOR_BUNDLE_CATEGORIES to a JSON file such as {"categories": ["Database", "Storage"]}.',
    bad="categories: [Database]",
    good='{"categories": ["Database"]}',
)
def categories_file(bundle: BundleView) -> Iterator[Finding]:
    """The environment variable OPERATOR_BUNDLE_CATEGORIES names a file that replaces the default categories."""
    csv = Csv.from_bundle(bundle)
    if csv is not None and "categories" in csv.annotations:
        try:
            _custom_categories(bundle)
        except (InvalidBundle, FieldTypeError) as error:
            yield Finding(str(error), bundle.options.categories_file)


def _custom_categories(bundle: BundleView) -> list[str] | None:
    """Return the categories of the file, None if there is no such option; raise InvalidBundle if it is invalid."""
    path = bundle.options.categories_file
    if not path:
        return None
    try:
        document = orjson.loads(read_option_file(bundle.options, path))
        listed = fields.items(fields.member(fields.mapping(document, "the file"), "categories"), "categories")
        return [fields.text(category, "a category") for category in listed]
    except (orjson.JSONDecodeError, OSError) as error:
        raise InvalidBundle(f"cannot read the categories in {path}: {error}") from error


_MAX_LENGTH = 10_000

_ATEXT = r"""[^\x00-\x20\x7f()<>\[\]:;@\\,".]"""
_ATOM = rf"{_ATEXT}++(?:\.{_ATEXT}++)*+"
_QUOTED = r'"(?:[^\x00-\x08\x0a-\x1f\x7f"\\]|\\[^\x00-\x08\x0a-\x1f\x7f])%s"'
_SPACE = r"[ \t]*+"
_COMMENT = r"\((?:[^()\\]|\\.)*+\)"
_ADDRESS = rf"{_SPACE}(?:{_ATOM}|{_QUOTED % '++'})@{_SPACE}{_ATOM}"
_WORD = rf"(?:(?:{_ATEXT}|\.)++|{_QUOTED % '*+'})"
_PHRASE = rf"{_SPACE}{_WORD}(?:{_SPACE}{_WORD})*+"
_MAILBOX = rf"(?:{_ADDRESS}|(?:{_PHRASE})?{_SPACE}<{_ADDRESS}>)"
_GROUP = rf"{_PHRASE}{_SPACE}:{_MAILBOX}{_SPACE};"
_SINGLE = re.compile(rf"(?:{_MAILBOX}|{_GROUP}){_SPACE}(?:{_COMMENT}{_SPACE})*+")


def is_single_address(text: str) -> bool:
    """Return whether the text is one address, such as ``a@example.com`` or ``Ann <a@example.com>``."""
    return len(text) <= _MAX_LENGTH and _SINGLE.fullmatch(text) is not None
