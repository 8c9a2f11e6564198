"""CustomResourceDefinitions as rules see them: with defaults, in the internal form of the API server.

The internal form (hub) has the fields of both versions. A schema, subresources or printer columns that are the same in
all versions of a ``v1`` definition are at its top level.
"""

from __future__ import annotations

from functools import cached_property, wraps
from typing import TYPE_CHECKING, cast

from msgspec import Struct

from opmkit.bundle.validation.cache import each_file
from opmkit.bundle.validation.object_metadata import ValueNode
from opmkit.bundle.validation.structural_schema import schema_findings
from opmkit.documents.lenient import mapping

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.bundle_view import BundleView, ManifestView
    from opmkit.bundle.validation.rule import Check


V1 = "apiextensions.k8s.io/v1"
V1BETA1 = "apiextensions.k8s.io/v1beta1"


def known_crds(bundle: BundleView) -> Iterator[ManifestView]:
    """Return the CustomResourceDefinitions with a supported apiVersion."""
    return (manifest for manifest in bundle.crds if manifest.api_version in (V1, V1BETA1))


class Crd(Struct, frozen=True, dict=True):
    """A CustomResourceDefinition, of version ``v1`` or else ``v1beta1``."""

    root: ValueNode
    is_v1: bool

    @classmethod
    def from_manifest(cls, manifest: ManifestView) -> Crd:
        """Return the view of a manifest, which manifests with equal content share."""
        memo = manifest.content.memo
        if cls not in memo:
            memo[cls] = cls(ValueNode(dict(manifest.object)), manifest.api_version == V1)
        return cast("Crd", memo[cls])

    @property
    def spec(self) -> ValueNode:
        """The spec."""
        return self.root.child("spec")

    @property
    def group(self) -> ValueNode:
        """The API group."""
        return self.spec.child("group")

    @property
    def names(self) -> ValueNode:
        """The names of the resource."""
        return self.spec.child("names")

    @property
    def plural(self) -> str:
        """The plural of the resource."""
        return self.names.child("plural").text

    @property
    def singular(self) -> ValueNode:
        """The singular, which defaults to the kind in lower case."""
        return _defaulted(self.names.child("singular"), self.names.child("kind").text.lower())

    @property
    def list_kind(self) -> ValueNode:
        """The kind of lists, which defaults to the kind with ``List`` appended."""
        kind = self.names.child("kind").text
        return _defaulted(self.names.child("listKind"), f"{kind}List" if kind else "")

    @property
    def scope(self) -> ValueNode:
        """The scope, which defaults to Namespaced in ``v1beta1``."""
        return _defaulted(self.spec.child("scope"), "" if self.is_v1 else "Namespaced")

    @cached_property
    def versions(self) -> tuple[ValueNode, ...]:
        """The versions; in ``v1beta1``, the field ``version`` if there is no list."""
        listed = tuple(self.spec.child("versions").children())
        single = self.spec.child("version")
        if listed or self.is_v1 or not single.text:
            return listed
        return (ValueNode({"name": single.text, "served": True, "storage": True}, single.path, "spec.versions[0]"),)

    @property
    def version(self) -> ValueNode:
        """The version at the top level, which defaults to the first of the list; ``v1`` has only the list."""
        first = self.versions[0].child("name") if self.versions else ValueNode(None)
        own = ValueNode(None) if self.is_v1 else self.spec.child("version")
        return own if own.text else ValueNode(first.value, first.path, "spec.version")

    @property
    def preserves_unknown_fields(self) -> bool:
        """True if fields without a schema are preserved, which is the default in ``v1beta1``."""
        value = self.spec.child("preserveUnknownFields").value
        return not self.is_v1 if value is None else value is True

    @cached_property
    def schemas(self) -> VersionedField:
        """The schemas."""
        return self._versioned_field("schema", "validation")

    @property
    def has_defaults(self) -> bool:
        """True if a schema has a default."""
        return any(has_default(node.child("openAPIV3Schema")) for node in self.schemas.present)

    @cached_property
    def schema_findings(self) -> tuple[tuple[ValueNode, list[Finding]], ...]:
        """The schemas with their problems; empty if unknown fields are preserved, where any schema is valid."""
        if self.preserves_unknown_fields:
            return ()
        roots = [node.child("openAPIV3Schema") for node in self.schemas.present]
        return tuple((root, schema_findings(root.value, has_status=self._has_status)) for root in roots if root.present)

    @property
    def _has_status(self) -> bool:
        return any(node.child("status").present for node in self.subresources.present)

    @cached_property
    def subresources(self) -> VersionedField:
        """The subresources."""
        return self._versioned_field("subresources", "subresources")

    @cached_property
    def columns(self) -> VersionedField:
        """The lists of printer columns."""
        return self._versioned_field("additionalPrinterColumns", "additionalPrinterColumns")

    def _versioned_field(self, name: str, top: str) -> VersionedField:
        per_version = tuple(version.child(name) for version in self.versions)
        if not self.is_v1:
            return VersionedField(self.spec.child(top), per_version)
        if not per_version or any(node.value != per_version[0].value for node in per_version):
            return VersionedField(ValueNode(None), per_version)
        return VersionedField(ValueNode(per_version[0].value, per_version[0].path, f"spec.{top}"), ())


class VersionedField(Struct, frozen=True):
    """A field that is either at the top level, for all versions, or in each version."""

    top: ValueNode
    per_version: tuple[ValueNode, ...]

    @property
    def present(self) -> tuple[ValueNode, ...]:
        """The values that are set."""
        return tuple(node for node in (self.top, *self.per_version) if node.present)

    @property
    def is_repeated(self) -> bool:
        """True if all versions have the same value."""
        first = self.per_version[0].value if self.per_version else None
        return first not in (None, []) and all(node.value == first for node in self.per_version)


def _defaulted(node: ValueNode, default: str) -> ValueNode:
    return node if node.text else ValueNode(default or None, node.path, node.field)


def crd_check(check_crd: Callable[[Crd], Iterable[Finding]]) -> Check:
    """Turn a check of one CRD into a check of the bundle. The result must depend only on the content."""

    @wraps(check_crd)
    def check(manifest: ManifestView) -> Iterable[Finding]:
        return check_crd(Crd.from_manifest(manifest))

    return each_file(known_crds)(check)


JUNCTORS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "items", "additionalProperties", "additionalItems")
_NAMED = ("properties", "patternProperties", "definitions", "dependencies")


def named_subschemas(schema: ValueNode, keyword: str) -> Iterator[tuple[str, ValueNode]]:
    """Yield name and schema of each member of a keyword such as ``properties``."""
    holder = schema.child(keyword)
    for name, value in mapping(holder.value).items():
        yield name, ValueNode(value, (*holder.path, name), f"{holder.field}[{name}]")


def subschemas(schema: ValueNode) -> Iterator[ValueNode]:
    """Yield the schemas directly below a schema, for all keywords."""
    for keyword in _SINGLE:
        yield schema.child(keyword)
    for keyword in (*JUNCTORS, "items"):
        yield from schema.child(keyword).children()
    for keyword in _NAMED:
        for _, subschema in named_subschemas(schema, keyword):
            yield subschema


def has_default(schema: ValueNode) -> bool:
    """Return True if the schema, or one nested in it, has a default."""
    pending, seen = [schema], set()
    while pending:
        node = pending.pop()
        if isinstance(node.value, dict) and id(node.value) not in seen:  # YAML aliases can make a schema recursive
            seen.add(id(node.value))
            if node.child("default").present:
                return True
            pending += subschemas(node)
    return False
