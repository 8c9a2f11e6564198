"""The pages that explain index images and security: the commands run, and the limits are those of the code."""

from __future__ import annotations

import os
import re
import subprocess
from typing import TYPE_CHECKING

from opmkit.bundle import directory, load, upload
from opmkit.documents import MAX_BYTES, document, go_yaml
from opmkit.http import streams
from opmkit.imagetools import image
from opmkit.imagetools.layer.limits import DISK_LIMITS
from opmkit.imagetools.layer.reader import MAX_LINKS
from opmkit.imagetools.registry import messages, repository, transport
from opmkit.imagetools.signatures import documents, lookaside, verify
from opmkit.imagetools.spec import config, fields, manifest
from opmkit.index.plan import edges, paths, result
from opmkit.index.sqlite import connect
from opmkit.supply.mirror.linear_pattern import MAX_INSTRUCTIONS
from tests.e2e.test_docs_guides import BLOCK, matches
from tests.kit.command_lines import ROOT, console_commands
from tests.kit.opm import FIXTURES, PROGRAM

if TYPE_CHECKING:
    from tests.kit.opm import Opm

COMMAND = re.compile(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", re.MULTILINE)
ROW = re.compile(r"^\| (.*) \| ([0-9]+)(?: (KiB|MiB|GiB|times))? \|$", re.MULTILINE)
UNITS = {"": 1, "times": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
LIMITS = {
    "manifest of an image": manifest.MAX_MANIFEST_SIZE,
    "configuration of an image": config.MAX_CONFIG_SIZE,
    "layers of an image": manifest.MAX_LAYERS,
    "images in an image index": manifest.MAX_INDEX_MANIFESTS,
    "nested image indexes, of which bundles have none": image._MAX_INDEX_DEPTH,
    "images in the image index of a bundle": image.MAX_PLATFORMS,
    "decompressed layers of an image, read from or written to disk": DISK_LIMITS.total_bytes,
    "files in the layers of an image": DISK_LIMITS.entries,
    "links to follow for one file": MAX_LINKS,
    "file of a bundle": MAX_BYTES,
    "all files of a bundle": directory.MAX_TOTAL_BYTES,
    "files in the layers of a bundle image": load._LIMITS.entries,
    "uploaded bundle archive (library, service)": upload.MAX_ARCHIVE_SIZE,
    "compression of a file in an uploaded zip archive": upload.MAX_RATIO,
    "nesting of YAML": go_yaml.MAX_DEPTH,
    "values and characters of a YAML document, with aliases expanded": go_yaml.MAX_EXPANSION,
    "values and characters that aliases add to a YAML document": go_yaml.MAX_ALIASED,
    "nesting of the JSON of registries": fields.MAX_DEPTH,
    "constraint of a bundle, nested": document.MAX_CONSTRAINT_DEPTH,
    "value in a database": connect.MAX_VALUE,
    "response of a registry, other than manifests and blobs": messages.MAX_BODY_SIZE,
    "header of a response": streams.MAX_HEADER_SIZE,
    "redirects": transport._MAX_REDIRECTS,
    "characters of a regular expression in `blockedImages`, also when repetitions are written out": MAX_INSTRUCTIONS,
    "tags of a repository": repository.MAX_TAGS,
    "signatures and attestations of an image": verify.MAX_ATTACHMENTS,
    "signatures of an image outside its registry": lookaside.MAX_SIGNATURES,
    "signed payload": documents.MAX_PAYLOAD_SIZE,
    "attestation": documents.MAX_ATTESTATION_SIZE,
    "updates on all paths of `opm index plan` in JSON": result.MAX_HOPS,
    "updates of a package that `opm index plan` checks for CRDs and permissions": edges.MAX_UPDATES,
    "bundles that `opm index plan --from` considers for the dependencies of all updates": paths.MAX_CONSIDERED,
}


def test_limits_in_security_are_those_of_the_code() -> None:
    rows = ROW.findall((ROOT / "docs" / "security.md").read_text())
    assert {name: int(number) * UNITS[unit] for name, number, unit in rows} == LIMITS


def test_index_images_prints_what_is_quoted(opm: Opm) -> None:
    (opm.directory / "fixtures").symlink_to(FIXTURES)
    text = (ROOT / "docs" / "index-images.md").read_text()
    outputs = dict(example for block in BLOCK.findall(text) for example in COMMAND.findall(block))
    commands = console_commands(ROOT / "docs" / "index-images.md")
    assert set(outputs) < set(commands)
    environment = {**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
    for command in commands:
        quoted = outputs.get(command, "")
        argv = ["bash", "-c", command]
        done = subprocess.run(argv, cwd=opm.directory, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        printed = iter(done.stdout.splitlines())
        for line in quoted.splitlines():  # "..." stands for lines, or for the rest of one
            assert line == "..." or any(matches(line.replace("...", "…"), other) for other in printed), (
                line,
                done.stdout,
            )
