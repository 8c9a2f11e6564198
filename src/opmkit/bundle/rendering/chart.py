"""Helm charts that render to the objects that OLM v1 applies for a bundle.

Namespaces, watched namespaces and configuration are values. The templates come from the objects themselves: they are
generated once for all namespaces and once for some, with names that stand for the values; what differs between the two
becomes a condition, and the names become actions of a template.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from opmkit.bundle.api_types.decode import Tables, field_types
from opmkit.bundle.api_types.encode import encode_decoded
from opmkit.bundle.kinds import CRD_KIND
from opmkit.bundle.kubernetes_names import DNS1123_LABEL_PATTERN
from opmkit.bundle.rendering.certificates import CertificateProvider
from opmkit.bundle.rendering.config import CONFIG_STRUCT
from opmkit.bundle.rendering.objects import RenderRequest, generate_objects, require_namespaces, require_supported
from opmkit.bundle.rendering.output import object_file_name, write_new_directory
from opmkit.bundle.rendering.registry_v1 import (
    ALL_NAMESPACES,
    MULTI_NAMESPACE,
    OWN_NAMESPACE,
    SINGLE_NAMESPACE,
    object_name,
)
from opmkit.bundle.versions import tolerant_version
from opmkit.documents import lenient
from opmkit.documents.yaml_writer import dump_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from opmkit.bundle.rendering.registry_v1 import RegistryV1

_HELPERS = Path(__file__).with_name("chart_helpers.tpl")
_LIMITED = {OWN_NAMESPACE, SINGLE_NAMESPACE, MULTI_NAMESPACE}
_CHART_NAME = re.compile(r"[^a-z0-9.-]+")
_MAX_CHART_NAME = 53
_SELECTOR = re.compile(r"^( *)namespaceSelector: (\S+)\n", re.MULTILINE)


class CrdLocation(StrEnum):
    """Where a chart has its CustomResourceDefinitions."""

    CRDS = "crds"
    """In ``crds/``: Helm creates them once, and neither updates nor deletes them."""
    TEMPLATES = "templates"
    """Among the templates: Helm updates them, and deletes them, with all custom resources, on uninstall."""


@dataclass(frozen=True, slots=True)
class ChartRequest:
    """How to make a chart of a bundle.

    Attributes:
        namespace: Default of the value ``namespace``; "" for the namespace of the release.
        watch_namespaces: Default of the value ``watchNamespaces``.
        deployment: Default of the value ``deploymentConfig``, see `InstallConfig`.
        certificates: The provider of the certificates of webhooks.
        crds: Where the CustomResourceDefinitions are. Those with a conversion webhook are always templates, since they
            name the namespace.

    Raises:
        BundleError: A namespace has an invalid name.
    """

    namespace: str = ""
    watch_namespaces: tuple[str, ...] = ()
    deployment: Mapping[str, Any] = field(default_factory=dict)
    certificates: CertificateProvider = CertificateProvider.CERT_MANAGER
    crds: CrdLocation = CrdLocation.CRDS

    def __post_init__(self) -> None:
        RenderRequest(self.namespace or "default", self.watch_namespaces)


@dataclass(frozen=True, slots=True)
class HelmChart:
    """A Helm chart.

    Attributes:
        name: Its name.
        version: Its version, that of the bundle.
        files: The content of its files by their paths.
        templated_crds: CustomResourceDefinitions among the templates that were wanted in ``crds/``.
        warnings: Why OLM v1 would not install the bundle from a catalog.
    """

    name: str
    version: str
    files: Mapping[str, bytes]
    templated_crds: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields in JSON types, with the files as text."""
        files = {path: content.decode() for path, content in self.files.items()}
        return {
            "name": self.name,
            "version": self.version,
            "files": files,
            "templated_crds": list(self.templated_crds),
        }

    def write(self, directory: Path) -> tuple[str, ...]:
        """Write the files to a directory that is empty or does not exist, all of them or none; return their names.

        Raises:
            BundleError: The directory contains files, which could be those of another version.
            DiskError: A file cannot be written.
        """
        return write_new_directory(directory, self.files)


def make_chart(bundle: RegistryV1, request: ChartRequest) -> HelmChart:
    """Return the chart of a bundle.

    Raises:
        UnsupportedBundle: OLM v1 does not install the bundle, or not in the namespaces that are the defaults.
    """
    require_supported(bundle)
    if request.watch_namespaces:
        require_namespaces(bundle, request.namespace, request.watch_namespaces)
    builder = _ChartBuilder(bundle, request)
    files = {"Chart.yaml": builder.metadata(), "values.yaml": builder.values(), "values.schema.json": builder.schema()}
    files |= {"templates/_helpers.tpl": builder.helpers(), **builder.templates()}
    wanted = request.crds is CrdLocation.CRDS
    definitions = [object_name(value) for value in bundle.definitions if wanted and builder.is_converted(value)]
    return HelmChart(builder.name, builder.version, files, tuple(sorted(definitions)))


class _ChartBuilder:
    """Builds the files of a chart."""

    def __init__(self, bundle: RegistryV1, request: ChartRequest) -> None:
        self._bundle = bundle
        self._request = request
        self.name = _chart_name(bundle)
        self.version = _version(bundle)
        self._watches_all = ALL_NAMESPACES in bundle.install_modes
        self._modes = sorted(bundle.install_modes & {ALL_NAMESPACES, *_LIMITED})
        self._watches_some = bool(bundle.install_modes & _LIMITED)
        # names of namespaces that no text of the bundle contains
        text = repr((bundle.csv, bundle.definitions, bundle.others))
        number = next(number for number in range(len(text) + 2) if f"opm-value-{number}" not in text)
        self._namespace, self._watched = f"opm-value-{number}-namespace", f"opm-value-{number}-watched"

    def metadata(self) -> bytes:
        """Return ``Chart.yaml``."""
        spec = self._bundle.spec
        chart: dict[str, Any] = {
            "apiVersion": "v2",
            "name": self.name,
            "version": self.version,
            "appVersion": self.version,
            "description": " ".join(str(spec.get("displayName") or self._bundle.name).split()),
            "type": "application",
            "keywords": list(spec.get("keywords") or ()),
            "sources": [link["url"] for link in spec.get("links") or () if link.get("url")],
            "maintainers": [
                {key: person[key] for key in ("name", "email") if person.get(key)}
                for person in spec.get("maintainers") or ()
                if person.get("name")
            ],
        }
        return dump_yaml({key: value for key, value in chart.items() if value})

    def values(self) -> bytes:
        """Return ``values.yaml``."""
        request = self._request
        parts = [
            b"# Namespace of the operator; that of the release if empty.\n",
            dump_yaml({"namespace": request.namespace}),
        ]
        if self._watches_some:
            default = "all namespaces if empty" if self._watches_all else "required"
            parts += [
                f"\n# Namespaces that the operator watches; {default}.\n".encode(),
                f"# Supported install modes: {', '.join(self._modes)}.\n".encode(),
                dump_yaml({"watchNamespaces": list(request.watch_namespaces)}),
            ]
        config = encode_decoded(request.deployment, CONFIG_STRUCT) if request.deployment else {}
        parts += [
            b"\n# Changes of the Deployments, as in spec.config of a Subscription:\n",
            f"# {', '.join(_config_fields())}.\n".encode(),
            dump_yaml({"deploymentConfig": config}),
        ]
        return b"".join(parts)

    def schema(self) -> bytes:
        """Return ``values.schema.json``, by which Helm checks the values."""
        label = {"type": "string", "maxLength": 63, "pattern": f"^{DNS1123_LABEL_PATTERN}$"}
        properties: dict[str, Any] = {"namespace": {"anyOf": [{"const": ""}, label]}}
        if self._watches_some:
            properties["watchNamespaces"] = {"type": "array", "items": label, "uniqueItems": True}
        fields = {name: {"type": kind} for name, kind in _config_fields().items()}
        properties["deploymentConfig"] = {"type": "object", "properties": fields, "additionalProperties": False}
        properties["global"] = {"type": "object"}  # Helm adds it to the values of subcharts
        schema = {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "type": "object",
            "properties": properties,
            "additionalProperties": False,
        }
        return orjson.dumps(schema, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)

    def helpers(self) -> bytes:
        """Return the template with the functions that the others call."""
        modes = " ".join(f'"{mode}"' for mode in self._modes)
        text = _HELPERS.read_text("utf-8").replace("MODES", f"list {modes}")
        return text.replace("CHART", self.name).encode()

    def is_converted(self, definition: Mapping[str, Any]) -> bool:
        """Whether a CustomResourceDefinition has a conversion webhook."""
        name = object_name(definition)
        return any(name in (webhook.get("conversionCRDs") or ()) for webhook in self._bundle.webhooks)

    def templates(self) -> dict[str, bytes]:
        """Return the templates and the files in ``crds/``."""
        everywhere = self._generate("") if self._watches_all else []
        somewhere = self._generate(self._watched) if self._watches_some else everywhere
        known = set(map(_key, somewhere))
        files: dict[str, bytes] = {}
        for value in (*somewhere, *(value for value in everywhere if _key(value) not in known)):
            path, content = self._template(value, only_everywhere=_key(value) not in known)
            files[_unused(path, files)] = content
        return files

    def _generate(self, target: str) -> list[dict[str, Any]]:
        request = RenderRequest(self._namespace, certificates=self._request.certificates)
        return generate_objects(self._bundle, request, (target,))

    def _template(self, value: dict[str, Any], *, only_everywhere: bool) -> tuple[str, bytes]:
        """Return path and content of the file for an object."""
        kind = str(value["kind"])
        path = object_file_name(value)
        if kind == CRD_KIND and self._request.crds is CrdLocation.CRDS and not self.is_converted(value):
            return f"crds/{path}", dump_yaml(value)
        text = self._actions(dump_yaml(self._mark_selectors(value)).decode())
        watched = f'(include "{self.name}.watchNamespaces" $ | fromJsonArray)'
        if lenient.mapping(value.get("metadata")).get("namespace") == self._watched:
            text = f"{{{{- range $namespace := {watched} }}}}\n---\n{text}{{{{- end }}}}\n"
        elif only_everywhere:
            text = f"{{{{- if not {watched} }}}}\n{text}{{{{- end }}}}\n"
        elif kind == "Deployment" and _is_of_strategy(value, self._bundle):
            text = self._configured(f"{self.name}.deployment.{object_name(value)}", text)
        return f"templates/{path}", text.encode()

    def _configured(self, name: str, text: str) -> str:
        """Return the template of a Deployment: its text under a name, and the call that changes it."""
        arguments = f'(dict "deployment" (include "{name}" .) "config" .Values.deploymentConfig)'
        call = f'{{{{ include "{self.name}.configure" {arguments} }}}}'
        return f'{{{{- define "{name}" -}}}}\n{text}{{{{- end -}}}}\n{call}\n'

    def _mark_selectors(self, value: dict[str, Any]) -> dict[str, Any]:
        """Replace the selectors of the watched namespaces by their name."""
        if not str(value["kind"]).endswith("WebhookConfiguration"):
            return value
        webhooks = [
            {**webhook, "namespaceSelector": self._watched} if "namespaceSelector" in webhook else webhook
            for webhook in value.get("webhooks") or ()
        ]
        return {**value, "webhooks": webhooks} if webhooks else value

    def _actions(self, text: str) -> str:
        """Return the text of a template: YAML in which the names of namespaces become actions."""
        namespace, watched = f'{{{{ include "{self.name}.namespace" $ }}}}', f"{self.name}.watchNamespaces"
        text = text.replace("{{", '{{ "{{" }}')
        selector = (
            rf'{{{{- with include "{watched}" $ | fromJsonArray }}}}\n\1namespaceSelector:\n\1  matchExpressions:\n'
            r"\1  - key: kubernetes.io/metadata.name\n\1    operator: In\n\1    values: {{ toJson . }}\n{{- end }}\n"
        )
        text = _SELECTOR.sub(lambda match: match.expand(selector) if match[2] == self._watched else match[0], text)
        targets = f'olm.targetNamespaces: {{{{ include "{watched}" $ | fromJsonArray | join "," | quote }}}}\n'
        text = text.replace(f"olm.targetNamespaces: {self._watched}\n", targets)
        text = text.replace(f": {self._watched}\n", ": {{ $namespace | quote }}\n")
        text = text.replace(f": {self._namespace}\n", f": {namespace.replace(' }}', ' | quote }}')}\n")
        return text.replace(self._namespace, namespace)


def _config_fields() -> dict[str, str]:
    """Return the fields of ``deploymentConfig`` and their types in JSON Schema."""
    return {
        name: "array" if field_type.kind == "[]" else "object"
        for name, field_type in field_types(CONFIG_STRUCT, Tables.NEWEST).items()
        if name != "selector"
    }


def _chart_name(bundle: RegistryV1) -> str:
    name = _CHART_NAME.sub("-", (bundle.package or bundle.name).lower())[:_MAX_CHART_NAME].strip("-.")
    return name or "operator"


def _version(bundle: RegistryV1) -> str:
    try:
        return str(tolerant_version(str(bundle.spec.get("version", ""))))
    except ValueError:
        return "0.0.0"


def _is_of_strategy(value: Mapping[str, Any], bundle: RegistryV1) -> bool:
    deployments = bundle.strategy.get("deployments") or ()
    return object_name(value) in {each.get("name", "") for each in deployments}


def _key(value: Mapping[str, Any]) -> tuple[str, str, str]:
    return str(value.get("apiVersion")), str(value["kind"]), object_name(value)


def _unused(path: str, files: Mapping[str, bytes]) -> str:
    """Return a path that no file has yet."""
    return next(each for each in _numbered(path) if each not in files)


def _numbered(path: str) -> Iterator[str]:
    yield path
    number = 2
    while True:
        yield f"{path.removesuffix('.yaml')}_{number}.yaml"
        number += 1
