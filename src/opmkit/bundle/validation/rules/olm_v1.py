"""Rules of the validator ``olm-v1``, which runs on request and in the profile of this name: what OLM v1 refuses."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.validation.compat import OPMKIT_ONLY
from opmkit.bundle.validation.dependencies import read_dependencies
from opmkit.bundle.validation.rule import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from opmkit.bundle.validation.bundle_view import BundleView


@rule(
    "OLM-V1-UNSUPPORTED",
    "olm-v1",
    Severity.ERROR,
    "OLM v1 does not install the bundle",
    hint="Change what OLM v1 does not support, or install the bundle with OLM v0.",
    bad="spec: {installModes: [{type: MultiNamespace, supported: true}]}  # and no other",
    good="spec: {installModes: [{type: AllNamespaces, supported: true}]}",
    compat=OPMKIT_ONLY,
)
def unsupported(bundle: BundleView) -> Iterator[Finding]:
    """OLM v1 does not support all that OLM v0 does."""
    from opmkit.bundle.rendering.registry_v1 import read_registry_v1  # rarely needed
    from opmkit.bundle.rendering.support import find_unsupported

    try:
        parsed = read_registry_v1(bundle.files)
    except InvalidBundle as error:
        yield Finding(error.message, hint=str(error.hint))
        return
    for problem in find_unsupported(parsed):
        yield Finding(problem.message, problem.path or parsed.csv_path, hint=problem.hint, subject=problem.message)


@rule(
    "OLM-V1-DEPENDENCY",
    "olm-v1",
    Severity.ERROR,
    "OLM v1 installs no bundle with dependencies",
    hint="Publish the operator without dependencies and document what it needs, or install it with OLM v0.",
    bad="dependencies: [{type: olm.package, value: {packageName: demo, version: '>=1.0.0'}}]",
    good="dependencies: []",
    compat=OPMKIT_ONLY,
)
def dependency(bundle: BundleView) -> Iterator[Finding]:
    """OLM v1 does not resolve dependencies, and refuses each bundle that has some.

    Dependencies are the entries of the dependencies file and the CustomResourceDefinitions and API services that the
    ClusterServiceVersion requires.
    """
    from opmkit.bundle.parse import parse_bundle  # rarely needed
    from opmkit.bundle.properties import refused_by_olm_v1

    with suppress(InvalidBundle):  # other rules report why
        kinds = refused_by_olm_v1(parse_bundle(bundle.files, strict=False))
        file, path = read_dependencies(bundle).file or bundle.csvs[0].path, ("dependencies",)
        for kind in kinds:
            yield Finding(f"OLM v1 installs no bundle with dependencies ({kind})", file, path, subject=kind)
