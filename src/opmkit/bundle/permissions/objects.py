"""The objects that OLM installs for a bundle, and what is dangerous about them besides roles and bindings.

Every object is listed. One whose kind is not understood is dangerous, because its effect is not known: OLM v0 and
OLM v1 refuse most of these kinds today, but not necessarily those of tomorrow.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import orjson

from opmkit.bundle.kinds import CRD_KIND, CSV_KIND
from opmkit.bundle.permissions.kinds import BUNDLE_SUBJECT, Danger, DangerKind, PermissionScope
from opmkit.bundle.rendering.registry_v1 import object_name
from opmkit.core.json_types import JsonResult
from opmkit.documents.lenient import items, mapping, text

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

RBAC_KINDS = ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")
OPENSHIFT_RBAC = "authorization.openshift.io"
_RBAC_GROUPS = ("rbac.authorization.k8s.io", OPENSHIFT_RBAC)
_CONSOLE = ("console.openshift.io",)
_MONITORING = ("monitoring.coreos.com",)
KNOWN_KINDS: Mapping[str, tuple[str, ...]] = {
    CSV_KIND: ("operators.coreos.com",),
    CRD_KIND: ("apiextensions.k8s.io",),
    **dict.fromkeys(RBAC_KINDS, _RBAC_GROUPS),
    **dict.fromkeys(("ConfigMap", "Secret", "Service", "ServiceAccount"), ("",)),
    **dict.fromkeys(("PodMonitor", "PrometheusRule", "ServiceMonitor"), _MONITORING),
    **dict.fromkeys(
        ("ConsoleCLIDownload", "ConsoleLink", "ConsolePlugin", "ConsoleQuickStart", "ConsoleYAMLSample"), _CONSOLE
    ),
    "NetworkPolicy": ("networking.k8s.io",),
    "PodDisruptionBudget": ("policy",),
    "PriorityClass": ("scheduling.k8s.io",),
    "VerticalPodAutoscaler": ("autoscaling.k8s.io",),
}
"""Kinds whose effect is known, in these API groups: ``Service`` of Knative runs pods."""
_FOREIGN_GROUPS = re.compile(
    r"[^.]*|(.*\.)?(k8s\.io|kubernetes\.io)|operators\.coreos\.com|olm\.operatorframework\.io|"
    r"(apps|authorization|build|config|image|machine|machineconfiguration|oauth|operator|project|quota|route|security|"
    r"template|user)\.openshift\.io"
)
"""API groups of Kubernetes, OLM and OpenShift; an operator that ships a definition for one does not own them."""
DEFAULT_ROLES = re.compile(
    r"admin|edit|view|sudoer|cluster-(status|debugger|monitoring-view)|(cluster-(admin|reader)|basic-user|"
    r"self-(provisioner|access-reviewer))s?|cluster-status-binding|storage-admin|registry-(viewer|editor|admin)|"
    r"helm-chartrepos-viewer|console-extensions-reader|aggregate-olm-(edit|view)|olm-operators-(admin|edit|view)|"
    r"global-operators-(admin|edit|view)|system:.*",
    re.DOTALL,
)
"""Roles, ClusterRoles and bindings of every cluster, OpenShift or OLM; OLM v0 replaces them by those of the bundle."""
SHARED_ACCOUNTS = frozenset({"default", "builder", "deployer", "pipeline"})
"""Service accounts that Kubernetes, OpenShift and Tekton create in each namespace, and pods of others run with."""
_CLOUD_IDENTITIES = (
    "eks.amazonaws.com/role-arn", "iam.gke.io/gcp-service-account", "azure.workload.identity/client-id",
)  # fmt: skip
"""Annotations of service accounts that name an account of a cloud provider, whose permissions pods get."""
_OAUTH_CLIENT = re.compile(r"serviceaccounts\.openshift\.io/oauth-redirect(uri|reference)\..*", re.DOTALL)
"""Annotations that make a service account an OAuth client, with the address or object to which users return."""
_NAMESPACE_TEMPLATE = "operatorframework.io/suggested-namespace-template"
"""Annotation of a ClusterServiceVersion with the namespace, as JSON, that web consoles create for the operator."""
_CREDENTIALS = ("authorization", "basicAuth", "bearerTokenSecret", "oauth2", "proxyConnectHeader")
"""Fields of the endpoints of a monitor with secrets that Prometheus sends."""
_BASELINE_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
        "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
    }
)  # fmt: skip
_BASELINE_SELINUX_TYPES = ("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t")
_BASELINE_SYSCTLS = frozenset(
    {
        "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
    }
)  # fmt: skip
"""What the Pod Security Standard ``baseline`` permits: https://kubernetes.io/docs/concepts/security/pod-security-standards/."""


@dataclass(frozen=True, slots=True)
class InstalledObject(JsonResult):
    """An object that OLM installs for a bundle.

    Attributes:
        kind: Its kind.
        group: Its API group, "" for that of pods.
        name: Its name.
        dangers: What is dangerous about it; permissions that roles and bindings grant are `Grant`.
        account: The service account of the pods of a deployment.
        digest: SHA-256 of an object whose effect is not known, which another version can change.
    """

    kind: str
    group: str
    name: str
    dangers: tuple[Danger, ...] = ()
    account: str = ""
    digest: str = ""


def own_definitions(definitions: Iterable[Mapping[str, Any]], csv: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the CustomResourceDefinitions that a bundle contains, and its operator owns.

    Their names are ``RESOURCE.GROUP`` in the specification, whatever the name of the object is.
    """
    names = (_definition_name(each) for each in definitions if not _FOREIGN_GROUPS.fullmatch(definition_group(each)))
    return frozenset(names) & frozenset(_owned_names(csv))


def definition_group(definition: Mapping[str, Any]) -> str:
    """Return the API group of a CustomResourceDefinition."""
    return text(mapping(definition.get("spec")).get("group"))


def is_foreign_group(group: str) -> bool:
    """Return whether an API group belongs to Kubernetes, OLM or OpenShift."""
    return bool(_FOREIGN_GROUPS.fullmatch(group))


def installed_objects(
    objects: Iterable[Mapping[str, Any]], csv: Mapping[str, Any], own: Collection[str], accounts: Collection[str]
) -> Iterator[InstalledObject]:
    """Yield the objects of a bundle, and the deployments of its ClusterServiceVersion.

    Args:
        objects: The objects as they are.
        csv: The decoded ClusterServiceVersion.
        own: Names of the CustomResourceDefinitions that the operator owns, see `own_definitions`.
        accounts: Names of the service accounts that the bundle defines.
    """
    shipped: set[str] = set()
    for value in objects:
        kind, group, name = text(value.get("kind")), _group(value), object_name(value)
        dangers: list[Danger] = []
        digest = ""
        if kind not in KNOWN_KINDS or (value.get("apiVersion") and group not in KNOWN_KINDS[kind]):
            title = f"{kind} {name}" if kind not in KNOWN_KINDS else f"{kind} {name} of {group or 'the core group'}"
            dangers.append(_danger(DangerKind.UNKNOWN_OBJECT, f"install {title}, whose effect is not known"))
            digest = hashlib.sha256(orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).hexdigest()
        if kind == CRD_KIND:
            shipped.add(_definition_name(value))
            dangers += _definition(value, own)
        elif kind == CSV_KIND:
            dangers += (*_apis(csv, own), *_suggested_namespace(csv))
        elif kind in _CHECKS:
            dangers += _CHECKS[kind](value)
        yield InstalledObject(kind, group, name, tuple(dangers), digest=digest)
    for name in sorted({*_owned_names(csv)} - shipped):
        may = f"provide CustomResourceDefinition {name}, which it does not contain"
        yield InstalledObject(CRD_KIND, KNOWN_KINDS[CRD_KIND][0], name, (_danger(DangerKind.APIS, may),))
    for deployment in csv.get("spec", {}).get("install", {}).get("spec", {}).get("deployments") or ():
        yield _deployment(deployment, accounts)


def pod_account(pod: Mapping[str, Any]) -> str:
    """Return the service account of the pods of a deployment."""
    return str(pod.get("serviceAccountName") or pod.get("serviceAccount") or "default")


def _group(value: Mapping[str, Any]) -> str:
    return text(value.get("apiVersion")).rpartition("/")[0]


def _definition_name(definition: Mapping[str, Any]) -> str:
    names = mapping(mapping(definition.get("spec")).get("names"))
    return f"{text(names.get('plural'))}.{definition_group(definition)}"


def _owned_names(csv: Mapping[str, Any]) -> Iterator[str]:
    for owned in csv.get("spec", {}).get("customresourcedefinitions", {}).get("owned") or ():
        yield str(owned.get("name", ""))


def _danger(kind: DangerKind, may: str, scope: PermissionScope = PermissionScope.OWN) -> Danger:
    return Danger(kind, may, scope, BUNDLE_SUBJECT)


def _definition(definition: Mapping[str, Any], own: Collection[str]) -> Iterator[Danger]:
    name = _definition_name(definition)
    if name not in own:
        reason = "whose API group belongs to others" if is_foreign_group(definition_group(definition)) else ""
        may = f"change CustomResourceDefinition {name}, {reason or 'which its operator does not own'}"
        yield _danger(DangerKind.APIS, may)
        if mapping(mapping(definition.get("spec")).get("conversion")).get("strategy") == "Webhook":
            yield _danger(DangerKind.WEBHOOKS, f"convert all objects of CustomResourceDefinition {name}")


def _apis(csv: Mapping[str, Any], own: Collection[str]) -> Iterator[Danger]:
    """Yield the APIs of others that the operator serves or converts."""
    spec = csv.get("spec", {})
    for owned in spec.get("apiservicedefinitions", {}).get("owned") or ():
        yield _danger(DangerKind.APIS, f"serve the API {owned.get('group', '')}/{owned.get('version', '')}")
    for webhook in spec.get("webhookdefinitions") or ():
        for name in webhook.get("conversionCRDs") or ():
            if name not in own:
                may = f"convert all objects of CustomResourceDefinition {name}, which its operator does not own"
                yield _danger(DangerKind.WEBHOOKS, may)


def _suggested_namespace(csv: Mapping[str, Any]) -> Iterator[Danger]:
    """Yield the pod security of the namespace that web consoles create for the operator."""
    template = (csv.get("metadata", {}).get("annotations") or {}).get(_NAMESPACE_TEMPLATE) or "{}"
    try:
        namespace = mapping(orjson.loads(template))
    except orjson.JSONDecodeError:  # no console can use it
        return
    level = text(mapping(mapping(namespace.get("metadata")).get("labels")).get("pod-security.kubernetes.io/enforce"))
    if level == "privileged":
        yield _danger(DangerKind.SECURITY_CONTEXT, "suggest a namespace with privileged pods")


def _deployment(deployment: Mapping[str, Any], accounts: Collection[str]) -> InstalledObject:
    name = str(deployment.get("name", ""))
    template = deployment.get("spec", {}).get("template", {})
    pod, metadata = template.get("spec", {}), template.get("metadata", {})
    account, place = pod_account(pod), f"(Deployment {name})"
    dangers = [
        Danger(kind, f"{may} {place}", PermissionScope.OWN, account)
        for kind, may in dict.fromkeys((*_pod_privileges(pod), *_annotated_privileges(metadata)))
    ]
    # every namespace has this account, which has no permissions by default
    if account not in {*accounts, "default"}:
        may = f"run pods as service account {account}, which it does not define, {place}"
        dangers.append(_danger(DangerKind.TOKENS, may))
    return InstalledObject("Deployment", "apps", name, tuple(dangers), account)


def _pod_privileges(pod: Mapping[str, Any]) -> Iterator[tuple[DangerKind, str]]:
    """Yield what the Pod Security Standard ``baseline`` forbids."""
    for field, what in (("hostNetwork", "network"), ("hostPID", "process IDs"), ("hostIPC", "shared memory")):
        if pod.get(field):
            yield DangerKind.SECURITY_CONTEXT, f"run pods with the {what} of nodes"
    for sysctl in (pod.get("securityContext") or {}).get("sysctls") or ():
        if sysctl.get("name", "") not in _BASELINE_SYSCTLS:
            yield DangerKind.SECURITY_CONTEXT, f"run pods with sysctl {sysctl.get('name', '')}"
    yield from _context_privileges(pod.get("securityContext") or {}, "pods")
    containers = (*(pod.get("initContainers") or ()), *(pod.get("containers") or ()))
    for container in containers:
        yield from _container_privileges(container)
    writable = {
        mount.get("name")
        for container in containers
        for mount in container.get("volumeMounts") or ()
        if not mount.get("readOnly")
    }
    for volume in pod.get("volumes") or ():
        if host_path := volume.get("hostPath"):
            yield DangerKind.NODES, f"mount {host_path.get('path', '')} of nodes"
            if volume.get("name") in writable:
                yield DangerKind.NODES, f"write to {host_path.get('path', '')} of nodes"


def _container_privileges(container: Mapping[str, Any]) -> Iterator[tuple[DangerKind, str]]:
    yield from _context_privileges(container.get("securityContext") or {}, "containers")
    for port in container.get("ports") or ():
        if port.get("hostPort"):
            yield DangerKind.SECURITY_CONTEXT, f"run containers with port {port['hostPort']} of nodes"
    for host in _probed_hosts(container):
        yield DangerKind.SECURITY_CONTEXT, f"let nodes connect to {host} by probes or hooks of containers"


def _probed_hosts(container: Mapping[str, Any]) -> Iterator[str]:
    """Yield the hosts, instead of the pod, to which nodes connect for probes and lifecycle hooks."""
    lifecycle = container.get("lifecycle") or {}
    probes = (container.get(key) for key in ("livenessProbe", "readinessProbe", "startupProbe"))
    for handler in filter(None, (*probes, lifecycle.get("postStart"), lifecycle.get("preStop"))):
        for key in ("httpGet", "tcpSocket"):
            if host := (handler.get(key) or {}).get("host"):
                yield str(host)


def _context_privileges(context: Mapping[str, Any], what: str) -> Iterator[tuple[DangerKind, str]]:
    selinux = {key: value for key, value in (context.get("seLinuxOptions") or {}).items() if value and key != "level"}
    if selinux.get("type", "") in _BASELINE_SELINUX_TYPES:
        selinux.pop("type", None)
    options = ", ".join(f"{key} {value}" for key, value in sorted(selinux.items()))
    added = {*((context.get("capabilities") or {}).get("add") or ())} - _BASELINE_CAPABILITIES
    seccomp, apparmor = ((context.get(key) or {}).get("type") for key in ("seccompProfile", "appArmorProfile"))
    found = {
        f"run privileged {what}": context.get("privileged"),
        f"run {what} as administrators of Windows nodes": (context.get("windowsOptions") or {}).get("hostProcess"),
        f"run {what} with capabilities {', '.join(sorted(added))}": added,
        f"run {what} with all of /proc": context.get("procMount") not in (None, "", "Default"),
        f"run {what} with SELinux {options}": options,
        f"run {what} without seccomp": seccomp == "Unconfined",
        f"run {what} without AppArmor": apparmor == "Unconfined",
    }  # fmt: skip
    for may, applies in found.items():
        if applies:
            yield DangerKind.SECURITY_CONTEXT, may


def _annotated_privileges(metadata: Mapping[str, Any]) -> Iterator[tuple[DangerKind, str]]:
    for key, value in (metadata.get("annotations") or {}).items():
        if key.startswith("container.apparmor.security.beta.kubernetes.io/") and value == "unconfined":
            yield DangerKind.SECURITY_CONTEXT, "run containers without AppArmor"


def _role(value: Mapping[str, Any]) -> Iterator[Danger]:
    name = object_name(value)
    if DEFAULT_ROLES.fullmatch(name):
        scope = PermissionScope.CLUSTER if value["kind"].startswith("Cluster") else PermissionScope.OWN
        yield _danger(DangerKind.ROLES, f"replace {value['kind']} {name}", scope)


def _secret(value: Mapping[str, Any]) -> Iterator[Danger]:
    # OLM v0 ignores the case of these fields
    folded = _folded(value)
    kind, name = text(folded.get("type")), object_name(value)
    if kind == "kubernetes.io/service-account-token":
        annotations = mapping(_folded(folded.get("metadata")).get("annotations"))
        account = text(annotations.get("kubernetes.io/service-account.name"))
        yield _danger(DangerKind.TOKENS, f"obtain a lasting token of service account {account} (Secret {name})")
    elif kind == "bootstrap.kubernetes.io/token":
        yield _danger(DangerKind.TOKENS, f"issue a token that nodes join the cluster with (Secret {name})")


def _folded(value: object) -> Mapping[str, Any]:
    return {key.casefold(): each for key, each in mapping(value).items()}


def _service_account(value: Mapping[str, Any]) -> Iterator[Danger]:
    annotations = mapping(mapping(value.get("metadata")).get("annotations"))
    for key in _CLOUD_IDENTITIES:
        if identity := annotations.get(key):
            may = f"act as {identity} of the cloud provider (ServiceAccount {object_name(value)})"
            yield _danger(DangerKind.IMPERSONATE, may)
    for key, target in annotations.items():
        if _OAUTH_CLIENT.fullmatch(key):
            may = f"obtain tokens of users who log in to {target} (ServiceAccount {object_name(value)})"
            yield _danger(DangerKind.IMPERSONATE, may)


def _service(value: Mapping[str, Any]) -> Iterator[Danger]:
    # OLM v0 ignores the case of these fields
    addresses = items(_folded(_folded(value).get("spec")).get("externalips"))
    if addresses:
        may = f"receive the traffic to {', '.join(map(str, addresses))} (Service {object_name(value)})"
        yield _danger(DangerKind.NETWORK, may, PermissionScope.CLUSTER)


def _monitor(value: Mapping[str, Any]) -> Iterator[Danger]:
    place = f"({value['kind']} {object_name(value)})"
    spec = mapping(value.get("spec"))
    for endpoint in map(mapping, (*items(spec.get("endpoints")), *items(spec.get("podMetricsEndpoints")))):
        if file := endpoint.get("bearerTokenFile"):
            yield _danger(DangerKind.TOKENS, f"obtain the token in {file} of Prometheus {place}")
        if credentials := [endpoint[key] for key in _CREDENTIALS if endpoint.get(key)]:
            names = " ".join(("secrets", ", ".join(dict.fromkeys(_secret_names(credentials))))).rstrip()
            yield _danger(DangerKind.SECRETS, f"obtain {names} from Prometheus {place}")


def _secret_names(value: object) -> Iterator[str]:
    """Yield ``NAME/KEY`` of each reference to a secret in a value."""
    fields = mapping(value)
    if "key" in fields:
        yield f"{text(fields.get('name'))}/{text(fields.get('key'))}"
    for each in (*items(value), *fields.values()):
        yield from _secret_names(each)


def _console_plugin(value: Mapping[str, Any]) -> Iterator[Danger]:
    place = f"(ConsolePlugin {object_name(value)})"
    yield _danger(DangerKind.PLATFORM, f"run scripts in the web console {place}")
    for proxy in map(mapping, items(mapping(value.get("spec")).get("proxy"))):
        # `authorize` is the field of version v1alpha1
        if proxy.get("authorization") == "UserToken" or proxy.get("authorize"):
            yield _danger(DangerKind.TOKENS, f"obtain tokens of users of the web console {place}")


def _priority_class(value: Mapping[str, Any]) -> Iterator[Danger]:
    if value.get("globalDefault"):
        yield _danger(DangerKind.PLATFORM, f"make PriorityClass {object_name(value)} that of all pods")


_CHECKS: Mapping[str, Callable[[Mapping[str, Any]], Iterator[Danger]]] = {
    **dict.fromkeys(RBAC_KINDS, _role),
    "Secret": _secret,
    "Service": _service,
    "ServiceAccount": _service_account,
    "ServiceMonitor": _monitor,
    "PodMonitor": _monitor,
    "ConsolePlugin": _console_plugin,
    "PriorityClass": _priority_class,
}
