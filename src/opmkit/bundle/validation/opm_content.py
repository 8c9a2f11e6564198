"""Manifests of a bundle as ``opm alpha bundle validate`` reads them: each file of one directory on its own.

The rules of other validators also run on each decodable ClusterServiceVersion and CustomResourceDefinition.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, cast

from msgspec import Struct, structs

from opmkit.bundle.api_types.decode import DecodeMode
from opmkit.bundle.finding import Severity
from opmkit.bundle.kinds import CRD_KIND, CSV_KIND, supported_kinds
from opmkit.bundle.validation.compat import Compat
from opmkit.bundle.validation.loading import decode_crd, decode_csv, decode_finding, is_loaded, version_finding
from opmkit.documents.lenient import text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from opmkit.bundle.api_types.decode import TypeMismatch
    from opmkit.bundle.finding import Finding
    from opmkit.bundle.validation.bundle_view import BundleView, ManifestView
    from opmkit.bundle.validation.rule import Rule


VALIDATOR = "opm-content"
OPTIONAL = "opm-content-optional"


class OpmContent(Struct, frozen=True, dict=True):
    """Content of the directory ``manifests``, also if the annotations name another one."""

    bundle: BundleView

    @classmethod
    def from_bundle(cls, bundle: BundleView) -> OpmContent:
        """Return the content of a bundle. Cached per bundle."""
        return cast("OpmContent", bundle.memo.setdefault(cls, cls(bundle)))

    @property
    def directory(self) -> str:
        """Path of the manifests directory."""
        return "" if self.bundle.bare else "manifests"

    @cached_property
    def media_type(self) -> str:
        """Media type of the bundle, by its files."""
        return media_type(self.bundle, self.directory)

    @cached_property
    def files(self) -> tuple[ManifestView, ...]:
        """All files, none for a Helm chart."""
        return () if self.media_type == HELM else tuple(self.bundle.files_in(self.directory))

    @cached_property
    def objects(self) -> tuple[ManifestView, ...]:
        """Files that contain an object."""
        return tuple(file for file in self.files if decode_finding(file) is None)

    def supports(self, file: ManifestView) -> bool:
        """Return whether bundles can contain objects of this kind."""
        return self.media_type != REGISTRY or file.kind in supported_kinds(self.bundle.compat)

    def of_kind(self, kind: str) -> tuple[ManifestView, ...]:
        """Return the objects of a kind."""
        return tuple(file for file in self.objects if file.kind == kind)

    @property
    def csv(self) -> ManifestView | None:
        """The first ClusterServiceVersion."""
        return next(iter(self.of_kind(CSV_KIND)), None)

    @property
    def others(self) -> tuple[ManifestView, ...]:
        """Objects of other supported kinds, of which only the metadata is checked."""
        return tuple(file for file in self.objects if file.kind not in (CSV_KIND, CRD_KIND) and self.supports(file))

    def csv_mismatches(self, file: ManifestView) -> tuple[TypeMismatch, ...]:
        """Return the fields of a ClusterServiceVersion with wrong types; numbers are not accepted as strings."""
        return decode_csv(file.content, self.bundle.compat, DecodeMode.OBJECT).mismatches

    @cached_property
    def csv_views(self) -> tuple[BundleView, ...]:
        """A view of each ClusterServiceVersion whose fields have the right types."""
        return tuple(self._view(file) for file in self.of_kind(CSV_KIND) if not self.csv_mismatches(file))

    @cached_property
    def crd_views(self) -> tuple[BundleView, ...]:
        """A view of each CustomResourceDefinition whose fields have the right types."""
        crds = (file for file in self.of_kind(CRD_KIND) if version_finding(file) is None)
        compat, mode = self.bundle.compat, DecodeMode.YAML
        return tuple(self._view(file) for file in crds if not decode_crd(file, compat, mode).mismatches)

    @cached_property
    def optional_views(self) -> tuple[BundleView, ...]:
        """A view of each ClusterServiceVersion; Go opm validates none unless the bundle loads."""
        validates = self.bundle.compat is Compat.OPMKIT or is_loaded(self.bundle)
        return tuple(self._view(file) for file in self.of_kind(CSV_KIND)) if validates else ()

    def _view(self, file: ManifestView) -> BundleView:
        directories = frozenset({self.directory} - {""})
        mode = None if file.kind != CSV_KIND or self.csv_mismatches(file) else DecodeMode.OBJECT
        files = {file.path: self.bundle.files[file.path]}
        return replace(self.bundle, files=files, directories=directories, csv_decode_mode=mode)


COMPOSED: Mapping[str, tuple[tuple[str, Callable[[OpmContent], tuple[BundleView, ...]]], ...]] = {
    VALIDATOR: (
        ("csv", lambda content: content.csv_views),
        ("crd", lambda content: content.crd_views),
    ),
    OPTIONAL: (("operatorhub", lambda content: content.optional_views),),
}
"""Validators that run the rules of other validators, and the bundles that these run on."""


def composed_rules(validator: str, rules: Mapping[str, Sequence[Rule]]) -> Iterator[Rule]:
    """Yield the rules of other validators that a validator runs, of which only the errors are reported.

    Args:
        validator: The name of the validator; most run no others.
        rules: The rules by validator.
    """
    for source, views in COMPOSED.get(validator, ()):
        yield from (_include(rule, validator, views) for rule in rules[source])


def _include(rule: Rule, validator: str, views: Callable[[OpmContent], tuple[BundleView, ...]]) -> Rule:
    def check(bundle: BundleView) -> Iterator[Finding]:
        for view in views(OpmContent.from_bundle(bundle)):
            yield from (finding for finding in rule.run(view) if finding.severity is Severity.ERROR)

    return structs.replace(rule, validator=validator, check=check)


REGISTRY = "registry+v1"
HELM = "helm"
PLAIN = "plain"
NONE = ""

CHART = "Chart.yaml"


def media_type(bundle: BundleView, directory: str) -> str:
    """Return HELM for a chart, REGISTRY or PLAIN for manifests with and without a CSV, NONE for no files."""
    manifests = tuple(bundle.files_in(directory))
    if not manifests:
        return NONE
    if any(manifest.name == CHART and text(manifest.object.get("name")) for manifest in manifests):
        return HELM
    if any(manifest.kind == CSV_KIND and decode_finding(manifest) is None for manifest in manifests):
        return REGISTRY
    return PLAIN
