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
    image: str, target: Path, credentials: Mapping[str, Mapping[str, str]], directory: Path
) -> tuple[int, str]:
    """Unpack a bundle image as OLM's ``cpb`` does, and return the exit code and the error.

    Args:
        image: Image in a plain HTTP registry.
        target: Directory that receives ``manifests`` and ``metadata``.
        credentials: Credentials by registry.
        directory: Directory for other files.
    """
    auth_file = directory / "auth.json"
    auth_file.write_text(json.dumps({"auths": credentials}))
    command = [str(PROGRAM), "alpha", "bundle", "unpack", image, "--out", str(target), "--skip-validation"]
    done = subprocess.run(
        [*command, "--use-http", "--authfile", str(auth_file)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr
