"""Icons whose base64 text has line breaks, in catalogs that are rendered."""

from __future__ import annotations

import base64
import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest
import yaml

from tests.kit.broken import BASE
from tests.kit.bundles import push_image
from tests.kit.images import small_image

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.installed import InstalledOpm
    from tests.kit.registry import Registry

GO_OPM = os.environ.get("OPMKIT_REFERENCE_OPM_NEWEST", "")
CSV = "manifests/demo.clusterserviceversion.yaml"
SVG = b'<svg xmlns="http://www.w3.org/2000/svg">' + b"<g/>" * 60 + b"</svg>"
ICON = {"base64data": base64.encodebytes(SVG).decode(), "mediatype": "image/svg+xml"}
PACKAGE = {"schema": "olm.package", "name": "demo", "defaultChannel": "stable", "icon": ICON}
COMMANDS = {
    "semver": ("alpha", "render-template", "semver", "semver.yaml", "-o", "json"),
    "basic": ("alpha", "render-template", "basic", "basic.yaml", "-o", "json"),
    "render": ("render", "catalog", "-o", "json"),
}


@pytest.fixture
def sources(newcomer: InstalledOpm, registry: Registry, tmp_path: Path) -> None:
    """Write a semver template, a basic template and a catalog with the icon into the working directory."""
    csv = yaml.safe_load(BASE[CSV])
    csv["spec"]["icon"] = [ICON]
    files = {**BASE, CSV: yaml.safe_dump(csv).encode()}
    labels = yaml.safe_load(BASE["metadata/annotations.yaml"])["annotations"]
    image = push_image(f"{registry.host}/icons/demo:1", small_image(tmp_path, files, labels=labels))
    entries = [{"name": "demo.v1.2.3"}]
    channel = {"schema": "olm.channel", "name": "stable", "package": "demo", "entries": entries}
    semver = {"schema": "olm.semver", "generateMajorChannels": True, "stable": {"bundles": [{"image": image}]}}
    bundle = {"schema": "olm.bundle", "image": image}
    basic = {"schema": "olm.template.basic", "entries": [PACKAGE, channel, bundle]}
    (newcomer.directory / "catalog").mkdir()
    for name, documents in (("semver", [semver]), ("basic", [basic]), ("catalog/catalog", [PACKAGE, channel])):
        (newcomer.directory / f"{name}.yaml").write_text(yaml.safe_dump_all(documents))


@pytest.mark.usefixtures("sources")
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_icon_data_is_printed_without_line_breaks(command: tuple[str, ...], newcomer: InstalledOpm) -> None:
    printed = newcomer(*command, "--use-http")
    assert f'"base64data": {json.dumps(base64.b64encode(SVG).decode())}' in printed
    if GO_OPM:
        line = [GO_OPM, *command, "--use-http"]
        go = subprocess.run(
            line, cwd=newcomer.directory, env=newcomer.environment, capture_output=True, text=True, check=True
        )
        assert printed == go.stdout
