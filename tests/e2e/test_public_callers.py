"""Command lines of public Makefiles, services and tests have the results that they have with Go opm."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

import yaml

from tests.kit.opm import FIXTURES, LAGOON
from tests.kit.registry import Registry
from tests.kit.requirements import require

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


def test_help_has_the_words_that_tests_of_openshift_search(opm: Opm) -> None:
    for command in ("index", "registry", "render"):
        assert "DEPRECATION NOTICE:" in opm(command, "--help")
    assert all(word in opm("--help") for word in ("init ", "serve ", "render ", "validate "))
    assert not [word for word in ("init ", "serve ", "render ", "validate ") if word in opm("alpha", "--help")]


SUSPICIOUS = """schema: olm.package
name: demo
defaultChannel: alpha
---
schema: olm.channel
package: demo
name: alpha
entries: [{name: demo.v1}]
---
schema: olm.bundle
package: demo
name: demo.v1
image: quay.io/me/demo:1
image: quay.io/me/demo:2
properties: [{type: olm.package, value: {packageName: demo, version: 1.0.0}}]
"""


def test_validate_prints_nothing_to_programs_for_a_catalog_that_go_opm_accepts(opm: Opm) -> None:
    (opm.directory / "catalog").mkdir()
    (opm.directory / "catalog/catalog.yaml").write_text(SUSPICIOUS)
    done = opm.attempt("validate", "catalog")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for flags in (("--output", "text"), ("--fail-on", "error"), ("--ignore", "FBC-GRAPH")):
        assert "[FBC-KEY-DUPLICATE]" in opm.attempt("validate", "catalog", *flags).stderr
    (opm.directory / ".opm-validate.yaml").write_text("fail-on: warning\n")
    assert opm.attempt("validate", "catalog").returncode == 1


def test_validate_prints_the_record_of_go_opm_to_programs(opm: Opm) -> None:
    done = opm.attempt("validate", str(FIXTURES / "graphs/several-heads"))
    record, last = done.stderr.splitlines()[-2:]
    assert 'level=fatal msg="invalid index:\\n└── invalid package \\"demo\\":\\n    └── invalid channel ' in record
    assert "multiple channel heads found in graph" in record
    assert last.startswith("Error: ")
    assert "level=fatal" not in opm.attempt("validate", str(FIXTURES / "graphs/several-heads"), "-o", "text").stderr


def test_manifests_without_their_bundle_are_reported(opm: Opm) -> None:
    manifests = str(LAGOON / "0.1.0/manifests")
    warning = "annotations were not checked: pass the directory with manifests/ and metadata/"
    assert f"Warning: {manifests}: {warning}\n" in opm.attempt("bundle", "validate", manifests).stderr
    assert "annotations" not in opm.attempt("bundle", "validate", BUNDLE).stderr


def test_use_http_accepts_https(opm: Opm) -> None:
    """Public bundles and base images are not in the registry that the flag is for."""
    with Registry(tls=True) as registry:
        bundle, catalog = (f"{registry.host}/public/{name}:1" for name in ("lagoon", "catalog"))
        opm.build_bundle("0.1.0", bundle, "--push", "--skip-tls-verify")
        opm("index", "add", "-b", bundle, "-i", "scratch", "-t", catalog, "--push", "--use-http")
        for flag in ("--use-http", "--skip-tls"):
            assert "lagoon-operator.v0.1.0" in opm("render", catalog, flag)
            assert "lagoon-operator.v0.1.0" in opm("alpha", "list", "bundles", catalog, flag)


def test_stdout_is_empty_where_go_opm_prints_nothing(opm: Opm, registry: Registry) -> None:
    bundle, catalog = (f"{registry.host}/quiet/{name}:1" for name in ("lagoon", "catalog"))
    opm.build_bundle("0.1.0", bundle, "--push", "--use-http")
    target = ("-i", "scratch", "-t", catalog, "--use-http")
    for command in (
        ("index", "add", "-b", bundle),
        ("index", "prune", "-p", "lagoon-operator", "-f", catalog),
        ("index", "prune-stranded", "-f", catalog),
        ("index", "rm", "-o", "lagoon-operator", "-f", catalog),
    ):
        done = opm.attempt(*command, *target)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert done.stderr.endswith(f"; push with 'opm image push {catalog}'\n")
    assert opm("index", "add", "-b", bundle, *target, "--dry-run")
    assert opm("index", "add", "-b", bundle, *target, "--output", "text").startswith(f"{catalog}@sha256:")
    assert opm("index", "add", "-b", bundle, *target, "--push").startswith(f"{catalog}@sha256:")
    done = opm.attempt("alpha", "bundle", "validate", "--tag", bundle, "-b", "none", "--use-http")
    assert (done.returncode, done.stdout) == (0, "")
    assert opm("alpha", "bundle", "validate", "--tag", bundle, "--use-http", "--output", "text")


def test_a_failure_with_json_leaves_stdout_empty(opm: Opm) -> None:
    for command in (("render", "./absent", "-o", "json"), ("validate", "./absent", "-o", "json")):
        done = opm.attempt(*command)
        assert (done.returncode, done.stdout) == (1, "")
        document, *lines = done.stderr.splitlines()
        assert lines[0] == f"Error: {json.loads(document)['error']['message']}"


MAKEFILE = """LOCALBIN ?= $(shell pwd)/bin
OPM ?= $(LOCALBIN)/opm
$(LOCALBIN):
	mkdir -p $(LOCALBIN)
opm: $(OPM)
$(OPM): $(LOCALBIN)
	echo downloaded >$(OPM)
"""


def test_a_wrapper_is_kept_by_rules_that_depend_on_its_directory(opm: Opm) -> None:
    (opm.directory / "Makefile").write_text(MAKEFILE)
    opm("generate", "wrapper", "bin/opm")
    wrapper = opm.directory / "bin/opm"

    def make(*flags: str) -> bool:
        """Return whether the wrapper is still there after a run of make."""
        subprocess.run([require("make"), *flags, "opm"], cwd=opm.directory, check=True, capture_output=True)
        return wrapper.read_text() != "downloaded\n"

    assert make()
    later = wrapper.stat().st_mtime + 5
    os.utime(wrapper.parent, (later, later))  # as if another program was installed
    assert make("-o", str(wrapper))
    wrapper.touch()
    os.utime(wrapper, (later, later))
    assert make()
    os.utime(wrapper.parent, (later + 5, later + 5))
    assert not make()
