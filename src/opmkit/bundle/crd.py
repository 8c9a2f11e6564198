"""APIs provided by CustomResourceDefinitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.kinds import CRD_KIND
from opmkit.bundle.model import ApiKey
from opmkit.documents import fields

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.documents.json_value import JsonValue

_GROUP = "apiextensions.k8s.io"


def provided_apis(crd: Mapping[str, JsonValue]) -> tuple[ApiKey, ...]:
    """Return one API per version of a CRD of apiVersion ``v1`` or ``v1beta1``; none for other apiVersions.

    Raises:
        InvalidBundle: if a field has the wrong type, or the API group is not ``apiextensions.k8s.io``.
    """
    group, _, version = fields.text(crd.get("apiVersion"), "apiVersion").rpartition("/")
    if version not in ("v1", "v1beta1"):
        return ()
    if group != _GROUP:
        raise InvalidBundle(
            f"a {CRD_KIND} of the unknown API group {group!r}", hint=f"set its apiVersion to {_GROUP}/{version}"
        )
    spec = fields.mapping(crd.get("spec"), "spec")
    names = fields.mapping(spec.get("names"), "spec.names")
    versions = [
        fields.text(fields.mapping(entry, "spec.versions").get("name"), "spec.versions.name")
        for entry in fields.items(spec.get("versions"), "spec.versions")
    ]
    if version == "v1beta1" and (single := fields.text(spec.get("version"), "spec.version")):
        versions.append(single)
    provider = fields.text(spec.get("group"), "spec.group")
    kind = fields.text(names.get("kind"), "spec.names.kind")
    plural = fields.text(names.get("plural"), "spec.names.plural")
    return tuple(dict.fromkeys(ApiKey(provider, name, kind, plural) for name in versions))
