"""Command lines of public Makefiles, services and tests have the results that they have with Go opm."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import yaml

from tests.kit.opm import LAGOON

if TYPE_CHECKING:
    from tests.kit.opm import Opm

BUNDLE = str(LAGOON / "0.1.0")


def test_unknown_optional_validators_are_ignored_with_a_warning(opm: Opm) -> None:
    opm.build_bundle("0.1.0", "store:lagoon:1")
    for names, warning in {
        "bundle-objects": "",
        "operatorhub, bundle-objects": "",
        "bundle-object": "Warning: unknown optional validator 'bundle-object': ignored; operatorhub and bundle-objects",
    }.items():
        for command in (("alpha", "bundle", "validate"), ("bundle", "validate")):
            done = opm.attempt(*command, "--tag", "store:lagoon:1", "--optional-validators", names)
            assert done.returncode == 0, done.stderr
            assert [line for line in done.stderr.splitlines() if line.startswith("Warning")] == [
                line for line in done.stderr.splitlines() if warning and line.startswith(warning)
            ]
            assert ("Warning" in done.stderr) == bool(warning)
    assert opm.attempt("bundle", "validate", BUNDLE, "--optional-validators", "bundle-objects").returncode == 0


def test_an_optional_validator_that_runs_anyway_reports_each_finding_once(opm: Opm) -> None:
    plain = opm("bundle", "validate", BUNDLE)
    assert "GP-CHANNEL-NAME" in plain
    assert opm("bundle", "validate", BUNDLE, "--select-optional", "name=good-practices") == plain


CATALOG = """schema: olm.package
name: demo
defaultChannel: ""
---
schema: olm.channel
package: demo
name: ""
entries: []
---
schema: olm.channel
package: demo
name: none
---
schema: olm.deprecations
package: demo
entries: []
---
schema: olm.package
name: other
description: |
  The last line
  has no end"""


def test_render_writes_empty_lists_and_names_as_go_opm(opm: Opm) -> None:
    (opm.directory / "catalog").mkdir()
    (opm.directory / "catalog/catalog.yaml").write_text(CATALOG)
    package, empty, missing, deprecations, other = yaml.safe_load_all(opm("render", "catalog", "-o", "yaml"))
    assert package == {"schema": "olm.package", "name": "demo", "defaultChannel": ""}
    assert empty == {"schema": "olm.channel", "package": "demo", "name": "", "entries": []}
    assert missing == {"schema": "olm.channel", "package": "demo", "name": "none", "entries": None}
    assert deprecations == {"schema": "olm.deprecations", "package": "demo", "entries": []}
    assert other["description"] == "The last line\nhas no end\n"
    assert opm("render", "catalog").count('"entries": []') == 2
    reference = os.environ.get("OPMKIT_REFERENCE_OPM_NEWEST")
    if reference:
        for form in ("json", "yaml"):
            argv = [reference, "render", "catalog", "-o", form]
            done = subprocess.run(argv, cwd=opm.directory, capture_output=True, text=True, check=True)
            assert opm("render", "catalog", "-o", form) == done.stdout
