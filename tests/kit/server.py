"""Start the catalog server and call it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import grpc

from opmkit.index.grpc_api import METHODS, request_class, response_class
from tests.kit.opm import PROGRAM

if TYPE_CHECKING:
    from collections.abc import Sequence

SERVE = (str(PROGRAM), "registry", "serve")
PATIENCE = 60
"""Seconds until waiting for a server times out."""
_FIELD = re.compile(r'(\w+)=("(?:[^"\\]|\\.)*"|\S*)')


class Server:
    """``opm registry serve`` on a free ``port``, as a context manager; ``out`` and ``err`` are its output so far."""

    def __init__(
        self, *flags: str, program: Sequence[str] = (str(PROGRAM), "registry", "serve"), port: int = 0
    ) -> None:
        self._argv = [*program, *flags, "--port", str(port)]
        self.port = 0
        self.out: list[str] = []
        self._serving = threading.Event()

    def __enter__(self) -> Self:
        self._directory = tempfile.TemporaryDirectory(prefix="opmkit-server-")
        termination = Path(self._directory.name, "termination-log")
        argv = self._argv if "-t" in self._argv else [*self._argv, "-t", str(termination)]
        self._err = Path(self._directory.name, "err").open("w+b")
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=self._err, text=True)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._serving.wait(PATIENCE) or not self.port:
            self.__exit__()
            raise RuntimeError(f"the server did not start: {self.out} {self.err}")
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self._reader.join()
        self.err  # noqa: B018 - read before the file is removed
        self._directory.cleanup()

    @property
    def err(self) -> str:
        if not self._err.closed:
            self._err.flush()
            self._err_text = Path(self._err.name).read_text()
            if self.process.poll() is not None:
                self._err.close()
        return self._err_text

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and return the exit status."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def workers(self) -> list[int]:
        """Return the ids of the worker processes."""
        return children(self.process.pid)

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.out.append(line.rstrip("\n"))
            if 'msg="serving registry"' in line:
                self.port = int(fields(line)["port"])
                self._serving.set()
        self._serving.set()


def children(process: int) -> list[int]:
    """Return the ids of the child processes."""
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]


def fields(line: str) -> dict[str, str]:
    """Return the fields of a logfmt record."""
    return {name: value.strip('"') for name, value in _FIELD.findall(line)}


def descriptors(process: int) -> int:
    """Return the number of open files of a process."""
    return len(os.listdir(f"/proc/{process}/fd"))  # noqa: PTH208


def channel(address: str, credentials: grpc.ChannelCredentials | None = None) -> grpc.Channel:
    """Return a separate connection for responses of any size, with a fixed flow-control window."""
    options = [
        ("grpc.max_receive_message_length", -1),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.http2.bdp_probe", 0),
    ]
    if credentials is None:
        return grpc.insecure_channel(address, options)
    return grpc.secure_channel(address, credentials, options)


def call(connection: grpc.Channel, method: str, /, **request: str) -> Any:
    """Call a method and return its response, or the list of its responses; raise grpc.RpcError on failure."""
    described = METHODS[method]
    make = connection.unary_stream if described.streams else connection.unary_unary
    asked = make(
        described.path,
        request_serializer=request_class(method).SerializeToString,
        response_deserializer=response_class(method).FromString,
    )(request_class(method)(**request), timeout=PATIENCE)
    return list(asked) if described.streams else asked
