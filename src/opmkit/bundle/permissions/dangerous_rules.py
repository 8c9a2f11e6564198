"""The table of dangerous permissions: verbs on resources by which more than the operator's own can be taken over.

They are those that Kubernetes warns of (https://kubernetes.io/docs/concepts/security/rbac-good-practices/), and their
like in OpenShift and OLM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from opmkit.bundle.permissions.kinds import CLUSTER_ONLY, DangerKind
from opmkit.bundle.permissions.rule import ANY

if TYPE_CHECKING:
    from opmkit.bundle.permissions.rule import PolicyRule


class DangerousRule(NamedTuple):
    """Verbs on resources that are dangerous.

    Attributes:
        kind: The kind of danger.
        phrase: What the subject may do; ``{}`` is replaced by ``all`` if the rule is not limited to names.
        groups: API groups.
        resources: Resources; ``*`` for all of the groups.
        verbs: Verbs, one of which is enough.
        why: The reason, for the documentation.
        is_namespaced: Whether the resources are in namespaces, although those of others of this kind are not.
    """

    kind: DangerKind
    phrase: str
    groups: tuple[str, ...]
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    why: str
    is_namespaced: bool = False

    @property
    def is_cluster_only(self) -> bool:
        """Whether a role in a namespace does not permit it."""
        return self.kind in CLUSTER_ONLY and not self.is_namespaced

    def matches(self, rule: PolicyRule) -> bool:
        """Whether a rule permits it, at least in part."""
        return rule.reaches(self.verbs, self.groups, self.resources)


_READ = ("get", "list", "watch")
_WRITE = ("create", "update", "patch", "delete", "deletecollection")
_SET = ("create", "update", "patch")
_CORE = ("",)
_RBAC = ("rbac.authorization.k8s.io", "authorization.openshift.io")
_ADMISSION = ("admissionregistration.k8s.io",)
_AUTHENTICATION = ("authentication.k8s.io",)
_CERTIFICATES = ("certificates.k8s.io",)
_MONITORING = ("monitoring.coreos.com",)
_IMAGES = ("image.openshift.io",)
_IDENTITIES = ("users", "groups", "serviceaccounts", "nodes", "uids", "userextras", "userextras/*")
_IMPERSONATE_LIMITED = (
    "impersonate:user-info", "impersonate:serviceaccount", "impersonate:arbitrary-node", "impersonate:associated-node",
)  # fmt: skip
_ADMISSION_RESOURCES = (
    "validatingwebhookconfigurations", "mutatingwebhookconfigurations",
    "validatingadmissionpolicies", "mutatingadmissionpolicies",
    "validatingadmissionpolicybindings", "mutatingadmissionpolicybindings",
)  # fmt: skip
_INSTALL = "install operators with any permission"

DANGEROUS_RULES = (
    DangerousRule(
        DangerKind.SECRETS, "read {}secrets", _CORE, ("secrets",), _READ,
        "Secrets contain tokens of service accounts; `list` and `watch` return their content as well",
    ),
    DangerousRule(
        DangerKind.SECRETS, "change {}secrets", _CORE, ("secrets",), _WRITE,
        "A new secret can request the token of any service account of its namespace, and others trust changed ones",
    ),
    DangerousRule(
        DangerKind.SECRETS, "read the secrets of {}OAuth clients", ("oauth.openshift.io",),
        ("oauthclients", "oauthaccesstokens", "oauthauthorizetokens"), _READ,
        "An OAuth client contains its secret",
    ),
    DangerousRule(
        DangerKind.SECRETS, "read secrets and files through Prometheus by {}monitors", _MONITORING,
        ("podmonitors", "servicemonitors", "probes", "scrapeconfigs"), _SET,
        "Prometheus sends the secrets, or the files with tokens, that a monitor names to the pods that it selects",
    ),
    DangerousRule(
        DangerKind.SECRETS, "read secrets through Alertmanager by {}configurations", _MONITORING,
        ("alertmanagerconfigs",), _SET, "Alertmanager sends the secrets that a configuration names to any address",
    ),
    DangerousRule(
        DangerKind.SECRETS, "share {}secrets between namespaces", ("sharedresource.openshift.io",), ("sharedsecrets",),
        (*_SET, "use"), "Pods mount the secret of another namespace",
    ),
    DangerousRule(
        DangerKind.SECRETS, "read the pull secrets of {}image streams", _IMAGES, ("imagestreams/secrets",), _READ,
        "They are the secrets of a namespace by which pods pull images",
    ),
    DangerousRule(
        DangerKind.SECRETS, "pull {}images of others", _IMAGES, ("imagestreams/layers",), ("get",),
        "Images can contain credentials",
    ),
    DangerousRule(
        DangerKind.SECRETS, "obtain credentials of the cloud by {}requests", ("cloudcredential.openshift.io",),
        ("credentialsrequests",), _SET, "OpenShift creates credentials of the cloud provider as requested",
    ),
    DangerousRule(
        DangerKind.ESCALATE, "add any permission to {}roles", _RBAC, ("roles", "clusterroles"), ("escalate",),
        "Kubernetes does not check that the permissions of a changed role are the operator's own",
    ),
    DangerousRule(
        DangerKind.ESCALATE, _INSTALL, ("operators.coreos.com",),
        ("subscriptions", "installplans", "clusterserviceversions", "catalogsources", "operatorgroups",
         "subscriptions/status", "installplans/status", "catalogsources/status", "operatorgroups/status"), _SET,
        "OLM v0 grants what the operator asks for, and applies the objects in the status of an install plan; a catalog "
        "source decides what installed operators update to",
    ),
    DangerousRule(
        DangerKind.ESCALATE, _INSTALL, ("olm.operatorframework.io",),
        ("clusterextensions", "clusterextensionrevisions", "clusterobjectsets", "clustercatalogs",
         "clusterextensions/status", "clusterextensionrevisions/status", "clusterobjectsets/status",
         "clustercatalogs/status"), _SET,
        "OLM v1 applies what bundles contain; a catalog, and the address in its status, decides what installed "
        "operators update to",
    ),
    DangerousRule(
        DangerKind.ESCALATE, _INSTALL, ("core.rukpak.io", "catalogd.operatorframework.io", "platform.openshift.io"),
        ("bundledeployments", "bundles", "catalogs", "clustercatalogs", "platformoperators"), _SET,
        "Releases of OLM v1 before 1.0 apply what these contain",
    ),
    DangerousRule(
        DangerKind.BIND, "bind {}roles", _RBAC, ("roles", "clusterroles"), ("bind",),
        "Kubernetes does not check that the permissions of a bound role are the operator's own",
    ),
    DangerousRule(
        DangerKind.IMPERSONATE, "act as {}users, groups or service accounts", ("", "user.openshift.io"),
        ("users", "groups", "serviceaccounts", "systemusers", "systemgroups"), ("impersonate",),
        "The operator has the permissions of the other",
    ),
    DangerousRule(
        DangerKind.IMPERSONATE, "act with {}user IDs or extra fields of users", _AUTHENTICATION,
        ("uids", "userextras", "userextras/*"), ("impersonate",), "Authorizers other than RBAC decide by them",
    ),
    DangerousRule(
        DangerKind.IMPERSONATE, "act within limits as {}users, groups, service accounts or nodes", _AUTHENTICATION,
        _IDENTITIES, _IMPERSONATE_LIMITED, "The operator has some permissions of the other",
    ),
    DangerousRule(
        DangerKind.IMPERSONATE, "change {}users, their groups and identities", ("user.openshift.io",),
        ("users", "groups", "identities", "useridentitymappings"), _WRITE,
        "Members of a group have its permissions, and an identity decides as which user somebody logs in",
    ),
    DangerousRule(
        DangerKind.IMPERSONATE, "log in as others by {}OAuth clients and tokens", ("oauth.openshift.io",),
        ("oauthclients", "oauthclientauthorizations", "oauthaccesstokens", "oauthauthorizetokens"), _WRITE,
        "A client obtains tokens of users who follow a link, and a token is valid for the user that it names",
    ),
    DangerousRule(
        DangerKind.IMPERSONATE, "change the identity providers of {}logins", ("config.openshift.io",),
        ("oauths", "authentications"), _WRITE, "An identity provider decides who is which user",
    ),
    DangerousRule(
        DangerKind.WEBHOOKS, "change {}admission webhooks and policies", _ADMISSION, _ADMISSION_RESOURCES, _WRITE,
        "A webhook reads, changes and rejects any object, such as secrets and pods",
    ),
    DangerousRule(
        DangerKind.NODES, "call the kubelets of {}nodes", _CORE, ("nodes/proxy", "nodes/checkpoint", "nodes/log"),
        (*_READ, *_SET),
        "A kubelet runs commands in all containers of its node; neither admission nor audit sees it",
    ),
    DangerousRule(
        DangerKind.NODES, "change {}nodes", _CORE, ("nodes", "nodes/status"), _WRITE,
        "Labels and taints of nodes decide where pods run",
    ),
    DangerousRule(
        DangerKind.NODES, "mount directories of nodes as persistent volumes", _CORE, ("persistentvolumes",), _SET,
        "A volume can be a directory of the node, such as that of the kubelet",
    ),
    DangerousRule(
        DangerKind.NODES, "attach volumes to nodes by {}attachments", ("storage.k8s.io",), ("volumeattachments",), _SET,
        "Volumes of others can be attached to a node of the operator",
    ),
    DangerousRule(
        DangerKind.NODES, "read volumes by {}snapshot contents", ("snapshot.storage.k8s.io",),
        ("volumesnapshotcontents",), _SET, "A volume of the operator can be a copy of any snapshot of the storage",
    ),
    DangerousRule(
        DangerKind.NODES, "change {}machine configuration", ("machineconfiguration.openshift.io",), (ANY,), _WRITE,
        "The configuration of a machine is files and services that root runs on nodes",
    ),
    DangerousRule(
        DangerKind.NODES, "change {}machines and their settings",
        ("machine.openshift.io", "metal3.io", "cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io",
         "infrastructure.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io", "addons.cluster.x-k8s.io",
         "tuned.openshift.io", "performance.openshift.io"), (ANY,), _WRITE,
        "A new machine starts with any program, and settings of machines are applied by root", is_namespaced=True,
    ),
    DangerousRule(
        DangerKind.EXEC, "run commands in the containers of {}pods", _CORE,
        ("pods/exec", "pods/attach", "pods/ephemeralcontainers"), ("get", *_SET),
        "A command has the service account, secrets and privileges of the pod",
    ),
    DangerousRule(
        DangerKind.EXEC, "connect to the ports of {}pods", _CORE, ("pods/portforward", "pods/proxy", "services/proxy"),
        ("get", *_SET, "delete"), "Ports that network policies protect, or that only listen locally, can be reached",
    ),
    DangerousRule(
        DangerKind.TOKENS, "issue tokens of {}service accounts", _CORE, ("serviceaccounts/token",), ("create",),
        "The operator has the permissions of the service account",
    ),
    DangerousRule(
        DangerKind.TOKENS, "request tokens of pods by {}storage drivers", ("storage.k8s.io",), ("csidrivers",), _SET,
        "A driver receives tokens of the pods that mount its volumes if it requests them",
    ),
    DangerousRule(
        DangerKind.ROLES, "change {}roles and bindings", _RBAC,
        ("roles", "rolebindings", "clusterroles", "clusterrolebindings"), _WRITE,
        "The operator can pass its permissions on, and take those of others away",
    ),
    DangerousRule(
        DangerKind.SECURITY_CONTEXT, "use {}security context constraints", ("security.openshift.io",),
        ("securitycontextconstraints",), ("use",), "Privileged pods are root on their node",
    ),
    DangerousRule(
        DangerKind.SECURITY_CONTEXT, "change {}security context constraints", ("security.openshift.io",),
        ("securitycontextconstraints",), _WRITE, "They decide which pods may be privileged",
    ),
    DangerousRule(
        DangerKind.SECURITY_CONTEXT, "use {}pod security policies", ("policy", "extensions"), ("podsecuritypolicies",),
        ("use",), "Privileged pods are root on their node",
    ),
    DangerousRule(
        DangerKind.SECURITY_CONTEXT, "change {}pod security policies", ("policy", "extensions"),
        ("podsecuritypolicies",), _WRITE, "They decide which pods may be privileged",
    ),
    DangerousRule(
        DangerKind.SECURITY_CONTEXT, "change the pod security of {}namespaces", _CORE,
        ("namespaces", "namespaces/finalize", "namespaces/status"), ("update", "patch"),
        "Labels of a namespace decide which pods may be privileged, and which policies apply",
    ),
    DangerousRule(
        DangerKind.SECURITY_CONTEXT, "create namespaces with any pod security", _CORE, ("namespaces",), ("create",),
        "Labels of a namespace decide which pods may be privileged",
    ),
    DangerousRule(
        DangerKind.SECURITY_CONTEXT, "change the pod security of {}projects", ("project.openshift.io",), ("projects",),
        _SET, "A project is a namespace",
    ),
    DangerousRule(
        DangerKind.SECURITY_CONTEXT, "create projects", ("project.openshift.io",), ("projectrequests",), ("create",),
        "Who requests a project is its administrator",
    ),
    DangerousRule(
        DangerKind.SECURITY_CONTEXT, "change the user IDs of {}namespaces", ("security.internal.openshift.io",),
        ("rangeallocations",), _WRITE, "Namespaces with the same user IDs can read the files of each other",
    ),
    DangerousRule(
        DangerKind.CERTIFICATES, "approve {}certificate requests", _CERTIFICATES,
        ("certificatesigningrequests/approval", "certificatesigningrequests/status",
         "podcertificaterequests/status"), ("update", "patch"),
        "A certificate can be that of any user or node",
    ),
    DangerousRule(
        DangerKind.CERTIFICATES, "obtain certificates of {}nodes", _CERTIFICATES,
        ("certificatesigningrequests/nodeclient",), ("create",),
        "The controller manager approves requests for certificates of nodes by whoever has it",
    ),
    DangerousRule(
        DangerKind.CERTIFICATES, "approve and sign for {}signers", _CERTIFICATES, ("signers",),
        ("approve", "sign", "attest"), "A certificate can be that of any user or node",
    ),
    DangerousRule(
        DangerKind.CERTIFICATES, "change {}trusted certificates", _CERTIFICATES, ("clustertrustbundles",), _WRITE,
        "Others trust the certificates of a bundle",
    ),
    DangerousRule(
        DangerKind.APIS, "change {}CustomResourceDefinitions", ("apiextensions.k8s.io",),
        ("customresourcedefinitions", "customresourcedefinitions/status"), _WRITE,
        "A definition can send objects of others to a conversion webhook, or delete them",
    ),
    DangerousRule(
        DangerKind.APIS, "change {}API services", ("apiregistration.k8s.io",), ("apiservices", "apiservices/status"),
        _WRITE, "An API service receives the requests for an API",
    ),
    DangerousRule(
        DangerKind.PLATFORM, "change {}configuration of the cluster",
        ("config.openshift.io", "operator.openshift.io", "imageregistry.operator.openshift.io"), (ANY,), _WRITE,
        "It decides about logins, proxies, registries and updates; `clusteroperators` are the state of OpenShift",
    ),
    DangerousRule(
        DangerKind.PLATFORM, "change {}plug-ins of the web console", ("console.openshift.io",), ("consoleplugins",),
        _WRITE, "Scripts in the web console have the session of the user",
    ),
    DangerousRule(
        DangerKind.PLATFORM, "change {}priority classes", ("scheduling.k8s.io",), ("priorityclasses",), _WRITE,
        "Pods of a higher priority evict those of others, and the default applies to pods of others",
    ),
    DangerousRule(
        DangerKind.NETWORK, "redirect traffic by {}endpoints", ("", "discovery.k8s.io"),
        ("endpoints", "endpointslices"), _SET,
        "A service sends its traffic to the addresses in its endpoints, across namespaces (CVE-2021-25740)",
    ),
    DangerousRule(
        DangerKind.NETWORK, "redirect traffic by the status of {}services", _CORE, ("services/status",),
        ("update", "patch"), "A service receives the traffic to the addresses in its status (CVE-2020-8554)",
    ),
    DangerousRule(
        DangerKind.NETWORK, "redirect traffic by the status of {}pods", _CORE, ("pods/status",), ("update", "patch"),
        "A service sends its traffic to the addresses in the status of the pods with its labels",
    ),
    DangerousRule(
        DangerKind.NETWORK, "claim hostnames of the cluster by {}DNS records", ("ingress.operator.openshift.io",),
        ("dnsrecords",), _SET, "OpenShift writes the records into the DNS zones of the cluster",
    ),
    DangerousRule(
        DangerKind.NETWORK, "redirect the traffic of {}namespaces by external routes", ("k8s.ovn.org",),
        ("adminpolicybasedexternalroutes",), _SET, "Traffic of the selected namespaces leaves by any gateway",
    ),
    DangerousRule(
        DangerKind.NETWORK, "attach pods to networks of nodes by {}definitions", ("k8s.cni.cncf.io",),
        ("network-attachment-definitions",), _SET,
        "A definition configures network plug-ins, which root runs on nodes",
    ),
    DangerousRule(
        DangerKind.NETWORK, "claim any hostname by {}routes", ("route.openshift.io",), ("routes/custom-host",), _SET,
        "A route receives the traffic to its hostname",
    ),
    DangerousRule(
        DangerKind.WORKLOADS, "run pods", _CORE, ("pods", "replicationcontrollers", "podtemplates"), _SET,
        "A pod can use each service account, secret and volume of its namespace",
    ),
    DangerousRule(
        DangerKind.WORKLOADS, "run pods", ("apps", "apps.openshift.io", "extensions"),
        ("deployments", "daemonsets", "statefulsets", "replicasets", "deploymentconfigs",
         "controllerrevisions"), _SET,
        "Controllers create pods, also from earlier revisions",
    ),
    DangerousRule(
        DangerKind.WORKLOADS, "run pods", ("batch", "extensions"), ("jobs", "cronjobs"), _SET,
        "Controllers create pods",
    ),
    DangerousRule(
        DangerKind.WORKLOADS, "run pods", _MONITORING,
        ("prometheuses", "prometheusagents", "alertmanagers", "thanosrulers"), _SET,
        "The Prometheus operator creates pods with any container and service account",
    ),
    DangerousRule(
        DangerKind.WORKLOADS, "run builds", ("build.openshift.io",),
        ("buildconfigs", "buildconfigs/instantiate", "buildconfigs/instantiatebinary", "builds", "builds/clone",
         "builds/docker", "builds/source", "builds/custom", "builds/jenkinspipeline"), _SET,
        "A build runs commands in a pod with the service account `builder`, which can push images",
    ),
    DangerousRule(
        DangerKind.WORKLOADS, "create objects by {}templates", ("template.openshift.io",),
        ("templates", "templateinstances", "processedtemplates", "brokertemplateinstances"), _SET,
        "A template contains pods and other objects, which are created for whoever uses it",
    ),
    DangerousRule(
        DangerKind.WORKLOADS, "replace {}images of workloads", _IMAGES,
        ("imagestreams", "imagestreams/status", "imagestreams/layers", "imagestreamtags", "imagetags",
         "imagestreamimports", "imagestreammappings", "images"), _SET,
        "Builds and deployments of others take the images of an image stream",
    ),
    DangerousRule(
        DangerKind.WORKLOADS, "scale {}workloads", ("", "apps", "apps.openshift.io", "extensions"),
        ("deployments/scale", "statefulsets/scale", "replicasets/scale", "replicationcontrollers/scale",
         "deploymentconfigs/scale"), _SET,
        "Workloads of others can be stopped, or use up the resources of the cluster",
    ),
)  # fmt: skip
