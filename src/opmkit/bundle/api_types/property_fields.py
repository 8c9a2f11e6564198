"""The fields of the values of properties in file-based catalogs, by the type of the property.

Written as in :mod:`.csv_fields`, to whose entries these refer. Facts as of operator-registry v1.73.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

STRUCTS: Final[Mapping[str, str]] = {
    "olm.package": "packageName version release: string",
    "olm.package.required": "packageName versionRange: string",
    "olm.gvk": "group kind version: string",
    "olm.gvk.required": "group kind version: string",
    "olm.bundle.object": "data: bytes",
    "olm.channel": "channelName: string; priority: int64",
    "olm.csv.metadata": """
        annotations labels: {}string
        apiServiceDefinitions: APIServiceDefinitions
        crdDescriptions: CustomResourceDefinitions
        description displayName maturity minKubeVersion: string
        installModes: []InstallMode
        keywords: []string
        links: []AppLink
        maintainers: []Maintainer
        nativeAPIs: []GroupVersionKind
        provider: AppLink
    """,
}
