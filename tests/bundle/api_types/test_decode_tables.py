"""The field tables: unchanged since they were generated, complete, and up to date with their sources."""

from __future__ import annotations

import importlib.util
import json
import os
import pwd
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.api_types.decode import (
    CRDS,
    CSV,
    OBJECT,
    OTHER_KINDS,
    PACKAGE_MANIFEST,
    SCALARS,
    Tables,
    load,
    load_always_written,
)
from tests.kit.requirements import require

if TYPE_CHECKING:
    from types import ModuleType

SCRIPT = Path(__file__).parents[3] / "scripts" / "generate_field_tables.py"


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_field_tables", SCRIPT)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_that_the_script_wrote(generator: ModuleType) -> None:
    text = generator.TABLES.read_text()
    document = json.loads(text)
    stale = f"run {SCRIPT.name}: the tables were edited, or the script or its sources changed"
    assert document["generator"] == generator.GENERATOR, stale
    assert document["sources"] == generator.SOURCES, stale
    assert document["sha256"] == generator.checksum(document), stale
    assert text == generator.to_text(document), stale


@pytest.mark.parametrize("tables", Tables)
def test_every_type_is_a_scalar_or_a_struct(tables: Tables) -> None:
    structs = load(tables)
    assert {CSV, *CRDS.values(), OBJECT, PACKAGE_MANIFEST, *OTHER_KINDS} <= structs.keys()
    for struct, fields in structs.items():
        for name, kind in fields.items():
            item = kind.removeprefix("*").removeprefix("[]").removeprefix("{}").removeprefix("[]")
            item, _, other = item.partition("|")
            assert item in SCALARS or item in structs, f"{struct}.{name}: {kind}"
            assert other in ("", "bool", "list", "strings"), f"{struct}.{name}: {kind}"


def test_fields_that_are_always_written_exist() -> None:
    structs = load(Tables.NEWEST)
    for struct, fields in load_always_written().items():
        assert fields <= structs[struct].keys(), struct


@pytest.mark.parametrize(
    ("struct", "field", "newest", "opm_1_26"),
    [
        ("ClusterServiceVersionSpec", "version", "version", "version"),
        ("ClusterServiceVersionSpec", "release", "release", None),
        ("ClusterServiceVersionSpec", "selector", "*LabelSelector", "*LabelSelector"),
        ("SpecDescriptor", "value", "any", "any"),
        ("PodResourceClaim", "source", None, "ClaimSource"),
        ("PersistentVolumeClaimSpec", "resources", "VolumeResourceRequirements", "ResourceRequirements"),
        ("ResourceRequirements", "limits", "{}quantity", "{}quantity"),
        ("JSONSchemaProps", "items", "JSONSchemaProps|list", "JSONSchemaProps|list"),
        ("JSONSchemaProps", "dependencies", "{}JSONSchemaProps|strings", "{}JSONSchemaProps|strings"),
        ("JSONSchemaProps", "$ref", "*string", "*string"),
        ("v1beta1.CustomResourceColumnDefinition", "JSONPath", "string", "string"),
        ("PodDisruptionBudgetSpec", "maxUnavailable", "*intOrString", "*intOrString"),
        ("olm.bundle.object", "data", "bytes", "bytes"),
        ("olm.package", "release", "string", "string"),
    ],
)
def test_samples(struct: str, field: str, newest: str | None, opm_1_26: str | None) -> None:
    assert load(Tables.NEWEST)[struct].get(field) == newest
    assert load(Tables.OPM_1_26)[struct].get(field) == opm_1_26


@pytest.mark.slow
def test_the_tables_are_up_to_date_with_their_sources() -> None:
    require("go")
    home = pwd.getpwuid(os.getuid()).pw_dir  # has Go's caches; tests run with another one
    command = [sys.executable, str(SCRIPT), "--check"]
    done = subprocess.run(command, env={**os.environ, "HOME": home}, capture_output=True, text=True, check=False)
    if done.returncode == 75:  # the Go modules cannot be downloaded; other tests check the committed tables offline
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout + done.stderr
