"""Manifests that make a cluster pull from a mirror: mirror sets of OpenShift, CatalogSources and ClusterCatalogs.

The names and shapes of the objects are those of oc-mirror v2, so that they replace its objects. The types of OpenShift
are in ``config/v1`` of github.com/openshift/api.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.core.files import write_files
from opmkit.imagetools.registry_config.mirror_rules import (
    MirrorRule,
    format_registries_conf,
    mirror_rules,
)
from opmkit.imagetools.repository import DIGEST_TAG
from opmkit.index.errors import CatalogError
from opmkit.index.operations.manifests.names import as_label
from opmkit.index.operations.manifests.olm_v1.cluster_extension import ClusterCatalog
from opmkit.index.operations.manifests.resources import CatalogSource, build_manifests, with_server
from opmkit.supply.mirror.model import is_digest_tag
from opmkit.supply.mirror.result import MirrorPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from opmkit.imagetools.reference import Reference
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.supply.mirror.model import PlannedImage

Manifest = dict[str, Any]

API_VERSION = "config.openshift.io/v1"
REGISTRIES_CONF = "registries.conf"
MAX_MIRRORS = 1000
"""Mirrors of one object: etcd stores objects of at most 1.5 MB."""
_MAX_SUFFIX = 12


class ClusterManifests(Struct, frozen=True):
    """The rules of a mirror, and the objects of a cluster by file name."""

    rules: tuple[MirrorRule, ...]
    files: dict[str, list[Manifest]]


def cluster_manifests(
    repositories: Sequence[MirrorRule],
    catalogs: Sequence[Reference],
    policy: MirrorPolicy | None = None,
    tool: RegistryTool | None = None,
) -> ClusterManifests:
    """Return the manifests for a mirror.

    Args:
        repositories: The mirrored repositories, and whether images in them are referenced by digest or by tag.
        catalogs: The catalog images in the mirror.
        policy: Settings of the manifests.
        tool: Reads the catalog images, so that OLM serves the catalogs of those without a server; None to assume that
            all have one.

    Raises:
        CatalogError: A cluster would reject an object.
    """
    policy = policy or MirrorPolicy()
    rules = mirror_rules(repositories, policy.scope)
    files = {
        "idms-operator.yaml": _mirror_sets([rule for rule in rules if rule.digests], _DIGESTS, policy),
        "itms-operator.yaml": _mirror_sets([rule for rule in rules if rule.tags], _TAGS, policy),
    }
    for catalog in catalogs:
        source = CatalogSource(_object_name("cs", catalog), policy.namespace, catalog)
        if tool:
            source = with_server(source, tool)
        cluster_catalog = ClusterCatalog(_object_name("cc", catalog), catalog)
        files[f"{source.name}.yaml"] = build_manifests(source)
        files[f"{cluster_catalog.name}.yaml"] = [cluster_catalog.manifest()]
    return ClusterManifests(rules, {name: objects for name, objects in files.items() if objects})


def write_cluster_manifests(
    directory: Path, manifests: ClusterManifests, *, insecure: bool, block: bool
) -> tuple[str, ...]:
    """Write manifests to a directory, which is created, and the rules as a file for podman; return the file names.

    Args:
        directory: The directory.
        manifests: The manifests.
        insecure: Whether the mirror has no TLS, or a certificate that is not trusted.
        block: Whether podman never pulls images from their source.

    Raises:
        DiskError: A file cannot be written.
    """
    files: dict[str, bytes | Path] = {name: _dump(objects) for name, objects in manifests.files.items()}
    files[REGISTRIES_CONF] = format_registries_conf(manifests.rules, insecure=insecure, block_sources=block)
    write_files(directory, files)
    return tuple(sorted(files))


def _dump(objects: Sequence[Manifest]) -> bytes:
    from opmkit.documents.yaml_writer import dump_documents

    return dump_documents(objects, explicit_start=True).encode()


def repository_rules(images: Iterable[PlannedImage]) -> list[MirrorRule]:
    """Return the repositories of mirrored images, and whether these are referenced by digest or by tag.

    Catalogs are omitted, because clusters refer to them in the mirror, and so are signatures.
    """
    rules: dict[tuple[str, str, bool], MirrorRule] = {}
    for image in images:
        source, by_digest = image.request.reference.name, is_digest_tag(image.tag)
        if not image.request.last and not DIGEST_TAG.fullmatch(image.tag):
            key = (source, image.target, by_digest)
            rules[key] = MirrorRule(source, image.target, digests=by_digest, tags=not by_digest)
    return list(rules.values())


class _MirrorSetType(Struct, frozen=True):
    kind: str
    name: str
    field: str


_DIGESTS = _MirrorSetType("ImageDigestMirrorSet", "idms-operator", "imageDigestMirrors")
_TAGS = _MirrorSetType("ImageTagMirrorSet", "itms-operator", "imageTagMirrors")


def _mirror_sets(rules: Sequence[MirrorRule], kind: _MirrorSetType, policy: MirrorPolicy) -> list[Manifest]:
    by_source: dict[str, list[str]] = {}
    for rule in rules:
        for location in (rule.source, rule.mirror):
            if location.startswith("["):
                raise CatalogError(
                    f"{location}: unsupported in an {kind.kind}: the registry is an IPv6 address",
                    hint="reach the registry by its host name",
                )
        by_source.setdefault(rule.source, []).append(rule.mirror)
    fallback = {"mirrorSourcePolicy": "NeverContactSource"} if policy.never_contact_source else {}
    entries = [{"mirrors": mirrors, "source": source, **fallback} for source, mirrors in by_source.items()]
    return [
        {
            "apiVersion": API_VERSION,
            "kind": kind.kind,
            "metadata": {"name": f"{kind.name}-{number}"},
            "spec": {kind.field: entries[start : start + MAX_MIRRORS]},
        }
        for number, start in enumerate(range(0, len(entries), MAX_MIRRORS))
    ]


def _object_name(prefix: str, catalog: Reference) -> str:
    """Return the name that oc-mirror gives the object: PREFIX-REPOSITORY-VERSION, with 12 characters of the version."""
    version = catalog.tag or (catalog.digest or "").partition(":")[2] or "0"
    return as_label(f"{prefix}-{catalog.repository.rpartition('/')[2]}-{version[:_MAX_SUFFIX]}")
