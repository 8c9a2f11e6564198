"""Objects for tests, from YAML text."""

from __future__ import annotations

import io
import textwrap

from opmkit.author.generate.input import InputObject, read_stream
from opmkit.author.generate.manifests import Manifests

DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: boat-operator
  namespace: boats
  labels: {app: boat}
spec:
  selector: {matchLabels: {app: boat}}
  template:
    metadata: {labels: {app: boat}}
    spec:
      serviceAccountName: captain
      containers:
      - name: manager
        image: quay.example.com/boats/operator:1
"""
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: boats.example.com}
spec:
  group: example.com
  names: {kind: Boat, plural: boats}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
  - {name: v0, served: false, storage: false, schema: {openAPIV3Schema: {type: object}}}
"""
BASE = """
apiVersion: operators.coreos.com/v1alpha1
kind: ClusterServiceVersion
metadata:
  name: boat.v0.0.0
  annotations: {capabilities: Full Lifecycle}
spec:
  displayName: Boat
  installModes: [{type: AllNamespaces, supported: true}]
  replaces: boat.v0.9.0
"""


def read(*documents: str) -> list[InputObject]:
    """Return the objects in YAML documents."""
    text = "\n---\n".join(textwrap.dedent(document).strip() for document in documents)
    return list(read_stream(io.BytesIO(text.encode())))


def collect(*documents: str) -> Manifests:
    """Return the objects in YAML documents by kind."""
    return Manifests.collect(read(*documents))
