"""policy.json accepts the same images in Go opm 1.73, which reads it with containers/image.

``OPMKIT_REFERENCE_OPM_NEWEST`` is the path of Go opm, or ``OPMKIT_REFERENCE_OPM`` if that is new enough.
"""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.kit.bundles import bundle_image, push_image
from tests.reference.test_render import REFERENCE, is_new_enough

if TYPE_CHECKING:
    from pathlib import Path

    from tests.kit.opm import Opm
    from tests.kit.registry import Registry

ACCEPT, REJECT = {"type": "insecureAcceptAnything"}, {"type": "reject"}
MISSING_KEY = {"type": "signedBy", "keyType": "GPGKeys", "keyPath": "/missing"}
SCOPES = (
    *("IMAGE", "DIGEST", "REPOSITORY", "HOST/trust", "HOST", "", "HOST/trus", "localhost", "*.localhost"),
    *("REPOSITORY:2", "Localhost", "HOST/trust/"),
)
POLICIES = (
    *('""', "null", "{", "[]", "{}", '{"default": []}'),
    json.dumps({"default": [ACCEPT], "transports": {"other": {"": [REJECT]}}}),
    json.dumps({"default": [ACCEPT], "unknown": 1}),
    json.dumps({"default": [ACCEPT, REJECT]}),
    json.dumps({"default": [{"type": "signedBaseLayer", "baseLayerIdentity": {"type": "matchRepository"}}]}),
    json.dumps({"default": [MISSING_KEY]}),
    json.dumps({"default": [{"type": "sigstoreSigned", "keyPath": "/missing"}]}),
    json.dumps({"default": [ACCEPT], "transports": {"docker": {"quay.io": [MISSING_KEY]}}}),
    json.dumps({"default": [ACCEPT], "transports": {"docker": {"a.b": [{**MISSING_KEY, "keyType": "x"}]}}}),
    *(
        json.dumps({"default": [default], "transports": {"docker": {scope: [other]}}})
        for default, other in ((ACCEPT, REJECT), (REJECT, ACCEPT))
        for scope in SCOPES
    ),
)


def test_the_same_images_are_accepted(opm_http: Opm, registry: Registry, tmp_path: Path) -> None:
    if not REFERENCE or not is_new_enough():
        pytest.skip("set OPMKIT_REFERENCE_OPM_NEWEST to the path of the newest Go opm")
    host = registry.host.replace("127.0.0.1", "localhost")
    repository = f"{host}/trust/compared"
    image = f"{repository}:1"
    push_image(image, bundle_image("compared", "1.0.0", tmp_path))
    by_digest = f"{repository}@{opm_http('image', 'copy', image, 'oci:copied:1').strip().rpartition('@')[2]}"
    path = tmp_path / ".config" / "containers" / "policy.json"
    path.parent.mkdir(parents=True)
    environment = {**os.environ, "HOME": str(tmp_path)}
    accepted = 0
    for template in POLICIES:
        text = template.replace("REPOSITORY", repository).replace("IMAGE", image).replace("DIGEST", by_digest)
        path.write_text(text.replace("HOST", host))
        for name in (image, by_digest):
            command = [REFERENCE, "render", "--use-http", name]
            theirs = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
            ours = opm_http.attempt("render", "--signature-policy", str(path), name)
            assert (theirs.returncode == 0) is (ours.returncode == 0), (text, name, theirs.stderr, ours.stderr)
            accepted += ours.returncode == 0
    assert 10 < accepted < 2 * len(POLICIES) - 10
