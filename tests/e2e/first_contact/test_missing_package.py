"""Adding a bundle whose annotations name no package."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.bundles import bundle_content, push_image
from tests.kit.images import small_image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.installed import InstalledOpm
    from tests.kit.registry import Registry

ANNOTATION = "operators.operatorframework.io.bundle.package.v1"


def files_without_package() -> dict[str, bytes]:
    """Return the files of the bundle ``nameless.v1.0.0``, without the annotation."""
    files = bundle_content("nameless", "1.0.0")
    lines = files["metadata/annotations.yaml"].splitlines(keepends=True)
    return {**files, "metadata/annotations.yaml": b"".join(line for line in lines if ANNOTATION.encode() not in line)}


def write(directory: Path, files: dict[str, bytes]) -> None:
    """Write a bundle's directory."""
    for name, content in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


@pytest.mark.parametrize(
    "command",
    [
        ("registry", "add", "-d", "index.db", "-b"),
        ("registry", "add", "-d", "index.db", "--mode", "semver", "-b"),
        ("index", "add", "--binary-image", "scratch", "-t", "oci:catalog:1", "-b"),
        ("index", "add", "--from-index", "configs", "-b"),
    ],
    ids=["database", "semver", "image", "catalog"],
)
def test_the_error_names_bundle_and_annotation_and_nothing_is_added(
    command: tuple[str, ...], newcomer: InstalledOpm
) -> None:
    work = newcomer.directory
    write(work / "bundle", files_without_package())
    (work / "configs").mkdir()
    (work / "configs" / "demo.yaml").write_text(newcomer("init", "demo", "-o", "yaml"))
    done = newcomer.attempt(*command, "./bundle=quay.io/me/nameless:1")
    assert done.returncode == 1
    subject = "bundle nameless.v1.0.0 of quay.io/me/nameless:1"
    assert f"Error: {subject}: cannot be added: the annotation {ANNOTATION} is missing or empty" in done.stderr
    assert "hint: set it to the package's name in metadata/annotations.yaml" in done.stderr
    assert sorted(path.name for path in work.iterdir()) == ["bundle", "configs"]


@pytest.mark.parametrize(
    ("index", "listing"),
    [(("registry", "add", "-d", "index.db"), "index.db"), (("index", "add", "--from-index", "configs"), "configs")],
    ids=["database", "catalog"],
)
def test_permissive_skips_the_bundle_with_a_warning(
    index: tuple[str, ...], listing: str, newcomer: InstalledOpm, registry: Registry, tmp_path: Path
) -> None:
    nameless = push_image(f"{registry.host}/nameless/bundle:1", small_image(tmp_path, files_without_package()))
    write(newcomer.directory / "lagoon", bundle_content("lagoon", "1.0.0"))
    (newcomer.directory / "configs").mkdir()
    (newcomer.directory / "configs" / "README.md").write_text("\n")
    bundles = f"{nameless},./lagoon=quay.io/me/lagoon:1"
    done = newcomer.attempt(*index, "--permissive", "--use-http", "-b", bundles)
    assert done.returncode == 0, done.stderr
    (warning,) = (line for line in done.stderr.splitlines() if line.startswith("Warning: "))
    assert f"bundle nameless.v1.0.0 of {nameless}: cannot be added: the annotation {ANNOTATION}" in warning
    assert "lagoon" in newcomer("alpha", "list", "packages", listing)
