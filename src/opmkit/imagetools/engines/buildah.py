"""The buildah engine, through its command line, since it has no API."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
import tempfile
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from opmkit.core.hints import Hint
from opmkit.core.scratch import ScratchDirectory
from opmkit.core.search_paths import find_program, python_command
from opmkit.imagetools.engines.engine import (
    CONTAINERS_INSECURE_HINT,
    ArchiveOpener,
    EngineImage,
    build_error,
    engine_error,
    last_line,
    stream_chunks,
)
from opmkit.imagetools.errors import EngineUnavailable, ImageToolsError
from opmkit.imagetools.hint_terms import ImageSetting
from opmkit.imagetools.image_format import ImageFormat
from opmkit.imagetools.layer import extract_tree
from opmkit.imagetools.registry_config import Certificates
from opmkit.imagetools.spec import ImageConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit.imagetools.build_spec import BuildSpec
    from opmkit.imagetools.credentials import Credentials
    from opmkit.imagetools.layer import Layer


NO_CERTIFICATES = Certificates()
_CHUNK = 1 << 18
_FORMATS = {ImageFormat.OCI: "oci", ImageFormat.DOCKER: "docker"}
_NOT_FOUND = "image not known"


class BuildahEngine:
    """The engine of the ``buildah`` program."""

    name = "buildah"
    injected_paths: tuple[str, ...] = ()

    def __init__(
        self,
        image_format: ImageFormat,
        *,
        verify_tls: bool,
        certificates: Certificates = NO_CERTIFICATES,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Use the program in the PATH of ``environ``; the first call looks it up.

        With ``verify_tls`` registries.conf decides which registries are insecure; without it, all are.
        """
        self._image_format = image_format
        self._verify_tls = verify_tls
        self._certificates = certificates
        self._environ = dict(environ)

    @cached_property
    def _program(self) -> str:
        program = find_program("buildah", self._environ)
        if program is None:
            raise EngineUnavailable(
                "buildah not found in PATH",
                hint=Hint.any_of("install it", Hint("use {}", ImageSetting.CONTAINER_TOOL.with_value("none"))),
            )
        return program

    def pull(self, name: str, credentials: Credentials | None) -> None:
        """Pull an image, even if the name exists in the storage."""
        with self._registry_flags(name, credentials) as flags:
            self._run(name, "pull", "--quiet", "--policy=always", *flags, name)

    def find(self, name: str) -> EngineImage | None:
        """Return an image in the storage that buildah shares with podman, None if it does not exist."""
        done = self._start("inspect", "--type=image", name)
        if done.returncode and _NOT_FOUND in done.stderr:
            return None
        inspected = json.loads(self._checked_output(name, done))
        config = ImageConfig.parse(inspected["Config"].encode())
        return EngineImage(f"sha256:{inspected['FromImageID']}", config, inspected.get("ImageAnnotations") or {})

    @contextmanager
    def open_container(self, image: EngineImage) -> Iterator[ArchiveOpener]:
        """Create a container of an image to read files from."""
        container = self._run(image.digest, "from", "--pull-never", image.digest.partition(":")[2]).strip()

        def open_archive(path: str) -> BinaryIO | None:
            chunks = self._archive(image.digest, container, path)
            first = next(chunks, None)  # runs the program until it writes something
            return None if first is None else stream_chunks(chain([first], chunks))

        try:
            yield open_archive
        finally:
            self._run(image.digest, "rm", container)

    def build(self, context: Layer, spec: BuildSpec, names: Sequence[str]) -> None:
        """Build an image with only the times and labels of the spec, so that the same files give the same digest."""
        arguments = [
            *("bud", "--pull-never", "--layers=false", "--identity-label=false"),
            *(f"--format={_FORMATS[self._image_format]}", f"--timestamp={spec.created}"),
            *(f"--label={key}={value}" for key, value in sorted(spec.labels.items())),
            *(f"--annotation={key}={value}" for key, value in sorted(spec.annotations.items())),
            *(f"--tag={name}" for name in names),
        ]
        # Buildah accepts an archive as well, but takes one that it cannot unpack for a Dockerfile with syntax errors.
        with ScratchDirectory("opm-context-") as directory:
            extract_tree([(context.descriptor, lambda: context.path.open("rb"))], Path(directory))
            done = self._start(*arguments, directory)
        if done.returncode:
            raise build_error(names[0], self.name, last_line(done.stderr), done.stdout + done.stderr)

    def push(self, name: str, credentials: Credentials | None) -> str:
        """Push an image and return its digest in the registry."""
        with self._registry_flags(name, credentials) as flags, ScratchDirectory("opm-digest-") as scratch:
            digest = Path(scratch, "digest")
            self._run(name, "push", "--quiet", f"--digestfile={digest}", *flags, name)
            return digest.read_text().strip()

    @contextmanager
    def _registry_flags(self, name: str, credentials: Credentials | None) -> Iterator[list[str]]:
        """Yield the flags for the registry of a name; credentials are in a temporary file that is not shared."""
        auths = {name.partition("/")[0]: _auth_entry(credentials)} if credentials else {}
        with ScratchDirectory("opm-buildah-") as directory:  # mode 0700
            authfile = Path(directory, "auth.json")
            authfile.touch(mode=0o600)
            authfile.write_text(json.dumps({"auths": auths}))
            flags = [f"--authfile={authfile}", *([] if self._verify_tls else ["--tls-verify=false"])]
            if self._certificates != NO_CERTIFICATES:
                self._link_certificates(Path(directory))
                flags.append(f"--cert-dir={directory}")
            yield flags

    def _link_certificates(self, directory: Path) -> None:
        for number, authority in enumerate(self._certificates.authorities):
            (directory / f"{number}.crt").symlink_to(authority.absolute())
        for number, (certificate, key) in enumerate(self._certificates.clients):
            (directory / f"{number}.cert").symlink_to(certificate.absolute())
            (directory / f"{number}.key").symlink_to(key.absolute())

    def _archive(self, name: str, container: str, path: str) -> Iterator[bytes]:
        """Yield a tar archive of a path in a container, nothing if the path does not exist."""
        unshare = [] if os.geteuid() == 0 else [self._program, "unshare"]
        command = [*unshare, *python_command(__name__, self._program, container, path)]
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=self._environ) as process,
        ):
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            try:
                while data := process.stdout.read(_CHUNK):
                    yield data
                if process.wait() not in {0, EXIT_NOT_FOUND}:
                    errors.seek(0)
                    raise self._error(name, errors.read().decode(errors="replace"))
            finally:
                process.kill()

    def _run(self, subject: str, *arguments: str) -> str:
        """Run buildah and return its standard output; raise an error that names ``subject`` if it fails."""
        return self._checked_output(subject, self._start(*arguments))

    def _checked_output(self, subject: str, done: subprocess.CompletedProcess[str]) -> str:
        if done.returncode:
            raise self._error(subject, done.stderr)
        return done.stdout

    def _error(self, subject: str, stderr: str) -> ImageToolsError:
        return engine_error(subject, self.name, last_line(stderr), insecure_hint=CONTAINERS_INSECURE_HINT)

    def _start(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=self._environ,
            check=False,
        )


def _auth_entry(credentials: Credentials) -> dict[str, str]:
    """Return credentials as an entry of auth.json, see containers-auth.json(5)."""
    entry = {"auth": credentials.basic().removeprefix("Basic ")}
    return entry | ({"identitytoken": credentials.identity_token} if credentials.identity_token else {})


EXIT_NOT_FOUND = 44
"""Exit status if the path does not exist in the container."""
_MAX_LINKS = 40


def main(buildah: str, container: str, path: str) -> int:
    """Write the archive, with entries named from the last component of the path, and return the exit status."""
    mount = subprocess.run([buildah, "mount", container], stdout=subprocess.PIPE, text=True, check=False)
    if mount.returncode:
        return mount.returncode
    file = resolve_in_root(Path(mount.stdout.strip()), path)
    if file is None:
        return EXIT_NOT_FOUND
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        archive.add(file, arcname=path.rpartition("/")[2])
    return 0


def resolve_in_root(root: Path, path: str) -> Path | None:
    """Resolve a path as a process whose root directory is ``root`` does, except for a link at the path itself.

    Return None if the path does not exist or has too many levels of links.
    """
    pending = path.split("/")[::-1]
    resolved: list[str] = []
    links = 0
    while pending:
        part = pending.pop()
        file = root.joinpath(*resolved, part)
        if part == "..":
            resolved = resolved[:-1]
        elif part not in {"", "."}:
            if not any(pending) or not file.is_symlink():
                resolved.append(part)
            elif (links := links + 1) <= _MAX_LINKS:
                target = file.readlink()
                resolved = [] if target.is_absolute() else resolved
                pending += str(target).split("/")[::-1]
            else:
                return None
    file = root.joinpath(*resolved)
    return file if file.exists() or file.is_symlink() else None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
