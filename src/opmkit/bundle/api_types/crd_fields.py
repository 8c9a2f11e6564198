"""The fields of CustomResourceDefinitions, of package manifests, and those that all objects have.

They are written as in :mod:`opmkit.bundle.api_types.csv_fields`. ``STRUCT|bool`` is such a struct or a boolean,
``STRUCT|list`` one or a list of them, ``STRUCT|texts`` one or a list of texts. Facts as of apiextensions-apiserver
v0.26 and operator-framework/api v0.45.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOTS: Final[Mapping[str, str]] = {
    "apiextensions.k8s.io/v1": "CustomResourceDefinition",
    "apiextensions.k8s.io/v1beta1": "CustomResourceDefinition/v1beta1",
}
"""The entry of each version."""

OBJECT: Final = "PartialObjectMetadata"
"""The entry of what all objects have."""
PACKAGE: Final = "PackageManifest"
"""The entry of package manifests."""

STRUCTS: Final[Mapping[str, str]] = {
    "PartialObjectMetadata": "kind apiVersion: string; metadata: ObjectMeta",
    "CustomResourceDefinition": """
        kind apiVersion: string
        metadata: ObjectMeta
        spec: CustomResourceDefinitionSpec
        status: CustomResourceDefinitionStatus
    """,
    "CustomResourceDefinition/v1beta1": """
        kind apiVersion: string
        metadata: ObjectMeta
        spec: CustomResourceDefinitionSpec/v1beta1
        status: CustomResourceDefinitionStatus
    """,
    "CustomResourceDefinitionSpec": """
        group scope: string
        names: CustomResourceDefinitionNames
        versions: []CustomResourceDefinitionVersion
        conversion: *CustomResourceConversion
        preserveUnknownFields: bool
    """,
    "CustomResourceDefinitionSpec/v1beta1": """
        group version scope: string
        names: CustomResourceDefinitionNames
        validation: *CustomResourceValidation
        subresources: *CustomResourceSubresources
        versions: []CustomResourceDefinitionVersion/v1beta1
        additionalPrinterColumns: []CustomResourceColumnDefinition/v1beta1
        conversion: *CustomResourceConversion/v1beta1
        preserveUnknownFields: *bool
    """,
    "CustomResourceDefinitionNames": """
        plural singular kind listKind: string
        shortNames categories: []string
    """,
    "CustomResourceDefinitionVersion": """
        name: string
        served storage deprecated: bool
        deprecationWarning: *string
        schema: *CustomResourceValidation
        subresources: *CustomResourceSubresources
        additionalPrinterColumns: []CustomResourceColumnDefinition
    """,
    "CustomResourceDefinitionVersion/v1beta1": """
        name: string
        served storage deprecated: bool
        deprecationWarning: *string
        schema: *CustomResourceValidation
        subresources: *CustomResourceSubresources
        additionalPrinterColumns: []CustomResourceColumnDefinition/v1beta1
    """,
    "CustomResourceColumnDefinition": "name type format description jsonPath: string; priority: int32",
    "CustomResourceColumnDefinition/v1beta1": "name type format description JSONPath: string; priority: int32",
    "CustomResourceConversion": "strategy: string; webhook: *WebhookConversion",
    "CustomResourceConversion/v1beta1": """
        strategy: string
        webhookClientConfig: *WebhookClientConfig
        conversionReviewVersions: []string
    """,
    "WebhookConversion": "clientConfig: *WebhookClientConfig; conversionReviewVersions: []string",
    "WebhookClientConfig": "url: *string; service: *ServiceReference; caBundle: bytes",
    "ServiceReference": "namespace name: string; path: *string; port: *int32",
    "CustomResourceSubresources": "status: *CustomResourceSubresourceStatus; scale: *CustomResourceSubresourceScale",
    "CustomResourceSubresourceStatus": "",
    "CustomResourceSubresourceScale": "specReplicasPath statusReplicasPath: string; labelSelectorPath: *string",
    "CustomResourceDefinitionStatus": """
        conditions: []CustomResourceDefinitionCondition
        acceptedNames: CustomResourceDefinitionNames
        storedVersions: []string
    """,
    "CustomResourceDefinitionCondition": "type status reason message: string; lastTransitionTime: time",
    "CustomResourceValidation": "openAPIV3Schema: *JSONSchemaProps",
    "JSONSchemaProps": """
        id description type format title pattern: string
        default example: any
        maximum minimum multipleOf: *number
        exclusiveMaximum exclusiveMinimum uniqueItems nullable: bool
        maxLength minLength maxItems minItems maxProperties minProperties: *int64
        enum: []any
        required: []string
        items: JSONSchemaProps|list
        allOf oneOf anyOf: []JSONSchemaProps
        not: *JSONSchemaProps
        properties patternProperties definitions: {}JSONSchemaProps
        additionalProperties additionalItems: JSONSchemaProps|bool
        dependencies: {}JSONSchemaProps|texts
        externalDocs: *ExternalDocumentation
        x-kubernetes-preserve-unknown-fields: *bool
        x-kubernetes-embedded-resource x-kubernetes-int-or-string: bool
        x-kubernetes-list-map-keys: []string
        x-kubernetes-list-type x-kubernetes-map-type: *string
        x-kubernetes-validations: []ValidationRule
    """,
    "PackageManifest": "packageName defaultChannel: string; channels: []PackageChannel",
    "PackageChannel": "name currentCSV: string",
    "ExternalDocumentation": "description url: string",
    "ValidationRule": "rule message: string",
}
