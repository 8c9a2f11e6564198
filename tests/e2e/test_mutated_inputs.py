"""Commands report mutated input files as errors of these files.

``OPMKIT_MUTANTS`` is the number of commands that read mutated files; with it, each run draws other mutations.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.kit.broken import BASE, files_below
from tests.kit.mutants import mutated
from tests.kit.opm import FIXTURES, run

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tests.kit.opm import Opm

MUTANTS = int(os.environ.get("OPMKIT_MUTANTS") or 200)
CONTROL = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\ud800-\udfff]")
SERVER = "http://127.0.0.1:9"
"""A server that refuses connections."""
IMAGE = "127.0.0.1:9/x:1"


@dataclass(frozen=True)
class Case:
    """Valid files by relative path, and command lines that read them."""

    files: Mapping[str, bytes]
    commands: tuple[str, ...]

    @classmethod
    def from_document(cls, path: str, document: Any, *commands: str) -> Case:
        """Return a case with one file, written as JSON or, if its name says so, as YAML."""
        indent = 1 if path.endswith(".yaml") else None
        return cls({path: json.dumps(document, indent=indent).encode()}, commands)


def _kubeconfig() -> dict[str, Any]:
    return {
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": SERVER, "insecure-skip-tls-verify": True}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u", "namespace": "n"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }


def _template(schema: str, **fields: Any) -> bytes:
    return json.dumps({"schema": schema, **fields}, indent=1).encode()


ENTRIES = [
    {"schema": "olm.package", "name": "demo", "defaultChannel": "stable"},
    {"schema": "olm.channel", "package": "demo", "name": "stable", "entries": [{"name": "demo.v1.0.0"}]},
    {"schema": "olm.channel", "package": "demo", "name": "fast", "entries": [{"name": "demo.v1.1.0"}]},
    {"schema": "olm.bundle", "image": IMAGE},
]
POLICY = {
    "default": [{"type": "reject"}],
    "transports": {"docker": {"quay.io/x": [{"type": "sigstoreSigned", "keyPath": "cosign.pub"}]}},
}
RULES = b"""fail-on: warning
severity: {CSV-NO-EXAMPLES: error}
ignore:
- {rule: GP-*, bundle: demo.v0.*, reason: known}
catalog: {openshift-version: "4.17", require-digests: true, allowed-registries: [quay.io/]}
"""
REGISTRIES = b"""unqualified-search-registries = ["127.0.0.1:9"]
[[registry]]
prefix = "quay.io/x"
location = "127.0.0.1:9/x"
blocked = true
[[registry]]
location = "127.0.0.1:9"
blocked = true
[aliases]
x = "127.0.0.1:9/x"
"""
DOCKERFILE = b"""FROM scratch
ARG X=1
LABEL operators.operatorframework.io.bundle.package.v1=demo \\
      operators.operatorframework.io.bundle.channels.v1=a
COPY manifests /manifests/
COPY ["metadata", "/metadata/"]
"""
INDEX = {
    "schemaVersion": 2,
    "manifests": [
        {
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": f"sha256:{'0' * 64}",
            "size": 2,
            "annotations": {"org.opencontainers.image.ref.name": "1"},
        }
    ],
}

CASES = (
    Case(
        files_below(FIXTURES / "catalogs" / "valid"),
        (
            *("validate .", "validate . --output json", "render .", "render . --output yaml", "index graph ."),
            *("alpha list bundles .", "alpha render-graph .", "index images .", "alpha list channels ."),
            "serve . --cache-only --cache-dir cache --termination-log /dev/null",
        ),
    ),
    Case(BASE, ("bundle validate .", "bundle unpack ./. --out new", "render ./.", "bundle generate -d manifests")),
    Case({"Dockerfile": DOCKERFILE, **BASE}, ("bundle build --file Dockerfile --tag oci:new:1 .",)),
    Case({".opm-validate.yaml": RULES}, ("validate .", "bundle validate .")),
    Case(
        {
            "basic.yaml": _template("olm.template.basic", entries=ENTRIES),
            "semver.yaml": _template("olm.semver", stable={"bundles": [{"image": IMAGE}]}),
            "ci.yaml": b"fbc: {enabled: true, catalog_mapping: [{template_name: basic.yaml}]}",
        },
        (
            *("alpha render-template basic.yaml", "alpha render-template semver.yaml", "template render ."),
            *("template promote basic.yaml demo.v1.1.0 --from fast --to stable",),
            *("template deprecate basic.yaml demo.v1.0.0 --message old",),
        ),
    ),
    Case.from_document("catalog.lock", {"images": {IMAGE: {"digest": f"sha256:{'0' * 64}"}}}, "template render ."),
    Case.from_document("kubeconfig.yaml", _kubeconfig(), "olm status --kubeconfig kubeconfig.yaml"),
    Case.from_document(
        "auth.json", {"auths": {"quay.io": {"auth": "YTpi"}}}, f"image inspect {IMAGE} --authfile auth.json"
    ),
    Case.from_document("policy.json", POLICY, "registry add -b ./x --database i.db --require-signature policy.json"),
    Case.from_document("index.json", INDEX, "image inspect oci:.:1", "render oci:.:1", "image copy oci:. oci:new:1"),
    Case.from_document(
        "pod.yaml",
        {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "a", "operator": "Exists"}], "memoryTarget": "1Gi"},
        "index manifests quay.io/x/y:1 --pod-config pod.yaml",
    ),
    Case.from_document(
        "replacements.yaml", {"quay.io": "127.0.0.1:9"}, "bundle pin . --check --replacements replacements.yaml"
    ),
    Case.from_document("owners.yaml", {"a": ["demo"]}, "index merge a b --owners owners.yaml --output-dir new"),
    Case({"registries.conf": REGISTRIES}, ("image inspect x:1", "image inspect quay.io/x/y:1")),
)


@contextlib.contextmanager
def _captured() -> Iterator[tuple[io.BytesIO, io.BytesIO]]:
    raw = io.BytesIO(), io.BytesIO()
    stdout, stderr = (io.TextIOWrapper(each, "utf-8", write_through=True) for each in raw)
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        yield raw
        stdout.detach()
        stderr.detach()


def run_command(files: Mapping[str, bytes], command: str) -> None:
    """Run a command in a directory with these files; fail unless it succeeds or reports a clean error."""
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        for name, content in files.items():
            path = Path(directory, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        with _captured() as (stdout, stderr):
            status = run([*shlex.split(command), "--use-http"] if "inspect" in command else shlex.split(command))
    output, errors = stdout.getvalue().decode(), stderr.getvalue().decode()
    assert status in (0, 1)
    assert "internal error" not in output + errors, errors
    assert not CONTROL.search(output + errors), errors
    assert output or errors or not status


@pytest.fixture
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, SERVER)
    monkeypatch.setenv("CONTAINERS_REGISTRIES_CONF", "registries.conf")


@pytest.mark.parametrize("case", CASES, ids=lambda case: next(iter(case.files)))
@pytest.mark.usefixtures("_settings")
def test_commands_read_mutated_files(case: Case) -> None:
    @settings(
        max_examples=max(MUTANTS // len(CASES), 1),
        derandomize="OPMKIT_MUTANTS" not in os.environ,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(mutated(case.files), st.sampled_from(case.commands))
    def read(files: Mapping[str, bytes], command: str) -> None:
        run_command(files, command)

    read()


@pytest.mark.parametrize(
    ("name", "content", "command", "error"),
    [
        ("1.xml", "<?opmkit-shard e30?>", "report merge 1.xml", "1.xml: written by release None"),
        (
            "have.json",
            '{"blobs": {"x": "quay.io/x/y"}}',
            "mirror missing --to oci-archive:new.tar --have have.json",
            "have.json: invalid digest 'x'",
        ),
        (
            "policy.json",
            '{"default": [{"type": "sigstoreSigned", "keyPath": "\\u0000"}]}',
            "registry add -b ./x --database i.db --require-signature policy.json",
            "policy.json.default[0]: ",
        ),
        ("index.json", "{}", "image inspect oci:.:1", "index.json: manifest.schemaVersion: expected 2"),
    ],
)
def test_errors_name_the_file(opm: Opm, name: str, content: str, command: str, error: str) -> None:
    (opm.directory / name).write_text(content)
    (opm.directory / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    done = opm.attempt(*shlex.split(command))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: ")
    assert error in done.stderr
    assert "internal error" not in done.stderr
