"""Version of opmkit, and of the operator-registry release that it is compatible with."""

from __future__ import annotations

import os
import re
import sys

from opmkit._version import __version__
from opmkit.core.errors import OpmkitError
from opmkit.imagetools.architecture import host_architecture

GO_RELEASE = "v1.73.0"
"""Release of operator-registry whose commands, flags and results opmkit implements."""
OPERATOR_SDK_RELEASE = "v1.42.3"
"""Release of operator-sdk whose commands, flags and results opmkit implements."""
OPERATOR_SDK_KUBERNETES = "v1.33.1"
"""Release of Kubernetes that this release of operator-sdk reports."""
OPERATOR_SDK_VARIABLE = "OPM_OPERATOR_SDK_VERSION"
"""Release of operator-sdk to report."""
COMPAT_VARIABLE = "OPM_COMPAT_VERSION"
COMPAT_DEFAULT_VARIABLE = "OPM_COMPAT"
"""Default of the release of operator-registry whose results commands match."""


def run(_arguments: list[str]) -> int:
    """Run ``opm version`` without flags and return its exit code."""
    from opmkit.cli.output.terminal import fit_line

    try:
        sys.stdout.write(fit_line(version_line(), sys.stdout) + "\n")
        sys.stdout.flush()
    except OpmkitError as error:
        from opmkit.cli.output.errors import exit_code, print_error

        print_error(error)
        return exit_code(error)
    return 0


def own_version_line() -> str:
    """Return the version of opmkit, with the commit if the build recorded it."""
    commit = build_information().get("commit")
    return f"opmkit {__version__}" + (f" (commit {commit})" if commit else "")


def version_line() -> str:
    """Return the line that ``opm version`` prints, in the form that callers of Go opm parse.

    Raises:
        OpmkitError: OPM_COMPAT_VERSION is invalid.
    """
    build = build_information()
    fields = {
        "OpmVersion": compat_version(),
        "GitCommit": build.get("commit", ""),
        "BuildDate": build.get("date", ""),
        "GoOs": sys.platform,
        "GoArch": host_architecture(),
        "OpmkitVersion": f"v{__version__}",
    }
    return "Version: version.Version{" + ", ".join(f'{name}:"{value}"' for name, value in fields.items()) + "}"


def operator_sdk_version_line() -> str:
    """Return the line that ``operator-sdk version`` prints, in the form that Makefiles parse.

    Raises:
        OpmkitError: OPM_OPERATOR_SDK_VERSION is invalid.
    """
    fields = {
        "operator-sdk version": _release_of_operator_sdk(),
        "commit": build_information().get("commit", "unknown"),
        "kubernetes version": OPERATOR_SDK_KUBERNETES,
        "go version": "none",
        "GOOS": sys.platform,
        "GOARCH": host_architecture(),
        "opmkit version": f"v{__version__}",
    }
    return ", ".join(f'{name}: "{value}"' for name, value in fields.items())


def _release_of_operator_sdk() -> str:
    version = os.environ.get(OPERATOR_SDK_VARIABLE) or OPERATOR_SDK_RELEASE
    try:
        return parse_release(version)
    except ValueError:
        raise OpmkitError(
            f'{OPERATOR_SDK_VARIABLE}: invalid version "{version}"',
            hint=f"set it to a release of operator-sdk, such as {OPERATOR_SDK_RELEASE}",
        ) from None


def parse_release(text: str) -> str:
    """Return a release as ``vX.Y.Z``; the v is optional. Raises ValueError."""
    if not re.fullmatch(r"v?\d+\.\d+\.\d+", text, re.ASCII):
        raise ValueError(text)
    return f"v{text.removeprefix('v')}"


def compat_version() -> str:
    """Return the release of operator-registry to report.

    OPM_COMPAT_VERSION sets it, otherwise OPM_COMPAT, which sets the release whose results are matched.
    """
    version = os.environ.get(COMPAT_VARIABLE) or _default_version(os.environ.get(COMPAT_DEFAULT_VARIABLE))
    if not re.fullmatch(r"v\d+\.\d+\.\d+", version):
        raise OpmkitError(
            f'{COMPAT_VARIABLE}: invalid version "{version}"',
            hint=f"set it to a release of operator-registry, such as {GO_RELEASE}",
        )
    return version


def build_information() -> dict[str, str]:
    """Return the ``commit`` and the ``date`` recorded by the build; empty in a source tree."""
    try:
        with open(os.path.dirname(__file__) + "/../build.json", "rb") as file:  # noqa: PTH120, PTH123 - pathlib is slow to import
            content = file.read()
    except FileNotFoundError:
        return {}
    import json

    information: dict[str, str] = json.loads(content)
    return information


def _default_version(release: str | None) -> str:
    """Return the release that OPM_COMPAT names, if it is set."""
    if not release:
        return GO_RELEASE
    from opmkit.index.fbc.compat import CatalogCompat

    return CatalogCompat.parse(release).version
