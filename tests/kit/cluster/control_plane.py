"""etcd, kube-apiserver and kube-controller-manager on free loopback ports."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import requests
import yaml

from tests.kit.certificates import certificate_authority, server_certificate
from tests.kit.cluster.client import KubeClient
from tests.kit.cluster.programs import Program, binary, etcd, free_port
from tests.kit.requirements import require

ADMIN_TOKEN = "admin-token"
LIMITED_TOKEN = "limited-token"
LIMITED_USER = "limited"
"""A user without permissions, except those that a test grants."""
LOGS = "OPMKIT_CLUSTER_LOGS"
"""Variable with a directory that receives a directory of logs when a cluster stops."""
_CONTROLLERS = (
    *("clusterrole-aggregation-controller", "deployment-controller", "garbage-collector-controller"),
    *("job-controller", "namespace-controller", "replicaset-controller", "serviceaccount-controller"),
)
_OWN_OBJECTS = (
    "/api/v1/namespaces/default/services/kubernetes",
    "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking",
    *(
        f"/api/v1/namespaces/{name}/serviceaccounts/default"
        for name in ("default", "kube-node-lease", "kube-public", "kube-system")
    ),
)
"""Objects that the API server and its controllers create later than they answer requests."""


class ControlPlane:
    """An empty cluster with role-based access control, as a context manager."""

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            temporary = tempfile.TemporaryDirectory(prefix="opmkit-cluster-", ignore_cleanup_errors=True)
            self.directory = Path(stack.enter_context(temporary))
            stack.callback(self._copy_logs)
            self._stack = stack
            self._start()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self, name: str, *arguments: str, env: dict[str, str] | None = None) -> Program:
        """Start a program that is stopped with the cluster, and before those that were started earlier."""
        program = Program(arguments, self.directory / f"{name}.log", env=env)
        self._stack.callback(program.stop)
        return program

    def write_kubeconfig(self, path: Path, *, token: str = ADMIN_TOKEN, namespace: str = "default") -> Path:
        """Write a kubeconfig for a token."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": self.url, "certificate-authority": str(self.ca_file)}}],
            "users": [{"name": "test", "user": {"token": token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": namespace}}],
            "current-context": "test",
        }
        path.write_text(yaml.safe_dump(content))
        return path

    def _copy_logs(self) -> None:
        if logs := os.environ.get(LOGS):
            target = Path(logs, self.directory.name)
            target.mkdir(parents=True, exist_ok=True)
            for log in self.directory.glob("*.log"):
                shutil.copy(log, target)

    def _start(self) -> None:
        binary("kube-apiserver")  # skips the test before anything is started
        authority = certificate_authority(self.directory)
        self.ca_file = authority.certificate
        self.certificate = server_certificate(self.directory, authority)
        self._service_account_key = self.directory / "service-account.key"
        generate = [require("openssl"), "genrsa", "-out", str(self._service_account_key), "2048"]
        subprocess.run(generate, check=True, capture_output=True)
        self._start_api_server(self._start_etcd())
        self.kubeconfig = self.write_kubeconfig(self.directory / "kubeconfig")
        self._start_controller_manager()

    def _start_etcd(self) -> str:
        url, peers = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
        program = self.run(
            "etcd",
            etcd(),
            *("--data-dir", str(self.directory / "etcd"), "--log-level", "warn"),
            *("--listen-client-urls", url, "--advertise-client-urls", url),
            *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
            *("--initial-cluster", f"default={peers}"),
        )
        program.wait_until(lambda: _answers(f"{url}/health"))
        return url

    def _start_api_server(self, etcd_url: str) -> None:
        port = free_port()
        self.url = f"https://127.0.0.1:{port}"
        tokens = self.directory / "tokens.csv"
        tokens.write_text(f"{ADMIN_TOKEN},admin,1,system:masters\n{LIMITED_TOKEN},{LIMITED_USER},2\n")
        program = self.run(
            "kube-apiserver",
            binary("kube-apiserver"),
            *("--etcd-servers", etcd_url, "--bind-address", "127.0.0.1", "--secure-port", str(port)),
            *("--tls-cert-file", str(self.certificate.certificate)),
            *("--tls-private-key-file", str(self.certificate.key)),
            *("--cert-dir", str(self.directory / "certificates")),
            *("--authorization-mode", "RBAC", "--token-auth-file", str(tokens)),
            *("--service-account-key-file", str(self._service_account_key)),
            *("--service-account-signing-key-file", str(self._service_account_key)),
            *("--service-account-issuer", "https://kubernetes.default.svc", "--api-audiences", "test"),
            *("--service-cluster-ip-range", "10.0.0.0/24", "--endpoint-reconciler-type", "none"),
            *("--kubelet-preferred-address-types", "InternalIP"),
        )
        self.client = KubeClient(self.url, ADMIN_TOKEN, self.ca_file)
        program.wait_until(lambda: _answers(f"{self.url}/readyz", self.ca_file))

    def _start_controller_manager(self) -> None:
        program = self.run(
            "kube-controller-manager",
            binary("kube-controller-manager"),
            *("--kubeconfig", str(self.kubeconfig), "--leader-elect=false", "--secure-port", "0"),
            *("--controllers", ",".join(_CONTROLLERS)),
            *("--service-account-private-key-file", str(self._service_account_key)),
            *("--concurrent-gc-syncs", "4", "--kube-api-qps", "200", "--kube-api-burst", "400"),
        )
        for path in _OWN_OBJECTS:
            program.wait_until(lambda path=path: self.client.find(path))  # type: ignore[misc]


def _answers(url: str, ca_file: Path | None = None) -> bool:
    try:
        return requests.get(url, timeout=10, verify=str(ca_file) if ca_file else True).ok
    except requests.RequestException:
        return False
