"""The fields of a ClusterServiceVersion and of all within it, by type: what Kubernetes tools read it into.

An entry is ``FIELDS: TYPE`` for the fields of one type, repeated. A type is one of
:mod:`opmkit.bundle.api_types.scalars`, the name of another entry, a list ``[]TYPE``, a map ``{}TYPE`` from texts, or
``*TYPE``, of which an empty one is not the same as none. Facts as of operator-framework/api v0.45 and Kubernetes 1.36;
what these have added over time is what older readers do not know and leave aside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT: Final = "ClusterServiceVersion"

STRUCTS: Final[Mapping[str, str]] = {
    "ClusterServiceVersion": """
        kind apiVersion: string
        metadata: ObjectMeta
        spec: ClusterServiceVersionSpec
        status: ClusterServiceVersionStatus
    """,
    "ObjectMeta": """
        name generateName namespace selfLink uid resourceVersion: string
        generation: int64
        creationTimestamp: time
        deletionTimestamp: *time
        deletionGracePeriodSeconds: *int64
        labels annotations: {}string
        ownerReferences: []OwnerReference
        finalizers: []string
        managedFields: []ManagedFieldsEntry
    """,
    "ClusterServiceVersionSpec": """
        install: NamedInstallStrategy
        version: version
        release: release
        maturity minKubeVersion displayName description replaces: string
        customresourcedefinitions: CustomResourceDefinitions
        apiservicedefinitions: APIServiceDefinitions
        webhookdefinitions: []WebhookDescription
        nativeAPIs: []GroupVersionKind
        keywords skips: []string
        maintainers: []Maintainer
        provider: AppLink
        links: []AppLink
        icon: []Icon
        installModes: []InstallMode
        labels annotations: {}string
        selector: *LabelSelector
        cleanup: CleanupSpec
        relatedImages: []RelatedImage
    """,
    "ClusterServiceVersionStatus": """
        phase message reason: string
        lastUpdateTime lastTransitionTime certsLastUpdated certsRotateAt: *time
        conditions: []ClusterServiceVersionCondition
        requirementStatus: []RequirementStatus
        cleanup: CleanupStatus
    """,
    "OwnerReference": "apiVersion kind name uid: string; controller blockOwnerDeletion: *bool",
    "ManagedFieldsEntry": "manager operation apiVersion fieldsType subresource: string; time: *time; fieldsV1: *any",
    "NamedInstallStrategy": "strategy: string; spec: StrategyDetailsDeployment",
    "CustomResourceDefinitions": "owned required: []CRDDescription",
    "APIServiceDefinitions": "owned required: []APIServiceDescription",
    "WebhookDescription": """
        generateName type deploymentName: string
        containerPort: int32
        targetPort: *intOrString
        rules: []RuleWithOperations
        failurePolicy matchPolicy sideEffects reinvocationPolicy webhookPath: *string
        objectSelector: *LabelSelector
        timeoutSeconds: *int32
        admissionReviewVersions conversionCRDs: []string
    """,
    "GroupVersionKind": "group version kind: string",
    "Maintainer": "name email: string",
    "AppLink": "name url: string",
    "Icon": "base64data mediatype: string",
    "InstallMode": "type: string; supported: bool",
    "LabelSelector": "matchLabels: {}string; matchExpressions: []LabelSelectorRequirement",
    "CleanupSpec": "enabled: bool",
    "RelatedImage": "name image: string",
    "ClusterServiceVersionCondition": "phase message reason: string; lastUpdateTime lastTransitionTime: *time",
    "RequirementStatus": "group version kind name status message uuid: string; dependents: []DependentStatus",
    "CleanupStatus": "pendingDeletion: []ResourceList",
    "StrategyDetailsDeployment": """
        deployments: []StrategyDeploymentSpec
        permissions clusterPermissions: []StrategyDeploymentPermissions
    """,
    "CRDDescription": """
        name version kind displayName description: string
        resources: []APIResourceReference
        statusDescriptors: []StatusDescriptor
        specDescriptors: []SpecDescriptor
        actionDescriptors: []ActionDescriptor
    """,
    "APIServiceDescription": """
        name group version kind deploymentName displayName description: string
        containerPort: int32
        resources: []APIResourceReference
        statusDescriptors: []StatusDescriptor
        specDescriptors: []SpecDescriptor
        actionDescriptors: []ActionDescriptor
    """,
    "RuleWithOperations": "operations apiGroups apiVersions resources: []string; scope: *string",
    "LabelSelectorRequirement": "key operator: string; values: []string",
    "DependentStatus": "group version kind status uuid message: string",
    "ResourceList": "group kind: string; instances: []ResourceInstance",
    "StrategyDeploymentSpec": "name: string; spec: DeploymentSpec; label: {}string",
    "StrategyDeploymentPermissions": "serviceAccountName: string; rules: []PolicyRule",
    "APIResourceReference": "name kind version: string",
    "StatusDescriptor": "path displayName description: string; x-descriptors: []string; value: any",
    "SpecDescriptor": "path displayName description: string; x-descriptors: []string; value: any",
    "ActionDescriptor": "path displayName description: string; x-descriptors: []string; value: any",
    "ResourceInstance": "name namespace: string",
    "DeploymentSpec": """
        replicas revisionHistoryLimit progressDeadlineSeconds: *int32
        selector: *LabelSelector
        template: PodTemplateSpec
        strategy: DeploymentStrategy
        minReadySeconds: int32
        paused: bool
    """,
    "PolicyRule": "verbs apiGroups resources resourceNames nonResourceURLs: []string",
    "PodTemplateSpec": "metadata: ObjectMeta; spec: PodSpec",
    "DeploymentStrategy": "type: string; rollingUpdate: *RollingUpdateDeployment",
    "PodSpec": """
        volumes: []Volume
        initContainers containers: []Container
        ephemeralContainers: []EphemeralContainer
        restartPolicy dnsPolicy serviceAccountName serviceAccount nodeName hostname subdomain schedulerName
          priorityClassName: string
        terminationGracePeriodSeconds activeDeadlineSeconds: *int64
        nodeSelector: {}string
        automountServiceAccountToken shareProcessNamespace enableServiceLinks setHostnameAsFQDN hostUsers: *bool
        hostNetwork hostPID hostIPC: bool
        securityContext: *PodSecurityContext
        imagePullSecrets: []LocalObjectReference
        affinity: *Affinity
        tolerations: []Toleration
        hostAliases: []HostAlias
        priority: *int32
        dnsConfig: *PodDNSConfig
        readinessGates: []PodReadinessGate
        runtimeClassName preemptionPolicy hostnameOverride: *string
        overhead: {}quantity
        topologySpreadConstraints: []TopologySpreadConstraint
        os: *PodOS
        schedulingGates: []PodSchedulingGate
        resourceClaims: []PodResourceClaim
        resources: *ResourceRequirements
        schedulingGroup: *PodSchedulingGroup
    """,
    "RollingUpdateDeployment": "maxUnavailable maxSurge: *intOrString",
    "Volume": """
        name: string
        hostPath: *HostPathVolumeSource
        emptyDir: *EmptyDirVolumeSource
        gcePersistentDisk: *GCEPersistentDiskVolumeSource
        awsElasticBlockStore: *AWSElasticBlockStoreVolumeSource
        gitRepo: *GitRepoVolumeSource
        secret: *SecretVolumeSource
        nfs: *NFSVolumeSource
        iscsi: *ISCSIVolumeSource
        glusterfs: *GlusterfsVolumeSource
        persistentVolumeClaim: *PersistentVolumeClaimVolumeSource
        rbd: *RBDVolumeSource
        flexVolume: *FlexVolumeSource
        cinder: *CinderVolumeSource
        cephfs: *CephFSVolumeSource
        flocker: *FlockerVolumeSource
        downwardAPI: *DownwardAPIVolumeSource
        fc: *FCVolumeSource
        azureFile: *AzureFileVolumeSource
        configMap: *ConfigMapVolumeSource
        vsphereVolume: *VsphereVirtualDiskVolumeSource
        quobyte: *QuobyteVolumeSource
        azureDisk: *AzureDiskVolumeSource
        photonPersistentDisk: *PhotonPersistentDiskVolumeSource
        projected: *ProjectedVolumeSource
        portworxVolume: *PortworxVolumeSource
        scaleIO: *ScaleIOVolumeSource
        storageos: *StorageOSVolumeSource
        csi: *CSIVolumeSource
        ephemeral: *EphemeralVolumeSource
        image: *ImageVolumeSource
    """,
    "Container": """
        name image workingDir terminationMessagePath terminationMessagePolicy imagePullPolicy: string
        command args: []string
        ports: []ContainerPort
        envFrom: []EnvFromSource
        env: []EnvVar
        resources: ResourceRequirements
        resizePolicy: []ContainerResizePolicy
        restartPolicy: *string
        restartPolicyRules: []ContainerRestartRule
        volumeMounts: []VolumeMount
        volumeDevices: []VolumeDevice
        livenessProbe readinessProbe startupProbe: *Probe
        lifecycle: *Lifecycle
        securityContext: *SecurityContext
        stdin stdinOnce tty: bool
    """,
    "EphemeralContainer": """
        name image workingDir terminationMessagePath terminationMessagePolicy imagePullPolicy targetContainerName:
          string
        command args: []string
        ports: []ContainerPort
        envFrom: []EnvFromSource
        env: []EnvVar
        resources: ResourceRequirements
        resizePolicy: []ContainerResizePolicy
        restartPolicy: *string
        restartPolicyRules: []ContainerRestartRule
        volumeMounts: []VolumeMount
        volumeDevices: []VolumeDevice
        livenessProbe readinessProbe startupProbe: *Probe
        lifecycle: *Lifecycle
        securityContext: *SecurityContext
        stdin stdinOnce tty: bool
    """,
    "PodSecurityContext": """
        seLinuxOptions: *SELinuxOptions
        windowsOptions: *WindowsSecurityContextOptions
        runAsUser runAsGroup fsGroup: *int64
        runAsNonRoot: *bool
        supplementalGroups: []int64
        supplementalGroupsPolicy fsGroupChangePolicy seLinuxChangePolicy: *string
        sysctls: []Sysctl
        seccompProfile: *SeccompProfile
        appArmorProfile: *AppArmorProfile
    """,
    "LocalObjectReference": "name: string",
    "Affinity": "nodeAffinity: *NodeAffinity; podAffinity: *PodAffinity; podAntiAffinity: *PodAntiAffinity",
    "Toleration": "key operator value effect: string; tolerationSeconds: *int64",
    "HostAlias": "ip: string; hostnames: []string",
    "PodDNSConfig": "nameservers searches: []string; options: []PodDNSConfigOption",
    "PodReadinessGate": "conditionType: string",
    "TopologySpreadConstraint": """
        maxSkew: int32
        topologyKey whenUnsatisfiable: string
        labelSelector: *LabelSelector
        minDomains: *int32
        nodeAffinityPolicy nodeTaintsPolicy: *string
        matchLabelKeys: []string
    """,
    "PodOS": "name: string",
    "PodSchedulingGate": "name: string",
    "PodResourceClaim": "name: string; resourceClaimName resourceClaimTemplateName: *string",
    "ResourceRequirements": "limits requests: {}quantity; claims: []ResourceClaim",
    "PodSchedulingGroup": "podGroupName: *string",
    "HostPathVolumeSource": "path: string; type: *string",
    "EmptyDirVolumeSource": "medium: string; sizeLimit: *quantity",
    "GCEPersistentDiskVolumeSource": "pdName fsType: string; partition: int32; readOnly: bool",
    "AWSElasticBlockStoreVolumeSource": "volumeID fsType: string; partition: int32; readOnly: bool",
    "GitRepoVolumeSource": "repository revision directory: string",
    "SecretVolumeSource": "secretName: string; items: []KeyToPath; defaultMode: *int32; optional: *bool",
    "NFSVolumeSource": "server path: string; readOnly: bool",
    "ISCSIVolumeSource": """
        targetPortal iqn iscsiInterface fsType: string
        lun: int32
        readOnly chapAuthDiscovery chapAuthSession: bool
        portals: []string
        secretRef: *LocalObjectReference
        initiatorName: *string
    """,
    "GlusterfsVolumeSource": "endpoints path: string; readOnly: bool",
    "PersistentVolumeClaimVolumeSource": "claimName: string; readOnly: bool",
    "RBDVolumeSource": """
        monitors: []string
        image fsType pool user keyring: string
        secretRef: *LocalObjectReference
        readOnly: bool
    """,
    "FlexVolumeSource": "driver fsType: string; secretRef: *LocalObjectReference; readOnly: bool; options: {}string",
    "CinderVolumeSource": "volumeID fsType: string; readOnly: bool; secretRef: *LocalObjectReference",
    "CephFSVolumeSource": """
        monitors: []string
        path user secretFile: string
        secretRef: *LocalObjectReference
        readOnly: bool
    """,
    "FlockerVolumeSource": "datasetName datasetUUID: string",
    "DownwardAPIVolumeSource": "items: []DownwardAPIVolumeFile; defaultMode: *int32",
    "FCVolumeSource": "targetWWNs wwids: []string; lun: *int32; fsType: string; readOnly: bool",
    "AzureFileVolumeSource": "secretName shareName: string; readOnly: bool",
    "ConfigMapVolumeSource": "name: string; items: []KeyToPath; defaultMode: *int32; optional: *bool",
    "VsphereVirtualDiskVolumeSource": "volumePath fsType storagePolicyName storagePolicyID: string",
    "QuobyteVolumeSource": "registry volume user group tenant: string; readOnly: bool",
    "AzureDiskVolumeSource": "diskName diskURI: string; cachingMode fsType kind: *string; readOnly: *bool",
    "PhotonPersistentDiskVolumeSource": "pdID fsType: string",
    "ProjectedVolumeSource": "sources: []VolumeProjection; defaultMode: *int32",
    "PortworxVolumeSource": "volumeID fsType: string; readOnly: bool",
    "ScaleIOVolumeSource": """
        gateway system protectionDomain storagePool storageMode volumeName fsType: string
        secretRef: *LocalObjectReference
        sslEnabled readOnly: bool
    """,
    "StorageOSVolumeSource": """
        volumeName volumeNamespace fsType: string
        readOnly: bool
        secretRef: *LocalObjectReference
    """,
    "CSIVolumeSource": """
        driver: string
        readOnly: *bool
        fsType: *string
        volumeAttributes: {}string
        nodePublishSecretRef: *LocalObjectReference
    """,
    "EphemeralVolumeSource": "volumeClaimTemplate: *PersistentVolumeClaimTemplate",
    "ImageVolumeSource": "reference pullPolicy: string",
    "ContainerPort": "name protocol hostIP: string; hostPort containerPort: int32",
    "EnvFromSource": "prefix: string; configMapRef: *ConfigMapEnvSource; secretRef: *SecretEnvSource",
    "EnvVar": "name value: string; valueFrom: *EnvVarSource",
    "ContainerResizePolicy": "resourceName restartPolicy: string",
    "ContainerRestartRule": "action: string; exitCodes: *ContainerRestartRuleOnExitCodes",
    "VolumeMount": """
        name mountPath subPath subPathExpr: string
        readOnly: bool
        recursiveReadOnly mountPropagation: *string
    """,
    "VolumeDevice": "name devicePath: string",
    "Probe": """
        exec: *ExecAction
        httpGet: *HTTPGetAction
        tcpSocket: *TCPSocketAction
        grpc: *GRPCAction
        initialDelaySeconds timeoutSeconds periodSeconds successThreshold failureThreshold: int32
        terminationGracePeriodSeconds: *int64
    """,
    "Lifecycle": "postStart preStop: *LifecycleHandler; stopSignal: *string",
    "SecurityContext": """
        capabilities: *Capabilities
        privileged runAsNonRoot readOnlyRootFilesystem allowPrivilegeEscalation: *bool
        seLinuxOptions: *SELinuxOptions
        windowsOptions: *WindowsSecurityContextOptions
        runAsUser runAsGroup: *int64
        procMount: *string
        seccompProfile: *SeccompProfile
        appArmorProfile: *AppArmorProfile
    """,
    "SELinuxOptions": "user role type level: string",
    "WindowsSecurityContextOptions": """
        gmsaCredentialSpecName gmsaCredentialSpec runAsUserName: *string
        hostProcess: *bool
    """,
    "Sysctl": "name value: string",
    "SeccompProfile": "type: string; localhostProfile: *string",
    "AppArmorProfile": "type: string; localhostProfile: *string",
    "NodeAffinity": """
        requiredDuringSchedulingIgnoredDuringExecution: *NodeSelector
        preferredDuringSchedulingIgnoredDuringExecution: []PreferredSchedulingTerm
    """,
    "PodAffinity": """
        requiredDuringSchedulingIgnoredDuringExecution: []PodAffinityTerm
        preferredDuringSchedulingIgnoredDuringExecution: []WeightedPodAffinityTerm
    """,
    "PodAntiAffinity": """
        requiredDuringSchedulingIgnoredDuringExecution: []PodAffinityTerm
        preferredDuringSchedulingIgnoredDuringExecution: []WeightedPodAffinityTerm
    """,
    "PodDNSConfigOption": "name: string; value: *string",
    "ResourceClaim": "name request: string",
    "KeyToPath": "key path: string; mode: *int32",
    "DownwardAPIVolumeFile": """
        path: string
        fieldRef: *ObjectFieldSelector
        resourceFieldRef: *ResourceFieldSelector
        mode: *int32
    """,
    "VolumeProjection": """
        secret: *SecretProjection
        downwardAPI: *DownwardAPIProjection
        configMap: *ConfigMapProjection
        serviceAccountToken: *ServiceAccountTokenProjection
        clusterTrustBundle: *ClusterTrustBundleProjection
        podCertificate: *PodCertificateProjection
    """,
    "PersistentVolumeClaimTemplate": "metadata: ObjectMeta; spec: PersistentVolumeClaimSpec",
    "ConfigMapEnvSource": "name: string; optional: *bool",
    "SecretEnvSource": "name: string; optional: *bool",
    "EnvVarSource": """
        fieldRef: *ObjectFieldSelector
        resourceFieldRef: *ResourceFieldSelector
        configMapKeyRef: *ConfigMapKeySelector
        secretKeyRef: *SecretKeySelector
        fileKeyRef: *FileKeySelector
    """,
    "ContainerRestartRuleOnExitCodes": "operator: string; values: []int32",
    "ExecAction": "command: []string",
    "HTTPGetAction": "path host scheme: string; port: intOrString; httpHeaders: []HTTPHeader",
    "TCPSocketAction": "port: intOrString; host: string",
    "GRPCAction": "port: int32; service: *string",
    "LifecycleHandler": "exec: *ExecAction; httpGet: *HTTPGetAction; tcpSocket: *TCPSocketAction; sleep: *SleepAction",
    "Capabilities": "add drop: []string",
    "NodeSelector": "nodeSelectorTerms: []NodeSelectorTerm",
    "PreferredSchedulingTerm": "weight: int32; preference: NodeSelectorTerm",
    "PodAffinityTerm": """
        labelSelector namespaceSelector: *LabelSelector
        namespaces matchLabelKeys mismatchLabelKeys: []string
        topologyKey: string
    """,
    "WeightedPodAffinityTerm": "weight: int32; podAffinityTerm: PodAffinityTerm",
    "ObjectFieldSelector": "apiVersion fieldPath: string",
    "ResourceFieldSelector": "containerName resource: string; divisor: quantity",
    "SecretProjection": "name: string; items: []KeyToPath; optional: *bool",
    "DownwardAPIProjection": "items: []DownwardAPIVolumeFile",
    "ConfigMapProjection": "name: string; items: []KeyToPath; optional: *bool",
    "ServiceAccountTokenProjection": "audience path: string; expirationSeconds: *int64",
    "ClusterTrustBundleProjection": """
        name signerName: *string
        labelSelector: *LabelSelector
        optional: *bool
        path: string
    """,
    "PodCertificateProjection": """
        signerName keyType credentialBundlePath keyPath certificateChainPath: string
        maxExpirationSeconds: *int32
        userAnnotations: {}string
    """,
    "PersistentVolumeClaimSpec": """
        accessModes: []string
        selector: *LabelSelector
        resources: VolumeResourceRequirements
        volumeName: string
        storageClassName volumeMode volumeAttributesClassName: *string
        dataSource: *TypedLocalObjectReference
        dataSourceRef: *TypedObjectReference
    """,
    "ConfigMapKeySelector": "name key: string; optional: *bool",
    "SecretKeySelector": "name key: string; optional: *bool",
    "FileKeySelector": "volumeName path key: string; optional: *bool",
    "HTTPHeader": "name value: string",
    "SleepAction": "seconds: int64",
    "NodeSelectorTerm": "matchExpressions matchFields: []NodeSelectorRequirement",
    "VolumeResourceRequirements": "limits requests: {}quantity",
    "TypedLocalObjectReference": "apiGroup: *string; kind name: string",
    "TypedObjectReference": "apiGroup namespace: *string; kind name: string",
    "NodeSelectorRequirement": "key operator: string; values: []string",
}
