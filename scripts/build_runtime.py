"""Build an image with opm from the running Python interpreter, its packages, and the shared libraries of both.

It has three layers, so that a new version of opmkit only changes the top one: the interpreter, the dependencies, and
opmkit with the bill of materials. The same environment results in the same digest.
"""

from __future__ import annotations

import re
import shutil
import site
import subprocess
import sys
import sysconfig
import tempfile
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import certifi
import typer
from image_files import compile_modules, is_unused, strip_binaries, tar, unused_in_library
from packaging.requirements import Requirement
from sbom import cyclonedx_json, normalized, requirements

import opmkit
from opmkit.cli.console import progress
from opmkit.cli.go_commands import require_flags
from opmkit.cli.main import run_app
from opmkit.cli.registration import add_command
from opmkit.cli.registry_flags import RegistryFlags
from opmkit.imagetools.epoch import rfc3339, source_date_epoch
from opmkit.imagetools.errors import OpmkitError
from opmkit.imagetools.image import Image, ImageIndex
from opmkit.imagetools.layer import write_tar
from opmkit.imagetools.reference import parse_image_reference
from opmkit.imagetools.spec import ConfigChanges, IndexManifest, Platform
from opmkit.imagetools.transports import pin_reference

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

STAGES = ("interpreter", "packages", "opmkit")
HOME = Path("opt/opmkit")
PYTHON = HOME / "bin" / "python"
PACKAGES = Path(site.getsitepackages([f"/{HOME}"])[-1]).relative_to("/")
AUTHORITIES = Path("etc/ssl/certs/ca-certificates.crt")
PROGRAMS = {
    "opm": "opmkit.cli.entry:opm",
    "initializer": "opmkit.cli.entry:initializer",
    "registry-server": "opmkit.cli.entry:registry_server",
    "configmap-server": "opmkit.cli.entry:configmap_server",
    "grpc_health_probe": "opmkit.cli.grpc_health_probe:main",
}
"""Programs in /bin; catalog pods of OLM run the last one."""
LAUNCHER = """\
#!/{python} -I
import sys
from {module} import {function}
sys.exit({function}())
"""
UNSTABLE = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
"""Files of packages that describe their installation on this machine."""
SBOM = HOME / "sbom.cdx.json"
"""The bill of materials, with a name that image scanners recognize."""
LIBRARY = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x", re.MULTILINE)
UID = "1001"


def build(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    tag: Annotated[str, typer.Option("--tag", "-t", metavar="IMAGE", help="Name of the image (required)")] = "",
    push: Annotated[bool, typer.Option("--push", help="Push to the registry of --tag")] = False,
    combine_with: Annotated[
        list[str] | None,
        typer.Option(
            "--combine-with",
            metavar="IMAGE",
            help="Image of another platform to combine into an image index; repeatable",
        ),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option("--directory", metavar="DIR", help="Directory to write the files to instead of an image"),
    ] = None,
) -> None:
    """Build an image with opm and the other programs from the current Python environment

    [bold]Example:[/] scripts/build-runtime --tag quay.io/me/opmkit:1 --push
    """
    if directory:
        staged(dict.fromkeys(STAGES, directory))
        return
    require_flags(ctx, "tag")
    target = parse_image_reference(tag)
    tool = registry_flags.tool()
    with tempfile.TemporaryDirectory(prefix="opm-runtime-") as scratch, progress() as bars:
        others = [tool.load(parse_image_reference(name)) for name in combine_with or ()]
        image = runtime(Path(scratch), source_date_epoch())
        put = tool.push if push else tool.save
        print(pin_reference(target, put(combined(image, others), target, progress=bars).digest))


def combined(image: Image, others: Sequence[Image | ImageIndex]) -> Image | ImageIndex:
    """Return an index of images by platform, or the image if there are no others; raises OpmkitError."""
    images = [image, *(one for other in others for one in getattr(other, "images", (other,)))]
    if len(images) == 1:
        return image
    by_platform = {str(one.config.platform): one for one in images}
    if len(by_platform) < len(images):
        raise OpmkitError("--combine-with: two images have the same platform", hint="pass images of other platforms")
    ordered = [by_platform[name] for name in sorted(by_platform)]
    descriptors = [replace(one.manifest.descriptor, platform=one.config.platform) for one in ordered]
    return ImageIndex(IndexManifest.build(descriptors), tuple(ordered))


def runtime(scratch: Path, created: int) -> Image:
    """Return the image, with its layers in ``scratch``; ``created`` is in seconds of Unix time."""
    stages = {name: scratch / name for name in STAGES}
    layers = [write_tar(tar(stage, created), scratch) for stage in staged(stages)]
    changes = ConfigChanges(
        env={"PATH": "/bin", "LANG": "C.UTF-8", "SSL_CERT_FILE": f"/{AUTHORITIES}"},
        entrypoint=("/bin/opm",),
        user=UID,
        exposed_ports=("50051/tcp",),
        labels={"org.opencontainers.image.title": "opmkit", "org.opencontainers.image.version": opmkit.__version__},
    )
    base = Image.scratch(Platform.from_host())
    return base.append(layers, changes, created=rfc3339(created), created_by="scripts/build-runtime")


def staged(stages: Mapping[str, Path]) -> list[Path]:
    """Copy the files of the image to the directories, one for each of ``STAGES``, bottom first."""
    stage_interpreter(stages["interpreter"])
    stage_packages(stages["packages"])
    stage_opmkit(stages["opmkit"])
    directories = list(dict.fromkeys(stages.values()))
    libraries = stage_libraries(stages["interpreter"], directories)
    strip_binaries(directories)
    stage_sbom(stages["opmkit"], libraries)
    for directory in directories:
        compile_modules(directory, PACKAGES / "opmkit")
    return directories


def stage_interpreter(stage: Path) -> None:
    """Copy the interpreter, its standard library, and the files with users, host names and certificate authorities."""
    library = Path(sysconfig.get_path("stdlib"))
    shutil.copytree(library, stage / HOME / "lib" / library.name, ignore=_unused, ignore_dangling_symlinks=True)
    _put(stage / PYTHON, Path(sys.executable).resolve().read_bytes(), 0o755)
    _put(stage / AUTHORITIES, Path(certifi.where()).read_bytes())
    _put(stage / "etc/passwd", f"root:x:0:0:root:/:/\nopm:x:{UID}:0:opm:/tmp:/\n".encode())
    _put(stage / "etc/group", b"root:x:0:\n")
    _put(stage / "etc/nsswitch.conf", b"hosts: files dns\n")
    (stage / "tmp").mkdir()
    (stage / "tmp").chmod(0o1777)


def stage_packages(stage: Path) -> None:
    """Copy the dependencies of opmkit."""
    for distribution in dependencies("opmkit"):
        for file in distribution.files or ():
            unstable = file.parts[0].endswith(".dist-info") and file.name in UNSTABLE
            if not (".." in file.parts or unstable or is_unused(file.parts)):
                _put(stage / PACKAGES / file, Path(str(file.locate())).read_bytes())


def stage_opmkit(stage: Path) -> None:
    """Copy opmkit, and write its programs."""
    source = Path(opmkit.__file__).parent
    shutil.copytree(source, stage / PACKAGES / "opmkit", ignore=shutil.ignore_patterns("__pycache__"))
    for name, entry in PROGRAMS.items():
        module, _, function = entry.partition(":")
        text = LAUNCHER.format(python=PYTHON, module=module, function=function)
        _put(stage / "bin" / name, text.encode(), 0o755)


def stage_libraries(stage: Path, stages: Iterable[Path]) -> dict[str, Path]:
    """Copy the shared libraries that the files of all stages are linked to; return the copies by path in the image.

    They go where the loader looks by itself, which is where the C library is; the loader has its place.
    """
    binaries = [path for each in stages for path in each.rglob("*") if path.suffix == ".so" or ".so." in path.name]
    # The interpreter where it is, for its own path may tell where its library is.
    linked = subprocess.run(
        ["ldd", sys.executable, *map(str, binaries)], capture_output=True, text=True, check=False
    ).stdout
    found = {Path(path) for path in LIBRARY.findall(linked)}
    home = next(path.parent for path in found if path.name.startswith(("libc.so", "ld-musl")))
    outside = [path for path in found if not any(path.is_relative_to(each) for each in stages)]
    placed = {str(path if path.name.startswith("ld-") else home / path.name): path for path in outside}
    for place, path in placed.items():
        _put(stage / Path(place).relative_to("/"), path.read_bytes(), 0o755)
    return {place: stage / Path(place).relative_to("/") for place in placed}


def stage_sbom(stage: Path, libraries: Mapping[str, Path]) -> None:
    """Write the bill of materials of all stages."""
    needed = dependencies("opmkit")
    _put(stage / SBOM, cyclonedx_json(metadata.distribution("opmkit"), needed, libraries, source_date_epoch()))


def dependencies(name: str) -> list[metadata.Distribution]:
    """Return the installed packages that a package requires, directly or indirectly, by name."""
    found: dict[str, metadata.Distribution] = {}

    def find(requirement: Requirement) -> None:
        key = normalized(requirement.name)
        if key in found:
            return
        found[key] = metadata.distribution(requirement.name)
        for needed in requirements(found[key], requirement.extras):
            find(needed)

    find(Requirement(name))
    return [found[key] for key in sorted(found) if key != name]


def _put(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def _unused(directory: str, names: list[str]) -> set[str]:
    return unused_in_library(Path(directory).relative_to(sysconfig.get_path("stdlib")).parts, names)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False)
    add_command(app, "build-runtime", build)
    sys.exit(run_app(app, "scripts/build-runtime", sys.argv[1:]))
