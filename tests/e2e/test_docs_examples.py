"""The examples of help texts run: each in a site with the images and files that it names."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from opmkit.cli.help_content import describe_command
from tests.cli.test_help import commands
from tests.kit.example_site import ExampleSite
from tests.kit.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kit.forkserver import ForkServer

ALIASES = ("opm alpha bundle ", "opm image cp ", "opm index pin ", "opm run pm ")
"""Second names of commands, whose examples differ from the others by that name alone."""
LAGOONS = "quay.io/me/lagoon:0.1.0 quay.io/me/lagoon:0.2.0"
SHARDS = f"for k in 1 2 3; do opm bundle validate {LAGOONS} --shard $k/3 --output {{1}} > {{0}}; done"
BEFORE = {
    "opm image push": "opm image pull quay.io/me/lagoon:0.1.0",
    "opm bundle push": "opm image pull quay.io/me/lagoon:0.1.0",
    "opm image rm": "opm image pull quay.io/me/catalog:1",
    "opm image generate-key-pair": "rm cosign.key cosign.pub",
    "opm image verify --key": "opm image sign --key cosign.key quay.io/me/catalog:1",
    "opm image verify-attestation": "opm image attest --key cosign.key --provenance quay.io/me/catalog:1",
    "opm index add -b ./lagoon/0.2.0=": "sed -i /replaces:/d lagoon/0.2.0/manifests/*.clusterserviceversion.yaml",
    "opm index add -b quay.io/me/lagoon:0.2.0 -f ./catalog": "rm -r catalog; opm migrate quay.io/me/catalog:1 catalog",
    "opm index images quay.io/me/lagoon-bundle:1": "opm image copy quay.io/me/lagoon:0.1.0 quay.io/me/lagoon-bundle:1",
    "opm index merge quay.io/me/catalog:1 quay.io/team": "opm image copy quay.io/me/catalog:1 quay.io/team/catalog:2",
    "opm init": "mkdir -p catalog",
    "opm migrate": "rm -r catalog",
    "opm mirror mirror.tar": "opm mirror quay.io/me/catalog:1 --to oci-archive:mirror.tar",
    "opm registry add": "rm index.db",
    "opm render quay.io/me/lagoon:0.1.0 quay.io": "mkdir catalog/lagoon",
    "opm bundle pin ./bundle --check": "opm bundle pin ./bundle",
    "opm render @bundles.txt": "mkdir shards; printf 'quay.io/me/lagoon:0.%d.0\\n' 1 2 3 > bundles.txt",
    "opm bundle validate @references.txt": "printf 'quay.io/me/lagoon:0.%d.0\\n' 1 2 3 > references.txt",
    "opm report merge shard-1.json": SHARDS.format("shard-$k.json", "json"),
    "opm report merge reports": f"mkdir reports; {SHARDS.format('reports/$k.sarif', 'sarif')}",
}
"""Commands that prepare examples, by their beginnings."""
CLUSTER = "requires a cluster"
SCHEDULER = "requires a scheduler; tests/e2e/test_executors.py has one"
SERVER = "runs until it is stopped, or calls such a server; tests/e2e/test_serve_catalog.py and others do"
TEMPLATES = "tests/e2e/test_template_edit.py and test_templates.py run the command with other names"
PACKAGES = "names packages or versions that the sample catalog does not contain"
PROJECT = "requires an operator project; tests/e2e/test_operator_project.py has one"
NOT_RUN = {
    "opm alpha convert-template": TEMPLATES,
    "opm alpha render-template": TEMPLATES,
    "opm bundle extract": CLUSTER,
    "opm bundle generate --input": "requires one version in deploy/; tests/e2e/test_generate_bundle.py runs it",
    "opm bundle validate @references.txt --executor": SCHEDULER,
    "opm bundle validate deploy/0.1.0": "requires annotations in the directories; tests/e2e/test_validate.py has some",
    "opm bundle validate operators/lagoon": "requires a clone of a community repository",
    "opm bundle validate quay.io/me/lagoon --tags": PACKAGES,
    "opm catalog": SERVER,
    "opm cleanup": CLUSTER,
    "opm generate": PROJECT,
    "kustomize build config/default": PROJECT,
    "kustomize build config/manifests": PROJECT,
    "kustomize build ./olm": CLUSTER,
    "opm image copy docker-daemon": "requires the image in Docker; tests/e2e/test_engines.py runs Docker",
    "opm image copy quay.io/me/catalog:1 docker-archive": "the sample has one platform; test_platforms.py has several",
    "opm image sign --key cosign.key --recursive": "the digest is abbreviated; test_image_sign.py signs by digest",
    "opm image sign --keyless": "requires an identity of Sigstore",
    "opm image verify --certificate-identity": "requires Sigstore",
    "opm index copy lagoon-operator:stable": PACKAGES,
    "opm index filter lagoon-operator:stable other": PACKAGES,
    "opm index images ./catalog lagoon-operator:stable": PACKAGES,
    "opm index images quay.io/me/catalog:1 --only related -o name": "skopeo refuses the redirected registry",
    "opm index manifests quay.io/me/catalog:1 --olm v1": PACKAGES,
    "opm index update --add quay.io/me/lagoon:0.3.0 --rm": PACKAGES,
    "opm mirror quay.io/me/catalog:1 --to registry.example.com/mirror --executor": SCHEDULER,
    "opm olm": CLUSTER,
    "opm registry serve": SERVER,
    "opm render @bundles.txt --executor": SCHEDULER,
    "opm run": CLUSTER,
    "opm serve": SERVER,
    "opm template": TEMPLATES,
    "opm validate catalogs/v4.17": "requires a catalog whose images are in registry.redhat.io",
}
"""Beginnings of examples that do not run here, with the reason."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, forkserver: ForkServer) -> Iterator[ExampleSite]:
    with Registry() as registry:
        yield ExampleSite.create(tmp_path_factory.mktemp("examples"), registry, forkserver)


def examples() -> list[str]:
    """Return the examples of all help texts."""
    contents = [
        describe_command(command.make_context(path, [], resilient_parsing=True))
        for path, command in commands().items()
        if not f"{path} ".startswith(ALIASES)
    ]
    return [example for content in contents for example in content.examples]


def matching(table: dict[str, str], line: str) -> str | None:
    """Return the value for the longest beginning of a line."""
    starts = [start for start in table if line.startswith(start)]
    return table[max(starts, key=len)] if starts else None


def failure(site: ExampleSite, line: str) -> str | None:
    """Run an example in the prepared site, and return its output if it fails."""
    site.reset()
    before = matching(BEFORE, line)
    if before is not None:
        status, output = site.run(before)
        assert status == 0, f"{before}: {output}"
    status, output = site.run(line)
    return None if status == 0 else f"{line}: status {status}: {output}"


def test_examples_of_help_texts_run(site: ExampleSite) -> None:
    lines = [line for line in examples() if matching(NOT_RUN, line) is None]
    assert [problem for line in lines if (problem := failure(site, line))] == []
    assert len(lines) > 80


def test_tables_of_examples_are_current() -> None:
    lines = examples()
    unused = [s for s in (*NOT_RUN, *BEFORE) if not any(line.startswith(s) for line in lines)]
    assert unused == [], "no example begins with these"


def test_failing_examples_are_recognized(site: ExampleSite) -> None:
    assert "no such file" in str(failure(site, "opm render ./no-such-directory"))
    assert "lagoon-operator" in str(failure(site, "opm index rm -o no-such-package -f ./catalog --dry-run"))
