"""Generate the manifests of a bundle from the objects that install an operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct

from opmkit.author.generate import manifests
from opmkit.author.generate.manifests import Manifests, divide_rbac, file_name
from opmkit.author.generate.metadata import object_annotations
from opmkit.author.generate.service_version import fill_service_version
from opmkit.author.project.base import new_base
from opmkit.bundle.api_types.encode import encode_struct
from opmkit.bundle.errors import InvalidBundle
from opmkit.bundle.finding import Severity
from opmkit.bundle.hint_terms import BundleSetting
from opmkit.bundle.kinds import CSV_KIND
from opmkit.bundle.kubernetes_names import dns1123_subdomain
from opmkit.bundle.rendering.certificates import CA_INJECTORS
from opmkit.bundle.versions import strict_version
from opmkit.core.hints import Hint
from opmkit.documents.yaml_writer import dump_yaml

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from opmkit.author.generate.input import InputObject

CREATED_AT = "createdAt"
_UNVERSIONED = "0.0.0"
_SILENTLY_OMITTED = frozenset({"Namespace", "Kustomization", "Component"})
_NULL_TIME = {"creationTimestamp": None}


class BundleSettings(Struct, frozen=True):
    """Settings of a generated bundle.

    Attributes:
        package: Name of the package.
        version: Version of the operator; "" for that of the base.
        layout: Plugins of the operator project, for annotations; "" for none.
        extra_accounts: Service accounts of the operator that none of its Deployments use.
    """

    package: str
    version: str = ""
    layout: str = ""
    extra_accounts: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise InvalidBundle for an invalid package or version."""
        if problems := dns1123_subdomain(self.package):
            raise InvalidBundle(
                f"invalid package name {self.package!r}: {problems[0]}", hint=Hint("correct {}", BundleSetting.PACKAGE)
            )
        try:
            if self.version:
                strict_version(self.version)
        except ValueError as error:
            raise InvalidBundle(
                f"invalid version {error}", hint=Hint("correct {}, without a leading v", BundleSetting.VERSION)
            ) from error


class GeneratedManifests(Struct, frozen=True):
    """The manifests of a bundle.

    Attributes:
        csv_file: File name of the ClusterServiceVersion.
        csv: The ClusterServiceVersion, without the time of its creation.
        files: All other manifests by file name.
        scorecard: Configuration of the scorecard, b"" if there is none.
        warnings: Warnings about the input.
        has_placeholders: Whether there was no base, so that the ClusterServiceVersion has placeholders.
    """

    csv_file: str
    csv: dict[str, Any]
    files: dict[str, bytes]
    scorecard: bytes = b""
    warnings: tuple[str, ...] = ()
    has_placeholders: bool = False


def generate_manifests(
    objects: Iterable[InputObject], settings: BundleSettings, base: Iterable[InputObject] = ()
) -> GeneratedManifests:
    """Generate the manifests of a bundle.

    Args:
        objects: All objects that install the operator, its sample custom resources, and possibly a base.
        settings: Name and version.
        base: Objects with a base ClusterServiceVersion, which takes precedence over those in ``objects``.

    Raises:
        InvalidBundle: Objects are invalid or missing, or the ClusterServiceVersion is invalid.
    """
    settings.check()
    collected = Manifests.collect(objects)
    if not collected.objects:
        raise InvalidBundle(
            "no Kubernetes objects found in the input",
            hint="pass the output of 'kustomize build config/manifests', or the manifests that install the operator",
        )
    candidates = Manifests.collect(base).of_kind(CSV_KIND) or collected.of_kind(CSV_KIND)
    given, warnings = _select_base(candidates, settings.package)
    rbac = divide_rbac(collected, settings.extra_accounts)
    generated = fill_service_version(
        given,
        collected,
        rbac,
        package=settings.package,
        version=settings.version,
        annotations=object_annotations(settings.layout),
    )
    name = f"{settings.package.lower()}.clusterserviceversion.yaml"
    _validate(name, generated.value)
    if generated.value["spec"]["version"] == _UNVERSIONED and settings.version != _UNVERSIONED:
        warnings.append("no version given: the version is 0.0.0")
    warnings += rbac.warnings
    omitted = [str(item) for item in _omitted(collected)]
    if omitted:
        warnings.append(f"omitted objects that OLM cannot install: {', '.join(omitted)}")
    files = _name_files(_written(collected, rbac.manifests, _converted_crds(generated.value)), warnings)
    warnings += generated.warnings
    return GeneratedManifests(
        name, generated.value, files, _scorecard(collected), tuple(warnings), has_placeholders=not candidates
    )


def encode_csv(csv: dict[str, Any], created_at: str) -> bytes:
    """Return the text of a ClusterServiceVersion with the time of its creation."""
    metadata = csv["metadata"]
    annotations = {**metadata.get("annotations", {}), CREATED_AT: created_at}
    return dump_yaml({**csv, "metadata": {**metadata, "annotations": annotations}})


def _select_base(candidates: Sequence[InputObject], package: str) -> tuple[dict[str, Any], list[str]]:
    """Return the candidate that is named like the package, the only candidate, or a new base, and warnings."""
    matching = [csv for csv in candidates if csv.name.startswith(f"{package}.")]
    warnings = []
    if not candidates:
        return encode_struct(new_base(package), CSV_KIND).value, []
    if not matching and len(candidates) > 1:
        raise InvalidBundle(
            f"several ClusterServiceVersions, none of which is of package {package}: "
            + ", ".join(csv.name for csv in candidates),
            hint=Hint("pass only one of them, or correct {}", BundleSetting.PACKAGE),
        )
    chosen = (matching or candidates)[0]
    if not matching:
        warnings.append(f"{chosen.location()}: the base {chosen.name} is not named like package {package}")
    if len(matching) > 1:
        warnings.append(f"several ClusterServiceVersions of package {package}: {chosen.name} is the base")
    return chosen.value, warnings


def _validate(name: str, csv: dict[str, Any]) -> None:
    """Raise InvalidBundle if the CSV has one of the errors for which operator-sdk fails."""
    from opmkit.bundle.validation.bundle_view import BundleView
    from opmkit.bundle.validation.compat import Compat
    from opmkit.bundle.validation.rule_registry import validators
    from opmkit.bundle.validation.run import run_rules

    view = BundleView("", {name: dump_yaml(csv)}, bare=True, compat=Compat.NEWEST)
    findings = [finding for finding in run_rules(view, validators()["csv"]) if finding.severity is Severity.ERROR]
    if findings:
        raise InvalidBundle(
            f"invalid generated ClusterServiceVersion: {findings[0].message}",
            hint=findings[0].hint or "correct the base or the manifests",
            details=[f"  {finding.message}" for finding in findings[1:]],
        )


def _converted_crds(csv: dict[str, Any]) -> set[str]:
    """Return the names of the CRDs for which OLM configures conversion webhooks."""
    definitions = csv["spec"].get("webhookdefinitions") or ()
    return {name for definition in definitions for name in definition.get("conversionCRDs") or ()}


def _written(
    objects: Manifests, rbac: Sequence[InputObject], converted: Collection[str]
) -> Iterator[tuple[InputObject, dict[str, Any]]]:
    """Yield the objects that become manifests, with their content; ``converted`` has the names of CRDs."""
    for crd in objects.crds:
        value = _without_namespace(crd, typed=True)
        yield crd, _without_conversion(value) if crd.name in converted else value
    for item in objects.of_kind(manifests.SERVICE):
        yield item, _without_namespace(item, typed=True)
    for item in objects.others:
        if _is_supported(item):
            yield item, _without_namespace(item)
    for item in rbac:
        yield item, _without_namespace(item, typed=True)


def _without_namespace(item: InputObject, *, typed: bool = False) -> dict[str, Any]:
    """Return an object without namespace, as OLM chooses it; objects of known types as Go programs write them."""
    metadata = {key: value for key, value in item.metadata.items() if key != "namespace"}
    return {**item.value, "metadata": {**(_NULL_TIME if typed else {}), **metadata}}


def _without_conversion(crd: dict[str, Any]) -> dict[str, Any]:
    """Return a CRD without the address and the certificate of its conversion webhook, both of which OLM sets."""
    metadata, spec = crd["metadata"], {key: value for key, value in crd["spec"].items() if key != "conversion"}
    annotations = {key: value for key, value in (metadata.get("annotations") or {}).items() if key not in CA_INJECTORS}
    metadata = {key: value for key, value in metadata.items() if key != "annotations"}
    return {**crd, "metadata": {**metadata, **({"annotations": annotations} if annotations else {})}, "spec": spec}


def _is_supported(item: InputObject) -> bool:
    from opmkit.bundle.kinds import supported_kinds
    from opmkit.bundle.validation.compat import Compat

    return item.kind in supported_kinds(Compat.NEWEST)


def _omitted(objects: Manifests) -> Iterator[InputObject]:
    """Yield the objects that neither the manifests nor the CSV contain."""
    examples = set(map(id, objects.custom_resources))
    for item in objects.others:
        if not _is_supported(item) and id(item) not in examples and item.kind not in _SILENTLY_OMITTED:
            yield item


def _name_files(written: Iterable[tuple[InputObject, dict[str, Any]]], warnings: list[str]) -> dict[str, bytes]:
    """Return the manifests by file name. Later ones of the same name get the prefix ``dupN_``, as in operator-sdk."""
    files: dict[str, bytes] = {}
    duplicates = 0
    for item, value in written:
        content, name = dump_yaml(value), file_name(item)
        if files.get(name) == content:
            continue
        if name in files:
            warnings.append(f"{item.location()}: {item} is in several namespaces: only one of them can be installed")
            name, duplicates = f"dup{duplicates}_{name}", duplicates + 1
        files[name] = content
    return files


def _scorecard(objects: Manifests) -> bytes:
    configurations = objects.of_kind(manifests.SCORECARD)
    if len(configurations) > 1:
        raise configurations[1].error("is the second configuration of the scorecard", hint="pass only one of them")
    return dump_yaml(configurations[0].value) if configurations else b""
