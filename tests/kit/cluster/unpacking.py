"""The container of an unpack job that copies the files of a bundle image."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from tests.kit.opm import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def unpack_bundle(
    image: str, target: Path, credentials: Mapping[str, Mapping[str, str]], ca_file: Path | None, directory: Path
) -> tuple[int, str]:
    """Unpack a bundle image as OLM's ``cpb`` does, and return the exit code and the error.

    Args:
        image: Image in a registry of the tests.
        target: Directory that receives ``manifests`` and ``metadata``.
        credentials: Credentials by registry.
        ca_file: Certificate authority of the registry, None for plain HTTP.
        directory: Directory for other files.
    """
    auth_file = directory / "auth.json"
    auth_file.write_text(json.dumps({"auths": credentials}))
    command = [str(PROGRAM), "alpha", "bundle", "unpack", image, "--out", str(target), "--skip-validation"]
    access = ["--ca-file", str(ca_file)] if ca_file else ["--use-http"]
    done = subprocess.run(
        [*command, *access, "--authfile", str(auth_file)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr
