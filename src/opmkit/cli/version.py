"""Version of opmkit, and of the operator-registry release that it is compatible with."""

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
"""Release of operator-registry whose commands, flags and results opmkit implements."""
COMPAT_VARIABLE = "OPM_COMPAT_VERSION"
COMPAT_DEFAULT_VARIABLE = "OPM_COMPAT"
"""Default of the release of operator-registry whose results commands match."""


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
        "GoArch": Platform.from_host().architecture,
        "OpmkitVersion": f"v{__version__}",
    }
    return "Version: version.Version{" + ", ".join(f'{name}:"{value}"' for name, value in fields.items()) + "}"


def compat_version() -> str:
    """Return the release of operator-registry to report.

    OPM_COMPAT_VERSION sets it, otherwise OPM_COMPAT, which sets the release whose results are matched.
    """
    from opmkit.index.fbc.compat import Compat

    release = os.environ.get(COMPAT_DEFAULT_VARIABLE)
    version = os.environ.get(COMPAT_VARIABLE) or (Compat.parse(release).version if release else GO_RELEASE)
    if not re.fullmatch(r"v\d+\.\d+\.\d+", version):
        raise OpmkitError(
            f'{COMPAT_VARIABLE}: invalid version "{version}"',
            hint=f"set it to a release of operator-registry, such as {GO_RELEASE}",
        )
    return version


def build_information() -> dict[str, str]:
    """Return the ``commit`` and the ``date`` recorded by the build; empty in a source tree."""
    try:
        information: dict[str, str] = json.loads((files("opmkit") / "build.json").read_text("utf-8"))
    except FileNotFoundError:
        return {}
    return information
