"""Registries without TLS, or with an untrusted certificate."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.kit.bundles import bundle_image, push_image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.installed import InstalledOpm
    from tests.kit.registry import Registry

NAME = "insecure/lagoon-operator:v1"


@pytest.fixture
def image(registry: Registry, tmp_path: Path) -> str:
    """Push a bundle to a registry that speaks plain HTTP."""
    name = f"{registry.host}/{NAME}"
    push_image(name, bundle_image("lagoon-operator", "0.1.0", tmp_path))
    return name


def test_skip_tls_verify_allows_plain_http(newcomer: InstalledOpm, image: str) -> None:
    rendered = newcomer("render", "--skip-tls-verify", image)
    assert rendered == newcomer("render", "--use-http", image)
    if newest := os.environ.get("OPMKIT_REFERENCE_OPM_NEWEST"):
        argv = [newest, "render", "--skip-tls-verify", image]
        done = subprocess.run(argv, env=newcomer.environment, capture_output=True, text=True, check=True)
        assert json.loads(done.stdout)["name"] == json.loads(rendered)["name"]
    newcomer("registry", "add", "--skip-tls-verify", "--bundle-images", image)


def test_plain_http_is_refused_by_default(newcomer: InstalledOpm, image: str) -> None:
    done = newcomer.attempt("render", image)
    assert done.returncode == 1
    assert "does not support HTTPS" in done.stderr


@pytest.mark.parametrize("flag", ["--skip-tls-verify", None])
def test_credentials_are_sent_over_plain_http_only_with_skip_tls_verify(
    newcomer: InstalledOpm, image: str, basic_registry: Registry, flag: str | None
) -> None:
    secret = base64.b64encode(b"tester:secret").decode()
    authfile = newcomer.home / "auth.json"
    authfile.write_text(json.dumps({"auths": {basic_registry.host: {"auth": secret}}}))
    copy = f"{basic_registry.host}/{NAME}"
    newcomer("image", "copy", "--use-http", "--authfile", str(authfile), image, copy)
    done = newcomer.attempt("render", *([flag] if flag else []), "--authfile", str(authfile), copy)
    assert done.returncode == (0 if flag else 1), done.stderr


def test_skip_tls_verify_prefers_tls(newcomer: InstalledOpm, image: str, tls_registry: Registry) -> None:
    copy = f"{tls_registry.host}/{NAME}"
    archive = newcomer.directory / "image.tar"
    newcomer("image", "copy", "--use-http", image, f"oci-archive:{archive}")
    newcomer("image", "copy", "--skip-tls-verify", f"oci-archive:{archive}", copy)
    assert newcomer("render", "--skip-tls-verify", copy)
    assert "not trusted" in newcomer.attempt("render", copy).stderr
