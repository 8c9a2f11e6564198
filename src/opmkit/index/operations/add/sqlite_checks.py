"""Conflicts between added bundles and an index database, independent of the update graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.index.errors import BundleImageExists, BundleVersionExists, CatalogError, GraphError
from opmkit.index.graph import check_name_owners, claim_names
from opmkit.index.operations.add.errors import PRESENT_HINT
from opmkit.index.sqlite.packages import name_owners

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from opmkit.index.operations.add.session import AddSession, StagedBundle


def find_conflicts(session: AddSession) -> list[CatalogError]:
    """Return the errors that prevent the whole add.

    As in operator-registry, a package with a bundle that has no image ends all these checks, and a bundle is reported
    as existing if its package has any of the added images.
    """
    errors = _without_image(session)
    if errors or any("" in package.images for package in session.packages.values()):
        return errors
    received = sorted(session.received.values(), key=lambda bundle: bundle.order)
    images = {bundle.image for bundle in received}
    for bundle in received:
        present = images & session.packages[bundle.package].images
        if present:
            errors.append(_image_exists(bundle, sorted(present)))
        if bundle.name in session.packages[bundle.package].names:
            errors += _name_exists(session, bundle)
    errors += _overwritten_together(session, received)
    try:
        claims = claim_names((bundle.package, bundle.node) for bundle in received)
        check_name_owners(claims, name_owners(session.database, claims))
    except GraphError as error:
        errors.append(error)
    return errors


def _without_image(session: AddSession) -> list[CatalogError]:
    return [
        CatalogError(
            f"bundle {name}: cannot be overwritten: the existing bundle has no image",
            hint="remove its package and add all of its bundles from images",
        )
        for name, overwritten in sorted(session.overwritten.items())
        if not overwritten.image
    ]


def _name_exists(session: AddSession, bundle: StagedBundle) -> Iterator[CatalogError]:
    if not session.overwritten:
        yield BundleVersionExists(
            f"bundle {bundle.name} already exists in package {bundle.package}",
            hint="give the new bundle's ClusterServiceVersion its own name and version",
        )
    elif bundle.name in session.overwritten and session.overwritten[bundle.name].updated_by:
        updated_by = session.overwritten[bundle.name].updated_by
        edges = ", ".join(f"{above} in channel {channel}" for channel, above in updated_by)
        yield GraphError(
            f"bundle {bundle.name} of package {bundle.package}: cannot be overwritten: replaced or skipped by {edges}",
            hint="add the change as a new version: only a bundle that nothing replaces or skips can be overwritten",
        )


def _overwritten_together(session: AddSession, received: Sequence[StagedBundle]) -> Iterator[CatalogError]:
    names: dict[str, set[str]] = {}
    for bundle in received:
        overwritten = session.overwritten.get(bundle.name)
        if overwritten and not overwritten.updated_by and bundle.name in session.packages[bundle.package].names:
            names.setdefault(bundle.package, set()).add(bundle.name)
    for package, together in sorted(names.items()):
        if len(together) > 1:
            yield GraphError(
                f"package {package}: several bundles would be overwritten: {', '.join(sorted(together))}",
                hint="overwrite one bundle of a package at a time",
            )


def _image_exists(bundle: StagedBundle, present: Sequence[str]) -> BundleImageExists:
    if bundle.image in present:
        return BundleImageExists(f"bundle {bundle.image} already exists in the index", hint=PRESENT_HINT)
    return BundleImageExists(
        f"bundle {bundle.image}: not added: {', '.join(present)} of the same command already exists in package "
        f"{bundle.package}",
        hint=PRESENT_HINT,
    )
