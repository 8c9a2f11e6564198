"""The buildah engine, by its command line: it has no API."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from opmkit.imagetools.engines.buildah_archive import NOTHING_THERE
from opmkit.imagetools.engines.engine import EngineImage, OpenArchive
from opmkit.imagetools.engines.errors import CONTAINERS_INSECURE, build_failure, engine_failure
from opmkit.imagetools.engines.streams import stream_of
from opmkit.imagetools.errors import EngineUnavailable, ImageToolsError
from opmkit.imagetools.hints import Hint, Setting
from opmkit.imagetools.image_format import ImageFormat
from opmkit.imagetools.layer import extract_tree
from opmkit.imagetools.registry_config import Certificates
from opmkit.imagetools.scratch import ScratchDirectory
from opmkit.imagetools.spec import ImageConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from opmkit.imagetools.auth import Credentials
    from opmkit.imagetools.build_spec import BuildSpec
    from opmkit.imagetools.layer import Layer

NO_CERTIFICATES = Certificates()
_CHUNK = 1 << 18
_FORMATS = {ImageFormat.OCI: "oci", ImageFormat.DOCKER: "docker"}
_UNKNOWN = "image not known"


class BuildahEngine:
    """Engine over the program ``buildah``."""

    name = "buildah"
    injected: tuple[str, ...] = ()

    def __init__(
        self,
        image_format: ImageFormat,
        *,
        verify_tls: bool,
        certificates: Certificates = NO_CERTIFICATES,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        """Fix the format of what is built; the program is looked for when it is first needed.

        With ``verify_tls`` registries.conf decides which registries are insecure; without it, all are.
        """
        self._image_format = image_format
        self._verify_tls = verify_tls
        self._certificates = certificates
        self._environ = dict(environ)

    @cached_property
    def _program(self) -> str:
        program = shutil.which("buildah", path=self._environ.get("PATH"))
        if program is None:
            raise EngineUnavailable(
                "buildah can't be used: there is no program 'buildah' in PATH",
                hint=Hint.any_of("install it", Hint("use {}", Setting.CONTAINER_TOOL.with_value("none"))),
            )
        return program

    def pull(self, name: str, credentials: Credentials | None) -> None:
        """Get what the registry has under that name now."""
        with self._access(name, credentials) as access:
            self._run(name, "pull", "--quiet", "--policy=always", *access, name)

    def find(self, name: str) -> EngineImage | None:
        """The image of that name in the storage that buildah shares with podman."""
        done = self._attempt("inspect", "--type=image", name)
        if done.returncode and _UNKNOWN in done.stderr:
            return None
        found = json.loads(self._checked(name, done))
        digest = f"sha256:{found['FromImageID']}"
        return EngineImage(digest, ImageConfig.parse(found["Config"].encode()), found.get("ImageAnnotations") or {})

    @contextmanager
    def opened(self, image: EngineImage) -> Iterator[OpenArchive]:
        """A container of the image, to read files from."""
        container = self._run(image.digest, "from", "--pull-never", image.digest.partition(":")[2]).strip()

        def archive(path: str) -> BinaryIO | None:
            chunks = self._archived(image.digest, container, path)
            first = next(chunks, None)
            return None if first is None else stream_of(_followed(first, chunks))

        try:
            yield archive
        finally:
            self._run(image.digest, "rm", container)

    def build(self, context: Layer, spec: BuildSpec, names: Sequence[str]) -> None:
        """Build the context; times and labels are the spec's alone, so that the same files give the same image."""
        arguments = [
            *("bud", "--pull-never", "--layers=false", "--identity-label=false"),
            *(f"--format={_FORMATS[self._image_format]}", f"--timestamp={spec.created}"),
            *(f"--label={key}={value}" for key, value in sorted(spec.labels.items())),
            *(f"--annotation={key}={value}" for key, value in sorted(spec.annotations.items())),
            *(f"--tag={name}" for name in names),
        ]
        # Buildah takes an archive, too, but one that it can't unpack for a Dockerfile that makes no sense.
        with ScratchDirectory("opm-context-") as directory:
            extract_tree([(context.descriptor, lambda: context.path.open("rb"))], Path(directory))
            done = self._attempt(*arguments, directory)
        if done.returncode:
            raise build_failure(names[0], self.name, _last_line(done.stderr), done.stdout + done.stderr)

    def push(self, name: str, credentials: Credentials | None) -> str:
        """Send an image to the registry of its name; the digest that it has there."""
        with self._access(name, credentials) as access, ScratchDirectory("opm-digest-") as scratch:
            digest = Path(scratch, "digest")
            self._run(name, "push", "--quiet", f"--digestfile={digest}", *access, name)
            return digest.read_text().strip()

    @contextmanager
    def _access(self, name: str, credentials: Credentials | None) -> Iterator[list[str]]:
        """The flags for access to the registry of a name; credentials are in a file that only its user can read."""
        auth = {name.partition("/")[0]: _as_entry(credentials)} if credentials else {}
        with ScratchDirectory("opm-buildah-") as directory:  # mode 0700
            authfile = Path(directory, "auth.json")
            authfile.touch(mode=0o600)
            authfile.write_text(json.dumps({"auths": auth}))
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

    def _archived(self, name: str, container: str, path: str) -> Iterator[bytes]:
        """What is at a path of a container, as a tar archive; nothing at all where there is nothing."""
        unshare = [] if os.geteuid() == 0 else [self._program, "unshare"]
        command = [
            *unshare,
            sys.executable,
            "-m",
            "opmkit.imagetools.engines.buildah_archive",
            self._program,
            container,
            path,
        ]
        with (
            tempfile.TemporaryFile() as errors,
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=self._environ) as process,
        ):
            assert process.stdout is not None  # noqa: S101 - it is a pipe
            try:
                while data := process.stdout.read(_CHUNK):
                    yield data
                if process.wait() not in {0, NOTHING_THERE}:
                    errors.seek(0)
                    raise self._failure(name, errors.read().decode(errors="replace"))
            finally:
                process.kill()

    def _run(self, subject: str, *arguments: str) -> str:
        return self._checked(subject, self._attempt(*arguments))

    def _checked(self, subject: str, done: subprocess.CompletedProcess[str]) -> str:
        if done.returncode:
            raise self._failure(subject, done.stderr)
        return done.stdout

    def _failure(self, subject: str, errors: str) -> ImageToolsError:
        return engine_failure(subject, self.name, _last_line(errors), insecure_hint=CONTAINERS_INSECURE)

    def _attempt(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self._program, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env=self._environ,
            check=False,
        )


def _as_entry(credentials: Credentials) -> dict[str, str]:
    """An entry of an auth.json, see containers-auth.json(5)."""
    entry = {"auth": credentials.basic().removeprefix("Basic ")}
    return entry | ({"identitytoken": credentials.identity_token} if credentials.identity_token else {})


def _followed(first: bytes, rest: Iterator[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _last_line(errors: str) -> str:
    """What buildah says last; before it come the steps and warnings."""
    lines = [line for line in errors.splitlines() if line.strip()]
    return lines[-1].removeprefix("Error: ") if lines else ""
