"""What rules stand on: contents with places, bundles as they are looked at, the running of rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from opmkit.bundle.content import Content, ContentCache
from opmkit.bundle.finding import Finding, Severity
from opmkit.bundle.labels import MANIFESTS
from opmkit.bundle.validation.bundle_view import BundleView
from opmkit.bundle.validation.compat import OPMKIT_ONLY, Compat
from opmkit.bundle.validation.rule import rule
from opmkit.bundle.validation.run import run_rules

if TYPE_CHECKING:
    from collections.abc import Iterator

TEXT = b"""# a comment
kind: Thing
spec:
  list:
  - a: 1
  - b: {c: [x, y]}
  kind: twice
  kind: last
"""


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ((), (2, 1)),
        (("kind",), (2, 1)),
        (("spec", "list"), (4, 3)),
        (("spec", "list", 1), (6, 5)),
        (("spec", "list", 1, "b", "c", 1), (6, 16)),
        (("spec", "kind"), (8, 3)),
        (("spec", "missing", "deeper"), (3, 1)),
        (("spec", "list", 7), (4, 3)),
    ],
)
def test_places(path: tuple[str | int, ...], place: tuple[int, int]) -> None:
    assert Content.read(TEXT).locate(path) == place


@pytest.mark.parametrize("raw", [b"a: b: c", b"\xff", b"[" * 500_000, b"a: *b", b"{", b"\0", b"a: &a [*a]"])
def test_what_cannot_be_read_is_an_error_with_no_places_needed(raw: bytes) -> None:
    content = Content.read(raw)
    assert content.error is not None
    content.locate(("a", 0))  # whatever it says, it does not fail


def test_equal_contents_are_read_once_and_the_least_used_go() -> None:
    cache = ContentCache(max_bytes=3 * len(TEXT))
    first = cache.read(TEXT)
    assert cache.read(bytes(TEXT)) is first
    for number in range(3):
        cache.read(TEXT[:-2] + b"%d\n" % number)
    assert cache.read(TEXT) is not first


def view(files: dict[str, bytes], **more: object) -> BundleView:
    directories = frozenset(path.rpartition("/")[0] for path in files)
    return BundleView("demo", files, directories, **more)  # type: ignore[arg-type]


def test_a_bundle_is_looked_at_by_its_annotations() -> None:
    bundle = view(
        {
            "metadata/a-readme.yaml": b"annotations: none\n",
            "metadata/annotations.yaml": f"annotations: {{{MANIFESTS}: deploy/, number: 1, truth: yes}}".encode(),
            "deploy/csv.yaml": b"kind: ClusterServiceVersion\nspec: {version: 1.0.0}\n",
            "deploy/below/other.yaml": b"kind: CustomResourceDefinition\n",
            "manifests/csv.yaml": b"kind: Other\n",
        }
    )
    assert bundle.annotations_file is not None
    assert bundle.annotations_file.path == "metadata/annotations.yaml"
    assert (bundle.annotations["number"], bundle.annotations["truth"]) == ("1", "true")
    assert [manifest.path for manifest in bundle.manifests] == ["deploy/csv.yaml"]
    assert bundle.spec == {"version": "1.0.0"}
    assert bundle.crds == ()


@pytest.mark.parametrize(("named", "directory"), [("", ""), ("/", ""), ("../up", "up"), ("a//b/", "a/b"), ("./", "")])
def test_the_manifests_directory_stays_within_the_bundle(named: str, directory: str) -> None:
    text = f"annotations: {{{MANIFESTS}: {named!r}}}".encode()
    assert view({"metadata/annotations.yaml": text}).manifests_directory == directory


@rule("DEMO-KIND", "demo", Severity.WARNING, "a kind", hint="name another", compat=OPMKIT_ONLY, variable_severity=True)
def _demo(bundle: BundleView) -> Iterator[Finding]:
    """All of them."""
    for manifest in bundle.manifests:
        yield Finding("it has a kind", manifest.path, ("kind",), manifest.kind, severity=Severity.WARNING)
    yield Finding("as a whole", hint="start again")


def test_rules_find() -> None:
    bundle = view({"manifests/a.yaml": b"\nkind: A\n"})
    assert list(run_rules(bundle, [_demo])) == [
        Finding(
            *("it has a kind", "manifests/a.yaml", ("kind",), "A", "name another", 2, 1),
            severity=Severity.WARNING,
            rule="DEMO-KIND",
            validator="demo",
        ),
        Finding("as a whole", hint="start again", rule="DEMO-KIND", validator="demo"),
    ]
    severities = [finding.severity for finding in run_rules(bundle, [replace(_demo, variable_severity=False)])]
    assert severities == [Severity.WARNING, Severity.WARNING]
    assert _demo.explanation == "All of them."
    assert list(run_rules(view(dict(bundle.files), compat=Compat.NEWEST), [_demo])) == []
