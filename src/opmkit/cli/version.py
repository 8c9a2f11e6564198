"""The versions of this program: its own, and that of the Go release whose behavior it has."""

from __future__ import annotations

import json
import os
import re
import sys
from importlib.resources import files

from opmkit._version import __version__
from opmkit.imagetools.errors import OpmkitError
from opmkit.imagetools.spec import Platform

GO_RELEASE = "v1.73.0"
"""The release of operator-registry that commands, flags and results follow."""
COMPAT_VARIABLE = "OPM_COMPAT_VERSION"


def version_line() -> str:
    """Return the line that ``opm version`` prints, in the form that callers of Go opm parse.

    Raises OpmkitError for an invalid OPM_COMPAT_VERSION.
    """
    build = build_information()
    fields = {
        "OpmVersion": compat_version(),
        "GitCommit": build.get("commit", ""),
        "BuildDate": build.get("date", ""),
        "GoOs": sys.platform,
        "GoArch": Platform.from_host().architecture,
        "OpmkitVersion": f"v{__version__}",
    }
    return "Version: version.Version{" + ", ".join(f'{name}:"{value}"' for name, value in fields.items()) + "}"


def compat_version() -> str:
    """Return the release of operator-registry to report: that of OPM_COMPAT_VERSION, else GO_RELEASE."""
    version = os.environ.get(COMPAT_VARIABLE) or GO_RELEASE
    if not re.fullmatch(r"v\d+\.\d+\.\d+", version):
        raise OpmkitError(
            f'{COMPAT_VARIABLE}: invalid version "{version}"',
            hint=f"set it to a release of operator-registry, such as {GO_RELEASE}",
        )
    return version


def build_information() -> dict[str, str]:
    """Return the ``commit`` and the ``date`` that the build recorded; nothing in a source tree."""
    try:
        found: dict[str, str] = json.loads((files("opmkit") / "build.json").read_text("utf-8"))
    except FileNotFoundError:
        return {}
    return found
