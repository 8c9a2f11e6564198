"""Images of ``scripts/build-runtime`` for another platform, run by QEMU."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from opmkit.client import CatalogClient
from opmkit.imagetools.spec import Platform
from tests.e2e.test_runtime_image import BUILD, IMPORT_COMPILED, PROGRAMS, wait_for
from tests.kit.catalogs import free_port
from tests.kit.opm import Opm
from tests.kit.requirements import require

if TYPE_CHECKING:
    from pathlib import Path

OTHER, EMULATOR = ("arm64", "aarch64") if Platform.from_host().architecture == "amd64" else ("amd64", "x86_64")


def build(*arguments: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(BUILD), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_image_of_another_platform_serves_an_index(tmp_path: Path) -> None:
    emulator = require(f"qemu-{EMULATOR}-static")
    if os.getuid():
        pytest.skip("only root can change the root directory")
    image = f"oci:{tmp_path}/images:other"
    done = build("--tag", image, "--platform", f"linux/{OTHER}")
    assert done.returncode == 0, done.stderr
    [inspected] = json.loads(Opm(tmp_path)("image", "inspect", image, "--output", "json"))["images"]
    assert inspected["platform"] == f"linux/{OTHER}"
    unpack = [require("umoci"), "unpack", "--image", image.removeprefix("oci:"), str(tmp_path / "bundle")]
    subprocess.run(unpack, check=True, capture_output=True)
    run_programs(tmp_path, tmp_path / "bundle" / "rootfs", emulator)


def run_programs(directory: Path, root: Path, emulator: str) -> None:
    """Run the programs of an unpacked image, and query the server of an index."""
    shutil.copy2(emulator, root / "emulator")
    interpreter = ["chroot", "--userspec=1001:0", str(root), "/emulator", "/opt/opmkit/bin/python", "-I"]
    script = f"import platform; assert platform.machine() == '{EMULATOR}'\n{IMPORT_COMPILED}"
    assert int(subprocess.run([*interpreter, "-c", script], capture_output=True, check=True).stdout) > 30
    for name in PROGRAMS:
        printed = subprocess.run([*interpreter, f"/bin/{name}", "--help"], capture_output=True, text=True, check=True)
        assert "usage" in printed.stdout.lower()
    opm = Opm(directory)
    opm.build_bundle("0.1.0", f"oci:{directory}/bundles:1")
    opm("registry", "add", "-b", f"{directory}/bundle-0.1.0", "-d", str(root / "index.db"))
    port = free_port()
    server = ["/bin/registry-server", "--database", "/index.db", "--port", str(port)]
    with subprocess.Popen([*interpreter, *server]) as process:
        try:
            wait_for(f"127.0.0.1:{port}")
            with CatalogClient.connect(f"127.0.0.1:{port}") as client:
                assert list(client.list_packages()) == ["lagoon-operator"]
        finally:
            process.terminate()


def test_unsupported_platform_is_reported() -> None:
    done = build("--tag", "oci:images:1", "--platform", "linux/s390x")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "Error: linux/s390x: unsupported platform",
        "  hint: use linux/amd64 or linux/arm64",
    ]
