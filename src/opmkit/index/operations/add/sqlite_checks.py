"""What keeps bundles out of an index, whatever graph they would give (index semantics, sections 2 and 7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.index.errors import BundleImageExists, BundleVersionExists, CatalogError, GraphError
from opmkit.index.graph import check_foreign_names, claimed_names
from opmkit.index.operations.add.session import PRESENT_HINT
from opmkit.index.sqlite.packages import owners

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.index.operations.add.session import AddedBundle, Arrivals


def refusals(arrivals: Arrivals) -> list[CatalogError]:
    """The errors that keep all the bundles out.

    As in the reference, a package with a bundle that came from no image ends all these checks; and a bundle is told to
    exist if the index has, in its package, any of the images that are added.
    """
    errors = _without_image(arrivals)
    if errors or any("" in before.images for before in arrivals.before.values()):
        return errors
    arrived = sorted(arrivals.arrived.values(), key=lambda bundle: bundle.order)
    images = {bundle.image for bundle in arrived}
    for bundle in arrived:
        present = images & arrivals.before[bundle.package].images
        if present:
            errors.append(_image_exists(bundle, sorted(present)))
        if bundle.name in arrivals.before[bundle.package].names:
            errors += _name_exists(arrivals, bundle)
    errors += _overwritten_together(arrivals, arrived)
    try:
        claims = claimed_names((bundle.package, bundle.node) for bundle in arrived)
        check_foreign_names(claims, owners(arrivals.database, claims))
    except GraphError as error:
        errors.append(error)
    return errors


def _without_image(arrivals: Arrivals) -> list[CatalogError]:
    return [
        CatalogError(
            f"bundle {name} can't be overwritten: the one that the index has did not come from an image",
            advice="Remove its package, and add all of its bundles from images.",
        )
        for name, overwritten in sorted(arrivals.overwritten.items())
        if not overwritten.image
    ]


def _name_exists(arrivals: Arrivals, bundle: AddedBundle) -> Iterator[CatalogError]:
    if not arrivals.overwritten:
        yield BundleVersionExists(
            f"package {bundle.package} has a bundle {bundle.name} already",
            advice="Give the new bundle's ClusterServiceVersion a name and version of its own.",
        )
    elif bundle.name in arrivals.overwritten and arrivals.overwritten[bundle.name].replacing:
        replacing = arrivals.overwritten[bundle.name].replacing
        edges = ", ".join(f"{above} in channel {channel}" for channel, above in replacing)
        yield GraphError(
            f"bundle {bundle.name} of package {bundle.package} can't be overwritten: it is updated from by {edges}",
            advice="Only a bundle that nothing replaces or skips can be; add the change as a new version.",
        )


def _overwritten_together(arrivals: Arrivals, arrived: Sequence[AddedBundle]) -> Iterator[CatalogError]:
    names: dict[str, set[str]] = {}
    for bundle in arrived:
        overwritten = arrivals.overwritten.get(bundle.name)
        if overwritten and not overwritten.replacing and bundle.name in arrivals.before[bundle.package].names:
            names.setdefault(bundle.package, set()).add(bundle.name)
    for package, together in sorted(names.items()):
        if len(together) > 1:
            yield GraphError(
                f"several bundles of package {package} would be overwritten: {', '.join(sorted(together))}",
                advice="Overwrite one bundle of a package at a time.",
            )


def _image_exists(bundle: AddedBundle, present: Sequence[str]) -> BundleImageExists:
    if bundle.image in present:
        return BundleImageExists(f"bundle {bundle.image} already exists in the index", hint=PRESENT_HINT)
    return BundleImageExists(
        f"bundle {bundle.image} is not added: {', '.join(present)} of the same command already exists in package "
        f"{bundle.package}",
        hint=PRESENT_HINT,
    )
