"""Access of engines to registries: credentials, TLS and failures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.errors import AuthenticationFailed, InsecureTransport, RegistryUnavailable
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryOptions
from tests.imagetools.engines.helpers import (
    BUILD_SPEC,
    FILES,
    load_from_registry,
    open_engine,
    options_with_credentials,
    push_image,
)

if TYPE_CHECKING:
    from pathlib import Path

    from opmkit.imagetools.tools.engine import EngineTool
    from tests.kit.registry import Registry


@pytest.mark.slow
def test_unavailable_registry(tool: EngineTool, engine: str) -> None:
    away = Reference("127.0.0.1:1", f"engines/{engine}/away", "1")
    with pytest.raises(RegistryUnavailable, match=f"{away}: {engine}: .*connection refused"):
        tool.build(BUILD_SPEC, None, [away], push=True)


def test_credentials(engine: str, basic_registry: Registry, tmp_path: Path) -> None:
    reference = Reference(basic_registry.host, "engines/private", "1")
    right, wrong = (options_with_credentials(basic_registry, tmp_path, password) for password in ("secret", "wrong"))
    empty = replace(wrong, authfile=tmp_path / "empty.json")
    (tmp_path / "empty.json").write_text("{}")
    open_engine(engine, right).build(BUILD_SPEC, None, [reference], push=True)
    other = reference.with_tag("other")
    push_image(load_from_registry(reference, right), other, right)
    for options in (wrong, empty):
        with pytest.raises(AuthenticationFailed) as caught:
            open_engine(engine, options).inspect(other)
        assert "wrong" not in caught.value.message
        with pytest.raises(AuthenticationFailed):
            open_engine(engine, options).build(BUILD_SPEC, None, [reference], push=True)
    assert open_engine(engine, right).read_tree(other, ["manifests", "metadata"]) == FILES


@pytest.mark.parametrize("engine", ["podman", "buildah"], indirect=True)
def test_tls(engine: str, tls_registry: Registry, tmp_path: Path) -> None:
    reference = Reference(tls_registry.host, "engines/tls", "1")
    unverified = RegistryOptions(verify_tls=False)
    open_engine(engine, unverified).build(BUILD_SPEC, None, [reference], push=True)
    push_image(load_from_registry(reference, unverified), reference.with_tag("2"), unverified)
    with pytest.raises(InsecureTransport, match="x509") as caught:
        open_engine(engine, RegistryOptions()).inspect(reference.with_tag("2"))
    assert "skip_tls_verify" in str(caught.value.hint)
    assert open_engine(engine, unverified).inspect(reference.with_tag("2")).labels["package.v1"] == "demo"
    with_authority = RegistryOptions(ca_file=tls_registry.ca_file)
    if engine == "buildah":
        open_engine(engine, with_authority).build(BUILD_SPEC, None, [reference], push=True)
        (tmp_path / "certificates").mkdir()
        (tmp_path / "certificates" / "ca.crt").symlink_to(tls_registry.ca_file)
        from_directory = RegistryOptions(cert_dir=tmp_path / "certificates")
        assert open_engine(engine, from_directory).inspect(reference.with_tag("2")).labels["package.v1"] == "demo"


@pytest.mark.parametrize("engine", ["podman", "buildah"], indirect=True)
def test_plain_http_is_rejected_by_default(engine: str, reference: Reference) -> None:
    with pytest.raises(InsecureTransport, match="HTTP response to HTTPS client") as caught:
        open_engine(engine, RegistryOptions()).inspect(reference)
    assert "plain_http" in str(caught.value.hint)
