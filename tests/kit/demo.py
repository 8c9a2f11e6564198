"""One sound bundle, and the ways to spoil it, for tests of single rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kit.validation import view
from opmkit.bundle.validation.rule import Dialect

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opmkit.bundle.validation.bundle import BundleView
    from opmkit.bundle.validation.finding import Finding

CSV = "manifests/demo.clusterserviceversion.yaml"
CRD = "manifests/demos.demo.example.com.crd.yaml"
ANNOTATIONS = "metadata/annotations.yaml"

FILES = {
    CSV: """\
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: demo.v1.2.3
  annotations:
    alm-examples: '[{"apiVersion": "demo.example.com/v1", "kind": "Demo", "metadata": {"name": "example"}}]'
    capabilities: Basic Install
    olm.skipRange: '>=1.0.0 <1.2.3'
spec:
  displayName: Demo
  version: 1.2.3
  minKubeVersion: 1.27.0
  replaces: demo.v1.2.2
  skips:
  - demo.v1.2.1
  icon:
  - mediatype: image/svg+xml
    base64data: PHN2ZyB4bWxucz0iaHR0cDovL3d3dy53My5vcmcvMjAwMC9zdmciLz4=
  installModes:
  - type: AllNamespaces
    supported: true
  - type: OwnNamespace
    supported: false
  relatedImages:
  - name: manager
    image: quay.io/example/demo@sha256:0123456789012345678901234567890123456789012345678901234567890123
  customresourcedefinitions:
    owned:
    - name: demos.demo.example.com
      version: v1
      kind: Demo
      specDescriptors:
      - path: size
        displayName: Size
      - path: users[0].name
        displayName: First user
      statusDescriptors:
      - path: conditions
        displayName: Conditions
  apiservicedefinitions:
    owned: []
  webhookdefinitions:
  - generateName: convert.demo.example.com
    type: ConversionWebhook
    deploymentName: demo-manager
    containerPort: 443
    admissionReviewVersions: [v1]
    sideEffects: None
    conversionCRDs: [demos.demo.example.com]
  install:
    strategy: deployment
    spec:
      clusterPermissions:
      - serviceAccountName: demo-account
        rules:
        - apiGroups: [demo.example.com]
          resources: [demos]
          verbs: [get]
      deployments:
      - name: demo-manager
        spec:
          replicas: 1
          selector:
            matchLabels:
              app: demo
          template:
            metadata:
              labels:
                app: demo
            spec:
              serviceAccountName: demo-account
              containers:
              - name: manager
                image: quay.io/example/demo@sha256:0123456789012345678901234567890123456789012345678901234567890123
""",
    CRD: """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: demos.demo.example.com
spec:
  group: demo.example.com
  scope: Namespaced
  names: {plural: demos, kind: Demo}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: integer}
              users:
                type: array
                items: {type: object, properties: {name: {type: string}}}
          status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
""",
    ANNOTATIONS: """\
annotations:
  operators.operatorframework.io.bundle.mediatype.v1: registry+v1
  operators.operatorframework.io.bundle.manifests.v1: manifests/
  operators.operatorframework.io.bundle.metadata.v1: metadata/
  operators.operatorframework.io.bundle.package.v1: demo
  operators.operatorframework.io.bundle.channels.v1: stable
  operators.operatorframework.io.bundle.channel.default.v1: stable
""",
}


def demo(
    *changes: tuple[str, str], dialect: Dialect = Dialect.OPMKIT, more: Mapping[str, str | bytes] | None = None
) -> BundleView:
    """The bundle, with texts replaced (each must be in just one file) and more files."""
    files = dict(FILES)
    for old, new in changes:
        (path,) = (path for path, text in files.items() if old in text)
        files[path] = files[path].replace(old, new)
    return view({**files, **(more or {})}, dialect)


def line_of(bundle: BundleView, finding: Finding) -> str:
    """The line of a file that a finding points at, without the blanks around it; "" if it points at none."""
    if not finding.line:
        return ""
    return bundle.files[finding.file].decode(errors="replace").splitlines()[finding.line - 1].strip()
