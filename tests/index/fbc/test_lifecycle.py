from __future__ import annotations

from typing import Any

import pytest

from opmkit.index.fbc.lifecycle import LIFECYCLES, check_lifecycles, read_lifecycles
from opmkit.index.fbc.load import parse_blobs
from tests.kit.plans import encode

FULL = {"name": "Full support", "startDate": "2025-01-01", "endDate": "2025-06-30"}
NEXT = {"name": "Maintenance support", "startDate": "2025-07-01", "endDate": "2025-12-31"}
VALID = {"name": "1.4", "phases": [FULL, NEXT], "platformCompatibility": [{"name": "openshift", "versions": ["4.18"]}]}


def document(*versions: Any, **fields: Any) -> dict[str, Any]:
    return {"schema": LIFECYCLES, "package": "acme", "versions": list(versions), **fields}


def problems(*documents: dict[str, Any]) -> list[str]:
    return [finding.message for finding in check_lifecycles(parse_blobs(encode(documents), "c.json").others, {"acme"})]


def test_a_valid_document() -> None:
    assert problems(document(VALID, {"name": "1.5", "phases": [FULL]})) == []


@pytest.mark.parametrize(
    ("versions", "message"),
    [
        ([], "lifecycle without versions"),
        (["1.4"], "lifecycle: version None is not MAJOR.MINOR"),
        ([VALID | {"name": "1.4.0"}], "lifecycle: version '1.4.0' is not MAJOR.MINOR"),
        ([VALID | {"name": "99999.0"}], "lifecycle: version '99999.0' is not MAJOR.MINOR"),
        ([VALID, VALID], "lifecycle: version 1.4 is listed 2 times"),
        ([VALID | {"phases": []}], "lifecycle of version 1.4: it has no phases"),
        ([VALID | {"phases": [FULL | {"endDate": "2025-01-01"}]}], "phase Full support ends on 2025-01-01, not after"),
        ([VALID | {"phases": [FULL | {"endDate": "2025-02-30"}]}], "phase Full support: invalid name or dates"),
        ([VALID | {"phases": [FULL | {"endDate": "20250630"}]}], "phase Full support: invalid name or dates"),
        ([VALID | {"phases": [FULL | {"name": ""}]}], "phase without a name: invalid name or dates"),
        (
            [VALID | {"phases": [FULL, NEXT | {"startDate": "2025-07-02"}]}],
            "begins on 2025-07-02, but",
        ),
        (
            [VALID | {"phases": [FULL, NEXT | {"startDate": "2025-06-30"}]}],
            "begins on 2025-06-30, but",
        ),
        (
            [VALID | {"platformCompatibility": [{"name": "openshift", "versions": []}]}],
            "platform without a name or versions",
        ),
        (
            [VALID | {"platformCompatibility": [{"name": "openshift", "versions": [4.18]}]}],
            "platform version 4.18 is not",
        ),
    ],
)
def test_what_the_schema_forbids(versions: list[Any], message: str) -> None:
    assert any(message in found for found in problems(document(*versions)))


def test_documents_of_one_package_and_of_unknown_ones() -> None:
    duplicate = "the package has 2 lifecycle documents, so that consoles show none"
    assert problems(document(VALID), document(VALID)) == [duplicate, duplicate]
    assert problems(document(VALID, package="other")) == ["lifecycle of a package that the catalog does not have"]
    assert problems(document(VALID, extra=1)) == ["lifecycle: unknown field extra"]


@pytest.mark.parametrize("value", [None, 1, "x", [1], {"a": 1}, [{"phases": 1, "platformCompatibility": "x"}]])
def test_values_of_wrong_types_are_findings(value: object) -> None:
    broken = {"schema": LIFECYCLES, "package": "acme", "versions": value}
    assert problems(broken)
    others = parse_blobs(encode([broken]), "c.json").others
    assert all(lifecycle.ends is None for lifecycle in read_lifecycles(others, "acme").values())
