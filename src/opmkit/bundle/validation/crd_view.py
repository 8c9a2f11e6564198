"""CustomResourceDefinitions in the form in which an API server judges them: with defaults, whichever version they have.

That form, which Kubernetes calls the hub, has the fields of both versions. A schema, subresources or printer columns
that a ``v1`` definition repeats alike for all of its versions stand in it once, at the top.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, wraps
from typing import TYPE_CHECKING, cast

from opmkit.bundle.validation.node import Node
from opmkit.bundle.validation.per_file import each_file
from opmkit.bundle.validation.structural_schema import schema_findings
from opmkit.bundle.validation.subschemas import has_default

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.bundle_view import BundleView, Manifest
    from opmkit.bundle.validation.rule import Check

V1 = "apiextensions.k8s.io/v1"
V1BETA1 = "apiextensions.k8s.io/v1beta1"


def known_crds(bundle: BundleView) -> Iterator[Manifest]:
    """The definitions of the two versions that there are."""
    return (manifest for manifest in bundle.crds if manifest.api_version in (V1, V1BETA1))


@dataclass(frozen=True)
class Crd:
    """A definition. ``is_v1`` tells its version, ``v1beta1`` else."""

    root: Node
    is_v1: bool

    @classmethod
    def from_manifest(cls, manifest: Manifest) -> Crd:
        """Look at a manifest as a definition; equal contents are one."""
        memo = manifest.content.memo
        if cls not in memo:
            memo[cls] = cls(Node(dict(manifest.object)), manifest.api_version == V1)
        return cast("Crd", memo[cls])

    @property
    def spec(self) -> Node:
        """Its spec."""
        return self.root.child("spec")

    @property
    def group(self) -> Node:
        """The API group that it defines."""
        return self.spec.child("group")

    @property
    def names(self) -> Node:
        """The names of its resource."""
        return self.spec.child("names")

    @property
    def plural(self) -> str:
        """The plural of its resource."""
        return self.names.child("plural").text

    @property
    def singular(self) -> Node:
        """The singular, by default the kind in lower case."""
        return _defaulted(self.names.child("singular"), self.names.child("kind").text.lower())

    @property
    def list_kind(self) -> Node:
        """The kind of its lists, by default the kind and ``List``."""
        kind = self.names.child("kind").text
        return _defaulted(self.names.child("listKind"), f"{kind}List" if kind else "")

    @property
    def scope(self) -> Node:
        """Its scope, in ``v1beta1`` by default Namespaced."""
        return _defaulted(self.spec.child("scope"), "" if self.is_v1 else "Namespaced")

    @cached_property
    def versions(self) -> tuple[Node, ...]:
        """Its versions; in ``v1beta1`` the single ``version`` where there is no list."""
        listed = tuple(self.spec.child("versions").children())
        single = self.spec.child("version")
        if listed or self.is_v1 or not single.text:
            return listed
        return (Node({"name": single.text, "served": True, "storage": True}, single.path, "spec.versions[0]"),)

    @property
    def version(self) -> Node:
        """The version at the top, by default the first of the list; ``v1`` has it there alone."""
        first = self.versions[0].child("name") if self.versions else Node(None)
        own = Node(None) if self.is_v1 else self.spec.child("version")
        return own if own.text else Node(first.value, first.path, "spec.version")

    @property
    def preserves_unknown_fields(self) -> bool:
        """Whether fields that no schema knows are kept, as ``v1beta1`` does by default."""
        value = self.spec.child("preserveUnknownFields").value
        return not self.is_v1 if value is None else value is True

    @cached_property
    def schemas(self) -> Parts:
        """The schemas."""
        return self._parts("schema", "validation")

    @property
    def has_defaults(self) -> bool:
        """Whether a schema gives a default."""
        return any(has_default(part.child("openAPIV3Schema")) for part in self.schemas.written)

    @cached_property
    def schema_findings(self) -> tuple[tuple[Node, list[Finding]], ...]:
        """The schemas with what is wrong with them; none where unknown fields are kept, as then anything goes."""
        if self.preserves_unknown_fields:
            return ()
        roots = [part.child("openAPIV3Schema") for part in self.schemas.written]
        return tuple((root, schema_findings(root.value, has_status=self._has_status)) for root in roots if root.present)

    @property
    def _has_status(self) -> bool:
        return any(part.child("status").present for part in self.subresources.written)

    @cached_property
    def subresources(self) -> Parts:
        """The subresources."""
        return self._parts("subresources", "subresources")

    @cached_property
    def columns(self) -> Parts:
        """The lists of printer columns."""
        return self._parts("additionalPrinterColumns", "additionalPrinterColumns")

    def _parts(self, name: str, top: str) -> Parts:
        each = tuple(version.child(name) for version in self.versions)
        if not self.is_v1:
            return Parts(self.spec.child(top), each)
        if not each or any(part.value != each[0].value for part in each):
            return Parts(Node(None), each)
        return Parts(Node(each[0].value, each[0].path, f"spec.{top}"), ())


@dataclass(frozen=True)
class Parts:
    """What may stand at the top, for all versions, and what each version has of it."""

    top: Node
    each: tuple[Node, ...]

    @property
    def written(self) -> tuple[Node, ...]:
        """All that is there."""
        return tuple(part for part in (self.top, *self.each) if part.present)

    @property
    def repeats(self) -> bool:
        """Whether the versions have it, and all alike."""
        first = self.each[0].value if self.each else None
        return first not in (None, []) and all(part.value == first for part in self.each)


def _defaulted(node: Node, default: str) -> Node:
    return node if node.text else Node(default or None, node.path, node.field)


def crd_check(judge: Callable[[Crd], Iterable[Finding]]) -> Check:
    """Make a check of a function that judges one definition, by its content alone."""

    @wraps(judge)
    def judged(manifest: Manifest) -> Iterable[Finding]:
        return judge(Crd.from_manifest(manifest))

    return each_file(known_crds)(judged)
