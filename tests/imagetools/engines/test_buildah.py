"""Running of the buildah program."""

from __future__ import annotations

import base64
import os
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import EngineUnavailable
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryOptions
from tests.imagetools.engines.helpers import BUILD_SPEC, FILES, HTTP, open_engine, options_with_credentials
from tests.kit.requirements import require

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.engines import Engine
    from tests.kit.registry import Registry


def test_credentials_are_not_in_arguments(
    basic_registry: Registry, container_storage: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = require("buildah")
    for key, value in container_storage.settings.items():
        monkeypatch.setenv(key, value)
    spy = tmp_path / "bin" / "buildah"
    spy.parent.mkdir()
    spy.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/arguments\n'
        f'for a in "$@"; do case $a in --authfile=*) stat -c %a "${{a#*=}}" >> {tmp_path}/modes;; esac; done\n'
        f'exec {program} "$@"\n'
    )
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{spy.parent}:{os.environ['PATH']}")
    reference = Reference(basic_registry.host, "engines/spied", "1")
    options = options_with_credentials(basic_registry, tmp_path, "secret")
    open_engine("buildah", options).build(BUILD_SPEC, None, [reference], push=True)
    open_engine("buildah", options).inspect(reference)
    seen = (tmp_path / "arguments").read_text()
    assert "push" in seen
    assert "secret" not in seen
    assert base64.b64encode(b"tester:secret").decode() not in seen
    assert set((tmp_path / "modes").read_text().split()) == {"600"}


def test_unshare_without_root(
    registry: Registry, container_storage: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = require("buildah")
    for key, value in container_storage.settings.items():
        monkeypatch.setenv(key, value)
    wrapper = tmp_path / "bin" / "buildah"  # user namespaces may be unavailable to the tests
    wrapper.parent.mkdir()
    wrapper.write_text(
        f'#!/bin/sh\nif [ "$1" = unshare ]; then touch {tmp_path}/unshared; shift; exec "$@"; fi\nexec {program} "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    tool = open_engine("buildah", HTTP)
    reference = Reference(registry.host, "engines/rootless", "1")
    tool.build(BUILD_SPEC, None, [reference])
    assert tool.read_tree(reference, ["manifests", "metadata"]) == FILES
    assert (tmp_path / "unshared").exists()


def test_program_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EngineUnavailable, match="buildah not found in PATH"):
        open_engine("buildah", RegistryOptions()).inspect(Reference.parse("x"))
