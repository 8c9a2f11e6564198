"""Problems of packages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from opmkit.bundle.finding import Severity
from opmkit.index.fbc.blobs import Blobs, EntryBlob, PackageBlob
from opmkit.index.pictures.problems import package_problems
from opmkit.index.pictures.view import package_views

from .samples import bundle, channel, entry

if TYPE_CHECKING:
    from opmkit.index.pictures.problems import PackageProblem


def problems(*entries: EntryBlob, bundles: tuple[str, ...] = ()) -> list[PackageProblem]:
    """Return the problems of a package with one channel, in which each entry has a bundle."""
    versions = dict.fromkeys((*(entry.name.removeprefix("reef.v") for entry in entries), *bundles))
    blobs = Blobs((PackageBlob("reef", "stable"),), (channel(*entries),), tuple(map(bundle, versions)))
    return list(package_problems(blobs, package_views(blobs)).get("reef", ()))


def marks(found: list[PackageProblem]) -> list[tuple[Severity, str, tuple[str, ...]]]:
    return [(problem.severity, problem.label, problem.names) for problem in found]


def test_valid_package_has_none() -> None:
    assert problems(entry("1.0.0"), entry("1.1.0", "1.0.0", ["0.9.0"])) == []


def test_missing_bundle_is_a_warning_once() -> None:
    found = problems(entry("1.0.0", "0.9.0"), entry("1.1.0", "0.9.0"), entry("1.2.0", "1.1.0", ["1.0.0"]))
    label = "does not exist, replaced by reef.v1.0.0 and 1 more"
    assert marks(found) == [(Severity.WARNING, label, ("reef.v0.9.0",))]
    assert 'bundle "reef.v1.0.0": replaces reef.v0.9.0, which does not exist' in found[0].text


def test_bundle_outside_the_channel_is_not_missing() -> None:
    found = problems(entry("1.0.0", "0.9.0"), bundles=("0.9.0",))
    assert all("does not exist" not in problem.text for problem in found)


def test_cycle_is_reported_once_as_error() -> None:
    cycle = (entry("1.0.0", "1.1.0"), entry("1.1.0", "1.0.0"))
    (without_head,) = marks(problems(*cycle))
    assert without_head[:2] == (Severity.ERROR, "in a cycle")
    assert set(without_head[2]) == {"reef.v1.0.0", "reef.v1.1.0"}
    (below_head,) = marks(problems(*cycle, entry("1.2.0", "1.1.0")))
    assert below_head == (Severity.ERROR, "in a cycle", ("reef.v1.1.0", "reef.v1.0.0"))


def test_cycle_hidden_by_other_errors_is_a_warning() -> None:
    found = problems(entry("1.0.0", "1.1.0"), entry("1.1.0", "1.0.0"), entry("2.0.0"), entry("10.0.0"))
    assert marks(found) == [
        (Severity.ERROR, "one of 2 heads", ("reef.v10.0.0", "reef.v2.0.0")),
        (Severity.WARNING, "in a cycle", ("reef.v1.1.0", "reef.v1.0.0")),
    ]


def test_entry_without_a_name_is_no_cycle() -> None:
    blobs = Blobs((PackageBlob("reef", "stable"),), (channel(EntryBlob("")),))
    assert all("cycle" not in problem.text for problem in package_problems(blobs, package_views(blobs))["reef"])


def test_second_cycle_is_a_warning() -> None:
    first, second = ("1.0.0", "1.1.0"), ("2.0.0", "2.1.0")
    pairs = (first, first[::-1], second, second[::-1])
    found = marks(problems(*(entry(name, replaces) for name, replaces in pairs)))
    assert [severity for severity, _, _ in found] == [Severity.ERROR, Severity.WARNING]
    assert {name for _, _, names in found for name in names} == {f"reef.v{version}" for version in first + second}


def test_long_cycles_are_shortened() -> None:
    count = 30
    entries = [entry(f"1.{number}.0", f"1.{(number + 1) % count}.0") for number in range(count)]
    *_, found = problems(*entries, entry("2.0.0"), entry("3.0.0"))
    assert len(found.names) == count
    assert found.text.count("reef.v1.") == 8


def test_stranded_bundles_are_marked() -> None:
    found = problems(entry("1.0.0"), entry("1.1.0", "1.0.0"), entry("1.2.0"), entry("1.3.0", "1.2.0", ["1.1.0"]))
    assert marks(found) == [(Severity.ERROR, "stranded", ("reef.v1.0.0",))]
