"""Edited templates are rendered by the newest Go opm as by this program, and Go opm accepts the catalogs.

``OPMKIT_REFERENCE_OPM_NEWEST`` is its path.
"""

from __future__ import annotations

import os
import random
import re
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from tests.reference.samples import Sample

if TYPE_CHECKING:
    from tests.kit.opm import Opm
    from tests.reference.samples import Publisher

REFERENCE = os.environ.get("OPMKIT_REFERENCE_OPM_NEWEST", "")
EDITS = 8
VERSIONS = [f"{major}.{minor}.{patch}" for major in (1, 2) for minor in range(3) for patch in range(2)]
BASIC = """\
---
# the template of reef
schema: olm.template.basic
entries:
  - schema: olm.package   # one package
    name: reef
    defaultChannel: stable

  # for users
  - schema: olm.channel
    name: stable
    package: reef
    entries:
      - name: 'reef.v1.0.0'   # first

  # bundles
  - image: {image}   # oldest
    schema: olm.bundle
# end
"""
SEMVER = """\
# a semver template
Schema: olm.semver
GenerateMajorChannels: true
Stable:  # for users
  Bundles:
    - Image: {image}   # first
"""

pytestmark = pytest.mark.skipif(
    not REFERENCE, reason="set OPMKIT_REFERENCE_OPM_NEWEST to the path of the newest Go opm"
)


def theirs(*arguments: str) -> str:
    """Return the output of Go opm, which must succeed."""
    done = subprocess.run([REFERENCE, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["basic", "semver"])
def test_random_histories_of_edits(kind: str, seed: int, publisher: Publisher, opm: Opm) -> None:
    rng, opm = random.Random(seed), replace(opm, flags=("--use-http",))
    images = {version: publisher.publish(Sample("reef", version)) for version in VERSIONS}
    path, catalog = opm.directory / "t.yaml", opm.directory / "catalog"
    text = (BASIC if kind == "basic" else SEMVER).format(image=images["1.0.0"])
    path.write_text(text)
    catalog.mkdir()
    changes = 0
    for _ in range(EDITS):
        before = path.read_text()
        done = opm.attempt("template", *random_edit(rng, kind, images))
        if done.returncode or path.read_text() == before:
            assert path.read_text() == before
            continue
        changes += 1
        rendered = theirs("alpha", "render-template", kind, str(path), "--use-http")
        assert opm.here("alpha", "render-template", kind, str(path)) == rendered
        (catalog / "catalog.json").write_text(rendered)
        theirs("validate", str(catalog))
    assert changes
    comments = re.findall(r"# .*", text)
    assert re.findall(r"# .*", path.read_text()) == comments


def random_edit(rng: random.Random, kind: str, images: dict[str, str]) -> list[str]:
    """Return the arguments of a command that edits the template."""
    version, channel = rng.choice(VERSIONS), rng.choice(["stable", "candidate", "fast"])
    name = f"reef.v{version}"
    verb = rng.choice(["add", "add", "add", "promote", "deprecate"])
    if kind == "semver":
        if verb == "add":
            return ["add", "t.yaml", images[version], "--channel", channel]
        return ["promote", "t.yaml", name, "--to", channel]
    if verb == "deprecate":
        references = rng.choice([[name], ["--channel", channel], ["--package"]])
        return ["deprecate", "t.yaml", *references, *rng.choice([["-m", "Old: it's #1."], ["--undo"]])]
    flags = rng.choice([["--by-version"], ["--by-version"], [], ["--skips", f"reef.v{rng.choice(VERSIONS)}"]])
    if verb == "add":
        return ["add", "t.yaml", images[version], "--channel", channel, "--create-channel", *flags]
    return ["promote", "t.yaml", name, "--to", channel, "--create-channel", *flags]
