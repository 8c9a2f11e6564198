"""Prepare the site for examples: the files and images that a reader of the page or help text has."""

from __future__ import annotations

RESET = "reset; "
"""Begins preparations that first restore the site, since the examples before are about something else."""
_LAGOONS = "quay.io/me/lagoon:0.1.0 quay.io/me/lagoon:0.2.0"
_SHARDS = f"for k in 1 2 3; do opm bundle validate {_LAGOONS} --shard $k/3 --output {{1}} > {{0}}; done"
_REFERENCES = "printf 'quay.io/me/lagoon:0.%d.0\\n' 1 2 3 > references.txt"
_BUNDLES = "mkdir shards; printf 'quay.io/me/lagoon:0.%d.0\\n' 1 2 3 > bundles.txt"
_ANNOTATED = (
    "for v in 0.1.0 0.2.0; do "
    "opm bundle generate -d deploy/$v/manifests -p lagoon-operator -c alpha,stable -e stable; done"
)
_PROJECT = "cp -r fixtures/harbor-operator/. ."
_BASE = f"{_PROJECT}; sed s/harbor-operator/lagoon-operator/ config/manifests/bases/*.yaml > base.yaml"
_COMMUNITY = "rm -r operators; mkdir operators; cp -r lagoon operators/lagoon"
_VERSIONED = "opm migrate quay.io/me/catalog:2 catalogs/v4.17 --migrate-level bundle-object-to-csv-metadata"
_IMAGE = "registry.redhat.io/me/lagoon@sha256:'$(printf %064d)'"
_PINNED = f'{_VERSIONED} && sed -Ei \'s|"image": ?"[^"]*"|"image":"{_IMAGE}"|\' catalogs/*/*/*.json'
_ONE_TEMPLATE = "rm -r operators templates semver.yaml"
_LOCKED = f"{_ONE_TEMPLATE}; opm template render"
_ONE_VERSION = "rm -r deploy/0.1.0 deploy/0.2.0"
_PATCHED = (
    "sed -i 's/0[.]2[.]0/0.2.1/' lagoon/0.2.0/manifests/*; "
    "opm bundle build -d lagoon/0.2.0/manifests -t quay.io/me/lagoon-bundle:0.2.1 --push"
)
_PACKAGE = (
    "mkdir -p manifests/lagoon; cp -r lagoon/0.1.0/manifests manifests/lagoon/0.1.0; "
    "printf '%s\\n' 'packageName: lagoon-operator' 'channels: [{name: alpha, currentCSV: lagoon-operator.v0.1.0}]' "
    "> manifests/lagoon/lagoon.package.yaml"
)
_PUBLISHED = (
    "rm -r operators; mkdir -p operators catalogs/v4.19 catalogs/v4.20; cp -r lagoon operators/lagoon; "
    "for v in v4.19 v4.20; do opm image copy quay.io/me/catalog:1 quay.io/me/catalog:$v; done; "
    "echo 'index_image: {public_repository_mirror: quay.io/me/catalog}' > config.yaml; "
    "opm migrate quay.io/me/catalog:1 published --migrate-level bundle-object-to-csv-metadata"
)
_PROMOTABLE = (
    "rm -r operators; mkdir -p operators/lagoon catalogs/v4.20; "
    "opm migrate quay.io/me/catalog:1 published --migrate-level bundle-object-to-csv-metadata; "
    "mv published/lagoon-operator catalogs/v4.20/lagoon; "
    "echo 'fbc: {catalog_mapping: [{template_name: a.yaml, catalog_names: [v4.20], type: olm.template.basic}]}' "
    "> operators/lagoon/ci.yaml"
)
_IMAGE_SET = (
    "printf '%s\\n' 'kind: ImageSetConfiguration' 'apiVersion: mirror.openshift.io/v2alpha1' "
    "'mirror: {operators: [{catalog: quay.io/me/catalog:1}]}' > imageset.yaml"
)
_DELETION = (
    "printf '%s\\n' 'kind: DeleteImageSetConfiguration' 'apiVersion: mirror.openshift.io/v2alpha1' "
    "'delete: {operators: [{catalog: quay.io/me/catalog:1}]}' > delete.yaml"
)
_MIRRORED = "opm mirror quay.io/me/catalog:1 --to registry.example.com/mirror"
BEFORE = {
    "docs/bundles.md: kustomize build": _BASE,
    "docs/bundles.md: opm bundle build -d deploy": RESET,
    "docs/bundles.md: opm bundle build -f": RESET,
    "docs/catalogs.md: mkdir catalog": "rm -r catalog",
    "docs/catalogs.md: opm index add -b quay.io/me/lagoon:0.3.0": RESET,
    "docs/ci.md: opm index add": "opm image copy quay.io/me/catalog:2 quay.io/me/catalog:latest",
    "docs/commands.md: opm index add --bundles ./lagoon": "rm -r catalog",
    "docs/first-catalog.md: kubectl": "opm index manifests quay.io/me/catalog:1 > install.yaml",
    "docs/gate.md: opm index diff": "opm image copy quay.io/me/catalog:1 quay.io/me/catalog:latest",
    "docs/gate.md: opm validate": f"{_VERSIONED}; opm image copy quay.io/me/catalog:2 quay.io/me/catalog:v4.17",
    "docs/installation.md: /bin/initializer -o": _PACKAGE,
    "docs/installation.md: /bin/initializer --manifests": "rm bundles.db",
    "docs/installation.md: initializer": "rm bundles.db",
    "docs/library.md: tar": "mkdir -p work/library; cp -r bundle work/library/bundle-0.1.0",
    "docs/onboarding.md: opm template onboard operators/lagoon": f"{RESET}{_PUBLISHED}",
    "docs/operator-sdk.md: opm generate kustomize": _PROJECT,
    "docs/pre-commit.md: opm template render": _LOCKED,
    "docs/pre-commit.md: pre-commit install": "git init -q",
    "docs/scaling.md: opm bundle validate @/reports": (
        f"mkdir reports; {_REFERENCES}; cp references.txt reports; echo '{{}}' > auth.json"
    ),
    "docs/scaling.md: opm bundle validate @references.txt --shard 1/2": _REFERENCES,
    "docs/scaling.md: opm render @bundles.txt --shard 1/2": _BUNDLES,
    "docs/scaling.md: opm mirror registry.example.com/me/catalog:1 --to mirror.example.com --shard 1/2": (
        f"{RESET}opm image copy quay.io/me/catalog:1 registry.example.com/me/catalog:1"
    ),
    "docs/signing.md: opm index add --require-signature": "opm image sign --key cosign.key quay.io/me/lagoon:0.2.0",
    "docs/templates.md: opm template promote": f"{RESET}{_PROMOTABLE}",
    "docs/templates.md: opm template render operators --output-dir catalogs": RESET,
    "docs/templates.md: opm template render --output-dir": f"{RESET}{_ONE_TEMPLATE}",
    "docs/templates.md: opm template render operators --output-dir catalogs --frozen": (
        f"{RESET}opm template render operators --output-dir catalogs"
    ),
    "docs/validation.md: opm bundle validate deploy/0.2.0": _ANNOTATED,
    "docs/validation.md: opm bundle validate operators": _COMMUNITY,
    "help: kustomize build config/default": _BASE,
    "help: kustomize build config/manifests": _PROJECT,
    "help: opm bundle validate @references.txt": _REFERENCES,
    "help: opm bundle validate deploy/0.1.0": _ANNOTATED,
    "help: opm bundle validate deploy/0.2.0": _ANNOTATED,
    "help: opm bundle validate operators/lagoon": _COMMUNITY,
    "help: opm generate bundle": _ONE_VERSION,
    "help: opm generate kustomize": _PROJECT,
    "help: opm image verify-attestation": "opm image attest --key cosign.key --provenance quay.io/me/catalog:1",
    "help: opm init": "mkdir -p catalog",
    "help: opm render @bundles.txt": _BUNDLES,
    "help: opm template add lagoon.yaml ./0.3.0": "cp -r lagoon/0.3.0 .",
    "help: opm template add lagoon.yaml quay.io/me/lagoon-bundle:0.2.1": _PATCHED,
    "help: opm template onboard": _PUBLISHED,
    "help: opm template promote .": f"{RESET}{_PROMOTABLE}",
    "help: opm template promote operators": f"{RESET}{_PROMOTABLE}",
    "help: opm template promote lagoon.yaml": (
        "opm template add lagoon.yaml quay.io/me/lagoon-bundle:0.3.0 --channel candidate"
    ),
    "help: opm template render --": _LOCKED,
    "help: opm template render --output-dir": _ONE_TEMPLATE,
    "help: opm template release": "cp -r lagoon/0.3.0/. operators/lagoon/0.3.0",
    "opm alpha convert-template": "opm render catalog -o yaml > catalog.yaml",
    "opm alpha render-template composite": "cp -r fixtures/composite-template/. .",
    "opm bundle generate --input": _ONE_VERSION,
    "opm bundle pin ./bundle --check": "opm bundle pin ./bundle",
    "opm bundle push": "opm image pull quay.io/me/lagoon:0.1.0",
    "opm image generate-key-pair": "rm cosign.key cosign.pub",
    "opm image push": "opm image pull quay.io/me/lagoon:0.1.0",
    "opm image rm": "opm image pull quay.io/me/catalog:1",
    "opm image verify --key": "opm image sign --key cosign.key quay.io/me/catalog:1",
    "docs/mirroring.md: $ opm mirror --config": _IMAGE_SET,
    "help: opm mirror delete": f"{_MIRRORED}; {_DELETION}; opm image copy quay.io/me/catalog:1 quay.io/me/other:1",
    "docs/mirroring.md: $ opm mirror delete": _MIRRORED,
    "opm mirror --config": _IMAGE_SET,
    "opm index add -b ./lagoon/0.2.0=": "sed -i /replaces:/d lagoon/0.2.0/manifests/*.clusterserviceversion.yaml",
    "opm index add -b quay.io/me/lagoon:0.2.0 -f ./catalog": "rm -r catalog; opm migrate quay.io/me/catalog:1 catalog",
    "opm index copy lagoon-operator:stable": "rm -r catalog",
    "opm index images quay.io/me/lagoon-bundle:1": "opm image copy quay.io/me/lagoon:0.1.0 quay.io/me/lagoon-bundle:1",
    "opm index merge quay.io/me/catalog:1 quay.io/team": "opm image copy quay.io/me/catalog:1 quay.io/team/catalog:2",
    "opm migrate": "rm -r catalog",
    "opm mirror mirror.tar": "opm mirror quay.io/me/catalog:1 --to oci-archive:mirror.tar",
    "opm registry add": "rm index.db",
    "opm report merge reports": f"mkdir reports; {_SHARDS.format('reports/$k.sarif', 'sarif')}",
    "opm report merge shard-1.json": _SHARDS.format("shard-$k.json", "json"),
    "opm validate catalogs/v4.17 --openshift-version": _PINNED,
}
"""Commands that prepare examples, by their beginnings, with or without the page."""
FINDINGS = {
    "docs/onboarding.md: opm template onboard operators/lagoon --check",
    "help: opm bundle validate operators/lagoon --profile community",
    "help: opm bundle validate quay.io/me/lagoon --tags 'v1.*' --output json --fail-on warning",
    "docs/konflux.md: opm validate quay.io/me/catalog:1 --profile konflux",
}
"""Examples that have status 1, because they report findings in the samples."""
_WORKFLOW = {"$GITHUB_REF_NAME": "0.3.0", '"$GITHUB_STEP_SUMMARY"': "summary.md"}
REPLACED: dict[str, dict[str, str]] = {
    "docs/catalog-client.md": {"kubectl port-forward service/my-catalog 50051": "opm serve ./catalog"},
    "docs/gate.md": _WORKFLOW,
    "docs/index-images.md": {"/database/index.db": "index.db", "/configs": "./catalog"},
    "docs/installation.md": {
        "/bin/initializer": "initializer",
        " /manifests": " manifests",
        "/tmp/bundles.db": "bundles.db",
    },
    "docs/pinning.md": _WORKFLOW,
    "docs/scaling.md": {
        "/auth/.dockerconfigjson": "auth.json",
        "/reports/": "reports/",
        "$JOB_COMPLETION_INDEX": "0",
        "JOB_COMPLETION_INDEX + 1": "1",
        "$CI_NODE_TOTAL": "4",
    },
    "docs/serving.md": {"/tmp/cache": "cache"},
    "docs/templates.md": _WORKFLOW,
    "help": {"/tmp/cache": "cache"},
}
"""Parts of command lines that differ in pipelines, containers and clusters."""
PLACEHOLDERS = {"${{ matrix.index }}": "1234", "$(params.index)": "1234", "$CI_NODE_INDEX": "1234"}
"""Variables of matrices, and their values."""
