"""Version from the tags of the repository, and metadata hook with the README and the URLs of the project."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

ROOT = Path(__file__).parent
DEVELOPMENT_VERSION = re.compile(r'^__version__ = "([^"]+)"$', re.MULTILINE)
TAG = re.compile(
    r"v(?P<release>\d+(?:\.\d+)*)\.(?P<patch>\d+)(?P<suffix>(?:[a-z]\S*)?)-(?P<distance>\d+)-g(?P<commit>[0-9a-f]+)"
)
"""A line of ``git describe --long``."""
RELATIVE_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\]]*)\]\((?!https?:|#)(?P<target>[^)]+)\)")
REPOSITORY = "OPMKIT_REPOSITORY"
"""Variable with the URL of the repository on GitHub, which the release workflow sets."""


class RepositoryMetadata(MetadataHookInterface):
    """Hook that adds the README and, if the repository is known, the URLs of the project."""

    PLUGIN_NAME = "custom"

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the fields ``readme`` and ``urls``."""
        repository = os.environ.get(REPOSITORY, "").rstrip("/")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["urls"] = project_urls(repository) if repository else {}
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": absolute_links(text, repository, f"v{metadata['version']}") if repository else text,
        }


def project_urls(repository: str) -> dict[str, str]:
    """Return the URLs of the project by their well-known labels."""
    return {
        "Homepage": repository,
        "Documentation": f"{repository}/tree/main/docs",
        "Source": repository,
        "Issues": f"{repository}/issues",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
    }


def absolute_links(text: str, repository: str, revision: str) -> str:
    """Return Markdown whose links to files of the repository work on the page of a package index."""

    def absolute(link: re.Match[str]) -> str:
        kind = "raw" if link["image"] else "blob"
        return f"{link['image']}[{link['text']}]({repository}/{kind}/{revision}/{link['target']})"

    return RELATIVE_LINK.sub(absolute, text)


def version(root: Path = ROOT) -> str:
    """Return the version of a source tree.

    It is that of the tag (``v1.2.3``) of its commit, or a development version of the next release if there are commits
    since the last tag. Without git or tags, as in archives and shallow clones, it is that in ``_version.py``.
    """
    described = TAG.fullmatch(_describe(root))
    if described is None:
        [found] = DEVELOPMENT_VERSION.findall((root / "src/opmkit/_version.py").read_text())
        return str(found)
    release, patch, suffix, distance, commit = described.groups()
    if int(distance) == 0:
        return f"{release}.{patch}{suffix}"
    following = f"{patch}{suffix}.post0" if suffix else str(int(patch) + 1)
    return f"{release}.{following}.dev{distance}+g{commit}"


def _describe(root: Path) -> str:
    """Return how git describes the commit, an empty string if ``root`` is not the top of a work tree with a tag."""
    if not (root / ".git").exists():
        return ""
    argv = ["git", "describe", "--tags", "--long", "--abbrev=8", "--match=v[0-9]*.[0-9]*"]
    try:
        done = subprocess.run(argv, cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
