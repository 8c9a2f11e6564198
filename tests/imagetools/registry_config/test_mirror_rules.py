"""Rules that redirect pulls to a mirror, and podman pulling with them."""

from __future__ import annotations

import random
import subprocess
from typing import TYPE_CHECKING

import pytest

from opmkit.imagetools.copy import copy_image
from opmkit.imagetools.reference import Reference
from opmkit.imagetools.registry import RegistryClient, RegistryOptions
from opmkit.imagetools.registry_config import RegistrySettings
from opmkit.imagetools.registry_config.mirror_rules import (
    MirrorRule,
    MirrorScope,
    format_registries_conf,
    mirror_rules,
)
from opmkit.imagetools.spec import sha256_digest
from tests.kit.engines import Engine
from tests.kit.images import small_image
from tests.kit.requirements import require

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.registry import Registry


def rule(source: str, mirror: str, kinds: str = "d") -> MirrorRule:
    return MirrorRule(source, mirror, digests="d" in kinds, tags="t" in kinds)


@pytest.mark.parametrize(
    ("repositories", "expected"),
    [
        ([("q.io/a/x", "m/a/x"), ("q.io/a/y", "m/a/y")], [("q.io/a", "m/a")]),
        ([("q.io/a/x", "m:5000/x")], [("q.io/a", "m:5000")]),
        ([("q.io/a/b/x", "m/p/a/b/x"), ("q.io/a/y", "m/p/a/y")], [("q.io/a", "m/p/a"), ("q.io/a/b", "m/p/a/b")]),
        ([("q.io/x", "m/x")], [("q.io/x", "m/x")]),
        ([("q.io/a/x", "m/a-x")], [("q.io/a/x", "m/a-x")]),
        ([("q.io/a/x", "m/a/x"), ("q.io/a/y", "n/a/y")], [("q.io/a/x", "m/a/x"), ("q.io/a/y", "n/a/y")]),
        ([("q.io/a/x", "m/a/x"), ("q.io/a/x/y", "n/z/y")], [("q.io/a", "m/a"), ("q.io/a/x/y", "n/z/y")]),
    ],
    ids=["namespace", "registry as mirror", "nested", "top level", "renamed", "two mirrors", "repository as namespace"],
)
def test_namespaces(repositories: list[tuple[str, str]], expected: list[tuple[str, str]]) -> None:
    rules = [rule(source, mirror) for source, mirror in repositories]
    assert mirror_rules(rules) == tuple(rule(source, mirror) for source, mirror in expected)
    assert mirror_rules(rules, MirrorScope.REPOSITORY) == tuple(sorted(rules))


def test_references_by_tag_and_digest_share_a_rule() -> None:
    rules = mirror_rules([rule("q.io/a/x", "m/a/x", "d"), rule("q.io/a/x", "m/a/x", "t"), rule("q.io/b/x", "m/b/x")])
    assert rules == (rule("q.io/a", "m/a", "dt"), rule("q.io/b", "m/b", "d"))


@pytest.mark.parametrize("seed", range(30))
def test_each_repository_is_redirected_to_its_mirror(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)

    def name(host: str, depth: int) -> str:
        return "/".join([host, *(rng.choice("ab") for _ in range(rng.randint(1, depth)))])

    mirrors = {name("q.io", 4): f"m{name('.io', 3)}" for _ in range(8)}
    mirrors |= {source: f"m.io/{source.partition('/')[2]}" for source in mirrors if rng.random() < 0.7}
    conf = tmp_path / ".config" / "containers" / "registries.conf"
    conf.parent.mkdir(parents=True)
    conf.write_bytes(format_registries_conf(mirror_rules([rule(*item) for item in mirrors.items()])))
    settings = RegistrySettings({"HOME": str(tmp_path)}, system=tmp_path)
    for source, mirror in mirrors.items():
        first, *_ = settings.pull_locations(Reference.parse(f"{source}@sha256:{'0' * 64}"))
        assert first.name == mirror


def test_podman_and_skopeo_pull_from_the_mirror(registry: Registry, tmp_path: Path) -> None:
    client = RegistryClient(RegistryOptions(plain_http=True))
    target = client.repository(Reference(registry.host, "conf/team/app"))
    digest = copy_image(small_image(tmp_path, {"a": b"mirrored"}), target, "1").digest
    rules = mirror_rules([rule("source.invalid/team/app", f"{registry.host}/conf/team/app", "d")])
    with Engine("podman") as podman:
        conf = podman.path / "registries.conf"
        conf.write_bytes(format_registries_conf(rules, insecure=True))
        image = f"source.invalid/team/app@{digest}"
        podman.run("pull", "--quiet", image)
        assert digest in podman.run("image", "inspect", "--format", "{{.Digest}}", image)
        with pytest.raises(RuntimeError, match=r"source\.invalid"):
            podman.run("pull", "--quiet", "source.invalid/team/app:1")
        conf.write_bytes(format_registries_conf([rule(rules[0].source, rules[0].mirror, "dt")], insecure=True))
        podman.run("pull", "--quiet", "source.invalid/team/app:1")
        assert digest == _skopeo_digest(podman, "docker://source.invalid/team/app:1")


def test_blocked_sources_are_not_contacted(tmp_path: Path) -> None:
    conf = tmp_path / "registries.conf"
    conf.write_bytes(format_registries_conf([rule("localhost:1/team", "localhost:2/team")], block_sources=True))
    assert "blocked = true" in conf.read_text()
    with Engine("podman") as podman:
        (podman.path / "registries.conf").write_bytes(conf.read_bytes())
        with pytest.raises(RuntimeError, match="blocked"):
            podman.run("pull", "--quiet", f"localhost:1/team/app@sha256:{'0' * 64}")


def _skopeo_digest(podman: Engine, image: str) -> str:
    command = [require("skopeo"), "--registries-conf", str(podman.path / "registries.conf"), "inspect", "--raw", image]
    return sha256_digest(subprocess.run(command, env=podman.environment, stdout=subprocess.PIPE, check=True).stdout)
