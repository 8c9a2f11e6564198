"""Objects that are rendered for bundles equal those of operator-controller 1.11, errors included.

``OPMKIT_REFERENCE_OLM_V1`` is the path of a program that runs its renderer, as described in docs/development.md. The
bundles are those of the corpus, or ``PACKAGE/VERSION`` directories below ``OPMKIT_BUNDLE_DIRECTORIES``.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from opmkit.bundle.errors import BundleError
from opmkit.bundle.load import read_bundle_directory
from opmkit.bundle.rendering.certificates import CertificateProvider
from opmkit.bundle.rendering.objects import RenderRequest, UnsupportedBundle, render_objects
from opmkit.bundle.rendering.registry_v1 import read_registry_v1
from opmkit.bundle.rendering.support import RENDER_CHECKS
from tests.kit.corpus import SHARED_BUNDLES

OLM_V1 = os.environ.get("OPMKIT_REFERENCE_OLM_V1", "")
BUNDLES = Path(os.environ.get("OPMKIT_BUNDLE_DIRECTORIES", SHARED_BUNDLES))
pytestmark = [
    pytest.mark.skipif(not OLM_V1, reason="OPMKIT_REFERENCE_OLM_V1 is not set"),
    pytest.mark.skipif(not BUNDLES.is_dir(), reason="the bundles are absent"),
    pytest.mark.timeout(3600),
]
NAMESPACE = "operators"
CONFIG = {
    "env": [{"name": "HTTP_PROXY", "value": "proxy"}],
    "tolerations": [{"operator": "Exists"}],
    "resources": {"requests": {"cpu": "0.5", "memory": "1024Mi"}},
    "nodeSelector": {"a": "b"},
    "volumes": [{"name": "more", "emptyDir": {}}],
    "affinity": {"podAffinity": {}},
    "annotations": {"x": "y"},
}


def reference(directory: Path, *watch: str) -> list[Any] | list[str]:
    """Return the objects, or the lines of the error."""
    done = subprocess.run(
        [OLM_V1, "render", str(directory), NAMESPACE, *watch], capture_output=True, text=True, check=False
    )
    return done.stderr.splitlines() if done.returncode else json.loads(done.stdout)


def rendered(directory: Path, watch: str = "", config: dict[str, Any] | None = None) -> list[Any] | list[str] | None:
    """Return the objects, or the lines of the error; None for what only OLM's installer refuses."""
    try:
        bundle = read_registry_v1(read_bundle_directory(directory, directory.name))
        problems = [problem for check in RENDER_CHECKS for problem in check(bundle)]
        if problems:
            return [problem.message for problem in problems]
        request = RenderRequest(NAMESPACE, (watch,) if watch else (), config or {}, CertificateProvider.NONE)
        return render_objects(bundle, request)
    except UnsupportedBundle as error:
        only_installer = "API services" in error.message or "none of the install modes" in error.message
        return None if only_installer else [error.message]
    except BundleError as error:
        return [error.message]


def ordered(objects: list[Any]) -> list[str]:
    return sorted(json.dumps(each, sort_keys=True) for each in objects)


def test_objects_equal(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    counts = {"objects": 0, "errors": 0, "installer": 0}
    different = []
    for directory in sorted(path for path in BUNDLES.glob("*/*") if (path / "manifests").is_dir()):
        for watch, config in (("", None), (NAMESPACE, None), ("other", CONFIG)):
            arguments = (watch, str(tmp_path / "config.json")) if config else (watch,) if watch else ()
            want, got = reference(directory, *arguments), rendered(directory, watch, config)
            if got is None:
                counts["installer"] += 1
            elif got and isinstance(got[0], str):
                counts["errors"] += 1
                if not want or not isinstance(want[0], str) or len(want) != len(got):
                    different.append((directory, watch, got, want))
            else:
                counts["objects"] += 1
                if (want and isinstance(want[0], str)) or ordered(got) != ordered(want):
                    different.append(
                        (directory, watch, ordered(got), want if isinstance(want[0], str) else ordered(want))
                    )
    print(counts)
    assert not different, (len(different), *map(str, different[0]))
    assert counts["objects"] > 300
