"""CatalogSource, Namespace, OperatorGroup and Subscription objects, and the settings of an installation.

The fields are those of the CustomResourceDefinitions of the group operators.coreos.com.
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct, structs

from opmkit.bundle.api_types.decode import DecodeMode, decode_struct
from opmkit.bundle.api_types.encode import canonical_quantity
from opmkit.bundle.kubernetes_names import dns1035_label, dns1123_label, dns1123_subdomain, label_value, qualified_name
from opmkit.bundle.labels import INDEX_DATABASE
from opmkit.core.files import disk_errors, read_limited
from opmkit.core.hints import Hint
from opmkit.documents.content import Content
from opmkit.documents.fields import format_path
from opmkit.imagetools.image import Image
from opmkit.imagetools.layer import Limits
from opmkit.index.convert.database_blobs import load_catalog
from opmkit.index.errors import CatalogError
from opmkit.index.fbc.model import Catalog
from opmkit.index.fbc.packages import csv_specs
from opmkit.index.hint_terms import IndexOperation
from opmkit.index.image.content import catalog_path
from opmkit.index.operations.manifests.names import as_label, check_name
from opmkit.index.sqlite.rows import cluster_service_version
from opmkit.index.suggestions import suggest_names, unknown_packages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from opmkit.documents.fields import FieldPath
    from opmkit.documents.json_value import JsonValue
    from opmkit.imagetools.reference import Reference
    from opmkit.imagetools.tools.registry import RegistryTool
    from opmkit.index.address import Address
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.fbc.model import Package
    from opmkit.index.sqlite import IndexDatabase


@dataclass(frozen=True, slots=True)
class OlmManifests:
    """The Kubernetes objects that offer an index in a cluster, and install a package from it.

    Attributes:
        objects: The objects in the order of applying them.
        warnings: Parts that could not be checked, and reasons why OLM may not install the package.
    """

    objects: tuple[dict[str, Any], ...]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the objects as a Kubernetes list."""
        return {"apiVersion": "v1", "kind": "List", "items": list(self.objects)}


_FIELD = "grpcPodConfig"
_SECURITY_CONTEXTS = ("legacy", "restricted")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_BYTES = re.compile(r"(\d+)(|[kMGT]|[KMGT]i)", re.ASCII)


@dataclass(frozen=True, slots=True)
class PodConfig:
    """The pod of a catalog; empty values leave a setting to OLM.

    Creating an instance raises CatalogError for values that the cluster would reject, or the pod would fail with.

    Attributes:
        security_context: ``legacy`` or ``restricted``.
        memory_target: Memory that the server should use at most, as a quantity such as ``512Mi``.
        catalog_directory: Directory of the file-based catalog in the image, to be served by OLM's own opm.
        cache_directory: Directory of the cache in the image, only with a catalog directory.
        node_selector: Labels of the nodes.
        tolerations: ``KEY[=VALUE][:EFFECT]`` texts.
        priority_class: Name of the PriorityClass.
        fields: Further fields of ``grpcPodConfig``, which the other attributes override.
    """

    security_context: str = ""
    memory_target: str = ""
    catalog_directory: str = ""
    cache_directory: str = ""
    node_selector: Mapping[str, str] = field(default_factory=dict, hash=False)
    tolerations: tuple[str, ...] = ()
    priority_class: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        """Validate the settings."""
        _check(self.manifest())

    def manifest(self) -> dict[str, Any]:
        """Return the value of ``grpcPodConfig``, empty if nothing is set."""
        directories = {"catalogDir": self.catalog_directory, "cacheDir": self.cache_directory}
        settings = {
            "nodeSelector": dict(self.node_selector),
            "tolerations": [_parse_toleration(text) for text in self.tolerations],
            "priorityClassName": self.priority_class,
            "securityContextConfig": self.security_context,
            "memoryTarget": self.memory_target,
            "extractContent": {key: value for key, value in directories.items() if value},
        }
        return {**self.fields, **{key: value for key, value in settings.items() if value}}

    @staticmethod
    def read_fields(path: Path) -> dict[str, Any]:
        """Read further fields of ``grpcPodConfig`` from a YAML or JSON file.

        Raises:
            CatalogError: The file is invalid, or a field does not exist or has an invalid value.
            DiskError: The file cannot be read.
        """
        with disk_errors(path):
            content = Content.read_settings(read_limited(path))
        if content.error is not None:
            raise CatalogError(content.error.located(str(path)), hint="correct the file")
        if not isinstance(content.value, dict):
            raise CatalogError(f"{path}: not a mapping of fields of {_FIELD}", hint="write fields such as 'affinity:'")
        for problem in _type_problems(content.value):
            line, column = content.locate(problem.path)
            raise CatalogError(f"{path}:{line}:{column}: {problem.text}", hint=problem.hint)
        try:
            _check_values(content.value)
        except CatalogError as error:
            raise CatalogError(f"{path}: {error.message}", hint=error.hint) from error
        return content.value


class _TypeProblem(Struct, frozen=True):
    path: FieldPath
    text: str
    hint: str


def _type_problems(value: JsonValue) -> Iterator[_TypeProblem]:
    """Yield the fields that do not exist, and those with the wrong type."""
    decoded = decode_struct(value, "GrpcPodConfig", DecodeMode.JSON)
    for unknown in decoded.unknown:
        hint = f"write {unknown.nearest}" if unknown.nearest else f"use one of: {', '.join(unknown.known)}"
        yield _TypeProblem(unknown.path, f"{_FIELD}.{format_path(unknown.path)}: unknown field", hint)
    for mismatch in decoded.mismatches:
        text = f"{_FIELD}.{format_path(mismatch.path)} {mismatch.problem}"
        yield _TypeProblem(mismatch.path, text, mismatch.hint or "correct the value")


def _check(manifest: dict[str, Any]) -> None:
    """Raise CatalogError for a field that does not exist or has the wrong type, and for invalid values."""
    for problem in _type_problems(manifest):
        raise CatalogError(problem.text, hint=problem.hint)
    _check_values(manifest)


def _check_values(manifest: Mapping[str, Any]) -> None:
    """Raise CatalogError for values that the cluster would reject, or the pod would fail with."""
    context = manifest.get("securityContextConfig")
    if context is not None and context not in _SECURITY_CONTEXTS:
        raise CatalogError(f"invalid security context {context!r}", hint=f"use {' or '.join(_SECURITY_CONTEXTS)}")
    for key, value in (manifest.get("nodeSelector") or {}).items():
        check_name("key of the node selector", key, qualified_name)
        check_name("value of the node selector", value, label_value)
    if priority_class := manifest.get("priorityClassName"):
        check_name("priority class", priority_class, dns1123_subdomain)
    for toleration in manifest.get("tolerations") or ():
        _check_toleration(toleration)
    if (target := manifest.get("memoryTarget")) is not None:
        _check_memory_target(str(target))
    directories = manifest.get("extractContent") or {}
    if directories and not directories.get("catalogDir"):
        raise CatalogError("cache directory without a catalog directory", hint="set both")
    for name, directory in directories.items():
        if not directory.startswith("/"):
            raise CatalogError(f"{name} {directory!r}: not an absolute path", hint=f"write '/{directory}'")


def _check_memory_target(target: str) -> None:
    """Check that Go accepts the quantity with the unit bytes as GOMEMLIMIT, which OLM sets to its binary form."""
    written = _BYTES.fullmatch(canonical_quantity(target))
    if written is None or not int(written[1]):
        raise CatalogError(
            f"invalid memory target {target!r}: not a number of bytes from 1 to 1023Ti", hint="write a size: 512Mi, 2Gi"
        )


def _parse_toleration(text: str) -> dict[str, str]:
    """Parse a toleration in the notation of taints; without a value it tolerates every value."""
    taint, _, effect = text.partition(":")
    key, has_value, value = taint.partition("=")
    operator = {"operator": "Equal", "value": value} if has_value else {"operator": "Exists"}
    return {"key": key, **operator, **({"effect": effect} if effect else {})}


def _check_toleration(toleration: Mapping[str, Any]) -> None:
    effect, operator = toleration.get("effect") or "", toleration.get("operator") or "Equal"
    if effect and effect not in _EFFECTS:
        raise CatalogError(f"toleration: invalid effect {effect!r}", hint=f"use one of: {', '.join(_EFFECTS)}")
    if operator not in {"Equal", "Exists", "Lt", "Gt"}:
        raise CatalogError(f"toleration: invalid operator {operator!r}", hint="use Equal or Exists")
    key = toleration.get("key") or ""
    if key or operator != "Exists":
        check_name("key of the toleration", key, qualified_name)
    check_name("value of the toleration", toleration.get("value") or "", label_value)


Manifest = dict[str, Any]

GLOBAL_NAMESPACES = frozenset({"olm", "openshift-marketplace"})
"""Namespaces whose catalogs OLM offers in all namespaces by default."""


def is_available(source: CatalogSource, installation: Installation) -> bool:
    """Return whether OLM, in its default configuration, offers the catalog in the namespace of the installation."""
    return source.namespace in GLOBAL_NAMESPACES or source.namespace == installation.namespace


def build_manifests(source: CatalogSource, installation: Installation | None = None) -> list[Manifest]:
    """Return the objects in the order of applying them: the CatalogSource, then those of the installation."""
    objects = [_catalog_source(source)]
    if installation is None:
        return objects
    if installation.creates_namespace:
        objects += [_namespace(installation), _operator_group(installation)]
    return [*objects, _subscription(source, installation)]


def _catalog_source(source: CatalogSource) -> Manifest:
    spec: Manifest = {"sourceType": "grpc"}
    if source.address is not None:
        spec["address"] = str(source.address)
    else:
        spec["image"] = str(source.image)
    texts = {"displayName": source.display_name, "publisher": source.publisher, "secrets": list(source.secrets)}
    spec |= {key: value for key, value in texts.items() if value}
    if source.priority:
        spec["priority"] = source.priority
    if pod_config := source.pod.manifest():
        spec["grpcPodConfig"] = pod_config
    if source.poll_interval:
        spec["updateStrategy"] = {"registryPoll": {"interval": source.poll_interval}}
    return _object("operators.coreos.com/v1alpha1", "CatalogSource", source.name, source.namespace, spec)


def _namespace(installation: Installation) -> Manifest:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": installation.namespace}}


def _operator_group(installation: Installation) -> Manifest:
    spec = {"targetNamespaces": list(installation.targets)} if installation.targets else {}
    name, namespace = as_label(installation.package), installation.namespace
    return _object("operators.coreos.com/v1", "OperatorGroup", name, namespace, spec)


def _subscription(source: CatalogSource, installation: Installation) -> Manifest:
    spec = {
        "name": installation.package,
        "source": source.name,
        "sourceNamespace": source.namespace,
        "channel": installation.channel,
        "startingCSV": installation.starting_csv,
        "installPlanApproval": installation.approval,
    }
    spec = {key: value for key, value in spec.items() if value}
    name, namespace = as_label(installation.package), installation.namespace
    return _object("operators.coreos.com/v1alpha1", "Subscription", name, namespace, spec)


def _object(version: str, kind: str, name: str, namespace: str, spec: Manifest) -> Manifest:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, "spec": spec}


class CatalogSource(Struct, frozen=True):
    """A catalog in a cluster: an image that OLM runs, or the address of a running server.

    Creating an instance raises CatalogError for values that the cluster would reject or ignore.

    Attributes:
        name: Name of the CatalogSource, which is also that of a Service.
        namespace: Namespace of the CatalogSource.
        image: Image of the index; either this or ``address`` is set.
        address: Address of a running server.
        display_name: Name for users.
        publisher: Publisher for users.
        poll_interval: Interval at which OLM checks the tag for changes, as a Go duration such as ``30m``.
        secrets: Names of the pull secrets of the image.
        pod: Settings of the pod that OLM runs the image in.
        priority: Priority of the catalog among those that have the same package; 0 by default.
    """

    name: str
    namespace: str
    image: Reference | None = None
    address: Address | None = None
    display_name: str = ""
    publisher: str = ""
    poll_interval: str = ""
    secrets: tuple[str, ...] = ()
    pod: PodConfig = msgspec.field(default_factory=PodConfig)
    priority: int = 0

    def __post_init__(self) -> None:
        """Validate the fields."""
        check_name("catalog source name", self.name, dns1035_label)
        check_name("namespace", self.namespace, dns1123_label)
        for secret in self.secrets:
            check_name("pull secret", secret, dns1123_subdomain)
        if self.poll_interval:
            check_interval(self.poll_interval)
        if self.image is None:
            self._check_address()
        elif self.poll_interval and self.image.digest:
            raise CatalogError(
                f"{self.image}: polling unsupported: an image referenced by digest never changes",
                hint="reference the image by tag, or omit the interval",
            )

    def _check_address(self) -> None:
        """Check that the address is set, without settings of the catalog pod."""
        if self.address is None:
            raise CatalogError("no image and no address of the catalog", hint="set one of them")
        pod_settings = {
            "polling interval": self.poll_interval,
            "pull secrets": self.secrets,
            "pod configuration": self.pod.manifest(),
        }
        for setting, value in pod_settings.items():
            if value:
                raise CatalogError(
                    f"{self.address}: {setting} unsupported for a catalog with an address",
                    hint="omit it: it applies to the pod that OLM creates for an image",
                )

    def check_database(self, index: str) -> None:
        """Raise CatalogError if the settings require a file-based catalog, but the index ``index`` is a database."""
        if self.pod.catalog_directory:
            raise CatalogError(
                f"{index}: extracting content unsupported: it is an index with a database",
                hint=Hint("convert it to a file-based catalog with {}", IndexOperation.MIGRATE_INDEX),
            )


_LIMITS = Limits(total_bytes=1 << 30)
"""Limits for searching the program: beyond them, an image is assumed to contain it."""
_log = logging.getLogger(__name__)


def with_server(source: CatalogSource, tool: RegistryTool) -> CatalogSource:
    """Return a catalog source whose catalog can be served.

    If the image does not contain the program that it runs, as one without a base image, OLM extracts the file-based
    catalog and serves it with its own opm. For a database, which only the image itself could serve, a warning is
    logged.

    Raises:
        CatalogError: The image is not an index image.
        ImageToolsError: The image cannot be read.
    """
    if source.image is None or "extractContent" in source.pod.manifest():
        return source
    loaded = tool.load(source.image)
    image = loaded if isinstance(loaded, Image) else loaded.select()
    if tool.has_program(image, _LIMITS) is not False:
        return source
    if INDEX_DATABASE in image.labels:
        for program in (*image.config.entrypoint, *image.config.cmd)[:1]:
            _log.warning("%s: cannot serve its database: the image does not contain %s", source.image, program)
        return source
    directory = f"/{catalog_path(image, source.image)}"
    return structs.replace(source, pod=replace(source.pod, catalog_directory=directory))


_UNIT = r"(?:ns|us|µs|μs|ms|s|m|h)"
_DURATION = re.compile(rf"(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+){_UNIT})+")


def check_interval(interval: str) -> None:
    """Raise CatalogError unless a polling interval is a positive Go duration."""
    if not _DURATION.fullmatch(interval):
        raise CatalogError(f"invalid polling interval {interval!r}", hint="write a Go duration: 30m, 1h30m, 45s")
    if not re.search("[1-9]", interval):
        raise CatalogError(f"invalid polling interval {interval!r}: zero", hint="set a longer one, such as 30m")


SHARED_NAMESPACES = frozenset({"operators", "openshift-operators"})
"""Namespaces of OLM with an OperatorGroup that targets all namespaces."""

ALL, OWN, SINGLE, MULTI = "AllNamespaces", "OwnNamespace", "SingleNamespace", "MultiNamespace"


@dataclass(frozen=True, slots=True)
class Installation:
    """A package to install in a namespace.

    Creating an instance raises CatalogError for names that the cluster would reject.

    Attributes:
        package: Name of the package.
        namespace: Namespace of the Subscription; by default it is named after the package.
        channel: Name of the channel, or "" for the default channel.
        starting_csv: Name of the first bundle to install, or "" for the head of the channel.
        approval: ``Automatic`` or ``Manual``.
        targets: Namespaces that the operator watches: all for an empty tuple; None for all, or for the own namespace
            if the operator does not support all.
        existing: Whether the namespace exists with its OperatorGroup.
    """

    package: str
    namespace: str = ""
    channel: str = ""
    starting_csv: str = ""
    approval: str = "Automatic"
    targets: tuple[str, ...] | None = None
    existing: bool = False

    def __post_init__(self) -> None:
        """Derive the namespace, and validate the names."""
        object.__setattr__(self, "namespace", self.namespace or as_label(self.package))
        if not as_label(self.package):
            raise CatalogError(
                f"package {self.package!r}: cannot derive the name of an object", hint="check the spelling"
            )
        check_name("install namespace", self.namespace, dns1123_label)
        for target in self.targets or ():
            check_name("target namespace", target, dns1123_label)
        if self.targets and not self.creates_namespace:
            raise CatalogError(
                f"namespace {self.namespace!r}: target namespaces unsupported: its OperatorGroup already exists",
                hint="omit them, or install in another namespace",
            )
        if self.starting_csv:
            check_name("starting CSV", self.starting_csv, dns1123_subdomain)

    @property
    def creates_namespace(self) -> bool:
        """Whether the namespace and its OperatorGroup are created."""
        return not self.existing and self.namespace not in SHARED_NAMESPACES

    @property
    def install_mode(self) -> str:
        """The install mode that the operator must support."""
        targets = self.targets or ()
        if len(targets) > 1:
            return MULTI
        return ALL if not targets else OWN if targets == (self.namespace,) else SINGLE


def resolve_in_database(installation: Installation, database: IndexDatabase) -> Installation:
    """Set the channel and targets of an installation from an index database.

    Raises:
        UnknownPackage: The package does not exist.
        CatalogError: The channel or starting CSV does not exist, or the operator does not support the targets.
    """

    def install_modes(_: Package, bundle: str) -> Mapping[str, bool]:
        return read_install_modes(_spec(cluster_service_version(database, bundle)))

    return _resolve(installation, load_catalog(database), install_modes)


def resolve_in_catalog(installation: Installation, blobs: Blobs) -> Installation:
    """Set the channel and targets of an installation from a file-based catalog.

    Raises:
        InvalidCatalog: The catalog is invalid.
        CatalogError: See `resolve_in_database`.
    """

    def install_modes(package: Package, bundle: str) -> Mapping[str, bool]:
        return next(filter(None, map(read_install_modes, csv_specs(package.bundles[bundle]))), {})

    return _resolve(installation, Catalog.from_blobs(blobs), install_modes)


def _resolve(
    installation: Installation, catalog: Catalog, install_modes: Callable[[Package, str], Mapping[str, bool]]
) -> Installation:
    for error in unknown_packages([installation.package], catalog.packages):
        raise error
    package = catalog.packages[installation.package]
    bundle, channel = _first_bundle(installation, package)
    return _select_targets(replace(installation, channel=channel), bundle, install_modes(package, bundle))


def _first_bundle(installation: Installation, package: Package) -> tuple[str, str]:
    """Return the bundle that is installed first, and its channel."""
    name = installation.channel or package.default_channel
    channel = package.channels.get(name)
    if channel is None:
        raise CatalogError(
            f'package "{package.name}": channel "{name}" not found',
            hint=suggest_names("channels", name, list(package.channels)),
        )
    start = installation.starting_csv
    if start and start not in channel.entries:
        raise CatalogError(
            f'channel "{name}" of package "{package.name}": bundle "{start}" not found',
            hint=suggest_names("bundles", start, sorted(channel.entries)),
        )
    return start or channel.heads[0], name


def _select_targets(installation: Installation, bundle: str, modes: Mapping[str, bool]) -> Installation:
    """Return the installation with targets that the install modes of the bundle support.

    Without install modes, or with an existing OperatorGroup, the installation is not checked.
    """
    if not modes or installation.existing:
        return installation
    if installation.targets is None and installation.creates_namespace and not modes.get(ALL) and modes.get(OWN):
        installation = replace(installation, targets=(installation.namespace,))
    if not modes.get(installation.install_mode):
        supported = ", ".join(sorted(mode for mode, is_supported in modes.items() if is_supported)) or "none"
        raise CatalogError(
            f"{bundle}: unsupported install mode {installation.install_mode}",
            hint=f"choose target and install namespaces for one of its modes: {supported}",
        )
    return installation


def _spec(csv: bytes) -> JsonValue:
    try:
        spec: JsonValue = json.loads(csv or b"{}")["spec"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return spec


def read_install_modes(spec: Any) -> dict[str, bool]:
    """Return whether each install mode is supported, nothing if the ClusterServiceVersion does not declare them."""
    try:
        return {str(mode["type"]): mode["supported"] is True for mode in spec["installModes"]}
    except (KeyError, TypeError):
        return {}
