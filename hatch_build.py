"""Build hook: record the commit and its date in the package, for ``opm version``."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NAME = "build.json"


class BuildInformation(BuildHookInterface[Any]):
    """Hook that adds ``opmkit/build.json`` to wheels and source distributions."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the file outside the source tree, unless a source distribution contains it already."""
        root = Path(self.root)
        if version == "editable" or (root / "src" / "opmkit" / NAME).exists():
            return
        path = Path(tempfile.mkdtemp(prefix="opmkit-build-"), NAME)
        path.write_text(json.dumps(build_information(root)) + "\n")
        package = "opmkit" if self.target_name == "wheel" else "src/opmkit"
        build_data["force_include"][str(path)] = f"{package}/{NAME}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the file."""
        for source in build_data["force_include"]:
            if Path(source).name == NAME:
                Path(source).unlink()
                Path(source).parent.rmdir()


def build_information(root: Path) -> dict[str, str]:
    """Return the commit of a source tree and its date, or SOURCE_DATE_EPOCH; empty strings if unknown."""
    commit = seconds = ""
    top = _git(root, "rev-parse", "--show-toplevel")
    if top and Path(top).resolve() == root.resolve():
        commit, _, seconds = _git(root, "log", "-1", "--format=%H %ct").partition(" ")
    seconds = os.environ.get("SOURCE_DATE_EPOCH") or seconds
    date = datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds else ""
    return {"commit": commit[:8], "date": date}


def _git(root: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
