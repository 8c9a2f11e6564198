"""Catalog images that Konflux's task validate-fbc accepts, and variants that it rejects."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from opmkit.imagetools.image import Image
from opmkit.imagetools.layer import Layer
from opmkit.imagetools.spec import ConfigChanges, Descriptor, Platform, media_types, sha256_digest
from tests.kit.images import Member, directory, hardlink, member, multi_image, symlink, tar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from opmkit.imagetools.image import ImageIndex

CONFIGS_LABEL = "operators.operatorframework.io.index.configs.v1"
VERSION_LABEL = "com.redhat.fbc.openshift.version"
BASE_NAME, BASE_DIGEST = "org.opencontainers.image.base.name", "org.opencontainers.image.base.digest"
BASE_4 = "registry.redhat.io/openshift4/ose-operator-registry-rhel9"
BASE_5 = "registry.redhat.io/openshift5/ose-operator-registry-rhel9"
DIGEST = f"sha256:{'a1' * 32}"
IMAGE = f"registry.redhat.io/acme/reef-bundle@{DIGEST}"
METADATA, OBJECT = "olm.csv.metadata", "olm.bundle.object"
PROBE = "bin/grpc_health_probe"

_CSV = {"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "reef"}}
_VALUES = {METADATA: {"displayName": "Reef"}, OBJECT: {"data": base64.b64encode(json.dumps(_CSV).encode()).decode()}}


def catalog(*bundles: Sequence[str], image: str = IMAGE, package: str = "reef") -> bytes:
    """Return a catalog; each bundle is given by the types of its properties besides ``olm.package``."""
    versions = [f"1.{number}.0" for number in range(len(bundles))]
    entries = [
        {"name": f"{package}.v{version}", **({"replaces": f"{package}.v{previous}"} if previous else {})}
        for version, previous in zip(versions, ["", *versions], strict=False)
    ]
    blobs: list[dict[str, object]] = [
        {"schema": "olm.package", "name": package, "defaultChannel": "stable"},
        {"schema": "olm.channel", "name": "stable", "package": package, "entries": entries},
    ]
    for version, types in zip(versions, bundles, strict=True):
        properties = [{"type": "olm.package", "value": {"packageName": package, "version": version}}]
        properties += [{"type": type_, "value": _VALUES[type_]} for type_ in types]
        name = {"schema": "olm.bundle", "name": f"{package}.v{version}", "package": package}
        blobs.append({**name, "image": image, "properties": properties})
    return "\n".join(json.dumps(blob) for blob in blobs).encode()


@dataclass(frozen=True)
class Variant:
    """An image, and the rules of the errors that opmkit finds in it.

    Attributes:
        rules: The rules; the task accepts the image if there are none.
        files: The files of the catalog, relative to ``/configs``.
        base: The annotation with the base image; None for none.
        base_digest: The annotation with its digest; "" for the digest of the base image in the registry.
        labels: Further labels.
        annotations: Further annotations.
        bottom: The entries of the lowest layer.
        top: Layers above that of the catalog.
        platforms: The platforms of the image, which is an index if there are several.
        configs: The label with the directory of the catalog, None for none.
    """

    rules: frozenset[str] = frozenset()
    files: Mapping[str, bytes] = field(default_factory=lambda: {"reef/catalog.json": catalog([METADATA])})
    base: str | None = f"{BASE_4}:v4.17"
    base_digest: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    bottom: tuple[Member, ...] = (member(PROBE, b"probe", mode=0o755),)
    top: tuple[tuple[Member, ...], ...] = ()
    platforms: tuple[str, ...] = ("linux/amd64",)
    configs: str | None = "/configs"

    def build(self, scratch: Path, base_digest: str = DIGEST) -> Image | ImageIndex:
        """Return the image, whose layers are written to ``scratch``."""
        files = [member(f"configs/{path}", content) for path, content in self.files.items()]
        layers = [tar_layer(members, scratch) for members in (self.bottom, tuple(files), *self.top) if members]
        labels = {**({} if self.configs is None else {CONFIGS_LABEL: self.configs}), **self.labels}
        annotations = dict(self.annotations)
        if self.base is not None:
            annotations |= {BASE_NAME: self.base, BASE_DIGEST: self.base_digest or base_digest}
        images = [
            Image.scratch(Platform.parse(platform)).append(
                layers, ConfigChanges(labels=labels), annotations=annotations
            )
            for platform in self.platforms
        ]
        return images[0] if len(images) == 1 else multi_image(images)


def tar_layer(members: Sequence[Member], scratch: Path) -> Layer:
    """Write an uncompressed layer with arbitrary entries."""
    content = tar(members)
    digest = sha256_digest(content)
    path = scratch / digest.replace(":", "-")
    path.write_bytes(content)
    return Layer(Descriptor(media_types.OCI_LAYER, digest, len(content)), digest, path)


def _rejected(*rules: str, **changes: object) -> Variant:
    return replace(Variant(), rules=frozenset(f"KONFLUX-{rule}" for rule in rules), **changes)  # type: ignore[arg-type]


def _accepted(**changes: object) -> Variant:
    return _rejected(**changes)


def _content(*bundles: Sequence[str], **options: str) -> dict[str, bytes]:
    return {"reef/catalog.json": catalog(*bundles, **options)}


_NO_PACKAGE = b'{"schema": "acme.note", "name": "a"}'
_TWO = {**_content([METADATA]), "kelp/catalog.json": catalog([METADATA], package="kelp")}

VARIANTS: Mapping[str, Variant] = {
    "valid-4.17": _accepted(),
    "valid-4.16": _accepted(base=f"{BASE_4}:v4.16", files=_content([OBJECT])),
    "valid-4.20": _accepted(base=f"{BASE_4}:v4.20"),
    "valid-5.0": _accepted(base=f"{BASE_5}:v5.0"),
    "valid-brew": _accepted(base="brew.registry.redhat.io/rh-osbs/openshift-ose-operator-registry-rhel9:v4.20"),
    "valid-rhel8": _accepted(base="registry.redhat.io/openshift4/ose-operator-registry:v4.17"),
    "valid-two-packages": _accepted(files=_TWO),
    "valid-index": _accepted(platforms=("linux/amd64", "linux/arm64")),
    "valid-stage": _accepted(files=_content([METADATA], image=IMAGE.replace(".redhat", ".stage.redhat"))),
    "valid-tag-and-digest": _accepted(files=_content([METADATA], image=IMAGE.replace("@", ":1@"))),
    "valid-file-in-root": _accepted(files={**_content([METADATA]), "note.json": _NO_PACKAGE}),
    # the base image
    "base-missing": _rejected("BASE-IMAGE", "OPENSHIFT-VERSION", base=None),
    "base-other": _rejected("BASE-IMAGE", base="quay.io/operator-framework/opm:v4.17"),
    "base-other-repository": _rejected("BASE-IMAGE", base=f"{BASE_4}-tools:v4.17"),
    "base-port": _rejected("BASE-IMAGE", "OPENSHIFT-VERSION", base=BASE_4.replace("/", ":443/", 1) + ":v4.17"),
    "base-two-tags": _rejected("BASE-IMAGE", "OPENSHIFT-VERSION", base=f"{BASE_4}:v4.17:v4.17"),
    "base-twice": _rejected(
        "BASE-IMAGE", "OPENSHIFT-VERSION", annotations={f"a.{BASE_NAME}": "quay.io/operator-framework/opm:1"}
    ),
    "base-equals-sign": _accepted(base=f"{BASE_4}:v4.17=x"),
    "base-invalid-digest": _rejected("BASE-IMAGE", base_digest="sha256:1"),
    # the OpenShift version
    "version-no-tag": _rejected("OPENSHIFT-VERSION", base=BASE_4),
    "version-tag-latest": _accepted(base=f"{BASE_4}:latest", files=_content([OBJECT])),
    "version-tag-suffix": _accepted(base=f"{BASE_4}:v4.17-9", files=_content([OBJECT])),
    "version-tag-patch": _rejected("METADATA-FORMAT", base=f"{BASE_4}:v4.17.3", files=_content([OBJECT])),
    "version-tag-major-v": _accepted(base=f"{BASE_4}:v4", files=_content([OBJECT])),
    "version-tag-major": _rejected("METADATA-FORMAT", base=f"{BASE_4}:4"),
    "version-tag-number": _accepted(base=f"{BASE_4}:417"),
    "version-tag-octal": _rejected("METADATA-FORMAT", base=f"{BASE_4}:v4.017"),
    "version-tag-not-octal": _rejected("METADATA-FORMAT", base=f"{BASE_4}:v4.18.1.0.8".replace("18", "019")),
    "version-tag-no-minor": _rejected("METADATA-FORMAT", base=f"{BASE_4}:v4."),
    "version-tag-no-major": _rejected("METADATA-FORMAT", base=f"{BASE_4}:v.17"),
    "version-tag-upper": _accepted(base=f"{BASE_4}:OCP4.17"),
    "version-label": _accepted(labels={VERSION_LABEL: '["v4.17"]'}),
    "version-label-unchecked": _accepted(labels={VERSION_LABEL: '["4.17", "5.0"]'}, files=_content([OBJECT])),
    "version-label-without-tag": _accepted(labels={VERSION_LABEL: '["v4.16"]'}, base=BASE_4),
    "version-label-number": _rejected("OPENSHIFT-VERSION", labels={VERSION_LABEL: "[4.17]"}),
    "version-label-whole-number": _rejected("OPENSHIFT-VERSION", labels={VERSION_LABEL: "[5.0]"}),
    "version-label-lines": _accepted(labels={VERSION_LABEL: '["4.17\\n v4.18 "]'}),
    "version-label-empty-line": _rejected("OPENSHIFT-VERSION", labels={VERSION_LABEL: '["4.17\\n"]'}),
    "version-label-empty": _rejected("OPENSHIFT-VERSION", labels={VERSION_LABEL: ""}),
    "version-label-empty-array": _rejected("OPENSHIFT-VERSION", labels={VERSION_LABEL: "[]"}),
    "version-label-string": _rejected("OPENSHIFT-VERSION", labels={VERSION_LABEL: '"v4.17"'}),
    "version-label-text": _rejected("OPENSHIFT-VERSION", labels={VERSION_LABEL: "v4.17"}),
    "version-label-null": _rejected("OPENSHIFT-VERSION", labels={VERSION_LABEL: "[null]"}),
    "version-label-6": _rejected("OPENSHIFT-VERSION", labels={VERSION_LABEL: '["6.0"]'}),
    "version-label-patch": _rejected("OPENSHIFT-VERSION", labels={VERSION_LABEL: '["v4.17.1"]'}),
    "version-label-one-invalid": _rejected("OPENSHIFT-VERSION", labels={VERSION_LABEL: '["v4.17", "x"]'}),
    "version-label-rest": _rejected("OPENSHIFT-VERSION", labels={VERSION_LABEL: '["v4.17"] x'}),
    "version-label-in-other": _rejected("OPENSHIFT-VERSION", labels={"a": f"b\n{VERSION_LABEL}=x"}),
    # the files of the image
    "probe-missing": _rejected("HEALTH-PROBE", bottom=()),
    "probe-deleted": _rejected("HEALTH-PROBE", top=((member("bin/.wh.grpc_health_probe"),),)),
    "probe-in-emptied-directory": _rejected("HEALTH-PROBE", top=((member("bin/.wh..wh..opq"),),)),
    "probe-link": _accepted(bottom=(symlink("usr/bin/grpc_health_probe", "nowhere"),)),
    "probe-directory": _accepted(bottom=(member("opt/grpc_health_probe/readme", b"x"),)),
    "probe-hard-link": _accepted(bottom=(member("bin/x", b"x"), hardlink("grpc_health_probe", "bin/x"))),
    "probe-other-name": _rejected("HEALTH-PROBE", bottom=(member("bin/grpc_health_probe2", b"x"),)),
    "configs-no-label": _rejected("CONFIGS", configs=None),
    "configs-null": _rejected("CONFIGS", configs="null"),
    "configs-relative": _rejected("CONFIGS", configs="configs"),
    "configs-other": _rejected("CONFIGS", configs="/catalog"),
    "configs-slash": _accepted(configs="/configs/"),
    "configs-pattern": _rejected("CONFIGS", configs="/conf*"),
    "configs-empty": _rejected("CONFIGS", files={}, top=((directory("configs"),),)),
    "configs-link": _rejected(
        "CONFIGS", files={}, top=((member("data/reef/catalog.json", catalog([METADATA])), symlink("configs", "data")),)
    ),
    "packages-none": _rejected("PACKAGE-DIRECTORY", files={"catalog.json": catalog([METADATA])}),
    "packages-empty": _rejected("PACKAGE-DIRECTORY", top=((directory("configs/kelp"),),)),
    "packages-nested": _accepted(top=((directory("configs/kelp/sub"),),)),
    "packages-emptied": _rejected("PACKAGE-DIRECTORY", files=_TWO, top=((member("configs/kelp/.wh..wh..opq"),),)),
    "packages-deleted": _accepted(files=_TWO, top=((member("configs/.wh.kelp"),),)),
    "packages-link": _rejected(
        "PACKAGE-DIRECTORY", files={"reef.json": catalog([METADATA])}, top=((symlink("configs/reef", "/bin"),),)
    ),
    # the content of the catalog
    "content-no-package": _rejected("NO-PACKAGE", files={"reef/catalog.json": _NO_PACKAGE}),
    "content-object-4.17": _rejected("METADATA-FORMAT", files=_content([OBJECT])),
    "content-object-5.0": _rejected("METADATA-FORMAT", files=_content([OBJECT]), base=f"{BASE_5}:v5.0"),
    "content-metadata-4.16": _rejected("METADATA-FORMAT", base=f"{BASE_4}:v4.16"),
    "content-both-4.17": _rejected("METADATA-FORMAT", files=_content([OBJECT, METADATA])),
    "content-both-4.16": _rejected("METADATA-FORMAT", files=_content([OBJECT, METADATA]), base=f"{BASE_4}:v4.16"),
    "content-neither-4.17": _rejected("METADATA-FORMAT", files=_content([METADATA], [])),
    "content-neither-4.16": _rejected("METADATA-FORMAT", files=_content([OBJECT], []), base=f"{BASE_4}:v4.16"),
    "content-objects-make-up": _accepted(files=_content([OBJECT, OBJECT], []), base=f"{BASE_4}:v4.16"),
    "content-two-objects": _accepted(files=_content([OBJECT, OBJECT]), base=f"{BASE_4}:v4.16"),
    "content-two-metadata": _rejected("METADATA-FORMAT", files=_content([METADATA, METADATA])),
    "content-metadata-make-up": _accepted(files=_content([METADATA, METADATA], [])),
    "content-tag": _rejected("DIGEST", files=_content([METADATA], image="registry.redhat.io/acme/reef-bundle:1")),
    "content-registry": _rejected(
        "REGISTRY", files=_content([METADATA], image=IMAGE.replace("registry.redhat.io", "quay.io"))
    ),
    "content-similar-registry": _rejected(
        "REGISTRY", files=_content([METADATA], image=IMAGE.replace("redhat.io/", "redhat.io.example.com/"))
    ),
    "content-both-registries": _rejected("DIGEST", "REGISTRY", files=_content([METADATA], image="quay.io/a/b:1")),
    "architecture": _rejected("ARCHITECTURE", platforms=("linux/arm64",)),
    "architectures": _rejected("ARCHITECTURE", platforms=("linux/arm64", "linux/s390x")),
    "invalid-graph": Variant(
        frozenset({"FBC-DEFAULT-CHANNEL"}),
        {"reef/catalog.json": catalog([METADATA]).replace(b'"stable", "package"', b'"fast", "package"')},
    ),
    "invalid-json": Variant(frozenset({"FBC-SYNTAX", "KONFLUX-NO-PACKAGE"}), {"reef/catalog.json": b"{"}),
}
"""Variants by name, each of which differs in one respect from one that the task accepts."""
