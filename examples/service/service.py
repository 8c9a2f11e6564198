"""A service that validates uploaded bundles: ``curl --data-binary @bundle.tar.gz http://HOST:PORT/validate``.

Uploads are tar archives, compressed or not, and zip archives.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from opmkit import Opm, OpmkitError

MAX_UPLOAD = 16 << 20
MAX_CONCURRENT = 4
PATIENCE = 10.0  # seconds to wait for one of them
CHUNK = 1 << 16

opm = Opm()
slots = threading.BoundedSemaphore(MAX_CONCURRENT)


class Handler(BaseHTTPRequestHandler):
    """Handler of ``POST /validate``, whose body is a tar or zip archive of a bundle directory."""

    timeout = 30  # seconds without data from the client

    def do_POST(self) -> None:
        """Validate the upload, and respond with the result: 200, even if the bundle is invalid."""
        length = self.headers.get("Content-Length", "")
        if self.path != "/validate":
            self._respond(404, {"error": {"message": "not found"}})
        elif not (length.isascii() and length.isdigit()):
            self._respond(411, {"error": {"message": "the header Content-Length is missing"}})
        elif len(length) > 9 or int(length) > MAX_UPLOAD:
            self._respond(413, {"error": {"message": f"the archive exceeds {MAX_UPLOAD} bytes"}})
        elif not slots.acquire(timeout=PATIENCE):
            self._respond(503, {"error": {"message": "too many uploads"}})
        else:
            try:
                self._respond(*self._validate(int(length)))
            finally:
                slots.release()

    def _validate(self, length: int) -> tuple[int, dict[str, Any]]:
        with tempfile.TemporaryDirectory() as directory:
            archive = Path(directory, "upload")
            with archive.open("wb") as file:
                while length and (chunk := self.rfile.read(min(CHUNK, length))):
                    file.write(chunk)
                    length -= len(chunk)
            if length:
                return 400, {"error": {"message": "the upload is incomplete"}}
            try:
                return 200, opm.validate_archive(archive).to_dict()
            except OpmkitError as error:
                return 400, {"error": error.to_dict()}

    def _respond(self, status: int, document: dict[str, Any]) -> None:
        body = json.dumps(document).encode()
        self.close_connection = True  # the rest of the request may be unread
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    with ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler) as server:
        sys.stdout.write(f"http://127.0.0.1:{server.server_port}/validate\n")
        sys.stdout.flush()
        server.serve_forever()
