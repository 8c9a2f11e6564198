"""The version of an operator that a command installs, from its ClusterServiceVersion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from opmkit.author.run.objects import items, name_of, text
from opmkit.bundle.errors import InvalidBundle
from opmkit.core.hints import Hint
from opmkit.imagetools.hint_terms import ImageOperation
from opmkit.imagetools.reference import Reference, parse_image_reference

if TYPE_CHECKING:
    from opmkit.bundle.model import Bundle


@dataclass(frozen=True, slots=True)
class OperatorVersion:
    """A version of an operator.

    Attributes:
        package: Name of its package.
        name: Name of its ClusterServiceVersion.
        version: Version in the ClusterServiceVersion, or "" if absent.
        image: Bundle image that the cluster pulls, or "" if the catalog contains the manifests.
        install_modes: Supported install modes.
    """

    package: str
    name: str
    version: str
    image: str = ""
    install_modes: frozenset[str] = frozenset()

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> OperatorVersion:
        """Return the version in a bundle."""
        return cls.from_csv(bundle.package, orjson.loads(bundle.csv.json), bundle.image)

    @classmethod
    def from_csv(cls, package: str, csv: Any, image: str = "") -> OperatorVersion:
        """Return the version that a ClusterServiceVersion describes."""
        modes = {text(mode, "type") for mode in items(csv, "spec", "installModes") if mode.get("supported") is True}
        return cls(package, name_of(csv), text(csv, "spec", "version"), image, frozenset(modes))


def check_bundle(bundle: Bundle) -> None:
    """Raise InvalidBundle for a bundle without a package, or with an image that clusters cannot pull."""
    if not bundle.package:
        raise InvalidBundle(f"{bundle.name}: no package in its annotations", hint="set the package in annotations.yaml")
    if bundle.image and not isinstance(parse_image_reference(bundle.image), Reference):
        raise InvalidBundle(
            f"{bundle.image}: clusters cannot pull it",
            hint=Hint.any_of(
                Hint("copy it to a registry with {}", ImageOperation.COPY_IMAGE),
                "pass the bundle as SOURCE=IMAGE with an image that the cluster can pull",
                "pass the bundle directory",
            ),
        )


def owned_crds(csv: Any) -> list[str]:
    """Return the names of the CRDs that a ClusterServiceVersion owns."""
    owned = items(csv, "spec", "customresourcedefinitions", "owned")
    return list(dict.fromkeys(filter(None, (text(entry, "name") for entry in owned))))


def deployment_names(csv: Any) -> list[str]:
    """Return the names of the Deployments in the install strategy of a ClusterServiceVersion."""
    deployments = items(csv, "spec", "install", "spec", "deployments")
    return list(filter(None, (text(entry, "name") for entry in deployments)))
