"""Caches of served catalogs have the format of operator-registry."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from tests.kit.cachedcatalog import DIGEST, FILES, write_catalog
from tests.kit.server import Server, call, channel

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.installed import InstalledOpm


@pytest.fixture
def catalog(newcomer: InstalledOpm) -> Path:
    return write_catalog(newcomer.directory / "catalog")


def start_server(newcomer: InstalledOpm, *arguments: object) -> Server:
    environment = [f"{name}={value}" for name, value in newcomer.environment.items()]
    return Server(*map(str, arguments), program=("env", "-i", *environment, str(newcomer.bin / "opm"), "serve"))


def files(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def test_cache_only_writes_the_cache_that_operator_registry_reads(newcomer: InstalledOpm, catalog: Path) -> None:
    newcomer("serve", "catalog", "--cache-dir=cache", "--cache-only")
    cache = newcomer.directory / "cache"
    assert (files(cache), (cache / "digest").read_text()) == (FILES, DIGEST)
    with start_server(newcomer, catalog, "--cache-dir", cache) as server, channel(server.address) as connection:
        bundle = call(connection, "GetBundle", pkgName="lagoon", channelName="stable", csvName="lagoon.v1")
    assert json.loads(bundle.csvJson)["metadata"]["name"] == "lagoon.v1"
    (cache / "cache" / "packages.json").write_text("{}")
    done = newcomer.attempt("serve", "catalog", "--cache-dir=cache", "--cache-enforce-integrity", "--cache-only")
    assert done.returncode == 1
    assert "cache requires rebuild" in done.stderr


def test_a_cache_in_the_other_format_is_not_used(newcomer: InstalledOpm, catalog: Path) -> None:
    cache = newcomer.directory / "cache"
    (cache / "pogreb.v1" / "db").mkdir(parents=True)
    (cache / "pogreb.v1" / "digest").write_text("0123456789abcdef")
    with start_server(newcomer, catalog, "--cache-dir", cache) as server, channel(server.address) as connection:
        assert len(call(connection, "ListBundles")) == 3
        assert server.stop() == 0
    assert "the cache has the format pogreb.v1, which opmkit cannot read" in server.err
    assert files(cache) == ["pogreb.v1/digest"]
    newcomer("serve", "catalog", "--cache-dir=cache", "--cache-only")
    assert files(cache) == FILES


def test_the_commands_of_a_generated_dockerfile_build_and_use_a_cache(newcomer: InstalledOpm, catalog: Path) -> None:
    newcomer("generate", "dockerfile", "catalog")
    text = (newcomer.directory / "catalog.Dockerfile").read_text()
    build, start = (
        [
            re.sub("^/configs$", str(catalog), word.replace("/tmp/cache", f"{newcomer.directory}/cache"))
            for word in words
        ]
        for words in (json.loads(found) for found in re.findall(r"^(?:RUN|CMD) (.*)", text, re.MULTILINE))
    )
    assert build[0] == "/bin/opm"
    newcomer(*build[1:])
    with start_server(newcomer, *start[1:]) as server, channel(server.address) as connection:
        assert [one.name for one in call(connection, "ListPackages")] == ["lagoon"]
