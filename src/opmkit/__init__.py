"""Build, validate, publish and serve OLM operator bundles and catalogs, without a container daemon.

The names in ``__all__`` are the public API, which follows semantic versioning. Everything else is private.
"""

from __future__ import annotations

from importlib import import_module

from opmkit._version import __version__ as __version__

TYPE_CHECKING = False  # importing typing takes longer than printing the version
if TYPE_CHECKING:
    from typing import Any

    from opmkit.api import Opm
    from opmkit.api.bundles import BuiltBundle
    from opmkit.api.graphs import ComparisonPage, Drawing
    from opmkit.author.generate.operation import GeneratedBundle, GenerationOptions
    from opmkit.author.install.operations import OlmOptions, OlmState
    from opmkit.author.pin.resolve import PinOptions
    from opmkit.author.pin.targets import PinDestination, PinnedTarget, PinTargets, UnpinnedUses
    from opmkit.author.project.base import Maintainer, UserInterfaceMetadata
    from opmkit.author.project.kustomize import GeneratedKustomization, KustomizeOptions
    from opmkit.author.project.project_file import Project
    from opmkit.author.run.cleanup import RemovedOperator
    from opmkit.author.run.installation import InstalledOperator
    from opmkit.author.run.operations import CleanupOptions, OperatorRunOptions
    from opmkit.author.run.registry_pod import PodOptions
    from opmkit.bundle.config_map import ConfigMap, ExtractionOptions
    from opmkit.bundle.errors import BundleError
    from opmkit.bundle.finding import Finding, RuleDescription, Severity
    from opmkit.bundle.generate import GeneratedMetadata
    from opmkit.bundle.permissions.grant import Grant, Interception, Permissions
    from opmkit.bundle.permissions.kinds import Danger, DangerKind, PermissionScope
    from opmkit.bundle.permissions.objects import InstalledObject
    from opmkit.bundle.permissions.report import PermissionDiff, PermissionReport
    from opmkit.bundle.permissions.rule import PolicyRule
    from opmkit.bundle.policy import Policy
    from opmkit.bundle.rendering.certificates import CertificateProvider
    from opmkit.bundle.rendering.chart import ChartRequest, CrdLocation, HelmChart
    from opmkit.bundle.rendering.config import InstallConfig
    from opmkit.bundle.rendering.objects import RenderRequest, UnsupportedBundle
    from opmkit.bundle.rendering.output import RenderedBundle
    from opmkit.bundle.validation.compat import Compat, OlmVersion
    from opmkit.bundle.validation.options import ValidationOptions
    from opmkit.bundle.validation.report import ValidationReport
    from opmkit.bundle.validation.result import ValidationResult
    from opmkit.client import (
        BundleUpdates,
        CallFailed,
        CallTimedOut,
        CatalogClient,
        ProvidedApi,
        RemoteBundle,
        RemotePackage,
        ServerUnreachable,
    )
    from opmkit.core.errors import DiskError, LimitExceeded, OpmkitError
    from opmkit.core.progress import OperationReporter, Progress
    from opmkit.core.shard import Shard
    from opmkit.documents.errors import DocumentError
    from opmkit.imagetools.description import ImageDescription, PlatformImage
    from opmkit.imagetools.errors import ImageToolsError
    from opmkit.imagetools.reference import Reference
    from opmkit.imagetools.registry import RegistryClient, RegistryOptions
    from opmkit.imagetools.registry.oras_registry import OrasRegistry
    from opmkit.imagetools.registry_config.mirror_rules import MirrorScope
    from opmkit.imagetools.signatures.documents import SignatureFormat
    from opmkit.imagetools.signatures.verify import Attestation, Signature
    from opmkit.imagetools.spec.descriptor import Platform
    from opmkit.imagetools.store.images import PrunedStore, StoredImage
    from opmkit.imagetools.worker_options import WorkerExecutor
    from opmkit.index.change import AppliedChange
    from opmkit.index.diff.differences import Difference, IndexComparison
    from opmkit.index.errors import CatalogError, IndexMoved
    from opmkit.index.fbc.blobs import Blobs
    from opmkit.index.fbc.check.result import CatalogResult
    from opmkit.index.fbc.compat import CatalogCompat, ReleaseChange
    from opmkit.index.fbc.csv_metadata import MigrationLevel
    from opmkit.index.fbc.definitions import RefusedUpdate
    from opmkit.index.fbc.model import Catalog
    from opmkit.index.fbc.write import sort_blobs, to_json, to_yaml
    from opmkit.index.image.plan import BuiltIndex, IndexPlan
    from opmkit.index.image.source import IndexSource
    from opmkit.index.migrate import MigratedCatalog, MigrateOptions
    from opmkit.index.modes import InstallerPermissions, OnConflict, UpdateMode
    from opmkit.index.operations.add.options import AddOptions, Placement
    from opmkit.index.operations.deprecate import EditDeprecations
    from opmkit.index.operations.filter.fbc import FilterPackages
    from opmkit.index.operations.gate import IndexRequirements
    from opmkit.index.operations.list import BundleListing, ChannelListing, PackageListing
    from opmkit.index.operations.manifests.olm_v0 import CatalogSourceOptions
    from opmkit.index.operations.manifests.olm_v1.manifests import ClusterCatalogOptions, ClusterExtensionOptions
    from opmkit.index.operations.manifests.resources import Installation, OlmManifests, PodConfig
    from opmkit.index.operations.prune import PrunePackages, PruneStranded
    from opmkit.index.operations.related_images import UsedImage
    from opmkit.index.operations.remove import RemovePackages
    from opmkit.index.operations.truncate.change import TruncateBundles
    from opmkit.index.operations.update import IndexUpdate
    from opmkit.index.plan.cluster import ClusterPlan, ClusterState, PlannedNamespace
    from opmkit.index.plan.ending import Outcome
    from opmkit.index.plan.extension import ExtensionRequest, InstalledBundle
    from opmkit.index.plan.extension_paths import ExtensionPlan
    from opmkit.index.plan.paths import UpdatePath
    from opmkit.index.plan.platform import PlatformPlan, PlatformStep
    from opmkit.index.plan.request import ChannelRequest, NamespaceRequest
    from opmkit.index.plan.result import NamespacePlan, UpdatePlan
    from opmkit.index.render import ImageTemplate, RenderOptions
    from opmkit.index.templates.composite import CompositeOptions
    from opmkit.index.templates.edit.apply import PromoteOptions, TemplateAddOptions
    from opmkit.index.templates.edit.edges import EdgeOptions
    from opmkit.index.templates.edit.write import EditedTemplate, TemplateChange
    from opmkit.index.templates.onboarding.derive import CatalogComparison
    from opmkit.index.templates.onboarding.result import (
        CatalogDifference,
        OnboardedFile,
        OnboardedOperator,
        OnboardedTemplate,
        Onboarding,
        OnboardingStatus,
    )
    from opmkit.index.templates.onboarding.run import OnboardingOptions
    from opmkit.index.templates.render import TemplateType
    from opmkit.index.templates.repository.options import TemplateOptions
    from opmkit.index.templates.repository.outputs import RenderedCatalog, RenderedTemplates
    from opmkit.index.templates.repository.promotion import (
        PromotedOperator,
        PromotedRepository,
        PromotionRequest,
        PromotionStatus,
        PromotionStrategy,
    )
    from opmkit.kube.access import ClusterAccess
    from opmkit.server.settings import HttpSettings, ServerSettings, TlsFiles
    from opmkit.supply.mirror.catalog_deletion import DeletionOptions, PlannedDeletion
    from opmkit.supply.mirror.charts import HelmError
    from opmkit.supply.mirror.deletion import ImageDeletion, MirrorDeletion
    from opmkit.supply.mirror.image_set import ImageSet, InvalidImageSet
    from opmkit.supply.mirror.operation import PlannedMirror
    from opmkit.supply.mirror.result import ImageTransfer, MirrorOptions, MirrorPolicy, MirrorResult
    from opmkit.supply.sign.keyless import CertificateIdentity, KeylessSigner
    from opmkit.supply.sign.sign import (
        AttestedImage,
        KeyPair,
        SignedImage,
        SigningKey,
        VerifiedAttestations,
        VerifiedImage,
    )

__all__ = [
    "AddOptions",
    "AppliedChange",
    "Attestation",
    "AttestedImage",
    "Blobs",
    "BuiltBundle",
    "BuiltIndex",
    "BundleError",
    "BundleListing",
    "BundleUpdates",
    "CallFailed",
    "CallTimedOut",
    "Catalog",
    "CatalogClient",
    "CatalogComparison",
    "CatalogCompat",
    "CatalogDifference",
    "CatalogError",
    "CatalogResult",
    "CatalogSourceOptions",
    "CertificateIdentity",
    "CertificateProvider",
    "ChannelListing",
    "ChannelRequest",
    "ChartRequest",
    "CleanupOptions",
    "ClusterAccess",
    "ClusterCatalogOptions",
    "ClusterExtensionOptions",
    "ClusterPlan",
    "ClusterState",
    "ComparisonPage",
    "Compat",
    "CompositeOptions",
    "ConfigMap",
    "CrdLocation",
    "Danger",
    "DangerKind",
    "DeletionOptions",
    "Difference",
    "DiskError",
    "DocumentError",
    "Drawing",
    "EdgeOptions",
    "EditDeprecations",
    "EditedTemplate",
    "ExtensionPlan",
    "ExtensionRequest",
    "ExtractionOptions",
    "FilterPackages",
    "Finding",
    "GeneratedBundle",
    "GeneratedKustomization",
    "GeneratedMetadata",
    "GenerationOptions",
    "Grant",
    "HelmChart",
    "HelmError",
    "HttpSettings",
    "ImageDeletion",
    "ImageDescription",
    "ImageSet",
    "ImageTemplate",
    "ImageToolsError",
    "ImageTransfer",
    "IndexComparison",
    "IndexMoved",
    "IndexPlan",
    "IndexRequirements",
    "IndexSource",
    "IndexUpdate",
    "InstallConfig",
    "Installation",
    "InstalledBundle",
    "InstalledObject",
    "InstalledOperator",
    "InstallerPermissions",
    "Interception",
    "InvalidImageSet",
    "KeyPair",
    "KeylessSigner",
    "KustomizeOptions",
    "LimitExceeded",
    "Maintainer",
    "MigrateOptions",
    "MigratedCatalog",
    "MigrationLevel",
    "MirrorDeletion",
    "MirrorOptions",
    "MirrorPolicy",
    "MirrorResult",
    "MirrorScope",
    "NamespacePlan",
    "NamespaceRequest",
    "OlmManifests",
    "OlmOptions",
    "OlmState",
    "OlmVersion",
    "OnConflict",
    "OnboardedFile",
    "OnboardedOperator",
    "OnboardedTemplate",
    "Onboarding",
    "OnboardingOptions",
    "OnboardingStatus",
    "OperationReporter",
    "OperatorRunOptions",
    "Opm",
    "OpmkitError",
    "OrasRegistry",
    "Outcome",
    "PackageListing",
    "PermissionDiff",
    "PermissionReport",
    "PermissionScope",
    "Permissions",
    "PinDestination",
    "PinOptions",
    "PinTargets",
    "PinnedTarget",
    "Placement",
    "PlannedDeletion",
    "PlannedMirror",
    "PlannedNamespace",
    "Platform",
    "PlatformImage",
    "PlatformPlan",
    "PlatformStep",
    "PodConfig",
    "PodOptions",
    "Policy",
    "PolicyRule",
    "Progress",
    "Project",
    "PromoteOptions",
    "PromotedOperator",
    "PromotedRepository",
    "PromotionRequest",
    "PromotionStatus",
    "PromotionStrategy",
    "ProvidedApi",
    "PrunePackages",
    "PruneStranded",
    "PrunedStore",
    "Reference",
    "RefusedUpdate",
    "RegistryClient",
    "RegistryOptions",
    "ReleaseChange",
    "RemoteBundle",
    "RemotePackage",
    "RemovePackages",
    "RemovedOperator",
    "RenderOptions",
    "RenderRequest",
    "RenderedBundle",
    "RenderedCatalog",
    "RenderedTemplates",
    "RuleDescription",
    "ServerSettings",
    "ServerUnreachable",
    "Severity",
    "Shard",
    "Signature",
    "SignatureFormat",
    "SignedImage",
    "SigningKey",
    "StoredImage",
    "TemplateAddOptions",
    "TemplateChange",
    "TemplateOptions",
    "TemplateType",
    "TlsFiles",
    "TruncateBundles",
    "UnpinnedUses",
    "UnsupportedBundle",
    "UpdateMode",
    "UpdatePath",
    "UpdatePlan",
    "UsedImage",
    "UserInterfaceMetadata",
    "ValidationOptions",
    "ValidationReport",
    "ValidationResult",
    "VerifiedAttestations",
    "VerifiedImage",
    "WorkerExecutor",
    "sort_blobs",
    "to_json",
    "to_yaml",
]

# Modules are imported on first use: the command line needs few of them for most commands.
_MODULES = {
    "opmkit.api": ("Opm",),
    "opmkit.api.bundles": ("BuiltBundle",),
    "opmkit.api.graphs": ("ComparisonPage", "Drawing"),
    "opmkit.author.generate.operation": ("GeneratedBundle", "GenerationOptions"),
    "opmkit.author.install.operations": ("OlmOptions", "OlmState"),
    "opmkit.author.pin.resolve": ("PinOptions",),
    "opmkit.author.pin.targets": ("PinDestination", "PinnedTarget", "PinTargets", "UnpinnedUses"),
    "opmkit.author.project.base": ("Maintainer", "UserInterfaceMetadata"),
    "opmkit.author.project.kustomize": ("GeneratedKustomization", "KustomizeOptions"),
    "opmkit.author.project.project_file": ("Project",),
    "opmkit.author.run.cleanup": ("RemovedOperator",),
    "opmkit.author.run.installation": ("InstalledOperator",),
    "opmkit.author.run.operations": ("CleanupOptions", "OperatorRunOptions"),
    "opmkit.author.run.registry_pod": ("PodOptions",),
    "opmkit.bundle.config_map": ("ConfigMap", "ExtractionOptions"),
    "opmkit.bundle.errors": ("BundleError",),
    "opmkit.bundle.finding": ("Finding", "RuleDescription", "Severity"),
    "opmkit.bundle.generate": ("GeneratedMetadata",),
    "opmkit.bundle.permissions.grant": ("Grant", "Interception", "Permissions"),
    "opmkit.bundle.permissions.kinds": ("Danger", "DangerKind", "PermissionScope"),
    "opmkit.bundle.permissions.objects": ("InstalledObject",),
    "opmkit.bundle.permissions.report": ("PermissionDiff", "PermissionReport"),
    "opmkit.bundle.permissions.rule": ("PolicyRule",),
    "opmkit.bundle.policy": ("Policy",),
    "opmkit.bundle.rendering.certificates": ("CertificateProvider",),
    "opmkit.bundle.rendering.chart": ("ChartRequest", "CrdLocation", "HelmChart"),
    "opmkit.bundle.rendering.config": ("InstallConfig",),
    "opmkit.bundle.rendering.objects": ("RenderRequest", "UnsupportedBundle"),
    "opmkit.bundle.rendering.output": ("RenderedBundle",),
    "opmkit.bundle.validation.compat": ("Compat", "OlmVersion"),
    "opmkit.bundle.validation.options": ("ValidationOptions",),
    "opmkit.bundle.validation.report": ("ValidationReport",),
    "opmkit.bundle.validation.result": ("ValidationResult",),
    "opmkit.client": (
        "BundleUpdates",
        "CallFailed",
        "CallTimedOut",
        "CatalogClient",
        "ProvidedApi",
        "RemoteBundle",
        "RemotePackage",
        "ServerUnreachable",
    ),
    "opmkit.core.errors": ("DiskError", "LimitExceeded", "OpmkitError"),
    "opmkit.core.progress": ("OperationReporter", "Progress"),
    "opmkit.core.shard": ("Shard",),
    "opmkit.documents.errors": ("DocumentError",),
    "opmkit.imagetools.description": ("ImageDescription", "PlatformImage"),
    "opmkit.imagetools.errors": ("ImageToolsError",),
    "opmkit.imagetools.reference": ("Reference",),
    "opmkit.imagetools.registry": ("RegistryClient", "RegistryOptions"),
    "opmkit.imagetools.registry.oras_registry": ("OrasRegistry",),
    "opmkit.imagetools.registry_config.mirror_rules": ("MirrorScope",),
    "opmkit.imagetools.spec.descriptor": ("Platform",),
    "opmkit.imagetools.store.images": ("PrunedStore", "StoredImage"),
    "opmkit.imagetools.worker_options": ("WorkerExecutor",),
    "opmkit.index.change": ("AppliedChange",),
    "opmkit.index.diff.differences": ("Difference", "IndexComparison"),
    "opmkit.index.errors": ("CatalogError", "IndexMoved"),
    "opmkit.index.fbc.blobs": ("Blobs",),
    "opmkit.index.fbc.check.result": ("CatalogResult",),
    "opmkit.index.fbc.compat": ("CatalogCompat", "ReleaseChange"),
    "opmkit.index.fbc.csv_metadata": ("MigrationLevel",),
    "opmkit.index.fbc.model": ("Catalog",),
    "opmkit.index.fbc.write": ("sort_blobs", "to_json", "to_yaml"),
    "opmkit.index.image.plan": ("BuiltIndex", "IndexPlan"),
    "opmkit.index.image.source": ("IndexSource",),
    "opmkit.index.migrate": ("MigratedCatalog", "MigrateOptions"),
    "opmkit.index.modes": ("InstallerPermissions", "OnConflict", "UpdateMode"),
    "opmkit.index.operations.add.options": ("AddOptions", "Placement"),
    "opmkit.index.operations.deprecate": ("EditDeprecations",),
    "opmkit.index.operations.filter.fbc": ("FilterPackages",),
    "opmkit.index.operations.gate": ("IndexRequirements",),
    "opmkit.index.operations.list": ("BundleListing", "ChannelListing", "PackageListing"),
    "opmkit.index.operations.manifests.olm_v0": ("CatalogSourceOptions",),
    "opmkit.index.operations.manifests.olm_v1.manifests": ("ClusterCatalogOptions", "ClusterExtensionOptions"),
    "opmkit.index.operations.manifests.resources": ("Installation", "PodConfig", "OlmManifests"),
    "opmkit.index.operations.prune": ("PrunePackages", "PruneStranded"),
    "opmkit.index.operations.related_images": ("UsedImage",),
    "opmkit.index.operations.remove": ("RemovePackages",),
    "opmkit.index.operations.truncate.change": ("TruncateBundles",),
    "opmkit.index.operations.update": ("IndexUpdate",),
    "opmkit.index.plan.cluster": ("ClusterPlan", "ClusterState", "PlannedNamespace"),
    "opmkit.index.fbc.definitions": ("RefusedUpdate",),
    "opmkit.index.plan.extension": ("ExtensionRequest", "InstalledBundle"),
    "opmkit.index.plan.extension_paths": ("ExtensionPlan",),
    "opmkit.index.plan.ending": ("Outcome",),
    "opmkit.index.plan.paths": ("UpdatePath",),
    "opmkit.index.plan.platform": ("PlatformPlan", "PlatformStep"),
    "opmkit.index.plan.request": ("ChannelRequest", "NamespaceRequest"),
    "opmkit.index.plan.result": ("NamespacePlan", "UpdatePlan"),
    "opmkit.index.render": ("ImageTemplate", "RenderOptions"),
    "opmkit.index.templates.composite": ("CompositeOptions",),
    "opmkit.index.templates.edit.apply": ("PromoteOptions", "TemplateAddOptions"),
    "opmkit.index.templates.edit.edges": ("EdgeOptions",),
    "opmkit.index.templates.edit.write": ("EditedTemplate", "TemplateChange"),
    "opmkit.index.templates.onboarding.derive": ("CatalogComparison",),
    "opmkit.index.templates.onboarding.result": (
        "CatalogDifference",
        "OnboardedFile",
        "OnboardedOperator",
        "OnboardedTemplate",
        "Onboarding",
        "OnboardingStatus",
    ),
    "opmkit.index.templates.onboarding.run": ("OnboardingOptions",),
    "opmkit.index.templates.render": ("TemplateType",),
    "opmkit.index.templates.repository.options": ("TemplateOptions",),
    "opmkit.index.templates.repository.promotion": (
        "PromotedOperator",
        "PromotedRepository",
        "PromotionRequest",
        "PromotionStatus",
        "PromotionStrategy",
    ),
    "opmkit.index.templates.repository.outputs": ("RenderedCatalog", "RenderedTemplates"),
    "opmkit.kube.access": ("ClusterAccess",),
    "opmkit.server.settings": ("HttpSettings", "ServerSettings", "TlsFiles"),
    "opmkit.supply.mirror.catalog_deletion": ("DeletionOptions", "PlannedDeletion"),
    "opmkit.supply.mirror.deletion": ("ImageDeletion", "MirrorDeletion"),
    "opmkit.supply.mirror.charts": ("HelmError",),
    "opmkit.supply.mirror.image_set": ("ImageSet", "InvalidImageSet"),
    "opmkit.supply.mirror.operation": ("PlannedMirror",),
    "opmkit.supply.mirror.result": ("ImageTransfer", "MirrorOptions", "MirrorPolicy", "MirrorResult"),
    "opmkit.imagetools.signatures.documents": ("SignatureFormat",),
    "opmkit.supply.sign.keyless": ("CertificateIdentity", "KeylessSigner"),
    "opmkit.supply.sign.sign": (
        "AttestedImage",
        "KeyPair",
        "SignedImage",
        "SigningKey",
        "VerifiedAttestations",
        "VerifiedImage",
    ),
    "opmkit.imagetools.signatures.verify": ("Attestation", "Signature"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _add_null_handler()
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def _add_null_handler() -> None:
    """Keep warnings off stderr unless the application configures logging, as libraries do; commands never need this."""
    import logging

    logger = logging.getLogger(__name__)
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())


def __dir__() -> list[str]:
    """Return the public names."""
    return sorted([*__all__, "__version__"])
