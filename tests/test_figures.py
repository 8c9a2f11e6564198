"""The tables of figures in the documentation, which one benchmark renews."""

from __future__ import annotations

import re
from typing import Any

from scripts.benchmarks.figures import BEGIN, DEVELOPMENT, END, README, ROOT, renew_rows, renew_table, table

RUN = {"seconds": 2.0, "cpu": 1.0, "memory": 80.0, "read": 4.0, "written": 1.0}
BOTH = {"opmkit": RUN, "Go opm": {**RUN, "seconds": 9.0}, "bundles": 29, "images": 100}
SERVED = {"cold": 0.5, "warm": 0.25, "memory_cold": 60.0, "memory_warm": 40.0}
REPORTS: dict[str, Any] = {
    "start": {
        "version": BOTH,
        "index add --help": {"opmkit": RUN},
        "bundle validate DIR, new": {"opmkit": RUN},
        "bundle validate DIR, again": {"opmkit": {**RUN, "seconds": 1.0}},
        "alpha bundle validate --tag": BOTH,
    },
    "add": dict.fromkeys(("all", "package", "large", "one more", "slow network"), BOTH),
    "serve-catalog": {"bundles": 311, "opmkit": SERVED, "Go opm": {**SERVED, "cold": 2.0}},
    "render": {"all": BOTH, "some": BOTH},
    "mirror": {"images": 300, "nothing to do": {"opmkit": RUN, "regsync": RUN}},
    "install": {"size": 100.0},
    "tree": {"directories": 7018, "add": RUN, "new": RUN, "again": RUN},
}


def labels(rows: list[str]) -> list[str]:
    """Return the first cell of each row, without numbers."""
    return [re.sub(r"[\d,.]+", "N", row.split("|")[1].strip()) for row in rows]


def test_documentation_has_the_rows_that_are_measured() -> None:
    text = (ROOT / DEVELOPMENT).read_text()
    between = text.partition(BEGIN)[2].partition(END)[0].strip().splitlines()[2:]
    assert labels(between) == labels([f"| {row[0]} |" for row in table(REPORTS)])


def test_rows_are_replaced() -> None:
    text = renew_table((ROOT / DEVELOPMENT).read_text(), REPORTS)
    assert "| `opm version` | 2.00 s, 80 MB | 9.00 s, 80 MB | 4.5 times as long |\n" in text
    assert "| 0.50 / 0.25 s, 60 / 40 MB | 2.00 / 0.25 s, 60 / 40 MB | 4.0 / 1.0 times as long |\n" in text
    assert renew_table(text, REPORTS) == text
    start = renew_rows((ROOT / README).read_text(), REPORTS)
    assert "¹ | 2.0 s, 80 MB of memory | 9.0 s, 80 MB of memory |\n" in start
    assert "| the same at 100 Mbit/s, 20 ms away¹ | 2.0 s, 5 MB transferred | 9.0 s, 5 MB transferred |\n" in start


def test_rows_of_what_was_not_measured_are_omitted() -> None:
    reports = {name: report for name, report in REPORTS.items() if name != "tree"}
    reports["start"] = {**reports["start"], "version": {"opmkit": RUN}}
    rows = list(table(reports))
    assert len(rows) == len(list(table(REPORTS))) - 2
    assert rows[0] == ("`opm version`", "2.00 s, 80 MB", "", "")
