"""Bundle images with other content for another platform, which clusters with such nodes would install."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.kit.bundles import bundle_content, bundle_image, bundle_labels, push_image, resolve_digest
from tests.kit.images import multi_image, small_image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.installed import InstalledOpm
    from tests.kit.registry import Registry

PLATFORMS = ("linux/amd64", "linux/arm64", "linux/s390x")
BINDING = b"""
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: admin}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: default, namespace: default}]
"""
COMMANDS = {
    "permissions": ("bundle", "permissions", "{image}"),
    "permissions-from": ("bundle", "permissions", "{equal}", "--from", "{image}"),
    "render": ("render", "{image}"),
    "bundle-render": ("bundle", "render", "{image}", "--namespace", "lagoon"),
    "validate": ("bundle", "validate", "{image}"),
    "validate-tag": ("alpha", "bundle", "validate", "--tag", "{image}"),
    "extract": ("bundle", "extract", "{image}", "--configmapname", "reef", "--dry-run"),
    "unpack": ("bundle", "unpack", "{image}", "--out", "out"),
    "unpack-unchecked": ("bundle", "unpack", "{image}", "--out", "out", "--skip-validation"),
    "index-add": ("index", "add", "--bundles", "{image}", "--tag", "oci:out:1", "--binary-image", "scratch"),
    "registry-add": ("registry", "add", "--bundle-images", "{image}", "--database", "out.db"),
    "gate": ("validate", "new", "--against", "old", "--allowed-permissions", "none"),
}
CATALOG = """
schema: olm.package
name: reef
defaultChannel: alpha
---
schema: olm.channel
package: reef
name: alpha
entries: []
"""
BUNDLE = """
---
schema: olm.bundle
package: reef
name: reef.v1.0.0
properties: [{type: olm.package, value: {packageName: reef, version: 1.0.0}}]
"""


@pytest.fixture
def name(registry: Registry, tmp_path: Path) -> str:
    return f"{registry.host}/{tmp_path.name.replace('_', '-').replace('[', '-').lower()}/bundle"


def push(name: str, tmp_path: Path, *, hostile: bool) -> str:
    """Push a bundle for several platforms, of which the last one may bind a role."""
    images = [bundle_image("reef", "1.0.0", tmp_path, platform=platform) for platform in PLATFORMS]
    if hostile:
        files = {**bundle_content("reef", "1.0.0"), "manifests/binding.yaml": BINDING}
        images[-1] = small_image(tmp_path, files, labels=bundle_labels("reef"), platform=PLATFORMS[-1])
    return push_image(f"{name}:{'hostile' if hostile else 'equal'}", multi_image(images))


def write_catalogs(user: InstalledOpm, image: str) -> None:
    """Write an old catalog without bundles, and a new one with the bundle."""
    new = CATALOG.replace("[]", "[{name: reef.v1.0.0}]") + BUNDLE + f"image: {image}\n"
    for directory, text in (("old", CATALOG), ("new", new)):
        (user.directory / directory).mkdir()
        (user.directory / directory / "catalog.yaml").write_text(text)


@pytest.mark.parametrize("command", COMMANDS)
def test_other_content_for_a_platform_is_refused(
    newcomer: InstalledOpm, name: str, tmp_path: Path, command: str
) -> None:
    image, equal = push(name, tmp_path, hostile=True), push(name, tmp_path, hostile=False)
    if command == "gate":
        image = f"{name}@{resolve_digest(image)}"
        write_catalogs(newcomer, image)
    arguments = [part.format(image=image, equal=equal) for part in COMMANDS[command]]
    done = newcomer.attempt(*arguments, "--use-http")
    assert done.returncode == 1
    assert "image 1 for linux/amd64 and image 3 for linux/s390x differ in manifests/binding.yaml" in done.stderr
    assert not list(newcomer.directory.glob("out*"))


def test_equal_content_is_read(newcomer: InstalledOpm, registry: Registry, name: str, tmp_path: Path) -> None:
    image = push(name, tmp_path, hostile=False)
    before = len(registry.requests())
    assert '"name": "reef.v1.0.0"' in newcomer("render", image, "--use-http")
    (layer,) = bundle_image("reef", "1.0.0", tmp_path).manifest.layers
    paths = [request.path for request in registry.requests()[before:] if request.path.endswith(layer.digest)]
    assert len(paths) == 1, "equal layers are read once"
