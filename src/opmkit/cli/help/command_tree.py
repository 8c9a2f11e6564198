"""Table of the commands of ``opm``.

It names modules and repeats the first line of each help text, so that commands are listed without importing any of
them, and one runs without importing the others.
"""

from __future__ import annotations

from opmkit.cli.annexes import ANNEXES, is_installed
from opmkit.cli.parser.registration import Entries, Group


def _without_missing(entries: Entries) -> Entries:
    """Return the entries without the commands of annexes that are not installed, and without empty groups."""
    missing = tuple(f"{annex}." for annex in ANNEXES if not is_installed(annex))
    if not missing:
        return entries
    found: dict[str, tuple[str, str] | Group] = {}
    for name, entry in entries.items():
        if not isinstance(entry, Group):
            if not entry[0].startswith(missing):
                found[name] = entry
        elif remaining := _without_missing(entry.entries):
            found[name] = Group(entry.summary, remaining)
    return found


_INDEX: Entries = {
    "build": ("index_build:build", "Build an index image from a catalog directory"),
    "add": ("index:add", "Add bundles to an index and build a new index image"),
    "rm": ("index:rm", "Remove packages from an index and build a new index image"),
    "prune": ("index:prune", "Remove all packages except those named from an index and build a new index image"),
    "prune-stranded": (
        "index:prune_stranded",
        "Remove bundles that are in no channel from an index and build a new index image",
    ),
    "deprecatetruncate": (
        "index:deprecatetruncate",
        "Deprecate bundles, remove the bundles that they replace, and build a new index image",
    ),
    "deprecate": (
        "index_deprecate:deprecate",
        "Deprecate a package, channels or bundles in a file-based catalog without removing them",
    ),
    "filter": ("index_filter:filter_index", "Keep only some packages, channels and versions of a file-based catalog"),
    "merge": ("index_merge:merge", "Merge indexes into one file-based catalog and build a new index image"),
    "copy": ("index_copy:copy", "Copy packages and the packages that they depend on from one index to another"),
    "export": ("index:export", "Write packages of an index to a directory in the package manifest format"),
    "update": ("index:update", "Remove, prune, add and deprecate, in this order, and build one new index image"),
    "pin": ("author.pin:pin", "Replace the tags of all images in bundles, catalogs and templates by digests"),
    "diff": (
        "index_diff:diff",
        "Show the differences between two indexes: packages, channels, heads, default channels and bundles",
    ),
    "plan": ("index_plan:plan", "Say what clusters will do with an index, without a cluster"),
    "images": (
        "index_images:images",
        "List the bundle images and related images of an index with the bundles that need them",
    ),
    "graph": (
        "graph:graph",
        "Draw the update graphs of an index: channels, replaces and skips edges, and deprecations",
    ),
    "manifests": ("index_manifests:manifests", "Print the CatalogSource, OperatorGroup and Subscription for an index"),
}
_REGISTRY: Entries = {
    "add": ("registry:add", "Add bundles to an index database, which is created if it does not exist"),
    "rm": ("registry:rm", "Remove packages from an index database"),
    "prune": ("registry:prune", "Remove all packages except those named from an index database"),
    "prune-stranded": ("registry:prune_stranded", "Remove bundles that are in no channel from an index database"),
    "deprecatetruncate": (
        "registry:deprecatetruncate",
        "Deprecate bundles in an index database and remove the bundles that they replace",
    ),
    "serve": ("registry:serve", "Serve an index database over gRPC"),
}
_BUNDLE: Entries = {
    "generate": (
        "bundle:generate",
        "Generate a bundle from the manifests that install an operator, or the metadata of existing manifests",
    ),
    "build": ("bundle:build", "Build a reproducible bundle image from a directory of manifests or from a Dockerfile"),
    "push": (
        "image:push",
        "Copy an image from the embedded image store to a registry, which receives only missing blobs",
    ),
    "unpack": ("bundle:unpack", "Validate a bundle image and write its files to a directory"),
    "extract": ("bundle:extract", "Write the files of a bundle to a ConfigMap, which is created if it does not exist"),
    "pin": ("author.pin:pin", "Replace the tags of all images in bundles, catalogs and templates by digests"),
    "validate": ("bundle_validate:validate", "Validate bundles and report each finding with file, line and a hint"),
    "rules": ("bundle_rules:list_rules", "List the rules for bundles and catalogs, or explain one with examples"),
}
_BUNDLE_GROUP = Group("Generate, build, unpack, extract and validate bundles", _BUNDLE)
_GENERATE_KUSTOMIZE: Entries = {
    "manifests": (
        "author.generate_kustomize:manifests",
        "Write the base of the ClusterServiceVersion of an operator project, and a kustomization",
    ),
}
_GENERATE: Entries = {
    "dockerfile": ("generate:dockerfile", "Write DIR.Dockerfile for an index image with a catalog directory"),
    "wrapper": (
        "generate_wrapper:wrapper",
        "Write a script that runs opmkit as operator-sdk or opm, for Makefiles that download these programs",
    ),
    "bundle": (
        "author.generate_bundle:bundle",
        "Generate a bundle from the manifests that install an operator, as operator-sdk generate bundle does",
    ),
    "kustomize": Group("Generate kustomize files of an operator project", _GENERATE_KUSTOMIZE),
}
_CATALOG_LIST: Entries = {
    "packages": (
        "catalog:list_packages",
        "List the packages of a running catalog with their default channels and heads",
    ),
    "channels": ("catalog:list_channels", "List the channels of a running catalog or a package with their heads"),
    "bundles": (
        "catalog:list_bundles",
        "List the bundles of a running catalog, a package or a channel with their update edges",
    ),
    "apis": (
        "catalog:list_apis",
        "List the APIs that the bundles of a running catalog provide, with packages and channels",
    ),
    "documents": ("catalog:list_documents", "List the documents of a custom schema of a running catalog"),
}
_CATALOG_GET: Entries = {
    "package": ("catalog:get_package", "Show a package of a running catalog: default channel, channels and heads"),
    "bundle": ("catalog:get_bundle", "Show a bundle of a running catalog, as JSON or YAML with its manifests"),
}
_CATALOG_FIND: Entries = {
    "providers": ("catalog:find_providers", "Find the bundles of a running catalog that provide an API"),
    "successors": (
        "catalog:find_successors",
        "Find the bundles of a running catalog that replace or skip a bundle, in all channels",
    ),
    "predecessors": (
        "catalog:find_predecessors",
        "Find the bundles that a bundle of a running catalog replaces and skips, in all channels",
    ),
    "replacement": (
        "catalog:find_replacement",
        "Show the bundle that a cluster updates to from a bundle in a channel of a running catalog",
    ),
}
_CATALOG: Entries = {
    "health": ("catalog:health", "Check the health of a running catalog; the exit code is 1 if it is not serving"),
    "list": Group("List the packages, channels, bundles, APIs or documents of a running catalog", _CATALOG_LIST),
    "get": Group("Show a package or a bundle of a running catalog", _CATALOG_GET),
    "find": Group("Find bundles of a running catalog by API or update edge", _CATALOG_FIND),
}
_IMAGE: Entries = {
    "ls": ("image:ls", "List the images in the embedded image store"),
    "inspect": (
        "image:inspect",
        "Show the digest, platforms, labels, layers and command of an image, and whether it contains its program",
    ),
    "pull": ("image:pull", "Copy images from registries to the embedded image store"),
    "push": (
        "image:push",
        "Copy an image from the embedded image store to a registry, which receives only missing blobs",
    ),
    "copy": (
        "image:copy",
        "Copy an image between registries, layouts, archives, container engines and the embedded image store",
    ),
    "cp": (
        "image:copy",
        "Copy an image between registries, layouts, archives, container engines and the embedded image store",
    ),
    "rm": ("image:rm", "Remove images from the embedded image store by name or digest; prune frees their space"),
    "prune": (
        "image:prune",
        "Delete unused blobs from the embedded image store, and temporary files of killed processes",
    ),
    "sign": (
        "supply.sign:sign",
        "Sign images with a key, so that cosign, podman and clusters can verify them, or keyless",
    ),
    "verify": ("supply.sign:verify", "Verify the signatures of images with a public key, or keyless ones"),
    "generate-key-pair": (
        "supply.sign:generate_key_pair",
        "Generate a key pair in cosign's format: PATH.key, encrypted with COSIGN_PASSWORD, and PATH.pub",
    ),
    "attest": ("supply.attest:attest", "Attach signed statements about an image to it: a file, an SBOM or provenance"),
    "verify-attestation": (
        "supply.attest:verify_attestation",
        "Verify the attestations of images with a public key, or keyless ones",
    ),
}
_OLM: Entries = {
    "install": ("author.olm:install", "Install OLM in a cluster, and wait until it runs"),
    "status": ("author.olm:status", "List the objects of OLM in a cluster with their state"),
    "uninstall": (
        "author.olm:uninstall",
        "Remove OLM from a cluster, with its CustomResourceDefinitions and all Subscriptions and installed versions",
    ),
}
_RUN: Entries = {
    "bundle": (
        "author.run:run_bundle",
        "Install the operator of a bundle in a cluster with OLM, and wait until it runs",
    ),
    "bundle-upgrade": (
        "author.run:bundle_upgrade",
        "Upgrade an installed operator to the version in a bundle, and wait until it runs",
    ),
    "packagemanifests": (
        "author.run:package_manifests",
        "Install an operator from a directory of package manifests, and wait until it runs",
    ),
    "pm": (
        "author.run:package_manifests",
        "Install an operator from a directory of package manifests, and wait until it runs",
    ),
}
_TEMPLATE: Entries = {
    "add": ("template:add", "Add a bundle to a template"),
    "promote": ("template:promote", "Add a bundle of one channel of a template to other channels"),
    "deprecate": ("template:deprecate", "Deprecate bundles, channels or the package of a template"),
    "release": ("template:release", "Add a bundle to the templates that its release-config.yaml names"),
    "render": ("template_render:render", "Render all catalog templates of a repository in one run"),
}
_ALPHA_CONVERT_TEMPLATE: Entries = {
    "basic": ("templates:convert_basic", "Create a basic template from a catalog, with the images of its bundles"),
    "substitutes": (
        "templates:convert_substitutes",
        "Create a substitutes template without substitutions from a catalog",
    ),
}
_ALPHA_LIST: Entries = {
    "packages": ("alpha_list:packages", "List the packages of an index"),
    "channels": ("alpha_list:channels", "List the channels of an index or a package with their heads"),
    "bundles": (
        "alpha_list:bundles",
        "List the bundles of an index or a package with their update edges in each channel",
    ),
}
_ALPHA: Entries = {
    "render-graph": ("graph:render_graph", "Print the update graphs of indexes, which may be invalid, as mermaid text"),
    "render-template": ("templates:render_template", "Render a template to a file-based catalog"),
    "convert-template": Group("Create templates from catalogs", _ALPHA_CONVERT_TEMPLATE),
    "bundle": _BUNDLE_GROUP,
    "list": Group("List the contents of an index", _ALPHA_LIST),
}
_REPORT: Entries = {
    "merge": ("report:merge", "Merge the reports of all shards of a validation into the report of one process"),
}
_ALL: Entries = {  # in the order of the help: what most users look for comes first
    "index": Group("Create, change, compare and draw indexes: images, directories and databases", _INDEX),
    "bundle": _BUNDLE_GROUP,
    "render": ("render:render", "Print bundles and indexes as a file-based catalog"),
    "validate": ("validate:validate", "Validate a catalog and report each finding with file, line and a hint"),
    "serve": ("serve:serve", "Serve a file-based catalog over gRPC"),
    "mirror": (
        "supply.mirror:mirror",
        "Copy an index with its bundle images and all related images to a registry, a directory or an archive",
    ),
    "catalog": Group("Query a running catalog over gRPC", _CATALOG),
    "image": Group("Manage images in the embedded image store, layouts and registries", _IMAGE),
    "template": Group("Edit and render catalog templates", _TEMPLATE),
    "init": ("init:init", "Create the first document of a package in a file-based catalog"),
    "migrate": ("migrate:migrate", "Convert an index to a directory with a file-based catalog, one file per package"),
    "generate": Group("Generate files for file-based catalogs and operator projects", _GENERATE),
    "run": Group("Run operators in a cluster with OLM", _RUN),
    "cleanup": ("author.cleanup:cleanup", "Remove an operator from a cluster, with everything that opm run created"),
    "olm": Group("Install, check and remove the Operator Lifecycle Manager (OLM) of a cluster", _OLM),
    "registry": Group("Create, change and serve index databases", _REGISTRY),
    "report": Group("Merge reports", _REPORT),
    "alpha": Group("Commands that are alpha in operator-registry", _ALPHA),
    "version": ("general:version", "Print the version in the format of Go opm"),
    "help": ("general:show_help", "Show the help of a command"),
    "completion": ("general:completion", "Print the completion script of a shell"),
}
COMMANDS = _without_missing(_ALL)
"""The commands of the program opm."""
_OPERATOR_SDK: Entries = {
    "bundle": Group("Validate bundles", {"validate": _BUNDLE["validate"]}),
    "cleanup": _ALL["cleanup"],
    "generate": Group(
        "Generate the bundle of an operator project",
        {name: entry for name, entry in _GENERATE.items() if name in ("bundle", "kustomize")},
    ),
    "olm": _ALL["olm"],
    "run": _ALL["run"],
    "version": ("general:operator_sdk_version", "Print the version in the format of operator-sdk"),
}
OPERATOR_SDK_COMMANDS = _without_missing(_OPERATOR_SDK)
"""The commands of the program operator-sdk."""
