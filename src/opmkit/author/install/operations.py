"""Install, check and remove releases of OLM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from opmkit.author.install.install import install_release, uninstall_release
from opmkit.author.install.release import LATEST, tag_of
from opmkit.author.install.status import find_installed_version, inspect
from opmkit.author.run.errors import OlmError, OlmNotInstalled
from opmkit.author.run.operations import DEFAULT_TIMEOUT
from opmkit.author.run.session import WaitDeadline

if TYPE_CHECKING:
    from opmkit.author.install.release import Release, ReleaseReader
    from opmkit.author.install.status import ObjectStatus
    from opmkit.core.progress import OperationReporter
    from opmkit.kube import Cluster
    from opmkit.kube.access import ClusterAccess


@dataclass(frozen=True, slots=True)
class OlmOptions:
    """Options of operations on OLM itself.

    Attributes:
        version: Release, such as ``0.46.0``; by default the latest one to install, or the installed one.
        source: Directory, file, image or URL with ``crds.yaml`` and ``olm.yaml`` of the release, or ``-`` for standard
            input; by default, the release is downloaded from GitHub.
        namespace: Namespace that OLM is installed in.
        timeout: Seconds until the operation fails.
    """

    version: str = ""
    source: str = ""
    namespace: str = "olm"
    timeout: float = DEFAULT_TIMEOUT


@dataclass(frozen=True, slots=True)
class OlmState:
    """A release of OLM in a cluster.

    Attributes:
        version: The release.
        namespace: The namespace that it is installed in.
        objects: The state of its objects.
    """

    version: str
    namespace: str
    objects: tuple[ObjectStatus, ...]

    @property
    def broken(self) -> tuple[ObjectStatus, ...]:
        """The objects that are missing or not ready."""
        return tuple(each for each in self.objects if not each.ready)

    def to_dict(self) -> dict[str, Any]:
        """Return the state in JSON types."""
        objects = [
            {
                "name": each.name,
                "namespace": each.namespace,
                "kind": each.kind,
                "apiVersion": each.api_version,
                "status": each.status,
                "ready": each.ready,
            }
            for each in self.objects
        ]
        return {"version": self.version, "namespace": self.namespace, "objects": objects}


def install_olm(
    access: ClusterAccess, reader: ReleaseReader, options: OlmOptions, reporter: OperationReporter
) -> OlmState:
    """Install a release, see `install_release`."""
    deadline, cluster = WaitDeadline(options.timeout), access.connect()
    with reporter.step("Reading the release of OLM"):
        release = _read(reader, options.source, options.version or LATEST)
    return _state(release, install_release(cluster, release, deadline, reporter))


def olm_state(
    access: ClusterAccess, reader: ReleaseReader, options: OlmOptions, reporter: OperationReporter
) -> OlmState:
    """Return the state of the installed release, see `inspect`; raises OlmNotInstalled if no object exists."""
    cluster = access.connect()
    with reporter.step(f"Waiting for {cluster.host}"):
        release = _installed_release(cluster, reader, options)
        objects = inspect(cluster, release)
    if not any(each.exists for each in objects):
        raise OlmNotInstalled(f"OLM is not installed in the cluster {cluster.host}: none of its objects exists")
    return _state(release, objects)


def uninstall_olm(
    access: ClusterAccess, reader: ReleaseReader, options: OlmOptions, reporter: OperationReporter
) -> OlmState:
    """Remove the installed release, see `uninstall_release`."""
    deadline, cluster = WaitDeadline(options.timeout), access.connect()
    with reporter.step(f"Waiting for {cluster.host}"):
        release = _installed_release(cluster, reader, options)
    return _state(release, uninstall_release(cluster, release, deadline, reporter))


def _state(release: Release, objects: list[ObjectStatus]) -> OlmState:
    return OlmState(release.version, release.namespace, tuple(objects))


def _read(reader: ReleaseReader, source: str, version: str) -> Release:
    """Read a release from its source, or download it."""
    return reader.read(source) if source else reader.download(version)


def _installed_release(cluster: Cluster, reader: ReleaseReader, options: OlmOptions) -> Release:
    """Return the installed release, or the given one if it cannot be detected; raises OlmError if they differ."""
    version = options.version
    try:
        installed = find_installed_version(cluster, options.namespace)
    except OlmNotInstalled:
        if not version and not options.source:
            raise
        installed = ""
    if version and installed and tag_of(version) != tag_of(installed):
        raise OlmError(f"OLM {installed} is installed, not {version}")
    release = _read(reader, options.source, version or installed)
    if installed and release.version and tag_of(release.version) != tag_of(installed):
        raise OlmError(f"OLM {installed} is installed, but {release.source} contains {release.version}")
    return release
