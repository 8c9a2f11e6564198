"""Certificates of webhooks: what provides them, and how their servers and clients get them."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_CERT_MANAGER_CA = "cert-manager.io/inject-ca-from"
_SERVICE_CA = "service.beta.openshift.io/inject-cabundle"
CA_INJECTORS = frozenset(
    {_CERT_MANAGER_CA, "cert-manager.io/inject-ca-from-secret", "cert-manager.io/inject-apiserver-ca", _SERVICE_CA}
)
"""Annotations by which other controllers than OLM set the authority of a webhook's certificate."""
MAX_NAME_LENGTH = 63
"""Maximum length of generated names, that of a label."""


class CertificateProvider(StrEnum):
    """Providers of the certificates of webhooks."""

    CERT_MANAGER = "cert-manager"
    """cert-manager: an Issuer and a Certificate for each deployment with webhooks."""
    SERVICE_CA = "service-ca"
    """The service CA of OpenShift: annotations."""
    NONE = "none"
    """Nothing: whoever applies the objects adds certificates."""


class WebhookService(NamedTuple):
    """The service of a deployment with webhooks.

    Attributes:
        name: Name of the Service.
        namespace: Its namespace.
        certificate: Name of the certificate and of its Secret.
        provider: The provider of the certificate.
    """

    name: str
    namespace: str
    certificate: str
    provider: CertificateProvider

    @classmethod
    def of_deployment(cls, deployment: str, namespace: str, provider: CertificateProvider) -> WebhookService:
        """Return the service of a deployment."""
        name = with_suffix(deployment.replace(".", "-"), "service")
        return cls(name, namespace, with_suffix(name, "cert"), provider)

    @property
    def issuer(self) -> str:
        """Name of cert-manager's issuer of the certificate."""
        return with_suffix(self.certificate, "selfsigned-issuer")

    @property
    def client_annotations(self) -> dict[str, str]:
        """The annotations by which webhook configurations and CRDs get the authority of the certificate."""
        if self.provider is CertificateProvider.CERT_MANAGER:
            return {_CERT_MANAGER_CA: f"{self.namespace}/{self.certificate}"}
        return {_SERVICE_CA: "true"} if self._is_service_ca else {}

    @property
    def service_annotations(self) -> dict[str, str]:
        """The annotations of the Service."""
        return {"service.beta.openshift.io/serving-cert-secret-name": self.certificate} if self._is_service_ca else {}

    @property
    def _is_service_ca(self) -> bool:
        return self.provider is CertificateProvider.SERVICE_CA

    def mount(self, pod: dict[str, Any]) -> None:
        """Mount the certificate where webhook and API servers expect it, in place of other volumes there."""
        if self.provider is CertificateProvider.NONE:
            return
        containers: list[dict[str, Any]] = pod.get("containers") or []
        paths = {path for _, path, *_ in _MOUNTS}
        mounts = [mount for container in containers for mount in container.get("volumeMounts") or ()]
        replaced = {name for name, *_ in _MOUNTS} | {
            mount.get("name", "") for mount in mounts if mount.get("mountPath") in paths
        }
        pod["volumes"] = [
            *(volume for volume in pod.get("volumes") or () if volume.get("name", "") not in replaced),
            *(self._volume(name, certificate, key) for name, _, certificate, key in _MOUNTS),
        ]
        for container in containers:
            container["volumeMounts"] = [
                *(each for each in container.get("volumeMounts") or () if each.get("name", "") not in replaced),
                *({"name": name, "mountPath": path} for name, path, *_ in _MOUNTS),
            ]

    def _volume(self, name: str, certificate: str, key: str) -> dict[str, Any]:
        items = [{"key": "tls.crt", "path": certificate}, {"key": "tls.key", "path": key}]
        return {"name": name, "secret": {"secretName": self.certificate, "items": items}}

    def objects(self) -> Iterator[dict[str, Any]]:
        """Yield the objects that make the provider issue the certificate."""
        if self.provider is not CertificateProvider.CERT_MANAGER:
            return
        host = f"{self.name}.{self.namespace}"
        yield self._object("Issuer", self.issuer, {"selfSigned": {}})
        yield self._object(
            "Certificate",
            self.certificate,
            {
                "commonName": host,
                "dnsNames": [host, f"{host}.svc", f"{host}.svc.cluster.local"],
                "duration": "17520h0m0s",
                "issuerRef": {"name": self.issuer},
                "renewBefore": "24h0m0s",
                "secretName": self.certificate,
                "usages": ["server auth"],
            },
        )

    def _object(self, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
        metadata = {"name": name, "namespace": self.namespace}
        return {"apiVersion": "cert-manager.io/v1", "kind": kind, "metadata": metadata, "spec": spec, "status": {}}


_MOUNTS = (
    ("webhook-cert", "/tmp/k8s-webhook-server/serving-certs", "tls.crt", "tls.key"),  # noqa: S108 - in a container
    ("apiservice-cert", "/apiserver.local.config/certificates", "apiserver.crt", "apiserver.key"),
)
"""Volumes with their paths, and the names of the certificate and key in them."""


def with_suffix(base: str, suffix: str) -> str:
    """Return a name as OLM v1 builds it: the base is shortened so that the name is a label."""
    if len(base) + len(suffix) > MAX_NAME_LENGTH:
        base = base[: MAX_NAME_LENGTH - len(suffix) - 1]
    return f"{base}-{suffix}"
