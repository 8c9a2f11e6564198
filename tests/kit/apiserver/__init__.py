"""Kubernetes API server in memory, for all resources: objects, watches, discovery, authorization and faults.

Responses follow the API conventions and the OpenAPI documents of Kubernetes: an object with ``resourceVersion`` and
``uid``, or a ``Status`` with the error. Those about ConfigMaps were compared with kube-apiserver 1.31.
"""

from tests.kit.apiserver.errors import ApiError
from tests.kit.apiserver.requests import Request
from tests.kit.apiserver.server import ApiServer

__all__ = ["ApiError", "ApiServer", "Request"]
