"""Programs that run opm, reduced to what they run and to the regular expressions they apply to its output.

The expressions are facts about these programs (IIB 9.5, operator-pipelines, Konflux build-definitions). The scripts run
the same opm commands with the same flags; everything between them is shortened.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Sequence

    from tests.kit.installed import InstalledOpm

IIB_ERROR_LINE = re.compile(r"^(?:Error: )(.+)$")
"""IIB ``run_cmd``: the last line of stderr that matches becomes the error of the request."""
IIB_NOT_REMOVED = (
    '"permissive mode disabled" error="error deleting packages from database: error removing operator package'
)
"""IIB ``run_cmd``: searched for in stderr if no line matches IIB_ERROR_LINE."""
IIB_RENDER_SPLIT = re.compile(r"(?<=})\n(?={)")
"""IIB ``opm_render``: splits the output of ``opm render`` into JSON documents."""
IIB_PACKAGE_GONE = "Error deleting packages from database"
"""IIB ``opm_create_empty_fbc``: the error on which it repeats ``opm registry rm`` with ``--permissive``."""

IIB_ADD = """
set -e
: > index.db
opm registry add --database index.db --enable-alpha --bundle-images "$BUNDLES" --container-tool none --mode semver
opm migrate --migrate-level bundle-object-to-csv-metadata index.db catalog
opm validate catalog
opm serve "$PWD/catalog" --cache-dir="$PWD/cache" --cache-only --termination-log /dev/null --pprof-addr 127.0.0.1:$PORT
test -d cache
opm render catalog > out.json
"""
"""IIB ``opm_registry_add_fbc``, ``opm_migrate``, ``generate_cache_locally`` and ``opm_render``."""

IIB_DEPRECATE = """
set -e
: > index.db
opm registry add --database index.db --enable-alpha --bundle-images "$BUNDLES"
opm registry deprecatetruncate --database index.db --bundle-images "$FIRST_BUNDLE" --allow-package-removal
opm migrate index.db catalog
opm render catalog > out.json
"""
"""IIB ``deprecate_bundles_fbc``."""

IIB_INDEX = """
set -e
opm index add --enable-alpha --generate --bundles "$BUNDLES" --binary-image quay.io/me/opm:1 --container-tool none
opm render database/index.db > out.json
"""
"""IIB ``opm_index_add``."""

IIB_EMPTY = """
set -e
: > index.db
opm registry add --database index.db --enable-alpha --bundle-images "$BUNDLES"
opm registry rm --database index.db --packages lagoon-operator
opm migrate index.db catalog
opm validate catalog
opm serve "$PWD/catalog" --cache-dir="$PWD/cache" --cache-only --termination-log /dev/null --pprof-addr 127.0.0.1:$PORT
opm render catalog > out.json
"""
"""IIB ``opm_create_empty_fbc`` and the removal of the last operator; operator-pipelines validate one, too."""

IIB_NOTHING = """
set -e
: > index.db
opm registry add --database index.db --enable-alpha --bundle-images '""'
opm index add --enable-alpha --generate --bundles '""' --binary-image scratch
opm render index.db > out.json
"""
"""IIB writes two quotation marks for an empty list of bundles."""

OPERATOR_SDK = """
set -e
for bundle in $FIRST_BUNDLE $LAST_BUNDLE; do
  opm registry add -d tmp.db -b $bundle --mode=semver --ca-file="$SSL_CERT_FILE" \\
    --skip-tls-verify=false --use-http=false
done
opm render tmp.db > out.json
"""
"""operator-sdk ``run bundle`` and ``run bundle-upgrade``, in the pod that serves a database."""

PIPELINES_TEMPLATE = """
set -e
mkdir -p catalogs/v4.14 catalogs/v4.17
opm alpha render-template basic -o yaml template.yaml > catalogs/v4.14/catalog.yaml
opm alpha render-template basic -o yaml template.yaml --migrate-level bundle-object-to-csv-metadata \\
  > catalogs/v4.17/catalog.yaml
opm alpha render-template semver -o yaml semver.yaml > semver-catalog.yaml
for version in v4.14 v4.17; do
  opm validate catalogs/$version
  opm generate dockerfile catalogs/$version
done
opm render -o yaml "$LAST_BUNDLE" > bundle.yaml
opm render catalogs/v4.14 catalogs/v4.17 > out.json
"""
"""operator-pipelines ``add_bundle_to_fbc``, ``opm.py`` and the Makefiles of the community catalogs."""

KONFLUX_BUNDLES = """
set -xe
mkdir -p catalog/
opm generate dockerfile catalog/ --binary-image=quay.io/me/opm:1
opm init lagoon-operator --default-channel=stable --description=./README.md --output=yaml > catalog/operator.yaml
opm render "$LAST_BUNDLE" --output=yaml >> catalog/operator.yaml
cat << EOF >> catalog/operator.yaml
---
schema: olm.channel
package: lagoon-operator
name: stable
entries:
  - name: lagoon-operator.v0.2.0
    skipRange: ">=0.0.1 <0.2.0"
EOF
opm validate catalog
opm render catalog > out.json
"""
"""Konflux ``opm-render-bundles`` and ``fbc-validation``."""

TEMPLATES = {
    "template.yaml": """
schema: olm.template.basic
entries:
- schema: olm.package
  name: lagoon-operator
  defaultChannel: stable
- schema: olm.channel
  package: lagoon-operator
  name: stable
  entries:
  - name: lagoon-operator.v0.2.0
- schema: olm.bundle
  image: BUNDLE
""",
    "semver.yaml": """
schema: olm.semver
generateMajorChannels: true
stable:
  bundles:
  - image: BUNDLE
""",
    "README.md": "A lagoon.\n",
}


def iib_error(done: subprocess.CompletedProcess[str], failed: str) -> str:
    """Return the error that IIB reports for a command; ``failed`` is its text for the failed step."""
    matches = (IIB_ERROR_LINE.match(line) for line in reversed(done.stderr.splitlines()))
    if match := next(filter(None, matches), None):
        return f"{failed}: {match[1]}"
    return IIB_PACKAGE_GONE if IIB_NOT_REMOVED in done.stderr else failed


def iib_remove(opm: InstalledOpm, packages: Sequence[str], *command: str) -> list[subprocess.CompletedProcess[str]]:
    """Remove packages as IIB does to create an empty catalog, and return the runs of opm."""
    arguments = (*command, ",".join(packages))
    runs = [opm.attempt(*arguments)]
    if runs[0].returncode and IIB_PACKAGE_GONE in iib_error(runs[0], "Failed to remove operators from the index image"):
        runs.append(opm.attempt(*arguments, "--permissive"))
    return runs


def iib_documents(rendered: str) -> list[dict[str, Any]]:
    """Return the documents of the output of ``opm render``."""
    return [json.loads(part) for part in IIB_RENDER_SPLIT.split(rendered)] if rendered else []
