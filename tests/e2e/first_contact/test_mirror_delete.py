"""``opm mirror delete`` as a user meets it, with a registry that gives tokens."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.kit.mirror_site import MirrorSite

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.installed import InstalledOpm
    from tests.kit.registry import Registry
    from tests.kit.tokenserver import TokenServer


def test_catalog_is_replaced_and_deleted(
    newcomer: InstalledOpm, registry: Registry, token_registry: Registry, token_server: TokenServer, tmp_path: Path
) -> None:
    site = MirrorSite(registry.host, "newcomer", tmp_path)
    reef, atoll = site.sample()
    first, second = site.push_catalog([reef, atoll], "1"), site.push_catalog([atoll], "2")
    login = {"auths": {token_registry.host: {"username": "tester", "password": "secret"}}}
    (newcomer.directory / "auth.json").write_text(json.dumps(login))
    flags = ("--to", f"{token_registry.host}/mirror", "--use-http", "--authfile", "auth.json")
    newcomer("mirror", first, *flags, "--target-catalog", "current:1")
    newcomer("mirror", second, *flags)
    replaced = newcomer.attempt("mirror", second, *flags, "--target-catalog", "current:1", "--prune")
    assert replaced.returncode == 0, replaced.stderr
    assert "3 images deleted with 4 manifests of signatures and platforms, 2 kept" in replaced.stderr
    name = f"{token_registry.host}/mirror/current:1"
    planned = newcomer("mirror", "delete", name, *flags)
    assert [line.split()[1] for line in planned.splitlines()[1:-1]] == ["kept", "kept", "delete"]
    both = newcomer("mirror", "delete", name, second, *flags, "--yes", "--output", "json")
    assert {image["state"] for image in json.loads(both)["images"]} == {"deleted"}
    again = newcomer.attempt("mirror", "delete", second, *flags)
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr == (
        f"Error: {second}: the target has no {token_registry.host}/mirror/newcomer/catalog:2\n"
        "  hint: check the name, and the target\n"
    )
    scopes = {
        scope.partition(":")[0] + ":" + scope.rpartition(":")[2]
        for each in token_server.issued
        for scope in each.scopes
    }
    assert scopes == {"registry:*", "repository:pull", "repository:pull,push", "repository:delete,pull"}


def test_help(newcomer: InstalledOpm) -> None:
    shown = newcomer("help", "mirror", "delete")
    assert shown == newcomer("mirror", "delete", "--help")
    assert "Usage: opm mirror delete" in shown
    assert "delete" in newcomer("__complete", "mirror", "de")
    assert newcomer("--debug", "mirror", "delete", "--help") == shown
