"""Rules of the validator ``crd-upgrade``: changes of CustomResourceDefinitions since the bundle that is replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.bundle_view import ManifestView
from opmkit.bundle.validation.compat import OlmVersion
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.run import CRD_UPGRADE
from opmkit.documents.lenient import items, mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from opmkit.bundle.crd_upgrade import CrdChange
    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.documents.fields import FieldPath

_SCOPE, _STORED_VERSION, _REMOVED_FIELD = "scope", "storedVersionRemoval", "existingFieldRemoval"
_DEFINITION_CHECKS = (_SCOPE, _STORED_VERSION, _REMOVED_FIELD)


def _is_property_change(change: CrdChange) -> bool:
    return change.olm is OlmVersion.V1 and change.check not in _DEFINITION_CHECKS


def _changes(bundle: BundleView) -> list[tuple[ManifestView, CrdChange]]:
    """Return the unsafe changes of all definitions, compared once for all rules."""
    if _changes not in bundle.memo:
        bundle.memo[_changes] = list(_compare_all(bundle))
    return cast("list[tuple[ManifestView, CrdChange]]", bundle.memo[_changes])


def _compare_all(bundle: BundleView) -> Iterator[tuple[ManifestView, CrdChange]]:
    if not bundle.options.replaced_crds:
        return
    from opmkit.bundle.crd_upgrade import olm_v0_changes, olm_v1_changes, stored_versions  # slow to import

    olm = bundle.options.olm
    replaced = [ManifestView("", bundle.contents.read(raw)) for raw in bundle.options.replaced_crds]
    by_name = {manifest.object_name: manifest.object for manifest in replaced}
    for manifest in bundle.crds:
        old = by_name.get(manifest.object_name)
        if old is None:
            continue
        stored = stored_versions(old)
        changes = [] if olm is OlmVersion.V0 else olm_v1_changes(old, manifest.object, stored)
        known = {(change.check, change.message) for change in changes}
        if olm is not OlmVersion.V1:
            later = olm_v0_changes(old, manifest.object, stored)
            changes += [change for change in later if (change.check, change.message) not in known]
        for change in changes:
            yield manifest, change


def _findings(bundle: BundleView, matches: Callable[[CrdChange], bool]) -> Iterator[Finding]:
    """Yield a finding for each matching change, at the property or what is left of it."""
    for manifest, change in _changes(bundle):
        if matches(change):
            message = str(change)
            yield Finding(message, manifest.path, _path(manifest, change), manifest.object_name)


def _path(manifest: ManifestView, change: CrdChange) -> FieldPath:
    if change.check == _SCOPE:
        return "spec", "scope"
    name = change.versions.rpartition(" -> ")[2]
    versions = items(mapping(manifest.object.get("spec")).get("versions"))
    for number, version in enumerate(versions):
        if name and mapping(version).get("name") == name:
            return "spec", "versions", number, "schema", "openAPIV3Schema", *change.steps
    return "spec", "versions"


@rule(
    "CRD-UPGRADE-SCOPE",
    CRD_UPGRADE,
    Severity.ERROR,
    "the scope of a CRD changes",
    hint="Keep the scope; define another kind for objects of the other scope.",
    bad="scope: Cluster  # and the replaced bundle has scope: Namespaced",
    good="scope: Namespaced",
)
def scope(bundle: BundleView) -> Iterator[Finding]:
    """API servers reject another scope, so that the operator cannot be upgraded."""
    return _findings(bundle, lambda change: change.check == _SCOPE)


@rule(
    "CRD-UPGRADE-STORED-VERSION",
    CRD_UPGRADE,
    Severity.ERROR,
    "a CRD drops a version in which objects may be stored",
    hint="Keep the version with served: false until all objects are migrated to another one.",
    bad="versions: [{name: v1, storage: true}]  # and the replaced bundle stores v1beta1",
    good="versions: [{name: v1, storage: true}, {name: v1beta1, served: false, storage: false}]",
)
def stored_version(bundle: BundleView) -> Iterator[Finding]:
    """OLM v0 and v1 refuse to drop a version in status.storedVersions, because its objects could not be read.

    That list has each version that was ever the storage version on the cluster, until it is removed there.
    """
    return _findings(bundle, lambda change: change.check == _STORED_VERSION)


@rule(
    "CRD-UPGRADE-FIELD-REMOVED",
    CRD_UPGRADE,
    Severity.ERROR,
    "a field of a CRD is removed",
    hint="Keep the field and ignore its value, or remove it in a new version only.",
    bad="properties: {size: {type: integer}}  # and the replaced bundle has size and mode",
    good="properties: {size: {type: integer}, mode: {type: string}}",
)
def field_removed(bundle: BundleView) -> Iterator[Finding]:
    """OLM v1 refuses the upgrade, because the values of the field in existing objects would be lost."""
    return _findings(bundle, lambda change: change.check == _REMOVED_FIELD)


@rule(
    "CRD-UPGRADE-PROPERTY",
    CRD_UPGRADE,
    Severity.ERROR,
    "a property of a CRD changes in a way that OLM v1 refuses",
    hint="Undo the change, or make it in a new version that is not served yet.",
    bad="size: {type: integer, minimum: 3}  # and the replaced bundle has minimum: 1",
    good="size: {type: integer, minimum: 1}",
)
def unsafe_property(bundle: BundleView) -> Iterator[Finding]:
    """OLM v1 allows other descriptions, more enum values and weaker limits, and refuses all other changes.

    It compares each version with the same version of the definition on the cluster. A cluster administrator can turn
    the check off for a ClusterExtension.
    """
    return _findings(bundle, lambda change: _is_property_change(change) and "->" not in change.versions)


@rule(
    "CRD-UPGRADE-SERVED-VERSIONS",
    CRD_UPGRADE,
    Severity.ERROR,
    "served versions of a CRD differ in a way that OLM v1 refuses",
    hint="Make the versions compatible, serve only one of them, or convert them with a webhook.",
    bad="v1beta1: {size: {type: string}}, v1: {size: {type: integer}}",
    good="v1beta1: {size: {type: integer}}, v1: {size: {type: integer}}",
)
def served_versions(bundle: BundleView) -> Iterator[Finding]:
    """Without a conversion webhook, objects of one served version are read as those of another without changes.

    Differences that the replaced bundle has as well are allowed.
    """
    return _findings(bundle, lambda change: _is_property_change(change) and "->" in change.versions)


@rule(
    "CRD-UPGRADE-EXISTING-OBJECTS",
    CRD_UPGRADE,
    Severity.WARNING,
    "existing objects may violate the schema of a CRD",
    hint="Make the change in a new version, or migrate all objects before the upgrade.",
    bad="spec: {required: [size]}  # and the replaced bundle does not require size",
    good="spec: {required: []}",
)
def existing_objects(bundle: BundleView) -> Iterator[Finding]:
    """OLM v0 validates all objects on the cluster with the new schema, and refuses the upgrade if one is invalid.

    With a conversion webhook, it warns only.
    """
    return _findings(
        bundle, lambda change: change.olm is OlmVersion.V0 and change.check not in (_SCOPE, _STORED_VERSION)
    )
