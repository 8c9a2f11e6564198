"""Repositories with signatures, attestations and SBOMs are validated without them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.kit.bundles import bundle_image, push_image
from tests.kit.images import small_image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.installed import InstalledOpm
    from tests.kit.registry import Registry

DIGEST = "sha256-" + "3f" * 32
ATTACHMENTS = [DIGEST, f"{DIGEST}.att", f"{DIGEST}.sbom", f"{DIGEST}.sig"]


@pytest.fixture(scope="module")
def signed(registry: Registry, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a repository with two bundles, and attachments as of cosign and OCI 1.1 clients."""
    scratch: Path = tmp_path_factory.mktemp("signed")
    repository = f"{registry.host}/signed/lagoon"
    for version in ("0.1.0", "0.2.0"):
        push_image(f"{repository}:{version}", bundle_image("lagoon", version, scratch))
    attachment = small_image(scratch, {"payload.json": b"{}"})
    for tag in ATTACHMENTS:
        push_image(f"{repository}:{tag}", attachment)
    return repository


def validate(newcomer: InstalledOpm, *arguments: str) -> tuple[list[str], int]:
    """Return the tags that were validated, and how many were skipped."""
    done = newcomer.attempt("bundle", "validate", "--use-http", *arguments, "--labels-only", "--output", "json")
    report = json.loads(done.stdout)
    return [bundle["target"].rpartition(":")[2] for bundle in report["bundles"]], report["skipped"]


def test_attachments_are_skipped_and_counted(newcomer: InstalledOpm, signed: str) -> None:
    done = newcomer.attempt("bundle", "validate", "--use-http", signed)
    assert DIGEST not in done.stdout
    assert "not readable" not in done.stdout
    assert done.stdout.splitlines()[-1].startswith("2 bundles, ")
    assert "skipped 4 tags of signatures, attestations or SBOMs" in done.stdout
    assert validate(newcomer, signed) == (["0.1.0", "0.2.0"], 4)


@pytest.mark.parametrize(
    ("flags", "tags"),
    [
        (["--tags", "0.2.*"], ["0.2.0"]),
        (["--tags", "0.1.0,0.2.?"], ["0.1.0", "0.2.0"]),
        (["--tags", "0.1.0", "--tags=0.2.0"], ["0.1.0", "0.2.0"]),
        (["--tags", "*.sig"], [f"{DIGEST}.sig"]),
        (["--exclude-tags", "0.[0-1].*"], ["0.2.0"]),
        (["--tags", "0.*", "--exclude-tags", "*.1.0,none"], ["0.2.0"]),
    ],
)
def test_patterns_select_tags(newcomer: InstalledOpm, signed: str, flags: list[str], tags: list[str]) -> None:
    assert validate(newcomer, signed, *flags) == (tags, 6 - len(tags))


@pytest.mark.parametrize(
    ("flags", "message", "hint"),
    [
        (["--tags", "0.1.*,v9*"], "tag pattern v9*: no matching tag in {repository}", "such as 0.1.0, 0.2.0"),
        (["--exclude-tags", "0.*"], "{repository}: no bundles found: skipped 4 tags of signatures", "--tags"),
        (["--tags", "0.*", "--exclude-tags", "*"], "{repository}: no bundles found: skipped", "--exclude-tags"),
    ],
)
def test_selecting_nothing_is_an_error(
    newcomer: InstalledOpm, signed: str, flags: list[str], message: str, hint: str
) -> None:
    done = newcomer.attempt("bundle", "validate", "--use-http", signed, *flags)
    assert done.returncode == 1
    first, second = done.stderr.splitlines()
    assert first.startswith(f"Error: {message.format(repository=signed)}")
    assert second.startswith("  hint: ")
    assert hint in second


def test_tag_patterns_need_a_repository(newcomer: InstalledOpm) -> None:
    (newcomer.directory / "bundle").mkdir()
    done = newcomer.attempt("bundle", "validate", "bundle", "--tags", "v1")
    assert done.returncode == 1
    assert "tag pattern v1: no matching tag: no repository to validate" in done.stderr
