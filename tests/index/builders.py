"""Bundles for tests, without files."""

from __future__ import annotations

from opmkit.bundle import Bundle, parse_bundle


def bundle(
    version: str,
    *,
    package: str = "demo",
    channels: str = "alpha",
    default: str = "",
    replaces: str = "",
    skips: tuple[str, ...] = (),
    name: str = "",
    image: str = "",
) -> Bundle:
    """Return a bundle ``PACKAGE.vVERSION`` with the image ``registry.example.com/PACKAGE:VERSION`` by default."""
    lines = [
        "apiVersion: operators.coreos.com/v1alpha1",
        "kind: ClusterServiceVersion",
        f"metadata: {{name: {name or f'{package}.v{version}'}}}",
        f"spec: {{displayName: Demo {version}, version: '{version}', replaces: '{replaces}', skips: {list(skips)}}}",
    ]
    key = "operators.operatorframework.io.bundle"
    annotations = [
        "annotations:",
        f"  {key}.package.v1: {package}",
        f"  {key}.channels.v1: {channels}",
        f"  {key}.channel.default.v1: '{default}'",
    ]
    files = {
        "manifests/csv.yaml": "\n".join(lines).encode(),
        "metadata/annotations.yaml": "\n".join(annotations).encode(),
    }
    return parse_bundle(files, image=image or f"registry.example.com/{package}:{version.replace('+', '_')}")
