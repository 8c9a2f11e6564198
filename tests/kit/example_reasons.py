"""Examples that do not run in the prepared site: the tests that run them, or why none can."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from tests.kit.command_lines import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Reason:
    """Why an example does not run in the prepared site, and the test (``FILE::FUNCTION`` below ``tests``) that runs it.

    ``word`` is in that test if it has another name for the program or command. Only lines that no test can run have
    no test: they change the machine, or need what is published nowhere yet.
    """

    text: str
    test: str = ""
    word: str = ""


TYPED = "is typed with the other commands of the page"
CLUSTER = "requires a cluster"
PROJECT = "requires the Makefile of an operator project"
PACKAGES = "requires a package index for the dependencies"
SEQUENCE = Reason(TYPED, "e2e/test_docs.py::test_examples_run_in_sequence")
GUIDES = Reason(TYPED, "e2e/test_docs_guides.py::test_commands_of_the_guide_run")
README = Reason(TYPED, "e2e/first_contact/test_readme.py::test_the_tour_runs_without_a_warning")
PIPELINE = "e2e/first_contact/test_pipelines.py::test_{}_validate_release_and_publish"
MACHINE = Reason("changes the machine")
LOGIN = Reason("requires an account")
RELEASE = Reason("requires a release in a package index, which does not exist yet")
SELF = Reason("runs or records for these tests")
NAME = Reason("names a command with some of its flags")
RUN = Reason(CLUSTER, "e2e/test_run.py::test_bundle_image_is_installed_upgraded_and_removed")
RUN_DIRECTORY = Reason(CLUSTER, "e2e/test_run.py::test_bundle_directory_needs_no_registry")
RUN_INDEX = Reason(CLUSTER, "e2e/test_run.py::test_bundle_is_added_to_an_index")
RUN_MANIFESTS = Reason(CLUSTER, "e2e/test_run.py::test_package_manifests_are_installed")
OLM = Reason(CLUSTER, "e2e/test_olm.py::test_release_is_installed_checked_and_removed")
EXTRACT = Reason(CLUSTER, "e2e/test_configmap_server.py::test_bundle_image_is_extracted_to_a_config_map")
VALIDATE_ON_WORKERS = Reason(
    "requires a scheduler", "e2e/test_executors.py::test_validation_by_workers_equals_that_of_one_process"
)
RENDER_ON_WORKERS = Reason(
    "requires a scheduler", "e2e/test_executors.py::test_rendering_by_workers_equals_that_of_one_process"
)
MAKE = Reason(PROJECT, "e2e/test_operator_project.py::test_quick_start_with_docker", "make")
MAKE_ALONE = Reason(PROJECT, "e2e/test_operator_project.py::test_quick_start_without_a_container_engine", "make")
WHEEL = Reason(PACKAGES, "e2e/test_packages.py::test_tools_install_the_wheel_in_an_empty_home")
RUNTIME = Reason(
    "takes a minute",
    "e2e/test_runtime_image.py::test_index_on_the_runtime_image_is_served_as_in_a_cluster",
    "build_runtime",
)
COMBINED = Reason(
    "requires images of platforms",
    "e2e/test_runtime_image.py::test_images_of_platforms_are_combined",
    "build_runtime",
)
MIRROR_ON_WORKERS = Reason(
    "requires a scheduler", "e2e/test_mirror_workers.py::test_mirror_by_workers_equals_that_of_one_process"
)
KEYLESS = Reason("requires an identity of Sigstore", "e2e/test_image_sign.py::test_keyless_signature")
COSIGN = Reason("requires cosign", "reference/test_cosign.py::test_cosign_verifies_signatures")
GRPCURL = Reason("requires grpcurl", "e2e/test_foreign_clients.py::test_documented_calls_of_grpcurl")
COMPLETION = "e2e/first_contact/test_completion.py::test_{}"
NOT_RUN: dict[str, Reason] = {
    "README.md: $": README,
    "docs/tour.md: $": README,
    "docs/compat.md: $": SEQUENCE,
    "docs/gate.md: $": SEQUENCE,
    "docs/konflux.md: $": SEQUENCE,
    "docs/merging.md: $": SEQUENCE,
    "docs/operator-sdk.md: $": SEQUENCE,
    "docs/onboarding.md: $": SEQUENCE,
    "docs/templates.md: $": SEQUENCE,
    "docs/from-go-opm.md: $": GUIDES,
    "docs/from-sqlite.md: $": GUIDES,
    "docs/from-oc-mirror.md: $": GUIDES,
    "docs/several-writers.md: $": GUIDES,
    "docs/github-actions.md: $": Reason(TYPED, PIPELINE.format("github_workflows")),
    "docs/gitlab.md: $": Reason(TYPED, PIPELINE.format("gitlab_components")),
    "docs/tekton.md: $": Reason(TYPED, PIPELINE.format("tekton_pipelines")),
    "docs/index-images.md: $": Reason(TYPED, "e2e/test_docs_explanation.py::test_index_images_prints_what_is_quoted"),
    "docs/signing.md: $": Reason(TYPED, "e2e/test_image_sign.py::test_examples_of_the_documentation"),
    "docs/first-catalog.md: $": Reason(
        TYPED,
        "e2e/first_contact/test_first_catalog.py::test_first_catalog_is_published_by_typing_the_commands_of_the_page",
    ),
    "docs/troubleshooting.md: $": Reason(
        "fails as the page says",
        "e2e/test_docs_guides.py::test_troubleshooting_quotes_the_messages_that_commands_print",
    ),
    "docs/update-graphs.md: $": Reason(
        "fails as the page says",
        "e2e/test_docs_graphs.py::test_quoted_messages_are_those_that_the_command_prints",
    ),
    "docs/mirroring.md: $ cosign verify": Reason(
        "the digest is abbreviated, and cosign required",
        "e2e/test_mirror_signatures.py::test_cosign_verifies_a_mirrored_image",
    ),
    "docs/mirroring.md: $ opm image verify": Reason(
        "the digest is abbreviated", "e2e/test_mirror_signatures.py::test_signatures_and_attestations_travel_along"
    ),
    "OPMKIT_CLUSTER_BIN=": SELF,
    "apt-get install": MACHINE,
    "configmap-server": Reason(CLUSTER, "e2e/test_configmap_server.py::test_catalog_in_a_config_map_is_served"),
    "cosign verify": COSIGN,
    "docker context use": NAME,
    "docker build -f bundle.Dockerfile": Reason(
        "names a command that opm replaces", "e2e/test_engines.py::test_all_container_tools_build_a_dockerfile"
    ),
    "docker login": LOGIN,
    "docker run --detach --publish 5000:5000 registry:2": Reason(
        "requires an image of Docker Hub; the test starts the same server without a container",
        "e2e/first_contact/test_first_catalog.py::test_first_catalog_is_published_by_typing_the_commands_of_the_page",
        "Registry",
    ),
    "docs/operator-sdk.md: kustomize build config/manifests": MAKE_ALONE,
    "docs/operator-sdk.md: make bundle-build bundle-push BUNDLE_IMG": MAKE,
    "docs/operator-sdk.md: make catalog-build catalog-push": MAKE,
    "grpcurl": GRPCURL,
    "kubectl --namespace olm get pods": Reason(CLUSTER),
    "make ": MAKE_ALONE,
    "oc adm catalog mirror": NAME,
    "oc adm release mirror": NAME,
    "opm bundle build -f bundle.Dockerfile": NAME,
    "opm bundle extract --manifestsdir": EXTRACT,
    "opm bundle validate @references.txt --executor": VALIDATE_ON_WORKERS,
    "opm bundle validate registry.example.com/team/operator --executor": VALIDATE_ON_WORKERS,
    "opm bundle validate --profile all": NAME,
    "opm bundle validate --write-baseline": NAME,
    "opm cleanup": RUN,
    "opm completion fish | source": Reason("requires fish", COMPLETION.format("fish_completes_the_line")),
    "opm completion powershell |": Reason(
        "requires PowerShell", COMPLETION.format("powershell_script_calls_the_hidden_command")
    ),
    "opm image copy docker-daemon": Reason(
        "requires the image in Docker",
        "imagetools/transports/test_transports.py::test_image_of_the_daemon_by_its_id",
        "docker-daemon",
    ),
    "opm image copy quay.io/me/catalog:1 docker-archive": Reason(
        "the sample has one platform", "e2e/test_transports.py::test_platforms_of_a_copy", "docker-archive:"
    ),
    "opm image sign --key cosign.key --recursive": Reason(
        "the digest is abbreviated", "e2e/test_image_sign.py::test_sign_and_verify"
    ),
    "opm image sign --keyless": KEYLESS,
    "opm image verify --certificate-identity": KEYLESS,
    "opm image verify quay.io/me/catalog:1 --certificate": KEYLESS,
    "opm index add --generate": NAME,
    "opm index add --push": NAME,
    "opm index add --to-fbc": NAME,
    "opm index images quay.io/me/catalog:1 --only related -o name": Reason(
        "skopeo refuses a registry that is redirected",
        "e2e/test_index_images.py::test_images_are_listed_with_the_bundles_that_need_them",
    ),
    "opm index plan operatorhubio-catalog=./catalog --context": Reason(
        CLUSTER, "e2e/test_index_plan.py::test_the_cluster_of_a_context"
    ),
    "opm mirror quay.io/me/catalog:1 --to registry.example.com/mirror --executor": MIRROR_ON_WORKERS,
    "opm olm": OLM,
    "kustomize build ./olm": Reason(CLUSTER, OLM.test, "--from"),
    "opm render @bundles.txt --executor": RENDER_ON_WORKERS,
    "opm run bundle": RUN,
    "opm run bundle ./bundle": RUN_DIRECTORY,
    "opm run bundle ./bundle --index-image": RUN_INDEX,
    "opm run packagemanifests": RUN_MANIFESTS,
    "opm template add lagoon.yaml quay.io/me/lagoon-bundle@": Reason(
        "the digest is abbreviated", "e2e/test_template_edit.py::test_a_bundle_is_added_promoted_and_deprecated"
    ),
    "pip install '.[": Reason(PACKAGES),
    "pip install .": Reason(
        "is typed by the tutorial",
        "e2e/first_contact/test_pipelines.py::test_github_workflows_validate_release_and_publish",
    ),
    "pip install --no-cache-dir /src": Reason(PACKAGES),
    "pip install pre-commit": Reason(PACKAGES),
    "pipx install .": WHEEL,
    "podman build": Reason(
        "requires the default base image", "e2e/test_engines.py::test_all_container_tools_build_a_dockerfile"
    ),
    "podman login": LOGIN,
    "podman system service": NAME,
    "pre-commit run --all-files": Reason("requires the repository at GitHub", PIPELINE.format("gitlab_components")),
    "pytest": SELF,
    "scripts/build-cluster": SELF,
    "scripts/build-packages": Reason(
        "takes a minute", "e2e/test_packages.py::test_packages_are_reproducible", "build_packages"
    ),
    "scripts/build-runtime": RUNTIME,
    "scripts/build-runtime --tag quay.io/me/opmkit:1 --push --combine": COMBINED,
    "scripts/build-runtime --tag quay.io/me/opmkit:1 --push --platform": COMBINED,
    "scripts/build-runtime --tag quay.io/me/opmkit:1-arm64": COMBINED,
    "scripts/test": SELF,
    "sudo": MACHINE,
    "tkn": Reason("requires Tekton in a cluster", PIPELINE.format("tekton_pipelines"), "PipelinesAsCode"),
    "uv tool install .": WHEEL,
    "uv tool install '.[": RELEASE,
}
"""Examples by their beginnings; ``$`` stands for all commands behind a prompt in a page."""

_TEKTON = Reason("runs as a pipeline", PIPELINE.format("tekton_pipelines"), "PipelinesAsCode")
FILES: dict[str, Reason] = {
    "examples/github-actions/.github/workflows/bundle.yaml": Reason(
        "runs as a workflow", PIPELINE.format("github_workflows"), "bundle.yaml"
    ),
    "examples/github-actions/.github/workflows/catalog.yaml": Reason(
        "runs as a workflow", PIPELINE.format("github_workflows"), "catalog.yaml"
    ),
    "examples/tekton/.tekton/tasks/build-bundle.yaml": _TEKTON,
    "examples/tekton/.tekton/tasks/check-bundle.yaml": _TEKTON,
    "examples/tekton/.tekton/tasks/check-catalog.yaml": _TEKTON,
    "examples/tekton/.tekton/tasks/publish-catalog.yaml": _TEKTON,
    "examples/tekton/.tekton/tasks/run-opm-command.yaml": Reason(
        "runs as a task", "e2e/first_contact/test_tekton.py::test_the_output_is_written_to_the_file", "run-opm-command"
    ),
}
"""Files in ``examples`` with command lines, and the tests that run their steps."""


def reachable_strings(test: str) -> set[str]:
    """Return the strings and names in a test function and in what it uses of its module; raises KeyError if missing."""
    file, _, name = test.partition("::")
    definitions = _definitions(file)
    pending, seen = [definitions[name]], {name}
    found: set[str] = set()
    while pending:
        for node in ast.walk(pending.pop()):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
            elif isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.Name):
                found.add(node.id)
            for used in _names(node):
                if used in definitions and used not in seen:
                    seen.add(used)
                    pending.append(definitions[used])
    return found


def _names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.arg):  # a fixture
        yield node.arg


@cache
def _definitions(file: str) -> dict[str, ast.AST]:
    """Return the functions, classes and variables of a test module."""
    definitions: dict[str, ast.AST] = {}
    for node in ast.parse((ROOT / "tests" / file).read_text()).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            definitions[node.name] = node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            definitions |= {target.id: node for target in targets if isinstance(target, ast.Name)}
    return definitions
