"""Build an image with opm from a Python interpreter, its packages, and the shared libraries of both.

It has three layers, so that a new version of opmkit only changes the top one: the interpreter, the dependencies, and
opmkit with the bill of materials. The same environment results in the same digest.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import certifi
import typer
from debian_packages import download
from image_files import compile_modules, is_unused, strip_binaries, tar, unused_in_library
from image_sources import HOME, HostSource
from msgspec.structs import replace
from sbom import cyclonedx_json

import opmkit
from opmkit.cli.flags.registry import RegistryFlags
from opmkit.cli.main import run_app
from opmkit.cli.parser.go_commands import require_flags
from opmkit.cli.parser.registration import add_command
from opmkit.cli.progress.command import progress
from opmkit.core.environment import rfc3339, source_date_epoch
from opmkit.core.errors import OpmkitError
from opmkit.imagetools.image import Image, ImageIndex
from opmkit.imagetools.layer import write_tar
from opmkit.imagetools.reference import parse_image_reference
from opmkit.imagetools.registry import RegistryClient
from opmkit.imagetools.spec import ConfigChanges, IndexManifest, Platform
from opmkit.imagetools.store import ImageStore
from opmkit.imagetools.tools.registry import RegistryTool
from opmkit.imagetools.transports import pin_reference

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

STAGES = ("interpreter", "packages", "opmkit")
PYTHON = HOME / "bin" / "python"
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
UID = "1001"


def build(
    ctx: typer.Context,
    registry_flags: RegistryFlags,
    tag: Annotated[str, typer.Option("--tag", "-t", metavar="IMAGE", help="Name of the image (required)")] = "",
    push: Annotated[bool, typer.Option("--push", help="Push to the registry of --tag")] = False,
    platform: Annotated[
        list[str] | None,
        typer.Option(
            "--platform",
            metavar="OS/ARCH",
            help="Platform of the image, by default that of the machine; repeatable. Others require Debian or Ubuntu",
        ),
    ] = None,
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
        staged(HostSource.running(), dict.fromkeys(STAGES, directory))
        return
    require_flags(ctx, "tag")
    target = parse_image_reference(tag)
    tool = RegistryTool(RegistryClient(registry_flags.options()), ImageStore.open())
    with tempfile.TemporaryDirectory(prefix="opm-runtime-") as scratch, progress() as bars:
        others = [tool.load(parse_image_reference(name)) for name in combine_with or ()]
        images = [runtime(source, path, source_date_epoch()) for source, path in sources(platform, Path(scratch))]
        put = tool.push if push else tool.save
        print(pin_reference(target, put(combined(*images, *others), target, progress=bars).digest))


def sources(platforms: Sequence[str] | None, scratch: Path) -> Iterator[tuple[HostSource, Path]]:
    """Yield the interpreters of the platforms, of this machine by default, each with a new directory in ``scratch``."""
    host = HostSource.running()
    for platform in map(Platform.parse, platforms or (str(host.platform),)):
        directory = scratch / str(platform).replace("/", "-")
        directory.mkdir()
        yield (host if platform == host.platform else download(platform, directory)), directory


def combined(*given: Image | ImageIndex) -> Image | ImageIndex:
    """Return an index of images by platform, or the image if there is only one; raises OpmkitError."""
    images = [image for one in given for image in (one.images if isinstance(one, ImageIndex) else (one,))]
    if len(images) == 1:
        return images[0]
    by_platform = {str(one.config.platform): one for one in images}
    if len(by_platform) < len(images):
        raise OpmkitError(
            "two images have the same platform", hint="pass other platforms with --platform and --combine-with"
        )
    ordered = [by_platform[name] for name in sorted(by_platform)]
    descriptors = [replace(one.manifest.descriptor, platform=one.config.platform) for one in ordered]
    return ImageIndex(IndexManifest.build(descriptors), tuple(ordered))


def runtime(source: HostSource, scratch: Path, created: int) -> Image:
    """Return the image, with its layers in ``scratch``; ``created`` is in seconds of Unix time."""
    stages = {name: scratch / name for name in STAGES}
    layers = [write_tar(tar(stage, created), scratch) for stage in staged(source, stages)]
    changes = ConfigChanges(
        env={"PATH": "/bin", "LANG": "C.UTF-8", "SSL_CERT_FILE": f"/{AUTHORITIES}"},
        entrypoint=("/bin/opm",),
        user=UID,
        exposed_ports=("50051/tcp",),
        labels={"org.opencontainers.image.title": "opmkit", "org.opencontainers.image.version": opmkit.__version__},
    )
    base = Image.scratch(source.platform)
    return base.append(layers, changes, created=rfc3339(created), created_by="scripts/build-runtime")


def staged(source: HostSource, stages: Mapping[str, Path]) -> list[Path]:
    """Copy the files of the image to the directories, one for each of ``STAGES``, bottom first."""
    stage_interpreter(source, stages["interpreter"])
    stage_packages(source, stages["packages"])
    stage_opmkit(source, stages["opmkit"])
    directories = list(dict.fromkeys(stages.values()))
    libraries = stage_libraries(source, stages["interpreter"], directories)
    if source.platform == Platform.from_host():  # those of Debian have no symbols
        strip_binaries(directories)
    stage_sbom(source, stages["opmkit"], libraries)
    for directory in directories:
        compile_modules(directory, source.modules / "opmkit")
    return directories


def stage_interpreter(source: HostSource, stage: Path) -> None:
    """Copy the interpreter, its standard library, and the files with users, host names and certificate authorities."""

    def unused(directory: str, names: list[str]) -> set[str]:
        return unused_in_library(Path(directory).relative_to(source.library).parts, names)

    target = stage / HOME / "lib" / source.library.name
    shutil.copytree(source.library, target, ignore=unused, ignore_dangling_symlinks=True)
    _put(stage / PYTHON, source.interpreter.read_bytes(), 0o755)
    _put(stage / AUTHORITIES, Path(certifi.where()).read_bytes())
    _put(stage / "etc/passwd", f"root:x:0:0:root:/:/\nopm:x:{UID}:0:opm:/tmp:/\n".encode())
    _put(stage / "etc/group", b"root:x:0:\n")
    _put(stage / "etc/nsswitch.conf", b"hosts: files dns\n")
    (stage / "tmp").mkdir()
    (stage / "tmp").chmod(0o1777)


def stage_packages(source: HostSource, stage: Path) -> None:
    """Copy the dependencies of opmkit."""
    for distribution in source.dependencies("opmkit"):
        for file in distribution.files or ():
            unstable = file.parts[0].endswith(".dist-info") and file.name in UNSTABLE
            if not (".." in file.parts or unstable or is_unused(file.parts)):
                _put(stage / source.modules / file, Path(str(file.locate())).read_bytes())


def stage_opmkit(source: HostSource, stage: Path) -> None:
    """Copy opmkit, and write its programs."""
    package = Path(opmkit.__file__).parent
    shutil.copytree(package, stage / source.modules / "opmkit", ignore=shutil.ignore_patterns("__pycache__"))
    for name, entry in PROGRAMS.items():
        module, _, function = entry.partition(":")
        text = LAUNCHER.format(python=PYTHON, module=module, function=function)
        _put(stage / "bin" / name, text.encode(), 0o755)


def stage_libraries(source: HostSource, stage: Path, stages: Sequence[Path]) -> dict[str, Path]:
    """Copy the shared libraries that the files of all stages are linked to; return the copies by path in the image."""
    binaries = [path for each in stages for path in each.rglob("*") if path.suffix == ".so" or ".so." in path.name]
    copies: dict[str, Path] = {}
    for place, path in source.libraries(binaries, stages).items():
        copies[place] = stage / place.lstrip("/")
        _put(copies[place], path.read_bytes(), 0o755)
    return copies


def stage_sbom(source: HostSource, stage: Path, libraries: Mapping[str, Path]) -> None:
    """Write the bill of materials of all stages."""
    root, needed = metadata.distribution("opmkit"), source.dependencies("opmkit")
    _put(stage / SBOM, cyclonedx_json(root, needed, libraries, source_date_epoch(), source.version))


def _put(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


if __name__ == "__main__":
    app = typer.Typer(add_completion=False)
    add_command(app, "build-runtime", build)
    sys.exit(run_app(app, "scripts/build-runtime", sys.argv[1:]))
