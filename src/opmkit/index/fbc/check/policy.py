"""Requirements of pipelines on file-based catalogs: the OpenShift version that serves them, and the bundle images.

The first are those of OpenShift's console and of Konflux's task validate-fbc, the others those of that task and of
operator-pipelines.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec import Struct

from opmkit.bundle.finding import Severity
from opmkit.bundle.validation.openshift import MAX_VERSION, OpenShiftVersion
from opmkit.index.fbc.blobs import BUNDLE_OBJECT, CSV_METADATA
from opmkit.index.fbc.check.catalog import locate
from opmkit.index.fbc.check.published import check_published
from opmkit.index.fbc.check.rules import (
    CATALOG_RULES,
    KONFLUX,
    KONFLUX_IMAGE,
    PUBLISHED,
    REQUIREMENTS,
)
from opmkit.index.fbc.csv_metadata import MigrationLevel
from opmkit.index.fbc.findings import CatalogFinding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.index.fbc.blobs import Blobs, BundleBlob
    from opmkit.index.fbc.check.published import PublishedPackage
    from opmkit.index.fbc.definitions import ReadBundles
    from opmkit.index.fbc.permissions import ReadPermissions


FIRST_WITH_METADATA = OpenShiftVersion(4, 17)
"""The first OpenShift version whose console reads ``olm.csv.metadata`` instead of ``olm.bundle.object``."""

PINNED = re.compile(r"@sha256:[0-9a-fA-F]{64}\Z")
"""The end of an image reference with a digest."""


class CatalogPolicy(Struct, frozen=True):
    """Requirements on a catalog.

    Attributes:
        openshift: The OpenShift version that serves the catalog, None for any.
        pinned: Whether bundle images must have a digest.
        registries: Allowed prefixes of bundle images, empty for any; those without a slash are whole registries.
        related_images: Whether the requirements on bundle images apply to related images, too.
        unsigned: Bundle images that do not satisfy the requirements on signatures, with the reasons; None if none are
            required.
        published: The packages of the published catalog, whose content must remain, None for any.
        fragment: Whether the catalog is a part of the published one.
        read_bundles: Reads new bundles that do not contain their CustomResourceDefinitions; None to ignore these.
        allowed_permissions: Dangerous permissions that new bundles may gain, as ``KIND`` or ``PACKAGE/KIND``; None for
            any.
        read_permissions: Reads the images of new bundles, and of the versions before them, for ``allowed_permissions``;
            None if bundles with an image are findings.
        groups: Further groups of rules that apply, such as `KONFLUX`; the caller passes their findings to `validate`.
    """

    openshift: OpenShiftVersion | None = None
    pinned: bool = False
    registries: tuple[str, ...] = ()
    related_images: bool = False
    published: Mapping[str, PublishedPackage] | None = None
    fragment: bool = False
    unsigned: Mapping[str, str] | None = None
    read_bundles: ReadBundles | None = None
    allowed_permissions: tuple[str, ...] | None = None
    read_permissions: ReadPermissions | None = None
    groups: frozenset[str] = frozenset()

    @property
    def rules(self) -> frozenset[str]:
        """The ids of the rules that apply, among them those of valid catalogs."""
        applied = {
            "GATE-DIGEST": self.pinned,
            "GATE-REGISTRY": bool(self.registries),
            "GATE-SIGNATURE": self.unsigned is not None,
            "GATE-PACKAGE-REMOVED": self.published is not None and not self.fragment,
            "GATE-PERMISSIONS": self.published is not None and self.allowed_permissions is not None,
        }
        groups = {
            REQUIREMENTS: self.openshift is not None,
            PUBLISHED: self.published is not None,
            **{group: group in self.groups for group in (KONFLUX, KONFLUX_IMAGE)},
        }
        return frozenset(
            rule.id for rule in CATALOG_RULES.values() if applied.get(rule.id, groups.get(rule.validator, True))
        )


def check_policy(blobs: Blobs, policy: CatalogPolicy) -> Iterator[CatalogFinding]:
    """Yield the findings of a policy, errors and warnings, bundle by bundle."""
    if policy.openshift and not blobs.packages:
        hint = "Add the documents of a package."
        yield CatalogFinding("the catalog has no olm.package document", hint=hint, rule="GATE-NO-PACKAGE")
    if policy.published is not None:
        yield from check_published(
            blobs,
            policy.published,
            fragment=policy.fragment,
            read_bundles=policy.read_bundles,
            allowed_permissions=policy.allowed_permissions,
            read_permissions=policy.read_permissions,
        )
    for bundle in sorted(blobs.bundles, key=lambda blob: (blob.package, blob.name)):
        for finding in _check_bundle(bundle, policy):
            yield locate(finding, bundle)


def _check_bundle(bundle: BundleBlob, policy: CatalogPolicy) -> Iterator[CatalogFinding]:
    if policy.openshift:
        yield from _check_metadata(bundle, policy.openshift)
        yield from _check_max_version(bundle, policy.openshift)
    yield from _check_image("image", bundle.image, policy)
    for related in bundle.related_images if policy.related_images else ():
        if related.image != bundle.image:
            yield from _check_image("related image", related.image, policy)
    if policy.unsigned and bundle.image in policy.unsigned:
        hint = "Sign the bundle image, or refer to an image that is signed with a trusted key."
        yield CatalogFinding(policy.unsigned[bundle.image], hint=hint, rule="GATE-SIGNATURE")


def _check_image(noun: str, image: str, policy: CatalogPolicy) -> Iterator[CatalogFinding]:
    if policy.pinned and image and not PINNED.search(image):
        hint = "Write the image as REPOSITORY@sha256:DIGEST."
        yield CatalogFinding(f"{noun} {image} has no digest", hint=hint, rule="GATE-DIGEST")
    prefixes = tuple(prefix if "/" in prefix else f"{prefix}/" for prefix in policy.registries)
    if prefixes and image and not image.startswith(prefixes):
        message = f"{noun} {image} is not in an allowed registry: {', '.join(policy.registries)}"
        hint = "Copy the image to an allowed registry, and refer to that image."
        yield CatalogFinding(message, hint=hint, rule="GATE-REGISTRY")


def _check_metadata(bundle: BundleBlob, version: OpenShiftVersion) -> Iterator[CatalogFinding]:
    """Check that the metadata of a bundle has the format that the console of this version reads."""
    types = {item.type for item in bundle.properties}
    has_metadata = version >= FIRST_WITH_METADATA
    wanted, unwanted = (CSV_METADATA, BUNDLE_OBJECT) if has_metadata else (BUNDLE_OBJECT, CSV_METADATA)
    migration = f"with the migration level {MigrationLevel.CSV_METADATA}" if has_metadata else "without migration"
    hint = f"Render the catalog from its bundle images {migration}."
    if wanted not in types:
        instead = f" instead of {unwanted}" if unwanted in types else ""
        yield CatalogFinding(
            f"OpenShift {version} requires the property {wanted}{instead}", hint=hint, rule="GATE-METADATA-FORMAT"
        )
    elif unwanted in types:
        yield CatalogFinding(
            f"OpenShift {version} does not support the property {unwanted}", hint=hint, rule="GATE-METADATA-FORMAT"
        )


def _check_max_version(bundle: BundleBlob, version: OpenShiftVersion) -> Iterator[CatalogFinding]:
    for value in bundle.property_values(MAX_VERSION):
        try:
            last = OpenShiftVersion.parse(value) if isinstance(value, str) else None
        except ValueError:
            last = None
        if last is None:
            hint = "Write major and minor as a string, such as '4.14'."
            yield CatalogFinding(
                f"the property {MAX_VERSION} is not a version", hint=hint, rule="GATE-MAX-VERSION-FORMAT"
            )
        elif last.release < version.release:
            message = f"the bundle does not work on OpenShift {version}: {MAX_VERSION} is {last}"
            hint = "Remove the bundle from the catalogs of later versions."
            yield CatalogFinding(message, hint=hint, severity=Severity.WARNING, rule="GATE-MAX-VERSION")
