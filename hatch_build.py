"""Build hook: record the version, the commit and its date in the package, and add the manual pages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

BUILD = "build.json"
VERSION = "_version.py"
MANUAL = "man"
"""Directory of manual pages in source distributions; ``scripts/build-packages`` names another in OPMKIT_MANUAL."""


class BuildInformation(BuildHookInterface[Any]):
    """Hook that adds ``build.json``, ``_version.py`` and manual pages to wheels and source distributions."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the files outside the source tree, unless a source distribution contains them already."""
        root = Path(self.root)
        if version == "editable":
            return
        self._add_manual(root, build_data)
        package = "opmkit" if self.target_name == "wheel" else "src/opmkit"
        source = root / "src" / "opmkit"
        if (source / BUILD).exists():
            build_data["force_include"][str(source / VERSION)] = f"{package}/{VERSION}"
            return
        self._directory = Path(tempfile.mkdtemp(prefix="opmkit-build-"))
        texts = {
            BUILD: json.dumps(build_information(root)) + "\n",
            VERSION: f'"""The version of opmkit."""\n\n__version__ = "{self.metadata.version}"\n',
        }
        for name, text in texts.items():
            (self._directory / name).write_text(text)
            build_data["force_include"][str(self._directory / name)] = f"{package}/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the files."""
        directory: Path | None = getattr(self, "_directory", None)
        if directory:
            shutil.rmtree(directory)

    def _add_manual(self, root: Path, build_data: dict[str, Any]) -> None:
        for page in sorted(Path(os.environ.get("OPMKIT_MANUAL") or root / MANUAL).glob("*.1")):
            if self.target_name == "wheel":
                build_data["shared_data"][str(page)] = f"share/man/man1/{page.name}"
            else:
                build_data["force_include"][str(page)] = f"{MANUAL}/{page.name}"


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
