"""Errors of installing, upgrading and removing operators with OLM."""

from __future__ import annotations

from opmkit.core.errors import OpmkitError


class OlmError(OpmkitError):
    """Base class of errors about OLM and the operators that it manages."""


class OlmNotInstalled(OlmError):
    """The cluster does not have OLM's APIs."""


class InvalidInstallMode(OlmError):
    """An install mode is malformed, or the operator or an existing OperatorGroup does not support it."""


class InstallationConflict(OlmError):
    """An object in the cluster prevents the installation, such as one of an earlier attempt."""


class NotInstalled(OlmError):
    """The package is not installed in the namespace."""


class InstallationFailed(OlmError):
    """OLM did not install the operator; the details are the reasons that the cluster gives."""


class CleanupFailed(OlmError):
    """Objects of an operator still exist after its removal."""


class InvalidRelease(OlmError):
    """Files are not a release of OLM."""


class ReleaseUnavailable(OlmError):
    """A release of OLM cannot be read or downloaded."""


class AlreadyInstalled(OlmError):
    """OLM, or a part of it, exists in the cluster."""


class ReleaseFailed(OlmError):
    """OLM could not be installed or removed completely; the details list causes and objects."""
